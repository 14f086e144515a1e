/* SPDX-License-Identifier: Apache-2.0 */
/* Which candidate is the cycle: the rules of period.h, and the only place with thresholds. */
#include "analysis/period_internal.h"

enum {
	/* Inner loops (layers, micro-batches) are short cycles repeated often; before the first
	 * cycle is adopted it must have repeated longer than such loops usually do. */
	FIRST_TOKENS_MAX = 1024,
	FIRST_TOKENS_WEIGHT = 8192,
	LONG_PERIOD = 512,
	AGAIN_TOKENS_MIN = 32,
	/* A cycle that holds more rounds of the adopted one than that, and little else, is training
	 * with an evaluation now and then, not a step with a loop inside. */
	LOOP_ROUNDS_MAX = 32,
	LOOP_ROUNDS_OTHER_GROUP_MAX = 4096,
	TINY_PERIOD = 4,
	/* Equal calls whose lengths never repeat. */
	POOR_TOKENS = 4096,
	ASIDE_FACTOR = 4,
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Tokens that must have repeated before a first cycle is adopted. */
static uint64_t needed_first(uint64_t period)
{
	return larger(period < LONG_PERIOD ? 4 * period : 2 * period,
		smaller(FIRST_TOKENS_MAX, FIRST_TOKENS_WEIGHT / period));
}

/* The same where a cycle is known already, and the tokens have left it. */
static uint64_t needed_again(uint64_t known, uint64_t period)
{
	uint64_t needed = needed_first(period);

	if (period < known / 2)
		return larger(needed, smaller(8 * known, 4 * PERIOD_LENGTH_MAX - 2 * period));
	return larger(2 * period, smaller(needed, larger(3 * known, AGAIN_TOKENS_MIN)));
}

static struct period_stream *stream_of(struct period_detector *detector, bool full)
{
	return full ? &detector->full : &detector->structure;
}

/* Does the longer cycle use a communicator that the adopted one does not? */
static bool other_group(const struct period_detector *detector, uint64_t longer)
{
	const struct period_stream *stream = &detector->structure;
	uint64_t period = detector->cycle.period, count = stream->count;
	uint32_t known[TINY_PERIOD];
	size_t known_count = 0;

	/* The adopted cycle's own communicators: of tokens that follow it. */
	for (uint64_t i = count - longer; i < count; i++) {
		uint32_t group = detector->groups[i & stream->ring_mask];
		uint32_t token = period_stream_token(stream, i);
		bool own = false, seen = false;

		for (uint64_t j = 0; j < period; j++)
			own |= period_cycle_token(&detector->cycle, j, false) == token;
		for (size_t j = 0; j < known_count; j++)
			seen |= known[j] == group;
		if (own && !seen && known_count < TINY_PERIOD)
			known[known_count++] = group;
	}
	for (uint64_t i = count - longer; i < count; i++) {
		uint32_t group = detector->groups[i & stream->ring_mask];
		bool seen = false;

		for (size_t j = 0; j < known_count; j++)
			seen |= known[j] == group;
		if (!seen)
			return true;
	}
	return false;
}

/* Is the adopted cycle a loop inside this longer one? */
static bool is_inner_loop(const struct period_detector *detector, uint64_t longer)
{
	const struct period_stream *stream =
		detector->cycle.by_full ? &detector->full : &detector->structure;
	uint64_t period = detector->cycle.period, count = stream->count;
	uint64_t explained = 0, rounds;

	for (uint64_t i = count - longer; i < count; i++)
		explained +=
			period_stream_token(stream, i) == period_stream_token(stream, i - period);
	rounds = explained / period + 1;
	if (rounds <= LOOP_ROUNDS_MAX || explained * 4 < longer * 3)
		return true;
	return period <= TINY_PERIOD && rounds <= LOOP_ROUNDS_OTHER_GROUP_MAX &&
	       other_group(detector, longer);
}

static void leave_visit(struct period_detector *detector, uint64_t next_identity)
{
	struct period_visit *left = NULL, *next = NULL;

	for (size_t i = 0; i < detector->visit_count; i++) {
		if (detector->visits[i].identity == detector->cycle.identity)
			left = &detector->visits[i];
		if (detector->visits[i].identity == next_identity)
			next = &detector->visits[i];
	}
	if (!left) {
		size_t at = detector->visit_count;

		/* The table is full: the cycle followed least gives way. */
		if (at == PERIOD_VISIT_NR) {
			at = 0;
			for (size_t i = 1; i < PERIOD_VISIT_NR; i++) {
				if (detector->visits[i].cycles < detector->visits[at].cycles)
					at = i;
			}
			if (next == &detector->visits[at])
				next = NULL;
		} else {
			detector->visit_count++;
		}
		left = &detector->visits[at];
		*left = (struct period_visit){.identity = detector->cycle.identity};
	}
	left->cycles += detector->cycles_followed;
	left->longest = larger(left->longest, detector->cycles_followed);
	if (next && next->cycles > left->cycles)
		left->aside = true;
}

/* Evaluation that was once taken for training must last longer to be taken for it again. */
static bool is_set_aside(const struct period_detector *detector, uint64_t identity, uint64_t cycles)
{
	for (size_t i = 0; i < detector->visit_count; i++) {
		const struct period_visit *visit = &detector->visits[i];

		if (visit->identity == identity && visit->aside)
			return cycles < ASIDE_FACTOR * visit->longest;
	}
	return false;
}

static bool adopt(
	struct period_detector *detector, const struct period_candidate *candidate, bool by_full)
{
	uint64_t period = candidate->period, start = candidate->start;
	uint64_t count = detector->structure.count, boundary;
	struct period_cycle *cycle = &detector->cycle;
	uint64_t identity =
		period_cycle_identity(by_full ? &detector->full : &detector->structure, period);

