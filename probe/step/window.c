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
	TINY_REPEATS = 8,
	REPEATS = 3,
	STRAYED_CYCLES = 5, /* off a known cycle: so many of its lengths, besides the window */
};

static void cut_at(struct step_builder *builder, uint64_t position, uint32_t flags)
{
	struct step_cut cut = {.flags = flags};

	if (position <= builder->cut_end)
		return;
	step_builder_cut(builder, position, &cut);
	period_skip(builder->detector, position);
}

/* What a stretch outside any cycle is called. */
static uint32_t outside_flags(const struct step_builder *builder)
{
	uint64_t period;

	return period_known(builder->detector, &period) ? STEP_IRREGULAR : STEP_WINDOW;
}

static void cut_cycles(struct step_builder *builder, const struct period_guess *guess)
{
	uint64_t position = step_builder_position(builder);
	uint64_t boundary = guess->start;

	if (boundary < builder->cut_end)
		boundary += (builder->cut_end - boundary + guess->period - 1) / guess->period *
			    guess->period;
	if (boundary > position)
		return;
	cut_at(builder, boundary, outside_flags(builder));
	while (boundary + guess->period <= position) {
		boundary += guess->period;
		cut_at(builder, boundary, 0);
	}
	builder->guess_period = guess->period;
	builder->guess_start = guess->start;
}

bool step_builder_cut_by_guess(struct step_builder *builder, uint64_t repeated_min)
{
	struct period_guess guess;

	if (!period_guess(builder->detector, repeated_min, &guess))
		return false;
	if (guess.period <= TINY_PERIOD && guess.matched < TINY_REPEATS * guess.period)
		return false;
	cut_cycles(builder, &guess);
	return true;
}

void step_builder_close_open(struct step_builder *builder)
{
	uint32_t flags;

	if (builder->marked) {
		/* A stretch of a marked step too long to be kept whole. */
		struct step_cut cut = {.flags = STEP_WINDOW};

		step_builder_cut(builder, step_builder_position(builder), &cut);
		return;
	}
	flags = outside_flags(builder);
	cut_at(builder, step_builder_position(builder), flags);
}

static int64_t hold_windows(const struct period_guess *guess)
{
	if (guess->period <= TINY_PERIOD)
		return guess->matched >= TINY_REPEATS * guess->period ? HOLD_TINY_WINDOWS : 0;
	if (guess->matched < REPEATS * guess->period)
		return HOLD_UNSURE_WINDOWS;
	return guess->period <= SHORT_PERIOD ? HOLD_SHORT_WINDOWS : HOLD_WINDOWS;
}

void step_builder_watch(struct step_builder *builder)
{
	int64_t waited = builder->last_time.value - builder->open_start.value;
	struct period_guess guess = {0};
	uint64_t period;
	bool guessed;

	if (step_builder_position(builder) == builder->cut_end ||
		period_following(builder->detector, &period))
		return;
	if (waited < builder->window_ns && !builder->guess_period)
		return;
	guessed = period_guess(builder->detector, 1, &guess);
	if (builder->guess_period) {
		if (guessed && guess.period == builder->guess_period &&
			guess.start == builder->guess_start) {
			cut_cycles(builder, &guess);
			return;
		}
		builder->guess_period = 0;
	}
	if (period_known(builder->detector, &period))
		waited -= STRAYED_CYCLES * builder->cycle_length_ns;
	if (waited < builder->window_ns)
		return;
	if (guessed && waited < hold_windows(&guess) * builder->window_ns)
		return;
	if (guessed && step_builder_cut_by_guess(builder, REPEATS))
		return;
	step_builder_close_open(builder);
}
