/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the repeating cycle in a stream of collective calls, and cuts the stream at it: the
 * training step, found without annotation.
 *
 * A token has a structure (operation, communicator, root) and a full form (the structure, the
 * other rank of a message, and the length). The cycle is looked for in the structure; the rest
 * decides only where the structure alone repeats too soon, as in a step of equal all-reduces. So
 * steps are kept when lengths vary from step to step.
 *
 * Tokens cannot tell many rounds of a short cycle and a rest: one step with a loop inside (layers,
 * micro-batches), or many steps with an excursion now and then (a log, an evaluation, a checkpoint).
 * What the rest weighs does, in rounds; it makes one step of up to 32 rounds times its weight
 * (period_weigh.c), which is the sum of
 *   - its bytes: gradients are as large as the rounds before them, a loss of 8 bytes is nothing.
 *     Beside long rounds, those of calls that rounds have as well count a quarter: an evaluation's;
 *   - the longest pause before one of its calls, beyond two rounds: for rounds as short as a layer.
 *     Where rounds take a fifth of a second, seconds in between are a checkpoint;
 *   - another communicator than the rounds', for rounds as short as well. Both not where a round is of more than a
 *     few calls and most of their lengths are unlike: buckets of gradients, no layer;
 *   - the share of rounds that follow another without a pause: no optimizer ran there. Only where
 *     no round has a call as small as a loss or a count, which each step makes once;
 *   - how often rounds that carry hardly anything come between others, where their order comes again with
 *     the longer cycle and no shorter one: counts, and what they announced.
 * The rest may be a pause alone: then each call of a step of equal all-reduces, or each micro-batch,
 * is a cycle, and every n-th of them comes after a pause that the others have not, from the start: where it begins later, a
 * fault delays every n-th step (a loader of n workers). Rounds that together take next to no time beside that pause are one
 * step, whatever it weighs: so many ranks average what they trained alone. Of pauses that come and go in many places of a round, some
 * come in an order by chance: that is asked first.
 *
 * What is followed stays: a longer cycle takes its place only when it has shown for a quarter
 * of what the shorter one explained, calls put in by and by leave a step a step, and stalls do not
 * count. Programs that know better mark their steps.
 *
 * Times decide only which cycle, and which of rounds that look alike is the first; where to cut depends
 * on which tokens are equal, and on nothing else. Times are taken from departures, which are the
 * same on all ranks that a call synchronises: so two ranks with the same pattern of calls choose
 * alike, and cut at the same calls. Where one should not, the coordinator cuts as its leader does.
 *
 * About 150 ns a token (bench_step_builder). Of the past it keeps what its decisions may ask for: 8,192 tokens
 * (0.6 MB) where steps have up to 125 calls and are soon found, 65,536 (5 MB) at most. No globals; one detector is for
 * one thread.
 */
#ifndef SLOWRANK_ANALYSIS_STEPS_PERIOD_H
#define SLOWRANK_ANALYSIS_STEPS_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct period_detector;

struct period_token {
	uint64_t structure; /* equal for equal (operation, communicator, root) */
	uint64_t full;	    /* equal for equal structure, other rank and length */
	uint64_t group;	    /* equal for equal communicator */
	uint64_t length_bytes;
	/* Both from the latest departure before, or 0. */
	int64_t arrival_ns, departure_ns;
};

enum period_kind {
	PERIOD_REGULAR = 1,    /* one cycle, at most a few calls more or less */
	PERIOD_IRREGULAR = 2,  /* something else: warm-up, evaluation, the rest of a cycle */
	PERIOD_INCOMPLETE = 3, /* a cycle in which tokens were lost */
};

/* The tokens from the end of the segment before (or from what was skipped) to end. */
struct period_segment {
	uint64_t end; /* position: tokens before it, since creation */
	enum period_kind kind;
};

enum { PERIOD_LENGTH_MAX = 16384 };

/* Creates a detector of periods up to period_max. Returns 0, -EINVAL or -ENOMEM. The caller owns it. */
int period_create(size_t period_max, struct period_detector **detector)
	__attribute__((warn_unused_result));
void period_destroy(struct period_detector *detector); /* NULL is fine */

/* Adds the next token. Take the segments after each push: a few are kept, then they melt together. */
void period_push(struct period_detector *detector, const struct period_token *token);

/* Tokens were lost before the next one. */
void period_lost(struct period_detector *detector);

/* The next decided segment; false when there is none. */
bool period_take(struct period_detector *detector, struct period_segment *segment);

/* The caller has cut at this position by itself; segments go on from there. */
void period_skip(struct period_detector *detector, uint64_t position);

/*
 * How sure the detector is. A cycle is tried as soon as it has repeated twice, but a loop inside
 * a step looks like that too: segments are handed out once the cycle has held for longer than
 * such loops do, and until then a longer cycle that explains more takes their place.
 */
enum period_certainty {
	PERIOD_NONE = 0,
	PERIOD_TRIED = 1,
	PERIOD_CONFIRMED = 2,
};

struct period_status {
	enum period_certainty certainty;
	bool following;	 /* the last token was the one the cycle had next */
	uint64_t period; /* tokens; 0 when there is no cycle */
	uint64_t cycles; /* followed since it was adopted */
};
/* True when some candidate has repeated for at least half its length: more may come of it. */
bool period_repeating(const struct period_detector *detector);

void period_status(const struct period_detector *detector, struct period_status *status);

/*
 * The caller cannot wait any longer: hands out what is tried as if it were confirmed, and what
 * comes later as soon as after a confirmed cycle. Changes when segments come, not where the
 * cuts of this cycle are.
 */
void period_confirm(struct period_detector *detector);

/* Tokens pushed so far. */
uint64_t period_count(const struct period_detector *detector);

#endif