	if (is_set_aside(detector, identity, (count - start) / period))
		return false;
	if (cycle->period && detector->state != PERIOD_SEEKING)
		leave_visit(detector, identity);
	period_cycle_adopt(cycle, &detector->structure, &detector->full, start, period, by_full);
	detector->cycles_followed = (count - start) / period;
	detector->inserted_phase = 0;
	detector->cut_votes = 0;
	detector->open_kind = 0;

	boundary = start;
	if (boundary < detector->queued_end)
		boundary += (detector->queued_end - start + period - 1) / period * period;
	if (boundary <= count) {
		period_span_add(detector, boundary, 0, PERIOD_IRREGULAR);
		period_span_add(detector, count - (count - start) % period, period, PERIOD_REGULAR);
	}
	period_follow_from(detector, (count - start) % period);
	return true;
}

/* Equal calls, only their lengths differ: is there really no cycle in the lengths? */
static bool lengths_are_noise(
	const struct period_detector *detector, uint64_t period, uint64_t matched)
{
	const struct period_stream *full = &detector->full;

	if (matched < (period == 1 ? 3 * full->period_max : POOR_TOKENS))
		return false;
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
		const struct period_candidate *candidate = &full->candidates[i];

		if (candidate->period &&
			full->count - candidate->start >=
				candidate->period + larger(candidate->period / 4, 32))
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
	return cycle->by_full == full && count - detector->last_stray < period &&
	       detector->last_stray > 0;
}

/* Returns true when it was adopted; else sets when to look again. */
static bool consider(
	struct period_detector *detector, struct period_candidate *candidate, bool full)
{
	struct period_stream *stream = stream_of(detector, full);
	uint64_t period = candidate->period, count = stream->count, needed, from, smallest;
	uint64_t known = detector->state == PERIOD_SEEKING ? 0 : detector->cycle.period;
	bool following = detector->state == PERIOD_FOLLOWING;

	candidate->start = larger(candidate->start, period_stream_oldest(stream));
	needed = known ? needed_again(known, period) : needed_first(period);
	candidate->due = smaller(candidate->start + period + needed, count + period);
	if (candidate->due > count)
		return false;
	candidate->due = count + period;
	if (following && !may_replace(detector, full, period))
		return false;

	from = count - period - needed;
	smallest = period_stream_smallest(stream, from, count, period);
	if (smallest != period) {
		*candidate = (struct period_candidate){
			.period = smallest, .start = from, .due = count + 1};
		return false;
	}
	smallest = period_stream_smallest(&detector->structure, from, count, period);
	if (full && smallest != period && smallest > PERIOD_POOR_MAX)
		return false; /* the structure is rich: lengths vary around it */
	if (!full && period <= PERIOD_POOR_MAX &&
		!period_stream_repeats(&detector->full, from, count, period) &&
		!lengths_are_noise(detector, period, count - candidate->start - period))
		return false;
	if (known && period > known && (following || !full || detector->cycle.by_full) &&
		count - period - known >= period_stream_oldest(stream) &&
		!(following && full && !detector->cycle.by_full) &&
		!is_inner_loop(detector, period))
		return false;
	return adopt(detector, candidate, smallest != period);
}

void period_consider(struct period_detector *detector)
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

bool period_guess(
	const struct period_detector *detector, uint64_t repeated_min, struct period_guess *guess)
{
	uint64_t best = 0, count = detector->structure.count;

	if (detector->state == PERIOD_FOLLOWING)
		return false;
	for (int full = 0; full < 2; full++) {
		const struct period_stream *stream = full ? &detector->full : &detector->structure;

		for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
			const struct period_candidate *candidate = &stream->candidates[i];
			uint64_t period = candidate->period, length;

			if (!period || (!full && period <= PERIOD_POOR_MAX))
				continue;
			length = count - candidate->start;
			if (length < period * (repeated_min + 1) || length < best ||
				(length == best && period >= guess->period))
				continue;
			/* Of one stretch, the structure's cycle; of two stretches, the longer. */
			if (full && best && length < best + best / 2 &&
				guess->period > PERIOD_POOR_MAX)
				continue;
			best = length;
			*guess = (struct period_guess){.period = period,
				.start = candidate->start,
				.matched = length - period};
		}
	}
	return best > 0;
}
