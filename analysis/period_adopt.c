/* SPDX-License-Identifier: Apache-2.0 */
/* Which candidate is the cycle: the rules of period.h, and the only place with thresholds. */
#include "analysis/period_internal.h"

enum {
	/* Inner loops (layers, micro-batches) are short cycles repeated often; before the first
	 * cycle is confirmed it must have held longer than such loops usually do. */
	FIRST_TOKENS = 2048,
	BELIEVABLE_TOKENS = 1024,
	TRY_TOKENS_MIN = 8,
	AGAIN_TOKENS_MIN = 16,
	AGAIN_CONFIRM_TOKENS = 32,
	AGAIN_CYCLES = 4,
	LIKE_CYCLES = 8,
	SETTLED_CYCLES = 16,
	SHARED_TOKENS = 8,
	/* A cycle that holds more rounds of the adopted one than that, and little else, is training
	 * with an evaluation now and then, not a step with a loop inside. */
	LOOP_ROUNDS_MAX = 32,

	LOOP_ROUNDS_TINY_MAX = 4096,
	TINY_PERIOD = 4,
	/* Equal calls whose lengths never repeat. */
	POOR_TRY_TOKENS = 16,

	POOR_AGAIN_TOKENS = 64,
	POOR_AGAIN_CYCLES = 8,
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

/* Tokens that must have followed a first cycle before it is confirmed. */
static uint64_t confirming_first(uint64_t period)
{
	return larger(2 * period, FIRST_TOKENS);
}

/* Tokens that make a short cycle believable where a longer one was followed. */
static uint64_t believable(uint64_t period)
{
	return larger(4 * period, BELIEVABLE_TOKENS);
}

/* Do most of the last tokens call what the cycle calls, whatever their order and length? */
static bool shares_structure(const struct period_detector *detector)
{
	const struct period_stream *stream = &detector->structure;

	uint64_t shared = 0;

	for (uint64_t i = 1; i <= SHARED_TOKENS && i <= stream->count; i++) {
		uint32_t token = period_stream_token(stream, stream->count - i);
		bool found = false;

		for (uint64_t j = 0; j < detector->cycle.period && !found; j++)
			found = period_cycle_token(&detector->cycle, j, false) == token;
		shared += found;
	}
	return 2 * shared >= SHARED_TOKENS;
}

/* Tokens that must have repeated before a cycle is tried. */
static uint64_t needed(const struct period_detector *detector, uint64_t period)
{
	uint64_t known = detector->state == PERIOD_SEEKING ? 0 : detector->cycle.period;
	uint64_t most = detector->structure.ring_mask - period;

	if (!known)
		return larger(2 * period, TRY_TOKENS_MIN);
	if (period < known / 2 && detector->confirmed_before)
		return larger(4 * period,
			smaller(most,
				larger(8 * known, smaller(believable(period),
							  detector->cycles_followed * known))));
	/* A loop inside the cycle goes by, and the cycle is back: wait for more than that. */
	if (period < known / 2)
		return larger(4 * period, shares_structure(detector)
						  ? larger(2 * known, 2 * TRY_TOKENS_MIN)
						  : TRY_TOKENS_MIN);
	return larger(2 * period, smaller(believable(period), AGAIN_TOKENS_MIN));
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

/* Is the longer cycle made of messages alone, those of the adopted one? */
static bool only_own_messages(const struct period_detector *detector, uint64_t longer)
{
	const struct period_stream *stream = &detector->full;
	bool own = true;

	for (uint64_t i = stream->count - longer; i < stream->count && own; i++) {
		own = false;
		for (uint64_t j = 0; j < detector->cycle.period && !own &&
				     detector->messages[i & stream->ring_mask];
			j++)
			own = period_cycle_token(&detector->cycle, j, true) ==
			      period_stream_token(stream, i);
	}
	return own;
}

/* How many of the last tokens belong to rounds of the adopted cycle. */
static uint64_t tokens_explained(const struct period_detector *detector, uint64_t length)
{
	const struct period_stream *stream =
		detector->cycle.by_full ? &detector->full : &detector->structure;
	uint64_t explained = 0, phase;

	for (uint64_t end = stream->count - length + 1; end <= stream->count; end++)
		explained += period_cycle_find(&detector->cycle, stream, end, &phase);
	return explained;
}

/*
 * A longer cycle, which repeats from start, consists of rounds of the adopted one and little
 * else: is that a loop inside a step?
 */
static bool is_inner_loop(
	const struct period_detector *detector, uint64_t longer, uint64_t start, uint64_t explained)
{
	uint64_t period = detector->cycle.period, count = detector->structure.count;
	uint64_t rounds = explained / period + 1;
	/* A step shows its loops from the start; later, chance brings equal distances. */
	if (4 * (count - start) < detector->cycles_followed * period)
		return false;
	if (2 * (count - start) < 7 * longer)
		return false;
	if (rounds <= LOOP_ROUNDS_MAX)
		return true;
	if (period > TINY_PERIOD || rounds > LOOP_ROUNDS_TINY_MAX)
		return false;
	/*
	 * Many layers and then the gradients, or many equal buckets and then the norm; or a pipeline, which fills
	 * and drains by the calls of its loop.
	 */
	return longer - explained <= period + 1 || other_group(detector, longer) ||
	       only_own_messages(detector, longer);
}

/* Returns true when the next cycle is one that was followed before, and not set aside. */
static bool leave_visit(struct period_detector *detector, uint64_t next_identity)
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
	left->confirmed |= detector->confirmed;
	if (next && next->confirmed && next->cycles > left->cycles)
		left->aside = true;
	return next && next->confirmed && !next->aside;
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

/* Cuts the undecided tokens before the cycle settled: it may have been there, interrupted. */
static void cut_before(struct period_detector *detector, uint64_t end)
{
	const struct period_cycle *cycle = &detector->cycle;
	const struct period_stream *stream = stream_of(detector, cycle->by_full);
	uint64_t at = larger(detector->queued_end, period_stream_oldest(stream)), phase;

	while (at + cycle->period <= end) {
		if (!period_cycle_find(cycle, stream, at + cycle->period, &phase) || phase != 0) {
			at++;
			continue;
		}
		period_span_add(detector, at, 0, PERIOD_IRREGULAR);
		at += cycle->period;
		period_span_add(detector, at, cycle->period, PERIOD_REGULAR);
	}
	period_span_add(detector, end, 0, PERIOD_IRREGULAR);
}

/* Is a period about as long as the adopted one? */
static bool is_like(const struct period_detector *detector, uint64_t period)
{
	uint64_t before = detector->cycle.period;

	return period <= 2 * before + TINY_PERIOD && period >= before / 2;
}

/*
 * What an unconfirmed cycle had cut is not handed out when another takes its place, unless that
 * one comes after it, is its like and new: then the batch has changed in the first few steps.
 */
static void take_back(struct period_detector *detector, uint64_t start, uint64_t period, bool known)
{
	if (known || start + period < detector->queued_end || !is_like(detector, period) ||
		detector->cycles_followed < LIKE_CYCLES || !shares_structure(detector))
		period_span_drop(detector);
}

static bool adopt(struct period_detector *detector, const struct period_candidate *candidate,
	bool by_full, bool keep_cut)
{
	uint64_t period = candidate->period, start = candidate->start;
	uint64_t count = detector->structure.count, boundary;
	struct period_cycle *cycle = &detector->cycle;
	bool known = false;
	uint64_t identity =
		period_cycle_identity(by_full ? &detector->full : &detector->structure, period);

	if (is_set_aside(detector, identity, (count - start) / period))
		return false;
	if (detector->state != PERIOD_SEEKING) {
		known = leave_visit(detector, identity);
		if (!detector->confirmed)
			take_back(detector, start, period, known);
	}
	/* Where the step has changed, it still begins where it began. */
	if (keep_cut && detector->last_cut >= start)
		start += (detector->last_cut - start) % period;
	period_cycle_adopt(cycle, &detector->structure, &detector->full, start, period, by_full);
	detector->cycles_followed = (count - start) / period;
	detector->confirm_tokens = detector->confirmed_before
					   ? larger(AGAIN_CYCLES * period, AGAIN_CONFIRM_TOKENS)
					   : confirming_first(period);
	if (!by_full && period <= PERIOD_POOR_MAX)
		detector->confirm_tokens = 3 * detector->full.period_max;
	detector->confirmed =
		known || detector->cycles_followed * period >= detector->confirm_tokens;
	detector->confirmed_before |= detector->confirmed;
	detector->released = detector->confirmed;
	detector->inserted_phase = 0;
	detector->cut_votes = 0;
	detector->unrest = 0;
	detector->open_kind = 0;

	boundary = start;
	if (boundary < detector->queued_end)
		boundary += (detector->queued_end - start + period - 1) / period * period;
	if (boundary <= count) {
		cut_before(detector, boundary);
		period_span_add(detector, count - (count - start) % period, period, PERIOD_REGULAR);
	}
	period_follow_from(detector, (count - start) % period);
	return true;
}

/* Equal calls, only their lengths differ: is there really no cycle in the lengths? */
static bool lengths_are_noise(const struct period_detector *detector, uint64_t matched)
{
	const struct period_stream *full = &detector->full;

	if (matched < POOR_TRY_TOKENS)
		return false;
	if (detector->state != PERIOD_SEEKING) {
		uint64_t strayed = full->count - detector->strayed_at;

		if (detector->state == PERIOD_FOLLOWING || strayed < POOR_TRY_TOKENS)
			return false;
		if ((detector->confirmed || shares_structure(detector)) &&
			(strayed < POOR_AGAIN_TOKENS ||
				strayed < POOR_AGAIN_CYCLES * detector->cycle.period))
			return false;
	}
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
	uint64_t period = candidate->period, count = stream->count, tokens, from, smallest;
	uint64_t known = detector->state == PERIOD_SEEKING ? 0 : detector->cycle.period;
	bool following = detector->state == PERIOD_FOLLOWING, by_full;
	uint64_t start;
	bool contains = false;

	candidate->start = larger(candidate->start, period_stream_oldest(stream));
	/* A cycle told by lengths gives way to one without them only by what came after it. */
	start = known && !full && detector->cycle.by_full
			? larger(candidate->start, detector->strayed_at)
			: candidate->start;
	tokens = needed(detector, period);
	candidate->due = smaller(start + period + tokens, count + period);
	if (candidate->due > count)
		return false;
	candidate->due = count + period;
	if (following && !may_replace(detector, full, period))
		return false;

	from = count - period - tokens;
	/* Two losses at the distance of a few steps are no cycle. */
	if (known && detector->last_lost > from + period)
		return false;
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
		!lengths_are_noise(detector, count - candidate->start - period))
		return false;
	if (known && period > known && count - period - known >= period_stream_oldest(stream) &&
		!(full && !detector->cycle.by_full && known <= PERIOD_POOR_MAX)) {
		uint64_t explained = tokens_explained(detector, period);

		contains = period >= 2 * known && explained * 4 >= period * 3;
		if (contains && !is_inner_loop(detector, period, candidate->start, explained))
			return false;
	}
	/* Where the structure says little, lengths tell an evaluation from training. */
	by_full = smallest != period ||
		  (period <= PERIOD_POOR_MAX &&
			  period_stream_repeats(&detector->full, from, count, period));
	if (by_full && !full)
		return false; /* the same cycle in the full tokens knows better where it began */
	return adopt(detector, candidate, by_full,
		known && !contains && is_like(detector, period) &&
			detector->cycles_followed >= SETTLED_CYCLES);
}

bool period_repeating(const struct period_detector *detector)
{
	for (int full = 0; full < 2; full++) {
		const struct period_stream *stream = full ? &detector->full : &detector->structure;

		for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
			const struct period_candidate *candidate = &stream->candidates[i];
			uint64_t period = candidate->period;

			if (period && stream->count - candidate->start >=
					      period + larger(period / 2, TRY_TOKENS_MIN))
				return true;
		}
	}
	return false;
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
