/* SPDX-License-Identifier: Apache-2.0 */
/* Which candidate is the cycle: the rules of period.h. */
#include <math.h>

#include "analysis/steps/period_internal.h"

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
	return larger(PERIOD_SHORTER_ROUNDS * period, PERIOD_BELIEVABLE_TOKENS);
}

/* Do most of the last tokens call what the cycle calls, whatever their order and length? */
static bool shares_structure(const struct period_detector *detector)
{
	const struct period_stream *stream = &detector->structure;

	uint64_t shared = 0;

	for (uint64_t i = 1; i <= PERIOD_SHARED_TOKENS && i <= stream->count; i++) {
		uint32_t token = period_stream_token(stream, stream->count - i);
		bool found = false;

		for (uint64_t j = 0; j < detector->cycle.period && !found; j++)
			found = period_cycle_token(&detector->cycle, j, false) == token;
		shared += found;
	}
	return 2 * shared >= PERIOD_SHARED_TOKENS;
}

/* Tokens that must have repeated before a cycle is tried. */
static uint64_t needed(const struct period_detector *detector, uint64_t period)
{
	uint64_t known = detector->state == PERIOD_SEEKING ? 0 : detector->cycle.period;
	uint64_t most = detector->ring_count_max - 1 - period;

	if (!known)
		return larger(2 * period, PERIOD_TRY_TOKENS_MIN);
	if (period < known / 2 && detector->confirmed_before)
		return larger(PERIOD_SHORTER_ROUNDS * period,
			smaller(most, larger(PERIOD_LONGER_ROUNDS * known,
					      smaller(believable(period),
						      detector->cycles_followed * known))));
	/* A loop inside the cycle goes by, and the cycle is back: wait for more than that. */
	if (period < known / 2)
		return larger(PERIOD_SHORTER_ROUNDS * period,
			shares_structure(detector) ? larger(2 * known, 2 * PERIOD_TRY_TOKENS_MIN)
						   : PERIOD_TRY_TOKENS_MIN);
	return larger(2 * period, smaller(believable(period), PERIOD_AGAIN_TOKENS_MIN));
}

