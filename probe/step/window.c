/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to parts while no cycle is known: the time that passes decides when something
 * is said of them, the calls alone decide where they are cut. Where nothing repeats, a window
 * ends at the last part seen; windows of two ranks may then end at different collectives, and
 * the coordinator, which joins on instances, cuts for itself.
 */
#include "probe/step/builder_internal.h"

enum {
	/* A short cycle that repeats may be a loop inside a step: wait that many windows. */
	HOLD_TINY_WINDOWS = 8,
	HOLD_SHORT_WINDOWS = 4,
	HOLD_WINDOWS = 2,
	HOLD_UNSURE_WINDOWS = 10, /* a cycle that was seen only once or twice */
	TINY_PERIOD = 4,
	SHORT_PERIOD = 16,
	TINY_CYCLES = 8,
	CYCLES = 3,
	/* Too few to see a cycle in: where calls are rare, windows are longer. */
	FEW_PARTS = 12,
	FEW_PARTS_WINDOWS = 5,
	STRAYED_CYCLES = 5, /* off a known cycle: so many of its lengths, besides the window */
};

/* What a stretch outside any cycle is called. */
static uint32_t outside_flags(const struct step_builder *builder)
{
	struct period_status status;

	period_status(builder->detector, &status);
	return status.certainty == PERIOD_CONFIRMED ? STEP_IRREGULAR : STEP_WINDOW;
}

bool step_builder_accept(struct step_builder *builder)
{
	struct period_status status;
	uint64_t before = builder->cut_end;

	period_status(builder->detector, &status);
	if (status.certainty != PERIOD_TRIED ||
		status.cycles < (status.period <= TINY_PERIOD ? TINY_CYCLES : CYCLES))
		return false;
	period_confirm(builder->detector);
	step_builder_take_segments(builder);
	return builder->cut_end > before;
}

void step_builder_close_open(struct step_builder *builder)
{
	uint64_t position = step_builder_position(builder);
	struct step_cut cut = {.flags = STEP_WINDOW};

	if (position <= builder->cut_end)
		return;
	/* With markers, this is a stretch of a step too long to be kept whole. */
	if (!builder->marked) {
		cut.flags = outside_flags(builder);
		period_skip(builder->detector, position);
	}
	step_builder_cut(builder, position, &cut);
}

/* How many windows to wait for more certainty. */
static int64_t hold_windows(const struct period_status *status)
{
	if (status->period <= TINY_PERIOD)
		return HOLD_TINY_WINDOWS;
	if (status->cycles < CYCLES)
		return HOLD_UNSURE_WINDOWS;
	return status->period <= SHORT_PERIOD ? HOLD_SHORT_WINDOWS : HOLD_WINDOWS;
}

void step_builder_watch(struct step_builder *builder)
{
	int64_t waited = builder->last_time.value - builder->open_start.value;
	uint64_t open_count = step_builder_position(builder) - builder->cut_end;
	struct period_status status;

	if (waited < builder->window_ns || open_count == 0)
		return;
	period_status(builder->detector, &status);
	if (status.certainty == PERIOD_CONFIRMED) {
		/* A step may be long; off the cycle, wait for the way back. */
		if (status.following ||
			waited < builder->window_ns + STRAYED_CYCLES * builder->cycle_length_ns)
			return;
	} else if (status.certainty == PERIOD_TRIED) {
		if (waited < hold_windows(&status) * builder->window_ns)
			return;
		if (step_builder_accept(builder))
			return;
	} else if (open_count < FEW_PARTS && waited < FEW_PARTS_WINDOWS * builder->window_ns) {
		return;
	}
	step_builder_close_open(builder);
}
