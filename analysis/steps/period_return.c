/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens left the cycle and came back: what was it that happened in between? */
#include "analysis/steps/period_internal.h"

/* That many calls more, fewer or other than usual leave a step a step. */
static uint64_t small_change(uint64_t period)
{
	if (period < 8)
		return period / 4;
	return period / 8 > 2 ? period / 8 : 2;
}

struct excursion {
	uint64_t back_at;    /* the first token on the cycle again */
	uint64_t back_phase; /* its phase */
	uint64_t left_phase; /* the phase that was due when the tokens left */
	uint64_t length;     /* tokens in between */
};

/* Extends the way back as far as the tokens agree with the cycle. */
static void extend_back(const struct period_detector *detector, struct excursion *excursion)
{
	const struct period_cycle *cycle = &detector->cycle;
	const struct period_stream *stream = period_followed_stream(detector);
	uint64_t earliest = detector->strayed_at;

	if (earliest < detector->queued_end)
		earliest = detector->queued_end;
	if (earliest < period_stream_oldest(stream))
		earliest = period_stream_oldest(stream);
	/* A whole rotation may begin before the place where it strayed; that was followed already. */
	while (excursion->back_at < detector->strayed_at) {
		excursion->back_at++;
		excursion->back_phase = (excursion->back_phase + 1) % cycle->period;
	}
	while (excursion->back_at > earliest) {
		uint64_t phase =
			(excursion->back_phase ? excursion->back_phase : cycle->period) - 1;

		if (period_cycle_token(cycle, phase, cycle->by_full) !=
			period_stream_token(stream, excursion->back_at - 1))
			break;
		excursion->back_at--;
		excursion->back_phase = phase;
	}
}

/* A few calls more at the cut, like the last ones of the cycle: that is not most of a cycle left out. */
static void extend_to_cut(const struct period_detector *detector, struct excursion *excursion)
{
	uint64_t rest = detector->cycle.period - excursion->back_phase;

	if (excursion->left_phase != 0 || excursion->back_phase == 0 ||
		excursion->back_at + rest - detector->strayed_at >
			small_change(detector->cycle.period))
		return;
	excursion->back_at += rest;
	excursion->back_phase = 0;
}

/* Whole cycles with the usual structure and other lengths: the usual steps. */
static bool same_structure(const struct period_detector *detector, uint64_t from, uint64_t to)
{
	const struct period_cycle *cycle = &detector->cycle;

	if (!cycle->by_full || cycle->period < PERIOD_TINY || (to - from) % cycle->period != 0 ||
		from < period_stream_oldest(&detector->structure))
		return false;
	for (uint64_t i = from; i < to; i++) {
		if (period_cycle_token(cycle, (i - from) % cycle->period, false) !=
			period_stream_token(&detector->structure, i))
			return false;
	}
	return true;
}

static void back_at_cut(struct period_detector *detector, const struct excursion *excursion)
{
	uint64_t period = detector->cycle.period;
	uint64_t small = small_change(period);
	uint64_t left = excursion->left_phase;

	if (same_structure(detector, detector->queued_end, excursion->back_at))
		period_span_add(detector, excursion->back_at, period, PERIOD_REGULAR);
	else if (detector->lost && excursion->back_at - detector->queued_end <= period + small)
		period_span_add(detector, excursion->back_at, 0, PERIOD_INCOMPLETE);
	else if (left == 0 && excursion->length <= small)
		detector->open_kind = PERIOD_REGULAR; /* the next step's first calls */
	else if (left + small >= period && excursion->length <= small)
		period_span_add(detector, excursion->back_at, 0, PERIOD_REGULAR);
	else
		period_span_add(detector, excursion->back_at, 0, PERIOD_IRREGULAR);
	if (left == 0)
		detector->cut_votes++;
}

/*
 * Something was put into the middle of a cycle, and the cycle went on where it had stopped. An
 * evaluation lies between two steps: the cut was at the wrong place in the cycle.
 */
static bool move_cut(struct period_detector *detector, const struct excursion *excursion)
{
	bool again = detector->inserted_phase == excursion->left_phase;

	detector->inserted_phase = excursion->left_phase;
	if (detector->cut_votes > 0 && !again)
		return false;
	period_span_add(detector, detector->strayed_at, 0, PERIOD_IRREGULAR);
	period_span_add(detector, excursion->back_at, 0, PERIOD_IRREGULAR);
	period_cycle_rotate(&detector->cycle, excursion->left_phase);
	detector->inserted_phase = 0;
	detector->cut_votes = 1;
	return true;
}

static void back_inside(struct period_detector *detector, const struct excursion *excursion)
{
	uint64_t small = small_change(detector->cycle.period);
	uint64_t left = excursion->left_phase, back = excursion->back_phase;
	uint64_t skipped = back > left ? back - left : 0;

	/* Some calls were made twice. */
	if (back < left && excursion->length + left - back <= small) {
		detector->open_kind = detector->lost ? PERIOD_INCOMPLETE : PERIOD_REGULAR;
		return;
	}
	if (back < left) {
		/* Over a cut, and into the next cycle. */
		period_span_add(detector, detector->strayed_at, 0,
			detector->lost ? PERIOD_INCOMPLETE : PERIOD_IRREGULAR);
		detector->open_kind = detector->open_kind ? detector->open_kind : PERIOD_IRREGULAR;
		return;
	}
	if (detector->lost)
		detector->open_kind = PERIOD_INCOMPLETE;
	else if (excursion->length <= small && skipped <= small)
		detector->open_kind = PERIOD_REGULAR;
	else
		detector->open_kind = PERIOD_IRREGULAR;
}

void period_try_return(struct period_detector *detector)
{
	const struct period_cycle *cycle = &detector->cycle;
	const struct period_stream *stream = period_followed_stream(detector);
	uint64_t period = cycle->period, count = stream->count;
	struct excursion excursion = {.left_phase = detector->strayed_phase};
	bool lost = detector->lost, moved = false;
	uint64_t phase;

	if (count < cycle->loop)
		return;
	/* Where several places look alike, it goes on where it stopped. */
	excursion.back_at = count - cycle->loop;
	excursion.back_phase = detector->strayed_phase;
	if (excursion.back_at < detector->strayed_at)
		excursion.back_phase +=
			period - (detector->strayed_at - excursion.back_at) % period;
	if (!period_cycle_find(cycle, stream, count, &excursion.back_phase))
		return;
	extend_back(detector, &excursion);
	extend_to_cut(detector, &excursion);
	excursion.length = excursion.back_at - detector->strayed_at;
	if (excursion.back_phase == 0)
		back_at_cut(detector, &excursion);
	else if (!lost && excursion.back_phase == excursion.left_phase &&
		 excursion.length > small_change(period))
		moved = move_cut(detector, &excursion);
	if (moved)
		excursion.back_phase = 0;
	else if (excursion.back_phase != 0)
		back_inside(detector, &excursion);

	/* From the way back to here: the rest of a cycle, then at most whole ones. */
	phase = excursion.back_phase;
	if (phase == 0)
		detector->last_cut = excursion.back_at;
	for (uint64_t at = excursion.back_at; at < count;) {
		uint64_t rest = period - phase;

		if (at + rest > count) {
			phase += count - at;
			break;
		}
		at += rest;
		phase = 0;
		detector->last_cut = at;
		if (detector->open_kind || at - detector->queued_end != period)
			period_span_add(detector, at, 0,
				detector->open_kind ? detector->open_kind : PERIOD_IRREGULAR);
		else
			period_span_add(detector, at, period, PERIOD_REGULAR);
		period_followed(detector);
	}
	period_follow_from(detector, phase);
}
