/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * Off-CPU accounting: how long a thread was preempted, throttled, blocked or asleep, and who ran
 * instead. One program, on every context switch of the host; BTF is there wherever these
 * programs load at all, so tp_btf needs no fallback. Seen on a 2-core VM, kernel 6.18: a switch of
 * 2.5 us takes 0.24 us more, and 0.6 us more when both tasks are followed.
 */
#ifndef SLOWRANK_BPF_OFF_CPU_BPF_H
#define SLOWRANK_BPF_OFF_CPU_BPF_H

#include "state.bpf.h"

/*
 * Off-CPU events per second and thread: names are evidence, the sums are the accounting. The more
 * there were, the longer an interval must be, so that many short ones leave room: 16 of any
 * reported length, 16 of 4 and 16 of 16 times that, then 16 of 64 ms, of which more do not fit
 * into a second.
 */
enum { OFF_CPU_EVENTS_PER_LENGTH = 16, OFF_CPU_ALWAYS_TOLD_NS = 64000000 };

static __always_inline __u64 length_wanted(__u32 event_count)
{
	switch (event_count / OFF_CPU_EVENTS_PER_LENGTH) {
	case 0:
		return off_cpu_event_ns;
	case 1:
		return off_cpu_event_ns * 4;
	case 2:
		return off_cpu_event_ns * 16;
	case 3:
		return OFF_CPU_ALWAYS_TOLD_NS;
	default:
		return ~0ull;
	}
}

static __always_inline void emit_off_cpu(
	struct thread_state *thread, struct task_struct *task, __u64 start, __u64 end, __u32 reason)
{
	struct event_off_cpu *event;

	if (end - thread->event_window > 1000000000ull) {
		thread->event_window = end;
		thread->event_count = 0;
	}
	if (end - start < length_wanted(thread->event_count)) {
		__sync_fetch_and_add(&intervals_limited, 1);
		return;
	}
	thread->event_count++;
	event = event_reserve(sizeof(*event));
	if (!event)
		return;
	event->header.kind = EVENT_OFF_CPU;
	event->header.length_bytes = sizeof(*event);
	event->header.pid = visible_pid(task);
	event->header.tid = visible_tid(task);
	event->header.cpu = bpf_get_smp_processor_id();
	event->header.time_ns = bpf_ktime_get_ns();
	event->start_ns = start;
	event->end_ns = end;
	event->reason = reason;
	event->other_pid = 0;
	__builtin_memset(event->other_name, 0, sizeof(event->other_name));
	if ((reason == REASON_PREEMPTED || reason == REASON_STOPPED) && thread->other_known) {
		event->other_pid = thread->other_pid;
		__builtin_memcpy(event->other_name, thread->other_name, sizeof(event->other_name));
	}
	event_submit(event, sizeof(*event));
}

/* The part of wait_ns for which its queue was throttled since the thread left the CPU. */
static __always_inline __u64 throttled_part(struct thread_state *thread, __u64 wait_ns)
{
	__u64 throttled_ns;

	if (!thread->queue)
		return 0;
	throttled_ns = queue_throttled_ns(thread->queue) - thread->queue_throttled_ns;
	return throttled_ns < wait_ns ? throttled_ns : wait_ns;
}

/*
 * A blocked interval also holds the time from the wake-up to the CPU, when others ran. The
 * scheduler has that sum ready (sched_info.run_delay), but only once the thread runs: so it is
 * moved from "blocked" to "preempted" at the next look, which no boundary of a segment precedes.
 */
static __always_inline void settle(
	struct thread_state *thread, struct rank_process_state *process, struct task_struct *task)
{
	__u64 waited, throttled, end;

	if (!thread->blocked_ns)
		return;
	waited = task_run_delay(task) - thread->delay_base;
	if (waited > thread->blocked_ns)
		waited = thread->blocked_ns;
	thread->blocked_ns = 0;
	if (!waited)
		return;
	throttled = throttled_part(thread, waited);
	charge(thread, process, thread->off_reason, -(__s64)waited);
	if (thread->ended_idle && thread->off_reason == REASON_ASLEEP)
		__sync_fetch_and_add(&process->host.asleep_ns, -(__s64)waited);
	charge(thread, process, REASON_THROTTLED, (__s64)throttled);
	charge(thread, process, REASON_PREEMPTED, (__s64)(waited - throttled));
	if (waited >= off_cpu_event_ns && !thread->open) {
		end = bpf_ktime_get_ns(); /* a little late: it ran since */
		emit_off_cpu(thread, task, end - waited, end,
			throttled > waited / 2 ? REASON_THROTTLED : REASON_PREEMPTED);
	}
}

static __always_inline void remember_other(struct thread_state *thread, struct task_struct *other)
{
	thread->other_known = 1;
	thread->other_pid = visible_pid(other);
	__builtin_memcpy(thread->other_name, other->comm, sizeof(thread->other_name));
}

