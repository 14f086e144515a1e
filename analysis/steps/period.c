/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/steps/period.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/steps/period_internal.h"

int period_create(size_t period_max, struct period_detector **detector)
{
	struct period_detector *made;
	size_t most = 16384, first = PERIOD_RING_MIN;

	_Static_assert(4 * PERIOD_LENGTH_MAX <= PERIOD_RING_MAX, "");
	if (period_max == 0 || period_max > PERIOD_LENGTH_MAX)
		return -EINVAL;
	/* Three periods must fit to adopt one, and some of the past besides. */
	while (most < 4 * period_max)
		most *= 2;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->ring_count_max = most;
	period_powers_init(&made->powers);
	made->calls = calloc(first, sizeof(*made->calls));
	if (!made->calls ||
		period_stream_init(&made->structure, &made->powers, first, period_max) < 0 ||
		period_stream_init(&made->full, &made->powers, first, period_max) < 0 ||
		period_cycle_init(&made->cycle, period_max) < 0) {
		period_destroy(made);
		return -ENOMEM;
	}
	*detector = made;
	return 0;
}

void period_destroy(struct period_detector *detector)
{
	if (!detector)
		return;
	period_cycle_fini(&detector->cycle);
	period_stream_fini(&detector->full);
	period_stream_fini(&detector->structure);
	free(detector->calls);
	free(detector);
}

void period_span_add(
	struct period_detector *detector, uint64_t end, uint64_t chunk, enum period_kind kind)
{
	struct period_span *last = NULL;

	if (end <= detector->queued_end)
		return;
	if (detector->span_count)
		last = &detector->spans[(detector->span_first + detector->span_count - 1) %
					PERIOD_SPAN_NR];
	if (last && chunk && last->end != detector->kept_end && last->chunk == chunk &&
		last->kind == kind && (end - last->anchor) % chunk == 0) {
		last->end = end;
	} else if (last && detector->span_count == PERIOD_SPAN_NR) {
		*last = (struct period_span){.end = end, .kind = PERIOD_IRREGULAR};
	} else {
		size_t at = (detector->span_first + detector->span_count++) % PERIOD_SPAN_NR;

		detector->spans[at] = (struct period_span){
			.end = end, .chunk = chunk, .anchor = detector->queued_end, .kind = kind};
	}
	detector->queued_end = end;
	detector->open_kind = 0;
	detector->lost = false;
}

void period_span_drop(struct period_detector *detector)
{
	uint64_t kept =
		detector->kept_end > detector->decided ? detector->kept_end : detector->decided;

	for (; detector->span_count; detector->span_count--) {
		struct period_span *last =
			&detector->spans[(detector->span_first + detector->span_count - 1) %
					 PERIOD_SPAN_NR];

		if (last->end <= kept)
			break;
	}
	detector->queued_end = kept;
	detector->open_kind = 0;
}

bool period_take(struct period_detector *detector, struct period_segment *segment)
{
	struct period_span *span;
	uint64_t end;

	if (detector->span_count == 0 ||
		(!detector->released && detector->decided >= detector->kept_end))
		return false;
	span = &detector->spans[detector->span_first];
	end = span->end;
	*segment = (struct period_segment){.end = end, .kind = span->kind};
	if (span->chunk) {
		uint64_t done = (detector->decided - span->anchor) / span->chunk;
		uint64_t next = span->anchor + (done + 1) * span->chunk;

		if (next - detector->decided != span->chunk)
			segment->kind = PERIOD_IRREGULAR;
		if (next < end)
			segment->end = next;
	}
	detector->decided = segment->end;
	if (segment->end == end) {
		detector->span_first = (detector->span_first + 1) % PERIOD_SPAN_NR;
		detector->span_count--;
	}
	return true;
}

void period_skip(struct period_detector *detector, uint64_t position)
{
	if (position > period_count(detector))
		position = period_count(detector);
	if (position <= detector->decided)
		return;
	detector->decided = position;
	while (detector->span_count && detector->spans[detector->span_first].end <= position) {
		detector->span_first = (detector->span_first + 1) % PERIOD_SPAN_NR;
		detector->span_count--;
	}
	if (position > detector->queued_end) {
		detector->queued_end = position;
		detector->open_kind = 0;
		detector->lost = false;
	}
}

void period_followed(struct period_detector *detector)
{
	detector->cycles_followed++;
	if (detector->unrest)
		detector->unrest--;
	if (detector->cycles_followed * detector->cycle.period >= detector->confirm_tokens)
		detector->confirmed = detector->confirmed_before = detector->released = true;
}

/* The cycle is complete at the present position. */
static void close_cycle(struct period_detector *detector)
{
	uint64_t end = period_count(detector);
	uint64_t length = end - detector->queued_end;
	uint64_t period = detector->cycle.period;

	period_followed(detector);
	detector->last_cut = end;
	if (detector->open_kind)
		period_span_add(detector, end, 0, detector->open_kind);
	else if (detector->lost)
		period_span_add(detector, end, 0, PERIOD_INCOMPLETE);
	else if (length == period)
		period_span_add(detector, end, period, PERIOD_REGULAR);
	else
		period_span_add(detector, end, 0, PERIOD_IRREGULAR);
}

