/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/write.h"

#include <stdio.h>

#include "coordinator/record/writer.h"
#include "probe/wire/encode.h"

struct output {
	struct record_writer *writer;
	struct wire_buffer buffer;
};

static int take(void *context, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received)
{
	struct output *output = context;
	int error = wire_encode_batch(batch, &output->buffer);

	release(batch);
	return error < 0 ? error
			 : record_writer_append(output->writer, output->buffer.bytes,
				   output->buffer.length, received);
}

int sim_write_record(
	struct simulator *simulator, const struct sim_feed_options *options, const char *path)
{
	const struct record_writer_options writing = {
		.program = "bench_simulator", .created = sim_job_time(0)};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct output output = {0};
	int error = record_writer_create(path, &writing, &output.writer, why);

	if (error < 0) {
		fprintf(stderr, "%s\n", why);
		return error;
	}
	error = sim_feed(simulator, options, take, NULL, &output);
	wire_buffer_fini(&output.buffer);
	if (error < 0)
		record_writer_destroy(output.writer);
	else
		error = record_writer_finish(output.writer);
	return error;
}
