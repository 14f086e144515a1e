/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/steps/period.h"

#include <errno.h>
#include <math.h>
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

/* Queues what lies between queued_end and end. chunk 0: as one segment. */
static void span_add(
	struct period_detector *detector, uint64_t end, uint64_t chunk, enum period_kind kind)
{
	struct period_span *last = NULL;

	if (end <= detector->spans.queued_end)
		return;
	if (detector->spans.count)
		last = &detector->spans.ring[(detector->spans.first + detector->spans.count - 1) %
					     PERIOD_SPAN_NR];
	if (last && chunk && last->end != detector->spans.kept_end && last->chunk == chunk &&
		last->kind == kind && (end - last->anchor) % chunk == 0) {
		last->end = end;
	} else if (last && detector->spans.count == PERIOD_SPAN_NR) {
		*last = (struct period_span){.end = end, .kind = PERIOD_IRREGULAR};
	} else {
		size_t at = (detector->spans.first + detector->spans.count++) % PERIOD_SPAN_NR;

		detector->spans.ring[at] = (struct period_span){.end = end,
			.chunk = chunk,
			.anchor = detector->spans.queued_end,
			.kind = kind};
	}
	detector->spans.queued_end = end;
	detector->spans.open_kind = 0;
	detector->spans.lost = false;
}

/* Takes back what was queued and not taken, unless it is kept. */
static void span_drop(struct period_detector *detector)
{
	uint64_t kept = detector->spans.kept_end > detector->spans.decided
				? detector->spans.kept_end
				: detector->spans.decided;

	for (; detector->spans.count; detector->spans.count--) {
		struct period_span *last =
			&detector->spans.ring[(detector->spans.first + detector->spans.count - 1) %
					      PERIOD_SPAN_NR];

		if (last->end <= kept)
			break;
	}
	detector->spans.queued_end = kept;
	detector->spans.open_kind = 0;
}

bool period_take(struct period_detector *detector, struct period_segment *segment)
{
	struct period_span *span;
	uint64_t end;

	if (detector->spans.count == 0 ||
		(!detector->released && detector->spans.decided >= detector->spans.kept_end))
		return false;
	span = &detector->spans.ring[detector->spans.first];
	end = span->end;
	*segment = (struct period_segment){.end = end, .kind = span->kind};
	if (span->chunk) {
		uint64_t done = (detector->spans.decided - span->anchor) / span->chunk;
		uint64_t next = span->anchor + (done + 1) * span->chunk;

		if (next - detector->spans.decided != span->chunk)
			segment->kind = PERIOD_IRREGULAR;
		if (next < end)
			segment->end = next;
	}
	detector->spans.decided = segment->end;
	if (segment->end == end) {
		detector->spans.first = (detector->spans.first + 1) % PERIOD_SPAN_NR;
		detector->spans.count--;
	}
	return true;
}

void period_skip(struct period_detector *detector, uint64_t position)
{
	if (position > period_count(detector))
		position = period_count(detector);
	if (position <= detector->spans.decided)
		return;
	detector->spans.decided = position;
	while (detector->spans.count &&
		detector->spans.ring[detector->spans.first].end <= position) {
		detector->spans.first = (detector->spans.first + 1) % PERIOD_SPAN_NR;
		detector->spans.count--;
	}
	if (position > detector->spans.queued_end) {
		detector->spans.queued_end = position;
		detector->spans.open_kind = 0;
		detector->spans.lost = false;
	}
}

/* One more cycle was followed. */
static void count_cycle(struct period_detector *detector)
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
	uint64_t length = end - detector->spans.queued_end;
	uint64_t period = detector->cycle.period;

	count_cycle(detector);
	detector->last_cut = end;
	if (detector->spans.open_kind)
		span_add(detector, end, 0, detector->spans.open_kind);
	else if (detector->spans.lost)
		span_add(detector, end, 0, PERIOD_INCOMPLETE);
	else if (length == period)
		span_add(detector, end, period, PERIOD_REGULAR);
	else
		span_add(detector, end, 0, PERIOD_IRREGULAR);
}

