/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a process at a moment: what each does or waits for, and the registers that it left user space with. By an
 * iterator of BPF where there is one (Linux 6.1 and later, with rights), else from /proc, which tells of a thread
 * in a system call where its stack and its next instruction are, and nothing of others. Nothing is stopped. One thread.
 */
#ifndef SLOWRANK_PROBE_STACKS_THREADS_H
#define SLOWRANK_PROBE_STACKS_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/stacks/unwind.h"

enum {
	THREADS_MAX = 2048,
	THREAD_NAME_LENGTH = 16,
	THREAD_PLACE_LENGTH = 48,
	THREAD_ARGUMENTS = 6
};

struct thread_now {
	pid_t tid;
	pid_t inner_tid; /* as it sees itself: in a container another one */
	char name[THREAD_NAME_LENGTH];
	char state;	/* as in /proc/PID/stat: R, S, D, T, ... */
	bool on_cpu;	/* then its registers are old, and not told */
	bool displaced; /* it could run, and slowrank has its CPU at this moment */
	uint64_t switches;
	int64_t call; /* number of the system call that it is in; -1 = none */
	uint64_t arguments[THREAD_ARGUMENTS];
	char place
		[THREAD_PLACE_LENGTH]; /* where in the kernel it is blocked; "" = unknown, or it is not */
	struct unwind_registers registers;
};

struct threads_source;

/* Returns 0, -ESRCH, -EACCES without the right to trace the process, or another negative errno. */
int threads_source_create(pid_t pid, struct threads_source **source)
	__attribute__((warn_unused_result));
void threads_source_destroy(struct threads_source *source);

/* NULL with BPF; else why there is none, or why it gives no native frames. */
const char *threads_source_without_bpf(const struct threads_source *source);

/*
 * Reads all threads, in the order of their numbers. *count: how many there are in threads; *left_out: those that do not
 * fit. Returns 0, -ESRCH when the process has ended, or another negative errno.
 */
int threads_read(struct threads_source *source, struct thread_now *threads, size_t capacity,
	size_t *count, size_t *left_out) __attribute__((warn_unused_result));

/* Fills in where it is blocked, if it is off the CPU. */
void threads_read_place(struct threads_source *source, struct thread_now *thread);

/*
 * The kernel's own frames of a thread in uninterruptible sleep (state D), by name, the innermost first: by BPF, else from
 * /proc where that may be read (CAP_SYS_ADMIN). Returns how many; 0: it does not sleep so any more, or nothing tells.
 */
enum { THREAD_KERNEL_FRAMES = 24, THREAD_KERNEL_NAME_LENGTH = 64 };
size_t threads_read_kernel_frames(struct threads_source *source, pid_t tid,
	char names[THREAD_KERNEL_FRAMES][THREAD_KERNEL_NAME_LENGTH]);

/* True when it has been off the CPU ever since the earlier look: what was read of its stack between fits together. */
bool thread_stood_still(const struct thread_now *earlier, const struct thread_now *later);

#endif
