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
 * The result depends on which tokens are equal, and on nothing else: no time, no address, no
 * order of hashes. Two ranks with the same pattern of calls cut at the same calls.
 *
 * Where the tokens cannot tell: a short cycle with something else at fixed distances is one step
 * with a loop inside (micro-batches, layers) or many steps with an evaluation now and then. Up
 * to 32 rounds count as a loop; beyond that only when the cycle has at most 4 calls and the
 * rest is a call or two or uses another communicator, or consists of the cycle's own messages: a
 * pipeline, which fills and drains. Programs that know better mark their steps.
 *
 * About 150 ns a token (bench_step_builder), memory fixed at creation (about 6 MB for periods up to 16,384, touched
 * only as far as used). No globals; one detector is for one thread.
 */
#ifndef SLOWRANK_ANALYSIS_PERIOD_H
#define SLOWRANK_ANALYSIS_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct period_detector;

struct period_token {
	uint64_t structure; /* equal for equal (operation, communicator, root) */
	uint64_t full;	    /* equal for equal structure, other rank and length */
	uint64_t group;	    /* equal for equal communicator */
	bool message;	    /* to or from one other rank */
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
 * The caller cannot wait any longer: hands out what is tried as if it were confirmed. Changes
 * when segments come, not where later cuts are.
 */
void period_confirm(struct period_detector *detector);

/* Tokens pushed so far. */
uint64_t period_count(const struct period_detector *detector);

#endif