void period_follow_from(struct period_detector *detector, uint64_t phase)
{
	detector->state = PERIOD_FOLLOWING;
	detector->phase = phase;
}

/* Gives the cycle up. */
static void forget(struct period_detector *detector)
{
	if (!detector->released)
		period_span_drop(detector);
	detector->state = PERIOD_SEEKING;
	detector->cycle.period = 0;
	detector->unrest = 0;
	detector->released = true; /* what is queued stays decided */
}

/* Compares the last token with the one the cycle has next. */
static void follow(struct period_detector *detector)
{
	const struct period_cycle *cycle = &detector->cycle;
	const struct period_stream *stream = period_followed_stream(detector);
	uint64_t position = stream->count - 1;

	if (period_cycle_token(cycle, detector->phase, cycle->by_full) !=
		period_stream_token(stream, position)) {
		detector->state = PERIOD_STRAYED;
		detector->strayed_at = position;
		detector->strayed_phase = detector->phase;
		detector->last_stray = stream->count;
		detector->unrest += PERIOD_UNREST_STEP;
		return;
	}
	if (++detector->phase == cycle->period) {
		detector->phase = 0;
		close_cycle(detector);
		period_consider_pauses(detector);
	}
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * How many tokens of the past may still be asked for: all while steps are being learnt. Beside a cycle, its rounds
 * as far as pauses are looked for, or a shorter cycle may have to go without it; and what a candidate must show.
 */
static uint64_t past_needed(const struct period_detector *detector)
{
	const struct period_cycle *cycle = &detector->cycle;
	uint64_t rounds = PERIOD_PLACES_FEW, needed;

	if (detector->state == PERIOD_SEEKING || !detector->released)
		return UINT64_MAX;
	if (cycle->loop <= PERIOD_SHORT_ROUND &&
		detector->cycles_followed <= PERIOD_PAUSED_CYCLES_MAX)
		rounds = PERIOD_PLACES_MAX;
	needed = larger((rounds + 1) * cycle->loop, (PERIOD_LONGER_ROUNDS + 1) * cycle->period);
	needed = larger(needed, larger(detector->structure.beyond, detector->full.beyond));
	return larger(needed, detector->wanted);
}

/* Twice as much of the past; without memory, it goes on with what it has. */
static void grow(struct period_detector *detector)
{
	uint64_t count = detector->structure.count, mask = detector->structure.ring_mask;
	size_t ring_count = 2 * (mask + 1);
	struct period_stream structure = {0}, full = {0};
	struct period_call *calls = calloc(ring_count, sizeof(*calls));

	if (!calls || period_stream_copy(&detector->structure, ring_count, &structure) < 0 ||
		period_stream_copy(&detector->full, ring_count, &full) < 0) {
		period_stream_fini(&full);
		period_stream_fini(&structure);
		free(calls);
		return;
	}
	for (uint64_t i = period_stream_oldest(&detector->structure); i < count; i++)
		calls[i & (ring_count - 1)] = detector->calls[i & mask];
	period_stream_fini(&detector->structure);
	period_stream_fini(&detector->full);
	free(detector->calls);
	detector->structure = structure;
	detector->full = full;
	detector->calls = calls;
}

void period_push(struct period_detector *detector, const struct period_token *token)
{
	uint64_t position = detector->structure.count, kept = detector->structure.ring_mask;

	if (position >= kept && kept + 1 < detector->ring_count_max && past_needed(detector) > kept)
		grow(detector);
	detector->calls[position & detector->structure.ring_mask] = (struct period_call){
		.bytes = (float)token->length_bytes,
		.spacing_ns = (float)token->departure_ns,
		.pause_ns = (float)token->arrival_ns,
		.group = (uint32_t)(token->group ^ (token->group >> 32)),
	};
	period_stream_push(&detector->structure, token->structure);
	period_stream_push(&detector->full, token->full);
	if (detector->state == PERIOD_FOLLOWING)
		follow(detector);
	if (detector->state == PERIOD_STRAYED) {
		detector->last_stray = detector->structure.count;
		period_try_return(detector);
	}
	period_consider(detector);
	if (detector->unrest > PERIOD_UNREST_MAX)
		forget(detector);
	if (detector->state == PERIOD_STRAYED) {
		uint64_t length = detector->structure.count - detector->strayed_at;

		if (length > PERIOD_STRAYED_TOKENS_MAX &&
			length > PERIOD_STRAYED_CYCLES_MAX * detector->cycle.period)
			forget(detector);
	}
}

void period_lost(struct period_detector *detector)
{
	detector->lost = true;
	detector->last_lost = detector->structure.count;
}

void period_status(const struct period_detector *detector, struct period_status *status)
{
	*status = (struct period_status){.certainty = PERIOD_NONE};
	if (detector->state == PERIOD_SEEKING)
		return;
	*status = (struct period_status){
		.certainty = detector->released ? PERIOD_CONFIRMED : PERIOD_TRIED,
		.following = detector->state == PERIOD_FOLLOWING,
		.period = detector->cycle.period,
		.cycles = detector->cycles_followed,
	};
}

void period_confirm(struct period_detector *detector)
{
	if (detector->state != PERIOD_SEEKING)
		detector->released = detector->handed_out = true;
}

uint64_t period_count(const struct period_detector *detector)
{
	return detector->structure.count;
}
