/* SPDX-License-Identifier: Apache-2.0 */
/* How `slowrank stacks` writes a thread's stack, whoever looked at it. Any thread. */
#ifndef SLOWRANK_PROBE_STACK_TEXT_H
#define SLOWRANK_PROBE_STACK_TEXT_H

#include <stdio.h>

#include "analysis/explain/stack_profile.h"
#include "probe/stacks/names.h"

struct stack_text_thread {
	const char *name;
	int tid;
	bool running;
};

/* "NAME (TID);outer frame;...;inner frame", without an end of line; what sets frames apart is none of their names'. */
void stack_text_folded(
	FILE *out, const struct stack_text_thread *thread, const struct stack_lines *lines);

/* The thread and then a line for each frame, the innermost first. */
void stack_text_write(
	FILE *out, const struct stack_text_thread *thread, const struct stack_lines *lines);

/* A profile's stacks, those of the thread that calls collectives first: what it does most often leads. */
void stack_text_profile(FILE *out, const struct stack_profile *profile, bool folded);

#endif
