/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sampler saw of a rank, by time, becomes a stack profile: each look is assigned to where in the rank's steps it
 * was, and summed. The sampler reads memory that a rank controls, so nothing it says is trusted: what cannot be is
 * refused with -EBADMSG. Pure but for its memory, which is bounded. One thread.
 */
#ifndef SLOWRANK_PROBE_LOOKS_SAMPLES_H
#define SLOWRANK_PROBE_LOOKS_SAMPLES_H

#include <stdbool.h>

#include "analysis/explain/stack_profile.h"

enum {
	SAMPLES_NODES_MAX =
		4 *
		STACK_PROFILE_NODES_MAX, /* of them, the profile gets those that took most time */
	SAMPLES_TEXT_MAX = 2 * STACK_PROFILE_TEXT_MAX,
	SAMPLES_SUMS_MAX = 4 * STACK_PROFILE_SUMS_MAX,
	SAMPLES_STEPS_MAX = 4096,      /* that wait for looks */
	SAMPLES_PARTS_MAX = 1 << 18,   /* of all of these, and one step more */
	SAMPLES_WAITING_MAX = 1 << 19, /* threads seen in looks whose step has not ended */
};

struct samples;

/* What one look saw of a thread. */
struct sample_seen {
	uint32_t thread, node;
	uint8_t state; /* enum stack_state */
};

struct samples *samples_create(void);	       /* NULL without memory */
void samples_destroy(struct samples *samples); /* NULL is fine */

/* Appends to the text, in which the empty name is the first: names, each with its NUL. Returns 0, -EBADMSG or -ENOMEM. */
int samples_text(struct samples *samples, const char *text, size_t length)
	__attribute__((warn_unused_result));
/* The next node; its names are in the text already. */
int samples_node(struct samples *samples, const struct stack_node *node)
	__attribute__((warn_unused_result));
/* The next thread, or one anew with what it did over the look. */
int samples_thread(struct samples *samples, uint32_t index, const struct stack_thread_info *thread)
	__attribute__((warn_unused_result));
/* A look, later than those before it. */
int samples_look(struct samples *samples, struct host_ns time, const struct sample_seen *seen,
	size_t count) __attribute__((warn_unused_result));

/*
 * A step of the rank that has ended, in order. It is summed when the next one shows what came after its last collective, and a
 * look that all of its own have come.
 */
int samples_step(struct samples *samples, const struct step_entry *step)
	__attribute__((warn_unused_result));
/* Whole steps that were summed. */
uint32_t samples_steps(const struct samples *samples);

/*
 * The profile of all that was summed; without steps, of all that was seen. fields: rank, request, result, and what else is
 * not counted here; a result of STACK_RESULT_DONE becomes STACK_RESULT_NO_STEPS where steps were wanted and none was whole.
 * NULL without memory.
 */
struct stack_profile *samples_finish(
	struct samples *samples, const struct stack_profile *fields, bool steps_wanted);

#endif
