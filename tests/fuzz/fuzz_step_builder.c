/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any parts, markers, losses and ticks: steps stay contiguous, their times sum up, no part is
 * lost while steps are taken, none comes twice.
 */
#include "probe/step/builder.h"
#include "tests/fuzz/fuzz.h"

enum { RECORD_BYTES = 6, PART_COUNT_MAX = 256 };

struct tally {
	int64_t end_ns;
	bool any;
	uint64_t parts;
};

static void take(struct step_builder *builder, struct tally *tally)
{
	struct step_entry entry;

	while (step_builder_take(builder, &entry)) {
		if (tally->any && entry.start.value != tally->end_ns)
			abort();
		if (entry.end.value < entry.start.value || entry.part_count > PART_COUNT_MAX)
			abort();
		if (entry.input_ns < 0 || entry.compute_ns < 0 || entry.host_ns < 0 ||
			entry.comm_ns < 0)
			abort();
		if (entry.input_ns + entry.compute_ns + entry.host_ns + entry.comm_ns !=
			entry.end.value - entry.start.value)
			abort();
		tally->any = true;
		tally->end_ns = entry.end.value;
		tally->parts += entry.part_count;
	}
}

/* The low bits say what happens, so that runs of equal bytes make cycles. */
static bool apply(struct step_builder *builder, const uint8_t *record, int64_t *now)
{
	struct collective_part part = {.root = STEP_ROOT_NONE};
	struct activity others = {.asleep_ns = *now / 3};

	*now += (int64_t)record[1] * 100000 - 1000000;
	switch (record[0] >> 4) {
	case 15:
		step_builder_mark(builder, record[2] & 1, record[3], (struct host_ns){*now});
		return false;
	case 14:
		step_builder_lost(builder, record[2]);
		return false;
	case 13:
		step_builder_tick(builder, (struct host_ns){*now + record[2] * 100000000ll});
		return false;
	default:
		part.operation = record[0] & 3;
		part.communicator_id = (record[0] >> 2) & 3;
		part.length_bytes = record[2];
		part.arrival.value = *now;
		part.departure.value = *now + (int64_t)(int8_t)record[3] * 10000;
		part.before.preempted_ns = (int64_t)(int8_t)record[4] * 100000;
		part.before.block_io_ns = (int64_t)(int8_t)record[5] * 100000;
		step_builder_push(builder, &part, &others);
		return true;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct step_builder_options options = {
		.part_count_max = PART_COUNT_MAX, .window_ns = 100000000};
	struct step_builder *builder;
	struct tally tally = {0};
	uint64_t pushed = 0;
	int64_t now = 1000000000;

	if (length < 2 || step_builder_create(&options, &builder) < 0)
		return 0;
	/* The first byte says how often the rest is repeated: programs are loops. */
	for (int round = 0; round < 1 + bytes[0] % 16; round++) {
		for (size_t at = 1; at + RECORD_BYTES <= length; at += RECORD_BYTES) {
			pushed += apply(builder, bytes + at, &now);
			take(builder, &tally);
		}
	}
	step_builder_finish(builder);
	take(builder, &tally);
	if (tally.parts != pushed)
		abort();
	step_builder_destroy(builder);
	return 0;
}
