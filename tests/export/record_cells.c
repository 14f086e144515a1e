/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_cells RECORD: a line for each entry of a rank as its probe sent it: rank, start, input, compute, host and comm
 * time, in ns. Knows nothing of steps of the job: what an export is compared with.
 */
#include <inttypes.h>
#include <stdio.h>

#include "coordinator/record/reader.h"
#include "probe/wire/decode.h"

static int print_batch(const struct record_frame *frame)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct message_batch *batch;
	int error = wire_decode_batch(frame->bytes, frame->length, &batch, why);

	if (error < 0)
		return error;
	for (size_t i = 0; i < batch->step_count; i++) {
		const struct step_entry *step = &batch->steps[i];

		printf("%" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
			step->rank, step->start.value, step->input_ns, step->compute_ns,
			step->host_ns, step->comm_ns);
	}
	message_batch_destroy(batch);
	return 0;
}

int main(int argc, char **argv)
{
	struct record_reader *reader;
	struct record_frame frame;
	int error = 0;

	if (argc != 2 || record_reader_open(argv[1], &reader, NULL) < 0)
		return 2;
	while (!error && !record_reader_frame(reader, &frame)) {
		if (frame.kind == RECORD_BATCH)
			error = print_batch(&frame);
	}
	record_reader_close(reader);
	return error ? 1 : 0;
}
