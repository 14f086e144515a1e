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
	HOLD_REPEATING_WINDOWS = 4, /* a candidate that is not tried yet */
	HOLD_UNSURE_WINDOWS = 16,   /* a cycle that was not seen often, or is as short as a layer */
	TINY_PERIOD = 4,
	SHORT_PERIOD = 16,
	SURE_CYCLES = 48, /* of that many micro-batches, pauses show which are of one step */
	MANY_CYCLES = 8,
	CYCLES = 3,
	/* Too few to see a cycle in: where calls are rare, windows are longer. */
	FEW_PARTS = 40,
	FEW_PARTS_WINDOWS = 8,
	LAYER_NS = 10000000,
	STRAYED_CYCLES = 5, /* off a known cycle: so many of its lengths, besides the window */
};

/* What a stretch outside any cycle is called. */
static uint32_t outside_flags(const struct step_builder *builder)
{
	struct period_status status;

	period_status(builder->detector, &status);
	return status.certainty == PERIOD_CONFIRMED ? STEP_IRREGULAR : STEP_WINDOW;
}

bool step_builder_accept(struct step_builder *builder, bool final)
{
	struct period_status status;
	uint64_t before = builder->cut_end;

	period_status(builder->detector, &status);
	if (status.certainty != PERIOD_TRIED ||
		status.cycles < (status.period <= TINY_PERIOD ? MANY_CYCLES : CYCLES) ||
		(!status.following && !final && status.cycles < MANY_CYCLES))
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
static int64_t hold_windows(const struct step_builder *builder, const struct period_status *status)
{
	int64_t waited = builder->last_time.value - builder->open_start.value;
	uint64_t open = step_builder_position(builder) - builder->cut_end;

	bool layer = status->period <= SHORT_PERIOD &&
		     waited / (int64_t)open * (int64_t)status->period < LAYER_NS;

	if (layer || status->cycles < SURE_CYCLES || !status->following)
		return HOLD_UNSURE_WINDOWS;
	if (status->period <= TINY_PERIOD)
		return HOLD_TINY_WINDOWS;
	return status->period <= SHORT_PERIOD ? HOLD_SHORT_WINDOWS : HOLD_WINDOWS;
}

/* Has the open stretch been waited for long enough? */
static bool is_up(const struct step_builder *builder, const struct period_status *status)
{
	int64_t waited = builder->last_time.value - builder->open_start.value;
	bool few = step_builder_position(builder) - builder->cut_end < FEW_PARTS;

	if (status->certainty == PERIOD_CONFIRMED) {
		/* A step may be long; off the cycle, wait for the way back, or for a new one. */
		if (status->following)
			return false;
		return waited >= STRAYED_CYCLES * builder->cycle_length_ns +
					 (few ? FEW_PARTS_WINDOWS : 1) * builder->window_ns;
	}
	if (status->certainty == PERIOD_TRIED)
		return waited >= hold_windows(builder, status) * builder->window_ns;
	if (few)
		return waited >= FEW_PARTS_WINDOWS * builder->window_ns;
	return waited >= HOLD_REPEATING_WINDOWS * builder->window_ns ||
	       !period_repeating(builder->detector);
}

void step_builder_watch(struct step_builder *builder)
{
	struct period_status status;

	if (builder->last_time.value - builder->open_start.value < builder->window_ns ||
		step_builder_position(builder) == builder->cut_end)
		return;
	period_status(builder->detector, &status);
	if (is_up(builder, &status) && !step_builder_accept(builder, false))
		step_builder_close_open(builder);
}
