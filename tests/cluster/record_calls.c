/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints which calls a record holds, and on which communicators: one JSON object a line, once for
 * each rank, communicator, operation and length. usage: record_calls FILE
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "probe/wire/packed_steps.h"
#include "tests/cluster/record_batches.h"

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

static void count_calls(const struct message_batch *batch)
{
	for (size_t s = 0; s < batch->step_count; s++) {
		const struct packed_step *step = &batch->packed_steps[s];

		for (size_t p = 0; p < step->part_count; p++)
			count_call(step->rank, packed_kind(step, p));
	}
}

int main(int argc, char **argv)
{
	int status = record_batches(argc, argv, "record_calls", count_calls);

	if (status != 2)
		print_calls();
	return status;
}