static struct period_stream *stream_of(struct period_detector *detector, bool full)
{
	return full ? &detector->full : &detector->structure;
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
			return cycles < PERIOD_ASIDE_FACTOR * visit->longest;
	}
	return false;
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
	uint64_t at = larger(detector->queued_end, period_stream_oldest(stream));

	while (at + cycle->period <= end) {
		if (!is_whole(detector, at)) {
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

	return period <= 2 * before + PERIOD_TINY && period >= before / 2;
}

/*
 * What an unconfirmed cycle had cut is not handed out when another takes its place, unless that
 * one comes after it and is new, and is its like: then the batch has changed in the first few steps;
 * or it explained so much that it was a phase of the program.
 */
static void take_back(struct period_detector *detector, uint64_t start, uint64_t period, bool known)
{
	bool after = !known && start + period >= detector->queued_end;

	if (after && detector->cycles_followed * detector->cycle.period >= PERIOD_FIRST_TOKENS) {
		detector->kept_end = detector->queued_end;
		detector->handed_out = true;
		return;
	}
	if (!after || !is_like(detector, period) ||
		detector->cycles_followed < PERIOD_LIKE_CYCLES || !shares_structure(detector))
		period_span_drop(detector);
}

static bool adopt(struct period_detector *detector, const struct period_candidate *candidate,
	uint64_t loop, bool by_full, bool keep_cut)
{
	uint64_t period = candidate->period, start = candidate->start;
	uint64_t count = detector->structure.count, boundary;
	struct period_cycle *cycle = &detector->cycle;
	bool known = false, again;
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
	period_cycle_adopt(
		cycle, &detector->structure, &detector->full, start, period, loop, by_full);
	detector->cycles_followed = (count - start) / period;
	again = detector->confirmed_before || detector->handed_out;
	detector->confirm_tokens =
		again ? larger(PERIOD_AGAIN_CYCLES * period, PERIOD_AGAIN_CONFIRM_TOKENS)
		      : confirming_first(period);
	if (by_full ? period <= PERIOD_TINY && !again : period <= PERIOD_POOR_MAX)
		detector->confirm_tokens = PERIOD_POOR_CONFIRM_PERIODS * detector->full.period_max;
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

	if (matched < PERIOD_POOR_TRY_TOKENS)
		return false;
	if (detector->state != PERIOD_SEEKING) {
		uint64_t strayed = full->count - detector->strayed_at;

		if (detector->state == PERIOD_FOLLOWING || strayed < PERIOD_POOR_TRY_TOKENS)
			return false;
		if ((detector->confirmed || shares_structure(detector)) &&
			(strayed < PERIOD_POOR_AGAIN_TOKENS ||
				strayed < PERIOD_POOR_AGAIN_CYCLES * detector->cycle.period))
			return false;
	}
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
		const struct period_candidate *candidate = &full->candidates[i];

		if (candidate->period &&
			full->count - candidate->start >=
				candidate->period +
					larger(candidate->period / 4, PERIOD_LENGTHS_REPEAT_TOKENS))
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
 * Do the last tokens repeat with the candidate, and with nothing shorter? by_full: to be followed by full
 * tokens, as the structure says too little.
 */
static bool is_cycle(struct period_detector *detector, struct period_candidate *candidate,
	bool full, uint64_t tokens, bool *by_full)
{
	uint64_t period = candidate->period, count = detector->structure.count, smallest;
	uint64_t from = count - period - tokens;
	bool same_lengths = period_stream_repeats(&detector->full, from, count, period);

	/* Two losses at the distance of a few steps are no cycle. */
	if (detector->state != PERIOD_SEEKING && detector->last_lost > from + period)
		return false;
	smallest = period_stream_smallest(stream_of(detector, full), from, count, period);
	if (smallest != period) {
		*candidate = (struct period_candidate){
			.period = smallest, .start = from, .due = count + 1};
		return false;
	}
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
		start = larger(start, detector->strayed_at);
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
	return adopt(detector, candidate, period, by_full,
		known && content == PERIOD_OTHER && is_like(detector, period) &&
			detector->cycles_followed >= PERIOD_SETTLED_CYCLES);
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

/* Loops look alike: what came in between, or was lost, can leave the cut some of them off. */
static void mend_cut(struct period_detector *detector)
{
	uint64_t phase = period_longest_pause(detector);

	detector->pause_votes = phase == detector->pause_phase ? detector->pause_votes + 1 : 1;
	detector->pause_phase = phase;
	if (phase == 0 || detector->pause_votes < PERIOD_PAUSE_VOTES)
		return;
	period_cycle_rotate(&detector->cycle, phase);
	detector->phase = detector->cycle.period - phase;
	detector->pause_phase = 0;
}

void period_consider_pauses(struct period_detector *detector)
{
	const struct period_cycle *cycle = &detector->cycle;
	uint64_t cycles = detector->cycles_followed, period = cycle->period;
	uint64_t count = detector->structure.count, rounds, factor, origin;
	uint64_t clean = larger(detector->last_stray, period_stream_oldest(&detector->structure));
	struct period_candidate candidate;

	if (cycle->loop != period) {
		mend_cut(detector);
		return;
	}
	/* At 8, 12, 16, 24, 32, ... rounds. */
	while (cycles > 3 && cycles % 2 == 0)
		cycles /= 2;
	if (cycles > 3 || detector->cycles_followed > PERIOD_PAUSED_CYCLES_MAX)
		return;
	cycles = detector->cycles_followed;
	clean = larger(clean, count - smaller(count, cycles * period));
	rounds = (count - clean) / period;
	/* The newer half of them, for programs warm up; or all. */
	if (rounds < PERIOD_PAUSED_CYCLES_MIN ||
		(!period_pauses(detector, rounds / 2, &factor, &origin) &&
			!period_pauses(detector, rounds, &factor, &origin)))
		return;
	/* A step shows its pause from the start; later, a fault in every n-th one is another. */
	if (cycles > PERIOD_PAUSED_STEPS_MAX * factor)
		return;
	candidate = (struct period_candidate){.period = factor * period};
	candidate.start = clean + (origin - clean) % candidate.period;
	if (candidate.start + 2 * candidate.period <= count)
		adopt(detector, &candidate, period, cycle->by_full, false);
}