/* Starts to follow: the next token has this phase. */
static void follow_from(struct period_detector *detector, uint64_t phase)
{
	detector->state = PERIOD_FOLLOWING;
	detector->phase = phase;
}

/* The tokens left the cycle and came back: what was it that happened in between? */

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
	uint64_t earliest = detector->stray.at;

	if (earliest < detector->spans.queued_end)
		earliest = detector->spans.queued_end;
	if (earliest < period_stream_oldest(stream))
		earliest = period_stream_oldest(stream);
	/* A whole rotation may begin before the place where it strayed; that was followed already. */
	while (excursion->back_at < detector->stray.at) {
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
		excursion->back_at + rest - detector->stray.at >
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

	if (same_structure(detector, detector->spans.queued_end, excursion->back_at))
		span_add(detector, excursion->back_at, period, PERIOD_REGULAR);
	else if (detector->spans.lost &&
		 excursion->back_at - detector->spans.queued_end <= period + small)
		span_add(detector, excursion->back_at, 0, PERIOD_INCOMPLETE);
	else if (left == 0 && excursion->length <= small)
		detector->spans.open_kind = PERIOD_REGULAR; /* the next step's first calls */
	else if (left + small >= period && excursion->length <= small)
		span_add(detector, excursion->back_at, 0, PERIOD_REGULAR);
	else
		span_add(detector, excursion->back_at, 0, PERIOD_IRREGULAR);
	if (left == 0)
		detector->inserted_at_cut++;
}

/*
 * Something was put into the middle of a cycle, and the cycle went on where it had stopped. An
 * evaluation lies between two steps: the cut was at the wrong place in the cycle.
 */
static bool move_cut(struct period_detector *detector, const struct excursion *excursion)
{
	bool again = detector->inserted_phase == excursion->left_phase;

	detector->inserted_phase = excursion->left_phase;
	if (detector->inserted_at_cut > 0 && !again)
		return false;
	span_add(detector, detector->stray.at, 0, PERIOD_IRREGULAR);
	span_add(detector, excursion->back_at, 0, PERIOD_IRREGULAR);
	period_cycle_rotate(&detector->cycle, excursion->left_phase);
	detector->inserted_phase = 0;
	detector->inserted_at_cut = 1;
	return true;
}

static void back_inside(struct period_detector *detector, const struct excursion *excursion)
{
	uint64_t small = small_change(detector->cycle.period);
	uint64_t left = excursion->left_phase, back = excursion->back_phase;
	uint64_t skipped = back > left ? back - left : 0;

	/* Some calls were made twice. */
	if (back < left && excursion->length + left - back <= small) {
		detector->spans.open_kind =
			detector->spans.lost ? PERIOD_INCOMPLETE : PERIOD_REGULAR;
		return;
	}
	if (back < left) {
		/* Over a cut, and into the next cycle. */
		span_add(detector, detector->stray.at, 0,
			detector->spans.lost ? PERIOD_INCOMPLETE : PERIOD_IRREGULAR);
		detector->spans.open_kind =
			detector->spans.open_kind ? detector->spans.open_kind : PERIOD_IRREGULAR;
		return;
	}
	if (detector->spans.lost)
		detector->spans.open_kind = PERIOD_INCOMPLETE;
	else if (excursion->length <= small && skipped <= small)
		detector->spans.open_kind = PERIOD_REGULAR;
	else
		detector->spans.open_kind = PERIOD_IRREGULAR;
}

