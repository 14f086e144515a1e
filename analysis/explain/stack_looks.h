/* SPDX-License-Identifier: Apache-2.0 */
/* The stack profiles that are kept: the newest ones, of few ranks; and which of them is whose control. One thread. */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_STACK_LOOKS_H
#define SLOWRANK_ANALYSIS_EXPLAIN_STACK_LOOKS_H

#include "analysis/explain/explain.h"
#include "analysis/explain/stack_difference.h"
#include "analysis/explain/stack_profile.h"

enum {
	STACK_LOOKS_KEPT_MAX = 256,
	STACK_LOOKS_OF_RANK_MAX = 3, /* in any case fewer than that when they are too large */
	STACK_LOOKS_BYTES_MAX = 64 * 1024 * 1024,
	STACK_LOOKS_COMPARED_MAX = 8, /* differences that are remembered */
};

struct kept_stacks {
	int64_t start_ns, stop_ns; /* of the job's clock */
	struct stack_profile *profile;
};

struct stack_compared {
	const struct stack_profile *own, *control; /* own NULL: none */
	uint32_t every_steps;
	int result; /* of stack_profile_compare() */
	struct stack_difference difference;
	char why[VERDICT_DETAIL_LENGTH];
};

struct stack_looks {
	size_t count, bytes;
	struct stack_compared *compared; /* STACK_LOOKS_COMPARED_MAX, a ring; NULL: none yet */
	uint64_t compared_count;
	struct kept_stacks kept[STACK_LOOKS_KEPT_MAX]; /* by the time they came in */
};

void stack_looks_destroy(struct stack_looks *looks); /* NULL is fine */

/* Keeps a copy. Returns 0 or -ENOMEM. */
int stack_looks_keep(struct stack_looks *looks, const struct stack_profile *profile,
	int64_t start_ns, int64_t stop_ns) __attribute__((warn_unused_result));

enum stack_look_kind {
	STACK_LOOK_ANY,	  /* also one that came to nothing: its result and why say it */
	STACK_LOOK_SEEN,  /* some stacks, perhaps of one look at once: as of ranks that hang */
	STACK_LOOK_STEPS, /* of whole steps */
};
bool stack_look_is(const struct stack_profile *profile, enum stack_look_kind kind);

/*
 * Causes that stacks may tell, or say more of, where the work is the host's: of one that is slow, or busy without a device.
 */
bool stacks_can_tell(bool on_device, enum verdict_class verdict_class, enum cause cause);

/* The same of a verdict, or its cause leaves enough for stacks to say where the rest is, such as the work of a rank that also lacks a CPU. */
bool stacks_can_add(const struct verdict *verdict);

/* Of whole steps, but a busy machine let its sampler look too seldom: another one may say more. */
bool stack_look_is_starved(const struct stack_profile *profile);

/* It looked more often, as another one may have been kept from looking; or as often, and later. best: NULL = none. */
bool stack_look_is_better(const struct kept_stacks *look, const struct kept_stacks *best);

/*
 * Of a rank's looks whose middle lies within from..until, the best: the one with most samples, not the newest. looks may be
 * NULL; NULL: none.
 */
const struct kept_stacks *stack_looks_best(const struct stack_looks *looks, uint32_t rank,
	int64_t from_ns, int64_t until_ns, enum stack_look_kind kind);

/*
 * stack_profile_compare() of two that are kept, which is made once: an episode is explained block by block, and stacks of
 * large programs take long. The result is valid until the next call, or the next one that is kept. NULL without memory.
 */
const struct stack_compared *stack_looks_compare(struct stack_looks *looks,
	const struct kept_stacks *own, const struct kept_stacks *control, uint32_t every_steps);

/* Of whole steps of a healthy rank of the same role, the nearest in time to the own one; NULL: none. */
const struct kept_stacks *stack_looks_control(const struct explain_context *context,
	const struct episode *episode, const struct kept_stacks *own);

#endif