static __always_inline void leave_cpu(struct thread_state *thread,
	struct rank_process_state *process, struct task_struct *prev, struct task_struct *next,
	bool preempt, __u64 now)
{
	settle(thread, process, prev);
	count_faults(thread, process, prev);
	thread->off_start = now;
	thread->off_cpu = bpf_get_smp_processor_id();
	thread->delay_base = task_run_delay(prev);
	thread->queue = prev->se.cfs_rq;
	thread->queue_throttled_ns = thread->queue ? queue_throttled_ns(thread->queue) : 0;
	thread->other_known = 0;
	thread->stopped = 0;
	if (preempt || task_is_runnable(prev)) {
		thread->off_reason = task_is_throttled(prev) ? REASON_THROTTLED : REASON_PREEMPTED;
		if (thread->off_reason == REASON_PREEMPTED)
			remember_other(thread, next);
		/* Who gives way while it waits (sched_yield()) is in a system call. */
		thread->kept_off = thread->off_reason == REASON_THROTTLED || preempt ||
				   !task_in_system_call(prev);
		return;
	}
	if (!BPF_CORE_READ_BITFIELD(prev, in_iowait))
		thread->off_reason = REASON_ASLEEP;
	else
		thread->off_reason =
			task_in_system_call(prev) ? REASON_BLOCK_IO : REASON_MAJOR_FAULT;
	if (thread->off_reason == REASON_ASLEEP)
		start_nap(thread, process, thread->off_start);
	/* All threads of a process are stopped at once: one of them tells. */
	thread->kept_off = task_is_stopped(prev);
	thread->stopped = prev->pid == prev->tgid && thread->kept_off;
	if (thread->stopped && prev->ptrace)
		remember_other(thread, prev->parent);
}

/* Who was kept off, ran for less than this, and is kept off again, may not have got as far as to look for its message. */
enum { KEPT_AGAIN_NS = 1000000 };

static __always_inline void note_kept(struct thread_state *thread, __u64 length, __u64 now)
{
	if (!thread->kept_off || thread->off_start - thread->kept_end > KEPT_AGAIN_NS)
		thread->kept_ns = 0;
	if (!thread->kept_off)
		return;
	if (!thread->kept_ns)
		thread->kept_start = thread->off_start;
	if (length >= thread->kept_ns)
		thread->kept_reason = thread->stopped ? REASON_STOPPED : thread->off_reason;
	thread->kept_ns += length;
	thread->kept_end = now;
}

static __always_inline void enter_cpu(struct thread_state *thread,
	struct rank_process_state *process, struct task_struct *prev, struct task_struct *next,
	__u64 now)
{
	__u64 length = now - thread->off_start, own;
	bool runnable =
		thread->off_reason == REASON_PREEMPTED || thread->off_reason == REASON_THROTTLED;

	if (!thread->off_start)
		return;
	end_nap(thread, process, now);
	/* A throttled thread gets quota again before it gets a CPU. */
	own = length;
	if (thread->off_reason == REASON_THROTTLED) {
		own = throttled_part(thread, length);
		if (!own)
			own = length; /* not known */
		charge(thread, process, REASON_PREEMPTED, (__s64)(length - own));
	}
	charge(thread, process, thread->off_reason, (__s64)own);
	if (thread->fault_start)
		thread->fault_off_ns += length;
	/* It counts as asleep, and is told as what it is. */
	if (thread->stopped && length >= off_cpu_event_ns &&
		(!thread->open || waits_for_device(thread)))
		emit_off_cpu(thread, next, thread->off_start, now, REASON_STOPPED);
	/*
	 * Whom to name: who was switched in first, unless another had the CPU for most of the
	 * time. For a thread that slept, who had the CPU when it got it.
	 */
	if (length >= off_cpu_event_ns && prev->pid && !thread->stopped &&
		(!runnable || (thread->off_cpu == bpf_get_smp_processor_id() &&
				      task_ran_most_of_wait(prev, next, length))))
		remember_other(thread, prev);
	if (length >= off_cpu_event_ns && !thread->open && thread->off_reason != REASON_ASLEEP)
		emit_off_cpu(thread, next, thread->off_start, now, thread->off_reason);
	if (!runnable)
		thread->blocked_ns = length;
	if (thread->open)
		note_kept(thread, length, now);
	thread->off_start = 0;
	thread->looked_ns = now;
}

/*
 * Of a send, a receive or a wait that returns: how long it was held. One that polls returns when it has its message and a
 * CPU. Where the last time for which its thread was kept off is longer than it ran since, the message was there by
 * then: the call waited for no other rank, and that time counts as if it lay outside.
 */
static __always_inline __u64 take_hold(
	struct thread_state *thread, struct task_struct *task, __u64 now)
{
	__u64 held = thread->kept_ns;

	if (!held || now - thread->kept_end >= held)
		return 0;
	charge_one(&thread->now, thread->kept_reason, (__s64)held);
	if (held >= off_cpu_event_ns)
		emit_off_cpu(
			thread, task, thread->kept_start, thread->kept_end, thread->kept_reason);
	return held;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct rank_process_state *process;
	struct thread_state *thread;
	__u64 now = 0;

	if (paused)
		return 0;
	process = prev->pid ? tracked(prev->tgid) : 0;
	if (process) {
		now = bpf_ktime_get_ns();
		thread = thread_of(prev, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (thread)
			leave_cpu(thread, process, prev, next, preempt, now);
	}
	process = next->pid ? tracked(next->tgid) : 0;
	if (process) {
		thread = thread_of(next, 0);
		if (thread)
			enter_cpu(thread, process, prev, next, now ? now : bpf_ktime_get_ns());
	}
	return 0;
}

#endif