/* Looks whether the tokens are back on the cycle; if so, decides what the excursion was. */
static void try_return(struct period_detector *detector)
{
	const struct period_cycle *cycle = &detector->cycle;
	const struct period_stream *stream = period_followed_stream(detector);
	uint64_t period = cycle->period, count = stream->count;
	struct excursion excursion = {.left_phase = detector->stray.phase};
	bool lost = detector->spans.lost, moved = false;
	uint64_t phase;

	if (count < cycle->loop)
		return;
	/* Where several places look alike, it goes on where it stopped. */
	excursion.back_at = count - cycle->loop;
	excursion.back_phase = detector->stray.phase;
	if (excursion.back_at < detector->stray.at)
		excursion.back_phase += period - (detector->stray.at - excursion.back_at) % period;
	if (!period_cycle_find(cycle, stream, count, &excursion.back_phase))
		return;
	extend_back(detector, &excursion);
	extend_to_cut(detector, &excursion);
	excursion.length = excursion.back_at - detector->stray.at;
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
		if (detector->spans.open_kind || at - detector->spans.queued_end != period)
			span_add(detector, at, 0,
				detector->spans.open_kind ? detector->spans.open_kind
							  : PERIOD_IRREGULAR);
		else
			span_add(detector, at, period, PERIOD_REGULAR);
		count_cycle(detector);
	}
	follow_from(detector, phase);
}

/* Which candidate is the cycle: the rules of period.h. */

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Tokens that must have followed a first cycle before it is confirmed. */
static uint64_t confirming_first(uint64_t period)
{
	return larger(larger(2 * period, PERIOD_FIRST_TOKENS),
		smaller(PERIOD_FIRST_CYCLES * period, PERIOD_LENGTH_MAX));
}

/* Tokens that make a short cycle believable where a longer one was followed. */
static uint64_t believable(uint64_t period)
{
	return larger(PERIOD_AGAIN_CYCLES * period, PERIOD_FIRST_TOKENS);
}

/* Do most of the last tokens call what the cycle calls, whatever their order and length? */
static bool shares_structure(const struct period_detector *detector)
{
	const struct period_stream *stream = &detector->structure;

	uint64_t shared = 0;

	for (uint64_t i = 1; i <= PERIOD_AGAIN_TOKENS_MIN && i <= stream->count; i++) {
		uint32_t token = period_stream_token(stream, stream->count - i);
		bool found = false;

		for (uint64_t j = 0; j < detector->cycle.period && !found; j++)
			found = period_cycle_token(&detector->cycle, j, false) == token;
		shared += found;
	}
	return 2 * shared >= PERIOD_AGAIN_TOKENS_MIN;
}

/* Tokens that must have repeated before a cycle is tried. */
static uint64_t needed(const struct period_detector *detector, uint64_t period)
{
	uint64_t known = detector->state == PERIOD_SEEKING ? 0 : detector->cycle.period;
	uint64_t most = detector->ring_count_max - 1 - period;

	if (!known)
		return larger(2 * period, PERIOD_TRY_TOKENS_MIN);
	if (period < known / 2 && (detector->confirmed_before || detector->handed_out))
		return larger(PERIOD_AGAIN_CYCLES * period,
			smaller(most, larger(PERIOD_AGAIN_CYCLES * known,
					      smaller(believable(period),
						      detector->cycles_followed * known))));
	/* A loop inside the cycle goes by, and the cycle is back: wait for more than that. */
	if (period < known / 2)
		return larger(PERIOD_AGAIN_CYCLES * period,
			shares_structure(detector) ? larger(2 * known, 2 * PERIOD_TRY_TOKENS_MIN)
						   : PERIOD_TRY_TOKENS_MIN);
	return larger(2 * period, smaller(believable(period), PERIOD_AGAIN_TOKENS_MIN));
}

static struct period_stream *stream_of(struct period_detector *detector, bool full)
{
	return full ? &detector->full : &detector->structure;
}

/* Is it there, whole, from this position on? */
static bool is_whole(const struct period_detector *detector, uint64_t at)
{
	const struct period_cycle *cycle = &detector->cycle;
	const struct period_stream *stream = period_followed_stream(detector);

	for (uint64_t i = 0; i < cycle->period; i += cycle->loop) {
		uint64_t phase = i;

		if (!period_cycle_find(cycle, stream, at + i + cycle->loop, &phase) || phase != i)
			return false;
	}
	return true;
}

