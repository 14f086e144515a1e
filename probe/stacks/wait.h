/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread that is off the CPU waits for, in words: its system call, and on which file, socket or lock. */
#ifndef SLOWRANK_PROBE_STACKS_WAIT_H
#define SLOWRANK_PROBE_STACKS_WAIT_H

#include <stddef.h>
#include <sys/types.h>

#include "analysis/explain/stack_profile.h"
#include "probe/stacks/threads.h"

enum { STACK_WAIT_LENGTH = 320, STACK_WAIT_WHAT_LENGTH = 32, STACK_WAIT_ON_LENGTH = 200 };

struct stack_wait {
	enum stack_state state;
	char what[STACK_WAIT_WHAT_LENGTH]; /* the system call, ...; "" when it does not wait */
	char on[STACK_WAIT_ON_LENGTH]; /* which file, socket or address; "" = none, or unknown */
};

/* Files are looked up as of now, below /proc/PID; a socket is told with its peer where the kernel lists it. */
void stack_wait_read(pid_t pid, const struct thread_now *thread, struct stack_wait *wait);

/* The same as one text, such as "read(3) pipe:[8812], pipe_read". */
void stack_wait_describe(pid_t pid, const struct thread_now *thread, char text[STACK_WAIT_LENGTH]);

#endif
