/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at stacks written by hand, for tests of what is told of them. */
#ifndef TESTS_GOLDEN_MADE_STACKS_H
#define TESTS_GOLDEN_MADE_STACKS_H

#include "analysis/explain/stack_looks.h"

struct made_frame {
	uint8_t kind; /* enum stack_frame_kind; 0: there are no more */
	const char *file;
	int32_t line;
	const char *function;
};

enum { MADE_FRAMES_MAX = 24 };

/* A profile with room; profile has the counts. */
struct made_stacks {
	struct stack_profile profile;
	struct stack_node nodes[512];
	struct stack_sum sums[128];
	struct stack_thread_info threads[16];
	struct stack_segment segments[16];
	char text[32768];
};

/* Of so many steps, from 1 s of the host's clock on, 20 ms a step (1 s without steps). */
void made_stacks_begin(struct made_stacks *made, uint32_t rank, uint32_t steps);

/* Both return the index. */
uint32_t made_stacks_thread(struct made_stacks *made, enum stack_thread_role role, int32_t pid,
	int32_t tid, const char *name);
uint32_t made_stacks_segment(
	struct made_stacks *made, uint32_t ordinal, enum operation operation, bool inside);

/* A stack, its outermost frame first. */
void made_stacks_add(struct made_stacks *made, uint32_t thread, uint32_t segment,
	enum stack_state state, double ms, const struct made_frame frames[MADE_FRAMES_MAX]);

#endif
