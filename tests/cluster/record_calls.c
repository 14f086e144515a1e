/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints which calls a record holds, and on which communicators: one JSON object a line, once for
 * each rank, communicator, operation and length. usage: record_calls FILE
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "coordinator/record/reader.h"
#include "probe/wire/decode.h"
#include "probe/wire/packed_steps.h"

enum { CALLS_MAX = 65536 };

struct call {
	uint32_t rank;
	struct part_kind kind;
	uint64_t count;
};

static struct call calls[CALLS_MAX];
static size_t call_count;

static void count_call(uint32_t rank, const struct part_kind *kind)
{
	for (size_t i = 0; i < call_count; i++) {
		if (calls[i].rank == rank &&
			calls[i].kind.communicator_id == kind->communicator_id &&
			calls[i].kind.operation == kind->operation &&
			calls[i].kind.length_bytes == kind->length_bytes) {
			calls[i].count++;
			return;
		}
	}
	if (call_count < CALLS_MAX)
		calls[call_count++] = (struct call){rank, *kind, 1};
}

static void print_calls(void)
{
	for (size_t i = 0; i < call_count; i++)
		printf("{\"rank\": %" PRIu32 ", \"communicator\": \"%016" PRIx64
		       "\", \"operation\": %d, \"length_bytes\": %" PRIu64 ", \"count\": %" PRIu64
		       "}\n",
			calls[i].rank, calls[i].kind.communicator_id, (int)calls[i].kind.operation,
			calls[i].kind.length_bytes, calls[i].count);
}

int main(int argc, char **argv)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct record_reader *reader;
	struct message_batch *batch;
	struct job_ns received;
	const void *bytes;
	size_t length;
	int error = 0;

	if (argc != 2 || record_reader_open(argv[1], &reader, why) < 0) {
		fprintf(stderr, "record_calls: %s\n", argc != 2 ? "usage: record_calls FILE" : why);
		return 2;
	}
	while (!error && (error = record_reader_next(reader, &bytes, &length, &received)) == 0) {
		error = wire_decode_packed_batch(bytes, length, &batch, why);
		if (error)
			break;
		for (size_t s = 0; s < batch->step_count; s++) {
			const struct packed_step *step = &batch->packed_steps[s];

			for (size_t p = 0; p < step->part_count; p++)
				count_call(step->rank, packed_kind(step, p));
		}
		message_batch_destroy(batch);
	}
	record_reader_close(reader);
	print_calls();
	return error == -ENODATA ? 0 : 1;
}
