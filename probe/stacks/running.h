/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers and the top of the stack of threads that are on a CPU, as of one moment: the kernel copies both when a timer of
 * perf's goes off in the thread, once (perf_event_open(2)), as a scheduler's tick would. Needs CAP_PERFMON, or
 * kernel.perf_event_paranoid at 2 or less for one's own processes. x86-64. One thread.
 */
#ifndef SLOWRANK_PROBE_STACKS_RUNNING_H
#define SLOWRANK_PROBE_STACKS_RUNNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/stacks/unwind.h"

enum {
	RUNNING_MAX = 8, /* threads that are asked at once */
	RUNNING_STACK_BYTES = 16384,
	RUNNING_WAIT_MS = 4, /* for all of them: the timer takes 0.05 ms on the CPU */
};

struct running_stack {
	struct unwind_registers registers;
	uint64_t begin; /* the stack pointer */
	size_t length;
	uint8_t bytes[RUNNING_STACK_BYTES];
};

struct running_threads {
	size_t count;
	struct {
		pid_t tid;
		int fd;
		void *ring;
	} asked[RUNNING_MAX];
};

/* Asks for a thread's. Nothing comes of one that cannot be asked, or beyond RUNNING_MAX. */
void running_ask(struct running_threads *threads, pid_t tid);

/* Waits for a thread that was asked, until the time of poll(2) is up. False when it did not run, or was not asked. */
bool running_take(
	struct running_threads *threads, pid_t tid, int wait_ms, struct running_stack *stack);

/* Lets go of all. */
void running_end(struct running_threads *threads);

#endif
