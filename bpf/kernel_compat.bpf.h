/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * Where kernels differ. CO-RE resolves the checks when the programs are loaded, and the verifier
 * removes the branches for other kernels. Tasks must be BTF pointers (tp_btf arguments, current).
 */
#ifndef SLOWRANK_BPF_KERNEL_COMPAT_BPF_H
#define SLOWRANK_BPF_KERNEL_COMPAT_BPF_H

#include "kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/*
 * Out of CPU quota. Since 6.18 the kernel takes throttled tasks off one by one, as they return to
 * user space, and marks them; before, their queue (or one above it) is marked.
 */
static __always_inline bool task_is_throttled(struct task_struct *task)
{
	struct task_struct___throttled *newer = (void *)task;

	if (bpf_core_field_exists(newer->throttled))
		return newer->throttled;
	if (bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
		return task->se.cfs_rq && task->se.cfs_rq->throttle_count > 0;
	return false; /* no CONFIG_CFS_BANDWIDTH: nothing can be throttled */
}

/*
 * How long the queue was throttled in its life; 0 before 6.6. The queue may be gone by now: the
 * read is one that may fail.
 */
static __always_inline __u64 queue_throttled_ns(const struct cfs_rq *queue)
{
	if (bpf_core_field_exists(queue->throttled_clock_self_time))
		return BPF_CORE_READ(queue, throttled_clock_self_time);
	return 0;
}

static __always_inline bool task_is_runnable(struct task_struct *task)
{
	struct task_struct___old_state *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state == 0;
	return old->state == 0;
}

/* __TASK_STOPPED, __TASK_TRACED: by a signal, or for a debugger. */
static __always_inline bool task_is_stopped(struct task_struct *task)
{
	struct task_struct___old_state *old = (void *)task;
	const unsigned int stopped = 4, traced = 8;

	if (bpf_core_field_exists(task->__state))
		return task->__state & (stopped | traced);
	return old->state & (stopped | traced);
}

/*
 * A task that blocks while not in a system call blocks in a page fault (or on its way back to
 * user space). The entry code of exceptions sets the system call's number to -1.
 */
static __always_inline bool task_in_system_call(struct task_struct *task)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);

#if defined(__TARGET_ARCH_x86)
	return (long)registers->orig_ax >= 0;
#else
	return registers->syscallno >= 0;
#endif
}

/* How long the task waited on run queues in its life; 0 without CONFIG_SCHED_INFO. */
static __always_inline __u64 task_run_delay(struct task_struct *task)
{
	if (bpf_core_field_exists(task->sched_info.run_delay))
		return task->sched_info.run_delay;
	return 0;
}

/* True when the task that leaves the CPU had it for at least half of next's wait. */
static __always_inline bool task_ran_most_of_wait(
	struct task_struct *prev, struct task_struct *next, __u64 wait_ns)
{
	__u64 queued, arrived;

	if (!bpf_core_field_exists(next->sched_info.last_queued))
		return false;
	queued = next->sched_info.last_queued;
	arrived = prev->sched_info.last_arrival;
	return queued && (arrived <= queued || arrived - queued < wait_ns / 2);
}

/* The last thread of its process is exiting. */
static __always_inline bool task_ends_process(struct task_struct *task)
{
	return task->signal->live.counter == 0;
}

#endif