/* Cuts the undecided tokens before the cycle settled: it may have been there, interrupted. */
static void cut_before(struct period_detector *detector, uint64_t end)
{
	const struct period_cycle *cycle = &detector->cycle;
	const struct period_stream *stream = stream_of(detector, cycle->by_full);
	uint64_t at = larger(detector->spans.queued_end, period_stream_oldest(stream));

	while (at + cycle->period <= end) {
		if (!is_whole(detector, at)) {
			at++;
			continue;
		}
		span_add(detector, at, 0, PERIOD_IRREGULAR);
		at += cycle->period;
		span_add(detector, at, cycle->period, PERIOD_REGULAR);
	}
	span_add(detector, end, 0, PERIOD_IRREGULAR);
}

/* Is a period about as long as the adopted one? */
static bool is_like(const struct period_detector *detector, uint64_t period)
{
	uint64_t before = detector->cycle.period;

	return period <= 2 * before + PERIOD_TINY && period >= before / 2;
}

/*
 * What an unconfirmed cycle had cut is not handed out when another takes its place, unless that
 * one comes after it, and is its like: then the batch has changed in the first few steps;
 * or it explained so much that it was a phase of the program.
 */
static void take_back(struct period_detector *detector, uint64_t start, uint64_t period)
{
	bool after = start + period >= detector->spans.queued_end;

	if (after && detector->cycles_followed * detector->cycle.period >= PERIOD_FIRST_TOKENS) {
		detector->spans.kept_end = detector->spans.queued_end;
		detector->handed_out = true;
		return;
	}
	if (!after || !is_like(detector, period) ||
		detector->cycles_followed < PERIOD_SETTLED_CYCLES || !shares_structure(detector))
		span_drop(detector);
}

static void adopt(struct period_detector *detector, const struct period_candidate *candidate,
	uint64_t loop, bool by_full, bool keep_cut)
{
	uint64_t period = candidate->period, start = candidate->start;
	uint64_t count = detector->structure.count, boundary;
	struct period_cycle *cycle = &detector->cycle;
	bool again;

	if (detector->state != PERIOD_SEEKING && !detector->confirmed)
		take_back(detector, start, period);
	/* Where the step has changed, it still begins where it began. */
	if (keep_cut && detector->last_cut >= start)
		start += (detector->last_cut - start) % period;
	period_cycle_adopt(
		cycle, &detector->structure, &detector->full, start, period, loop, by_full);
	detector->cycles_followed = (count - start) / period;
	again = detector->confirmed_before || detector->handed_out;
	detector->confirm_tokens =
		again ? larger(PERIOD_AGAIN_CYCLES * period, PERIOD_AGAIN_CONFIRM_TOKENS)
		      : confirming_first(period);
	if (by_full ? period <= PERIOD_TINY && !again : period <= PERIOD_POOR_MAX)
		detector->confirm_tokens = PERIOD_AGAIN_CYCLES * detector->full.period_max;
	detector->confirmed = detector->cycles_followed * period >= detector->confirm_tokens;
	detector->confirmed_before |= detector->confirmed;
	detector->released = detector->confirmed;
	detector->inserted_phase = 0;
	detector->inserted_at_cut = 0;
	detector->unrest = 0;
	detector->spans.open_kind = 0;

	boundary = start;
	if (boundary < detector->spans.queued_end)
		boundary += (detector->spans.queued_end - start + period - 1) / period * period;
	if (boundary <= count) {
		cut_before(detector, boundary);
		span_add(detector, count - (count - start) % period, period, PERIOD_REGULAR);
	}
	follow_from(detector, (count - start) % period);
}

/* Equal calls, only their lengths differ: is there really no cycle in the lengths? */
static bool lengths_are_noise(const struct period_detector *detector, uint64_t matched)
{
	if (matched < PERIOD_AGAIN_TOKENS_MIN)
		return false;
	if (detector->state != PERIOD_SEEKING) {
		uint64_t strayed = detector->full.count - detector->stray.at;

		if (detector->state == PERIOD_FOLLOWING || strayed < PERIOD_AGAIN_TOKENS_MIN)
			return false;
		if ((detector->confirmed || shares_structure(detector)) &&
			(strayed < PERIOD_POOR_AGAIN_TOKENS ||
				strayed < PERIOD_POOR_AGAIN_CYCLES * detector->cycle.period))
			return false;
	}
	return true;
}

