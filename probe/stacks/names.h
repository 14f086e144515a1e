/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one stack of what a sample has of a thread: where native frames are the interpreter at work, the Python frames that
 * it was called for stand in their place, and what the thread waits for comes first. Native names are found once
 * for each address; Python's are read from memory. One thread.
 */
#ifndef SLOWRANK_PROBE_STACKS_NAMES_H
#define SLOWRANK_PROBE_STACKS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/stacks/target.h"
#include "probe/stacks/wait.h"

enum { STACK_LINES_MAX = PYTHON_FRAMES_MAX + STACK_NATIVE_MAX + 1 };

enum stack_line_kind {
	STACK_LINE_WAIT = 1,   /* name: what for */
	STACK_LINE_PYTHON = 2, /* name, place: the file's path, line */
	STACK_LINE_NATIVE = 3, /* name, place: the library or ""; without a name: address */
	STACK_LINE_KERNEL = 4, /* name: of the kernel; in looks of probes (probe/looks) alone */
};

struct stack_line {
	enum stack_line_kind kind;
	const char *name;
	const char *place;
	int32_t line;	  /* 0 = unknown */
	uint64_t address; /* as the library's file has it */
};

/* A thread's stack, the innermost first. Points into itself and into struct stack_names. */
struct stack_lines {
	size_t count;
	bool truncated;	   /* the outermost frames are missing */
	bool python_alone; /* no native frames: why is in the sample */
	struct stack_line lines[STACK_LINES_MAX];
	char wait[STACK_WAIT_LENGTH];
	struct python_code codes[PYTHON_FRAMES_MAX];
};

struct stack_names;

/* target is borrowed. Returns 0 or -ENOMEM. */
int stack_names_create(struct stack_target *target, struct stack_names **names)
	__attribute__((warn_unused_result));
void stack_names_destroy(struct stack_names *names);

/* Finds out the names of all native frames of a sample that are not known yet. A process for each new file. */
void stack_names_learn(struct stack_names *names, const struct stack_sample *sample);

/*
 * Makes a thread's stack, soon after the sample: code objects may go. Returns 0, or -EAGAIN when a Python frame has no code
 * object (any more): the stack was torn.
 */
int stack_names_merge(struct stack_names *names, const struct stack_thread *thread,
	struct stack_lines *lines) __attribute__((warn_unused_result));

#endif
