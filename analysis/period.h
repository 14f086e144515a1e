/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the repeating cycle in a stream of collective calls, and cuts the stream at it: the
 * training step, found without annotation.
 *
 * A token has a structure (operation, communicator, root) and a full form (the structure and
 * the length). The cycle is looked for in the structure; lengths decide only where the
 * structure alone repeats too soon, as in a step of equal all-reduces. So steps are kept when
 * lengths vary from step to step.
 *
 * The result depends on which tokens are equal, and on nothing else: no time, no address, no
 * order of hashes. Two ranks with the same pattern of calls cut at the same calls.
 *
 * About 100 ns a token, memory fixed at creation (about 6 MB for periods up to 16,384, touched
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
	uint64_t full;	    /* equal for equal structure and length */
	uint64_t group;	    /* equal for equal communicator */
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

/* What the stream looks like while nothing is certain yet. */
struct period_guess {
	uint64_t period;
	uint64_t start;	  /* position from which on the tokens repeat with this period */
	uint64_t matched; /* tokens that repeated; at least period when there is one repeat */
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

/* True while the stream follows an adopted cycle; *period is its length. */
bool period_following(const struct period_detector *detector, uint64_t *period);

/* True when there is an adopted cycle, though the stream may be off it at present. */
bool period_known(const struct period_detector *detector, uint64_t *period);

/*
 * The best guess while the stream follows no adopted cycle: repeated_min is how often the
 * cycle must have been seen again. False when there is none.
 */
bool period_guess(
	const struct period_detector *detector, uint64_t repeated_min, struct period_guess *guess);

/* Tokens pushed so far. */
uint64_t period_count(const struct period_detector *detector);

#endif
