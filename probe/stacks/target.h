/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose threads' stacks are read from outside: it is never stopped, traced or written to. What
 * stays is found out once, by stack_target_open(); a sample then takes a few reads of memory for each thread, and
 * allocates nothing. A sample has addresses; names are for later (names.h). One thread.
 */
#ifndef SLOWRANK_PROBE_STACKS_TARGET_H
#define SLOWRANK_PROBE_STACKS_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/stacks/modules.h"
#include "probe/stacks/python.h"
#include "probe/stacks/threads.h"

enum { STACK_NATIVE_MAX = 192 };

struct stack_thread {
	struct thread_now now;
	bool torn;	      /* its Python frames did not fit together: it is to be left out */
	bool in_python;	      /* the interpreter knows the thread, and its frames are whole */
	bool python_complete; /* there are no more of them */
	bool as_before; /* it has not run since an earlier look, or there was no time: all else is of that one */
	bool moved; /* it ran while its stack was read: native frames are left out */
	enum unwind_end native_end;
	uint32_t python_count, native_count;
	struct python_frame python[PYTHON_FRAMES_MAX]; /* the innermost first */
	struct unwind_frame native[STACK_NATIVE_MAX];
};

struct stack_sample {
	size_t count;
	size_t left_out; /* threads that do not fit */
	uint64_t torn;	 /* threads whose Python frames did not fit together */
	uint64_t moved;	 /* threads that ran meanwhile */
	uint64_t reads;	 /* pages of memory that were read */
	uint64_t took_ns;
	struct stack_thread threads[THREADS_MAX];
};

struct stack_target;

/* Returns 0, -ESRCH, -EACCES without the right to trace the process, -ENOMEM, or another negative errno. */
int stack_target_open(pid_t pid, struct stack_target **target) __attribute__((warn_unused_result));
void stack_target_close(struct stack_target *target);

/*
 * Takes a sample. sample: what this target's last look left there, or zeros: what has not run since is not read again. now_ns: the time, of a clock that does not go back; modules are read again once a second at most, when code was
 * met that is in none. most_ns: of CPU time to read stacks; the main thread is read first, and what there is no time for stays
 * as it was seen last, and has its turn in the next looks. Returns 0, -ESRCH when the program has ended (also where its process runs another one), or another negative errno.
 */
int stack_target_sample(struct stack_target *target, uint64_t now_ns, uint64_t most_ns,
	struct stack_sample *sample) __attribute__((warn_unused_result));

/* What is there of Python: NULL, with the reason, when nothing is or can be read. */
const struct python *stack_target_python(const struct stack_target *target, const char **reason);

/* Why native frames are fewer than could be; NULL when they are not. */
const char *stack_target_without_bpf(const struct stack_target *target);

/* As threads_read_kernel_frames(): of one of its threads. */
size_t stack_target_kernel_frames(struct stack_target *target, pid_t tid,
	char names[THREAD_KERNEL_FRAMES][THREAD_KERNEL_NAME_LENGTH]);

pid_t stack_target_pid(const struct stack_target *target);

/* *generation grows when they are read anew: indices of modules are those of one generation. */
const struct modules *stack_target_modules(const struct stack_target *target, uint64_t *generation);

/* The module that the interpreter is in, or MODULE_NONE. */
int stack_target_python_module(const struct stack_target *target);

/* The process's memory as of now. */
struct memory_view *stack_target_memory(struct stack_target *target);

#endif