/* May a candidate of this stream replace what is followed? */
static bool may_replace(const struct period_detector *detector, bool full, uint64_t period)
{
	const struct period_cycle *cycle = &detector->cycle;
	uint64_t count = detector->structure.count;

	if (period <= cycle->period)
		return false;
	if (!cycle->by_full && full)
		return cycle->period <= PERIOD_POOR_MAX &&
		       !period_stream_repeats(
			       &detector->full, count - period, count, cycle->period);
	return cycle->by_full == full && count - detector->stray.last < period &&
	       detector->stray.last > 0;
}

/* A step shows its loops from the start; later, chance brings equal distances. */
static bool shows_from_start(
	struct period_detector *detector, const struct period_candidate *candidate)
{
	uint64_t shown = detector->structure.count - candidate->start;
	double least = fmax(PERIOD_SHOWN_ROUNDS * (double)candidate->period,
		PERIOD_SHOWN_SHARE * (double)(detector->cycles_followed * detector->cycle.period));

	detector->wanted = larger(detector->wanted, (uint64_t)least + candidate->period);
	return (double)shown >= least;
}

/*
 * Is what the last tokens repeat with enough to tell a step by? by_full: to be followed by full tokens, as the
 * structure says too little.
 */
static bool is_cycle(const struct period_detector *detector,
	const struct period_candidate *candidate, bool full, uint64_t tokens, bool *by_full)
{
	uint64_t period = candidate->period, count = detector->structure.count, smallest;
	uint64_t from = count - period - tokens;
	bool same_lengths = period_stream_repeats(&detector->full, from, count, period);

	/* Two losses at the distance of a few steps are no cycle. */
	if (detector->state != PERIOD_SEEKING && detector->last_lost > from + period)
		return false;
	smallest = period_stream_smallest(&detector->structure, from, count, period);
	if (full && smallest != period && smallest > PERIOD_POOR_MAX)
		return false; /* the structure is rich: lengths vary around it */
	if (!full && period <= PERIOD_POOR_MAX && !same_lengths &&
		!lengths_are_noise(detector, count - candidate->start - period))
		return false;
	/* Where the structure says little, lengths tell an evaluation from training. */
	*by_full = smallest != period || (period <= PERIOD_POOR_MAX && same_lengths);
	/* The same cycle in the full tokens knows better where it began. */
	return full || !*by_full;
}

/* What it is beside the adopted cycle; one that only lengths tell is another. */
static enum period_content content_of(
	const struct period_detector *detector, uint64_t period, bool full)
{
	const struct period_cycle *cycle = &detector->cycle;
	uint64_t oldest = period_stream_oldest(&detector->structure);

	if (detector->state == PERIOD_SEEKING || period < 2 * cycle->period ||
		detector->structure.count - period < oldest + 2 * cycle->period ||
		(full && !cycle->by_full && cycle->period <= PERIOD_POOR_MAX))
		return PERIOD_OTHER;
	return period_weigh(detector, period);
}

/* Returns true when it was adopted; else sets when to look again. */
static bool consider(
	struct period_detector *detector, struct period_candidate *candidate, bool full)
{
	uint64_t period = candidate->period, count = detector->structure.count, tokens, start;
	bool known = detector->state != PERIOD_SEEKING, by_full;
	enum period_content content;

	start = larger(candidate->start, period_stream_oldest(&detector->structure));
	candidate->start = start;
	/* A cycle told by lengths gives way to one without them only by what came after it. */
	if (known && !full && detector->cycle.by_full)
		start = larger(start, detector->stray.at);
	tokens = needed(detector, period);
	/* It may reach back beyond what is kept before it is looked at again. */
	if (count - start + period > detector->structure.ring_mask)
		detector->wanted = larger(detector->wanted, period + tokens);
	candidate->due = smaller(start + period + tokens, count + period);
	if (candidate->due > count)
		return false;
	candidate->due = count + period;
	if (detector->state == PERIOD_FOLLOWING && !may_replace(detector, full, period))
		return false;
	if (!is_cycle(detector, candidate, full, tokens, &by_full))
		return false;
	content = content_of(detector, period, full);
	if (content == PERIOD_EXCURSIONS ||
		(content == PERIOD_LOOPS && !shows_from_start(detector, candidate)))
		return false;
	adopt(detector, candidate, period, by_full,
		known && content == PERIOD_OTHER && is_like(detector, period) &&
			detector->cycles_followed >= PERIOD_SETTLED_CYCLES);
	return true;
}

bool period_repeating(const struct period_detector *detector)
{
	for (int full = 0; full < 2; full++) {
		const struct period_stream *stream = full ? &detector->full : &detector->structure;

		for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
			const struct period_candidate *candidate = &stream->candidates[i];
			uint64_t period = candidate->period;

			if (period && stream->count - candidate->start >=
					      period + larger(period / 2, PERIOD_TRY_TOKENS_MIN))
				return true;
		}
	}
	return false;
}

/* Looks at the candidates that are due; adopts one when it is ripe. */
static void consider_all(struct period_detector *detector)
{
	/* The structure first: where it is rich enough, lengths have no say. */
	for (int full = 0; full < 2; full++) {
		struct period_stream *stream = stream_of(detector, full);

		for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
			struct period_candidate *candidate = &stream->candidates[i];

			if (candidate->period && candidate->due <= stream->count &&
				consider(detector, candidate, full))
				return;
		}
	}
}

/* Looks whether steps are several rounds of the adopted cycle. */
static void consider_pauses(struct period_detector *detector)
{
	const struct period_cycle *cycle = &detector->cycle;
	uint64_t cycles = detector->cycles_followed, period = cycle->period;
	uint64_t count = detector->structure.count, rounds;
	uint64_t clean = larger(detector->stray.last, period_stream_oldest(&detector->structure));
	struct period_candidate candidate;
	struct period_pause pause;

	if (cycle->loop != period)
		return;
	/* At 8, 12, 16, 24, 32, ... rounds. */
	while (cycles > 3 && cycles % 2 == 0)
		cycles /= 2;
	if (cycles > 3 || detector->cycles_followed > PERIOD_PAUSED_CYCLES_MAX)
		return;
	cycles = detector->cycles_followed;
	clean = larger(clean, count - smaller(count, cycles * period));
	rounds = (count - clean) / period;
	clean = count - rounds * period;
	/* The newer half of them, for programs warm up; or all. */
	if (rounds < PERIOD_PAUSED_CYCLES_MIN ||
		(!period_pauses(detector, rounds / 2, clean, &pause) &&
			!period_pauses(detector, rounds, clean, &pause)))
		return;
	/* A step shows its pause from the start; later, a fault in every n-th one is another. */
	if (cycles > PERIOD_PAUSED_STEPS_MAX * pause.factor)
		return;
	candidate = (struct period_candidate){.period = pause.factor * period};
	candidate.start = clean + (pause.origin - clean) % candidate.period;
	if (candidate.start + 2 * candidate.period <= count)
		adopt(detector, &candidate, period, cycle->by_full, false);
}

/* Gives the cycle up. */
static void forget(struct period_detector *detector)
{
	if (!detector->released)
		span_drop(detector);
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
		detector->stray.at = position;
		detector->stray.phase = detector->phase;
		detector->stray.last = stream->count;
		detector->unrest += PERIOD_UNREST_STEP;
		return;
	}
	if (++detector->phase == cycle->period) {
		detector->phase = 0;
		close_cycle(detector);
		consider_pauses(detector);
	}
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
	needed = larger((rounds + 1) * cycle->loop, (PERIOD_AGAIN_CYCLES + 1) * cycle->period);
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
		detector->stray.last = detector->structure.count;
		try_return(detector);
	}
	consider_all(detector);
	if (detector->unrest > PERIOD_UNREST_MAX)
		forget(detector);
	if (detector->state == PERIOD_STRAYED) {
		uint64_t length = detector->structure.count - detector->stray.at;

		if (length > PERIOD_LENGTH_MAX + PERIOD_ROUNDS_BOUND * detector->cycle.period)
			forget(detector); /* another program */
	}
}

void period_lost(struct period_detector *detector)
{
	detector->spans.lost = true;
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
