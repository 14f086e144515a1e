/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * What the programs keep: tracked processes, the state of their threads, counts per communicator
 * handle, the ring. A thread's state is touched only by the thread itself and by the scheduler
 * while it switches the thread, never by two at once. A process's totals are touched by all its
 * threads: atomic additions only.
 */
#ifndef SLOWRANK_BPF_STATE_BPF_H
#define SLOWRANK_BPF_STATE_BPF_H

#include "kernel_compat.bpf.h"
#include "pid_namespace.bpf.h"

#include "bpf/event_layout.h"
#include "bpf/ranks_shared.h"
#include "bpf/thread_shared.h"

/* Set before loading. */
const volatile struct rank_row rank_rows[RANK_ROWS_MAX];
_Static_assert((RANK_ROWS_MAX & (RANK_ROWS_MAX - 1)) == 0, "a mask bounds a row's number");

/*
 * The row of a number that was checked. The mask is for older verifiers (6.1), which lose a bound
 * that the compiler checked on another copy; without the barrier it would leave the mask out.
 */
static __always_inline const volatile struct rank_row *row_of(__u64 number)
{
	barrier_var(number);
	return &rank_rows[number & (RANK_ROWS_MAX - 1)];
}
const volatile __u64 off_cpu_event_ns = 500000;
const volatile __u32 minor_fault_period = 8; /* every so many minor faults one is timed */
const volatile __u64 wakeup_bytes = 1 << 20;
const volatile bool messages_told; /* each send and receive of a device is, like a collective */

/* Switched while running. A new generation makes threads forget what they had open. */
__u32 paused;
__u32 generation = 1;
__u32 launch_window; /* number of the one in which launches are counted; 0 = none */

/* Counted here, read by the probe. */
__u64 dropped;		 /* records that did not fit into the ring or a map */
__u64 intervals_limited; /* off-CPU intervals over the rate limit */

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RANK_PROCESSES_MAX);
	__type(key, __u32);
	__type(value, struct rank_process_state);
} processes SEC(".maps"); /* by thread-group id */

enum handle_use {
	HANDLE_CALLS = 0,     /* collectives on it so far */
	HANDLE_CREATIONS = 1, /* communicators made from it so far */
	HANDLE_TOLD_RANK = 2, /* 1 + the rank last told */
	HANDLE_TOLD_SIZE = 3,
	HANDLE_USE_NR = 4,	/* these end with the handle */
	HANDLE_GROUP_CALLS = 4, /* calls with groups so far, under HANDLE_NONE */
	/* From here on, two for each peer: sends to it, receives from it so far. */
	HANDLE_MESSAGES = 8,
};

#define HANDLE_NONE (~0ull) /* no library's */

/* The incarnation sets apart programs that get the same pid and address one after the other. */
struct handle_key {
	__u64 handle;
	__u32 incarnation;
	__u32 use; /* enum handle_use */
};

/*
 * Least recently used entries go first: those of ended programs, which nobody else removes. A
 * program frees its own communicators here, so 65536 entries are never all in use.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct handle_key);
	__type(value, __u64);
} handles SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

static __always_inline void *event_reserve(__u64 length)
{
	void *event = bpf_ringbuf_reserve(&events, length, 0);

	if (!event)
		__sync_fetch_and_add(&dropped, 1);
	return event;
}

static __always_inline void event_submit(void *event, __u64 length)
{
	/*
	 * The probe looks every few tens of milliseconds; wake it only when the ring fills up, at
	 * each quarter. A wake-up is an interrupt to oneself: on a VM, 2 to 5 us.
	 */
	__u64 pending = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	bool quarter = pending >= wakeup_bytes &&
		       (pending - length) / wakeup_bytes != pending / wakeup_bytes;

	bpf_ringbuf_submit(event, quarter ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline void fill_header(struct event_header *header, __u16 kind, __u16 length)
{
	struct task_struct *task = bpf_get_current_task_btf();

	header->kind = kind;
	header->length_bytes = length;
	header->pid = visible_pid(task);
	header->tid = visible_tid(task);
	header->cpu = bpf_get_smp_processor_id();
	header->time_ns = bpf_ktime_get_ns();
}

static __always_inline struct rank_process_state *tracked(__u32 pid)
{
	return bpf_map_lookup_elem(&processes, &pid);
}

/* The state of a tracked thread, without what belongs to an older generation. */
static __always_inline struct thread_state *thread_of(struct task_struct *task, __u64 flags)
{
	struct thread_state *thread = bpf_task_storage_get(&threads, task, 0, flags);

	if (thread && thread->generation != generation) {
		thread->generation = generation;
		thread->open = 0;
		thread->off_start = 0;
		thread->blocked_ns = 0;
		thread->fault_start = 0;
		thread->launcher = 0;
		thread->collector_start = 0;
		thread->napping = 0;
		thread->minor_base = task->min_flt;
		thread->major_base = task->maj_flt;
		thread->looked_ns = bpf_ktime_get_ns();
		__builtin_memset(&thread->now, 0, sizeof(thread->now));
	}
	return thread;
}

/* Adds (or, with a negative amount, takes back) time to a reason. */
static __always_inline void charge_one(struct event_activity *activity, __u32 reason, __s64 ns)
{
	switch (reason) {
	case REASON_PREEMPTED:
		activity->preempted_ns += ns;
		break;
	case REASON_THROTTLED:
		activity->throttled_ns += ns;
		break;
	case REASON_BLOCK_IO:
		activity->block_io_ns += ns;
		break;
	case REASON_MAJOR_FAULT:
		activity->major_fault_ns += ns;
		break;
	default:
		activity->asleep_ns += ns;
	}
}

static __always_inline void charge_process(struct event_activity *activity, __u32 reason, __s64 ns)
{
	switch (reason) {
	case REASON_PREEMPTED:
		__sync_fetch_and_add(&activity->preempted_ns, ns);
		break;
	case REASON_THROTTLED:
		__sync_fetch_and_add(&activity->throttled_ns, ns);
		break;
	case REASON_BLOCK_IO:
		__sync_fetch_and_add(&activity->block_io_ns, ns);
		break;
	case REASON_MAJOR_FAULT:
		__sync_fetch_and_add(&activity->major_fault_ns, ns);
		break;
	default:
		__sync_fetch_and_add(&activity->asleep_ns, ns);
	}
}

static __always_inline void charge(
	struct thread_state *thread, struct rank_process_state *process, __u32 reason, __s64 ns)
{
	charge_one(&thread->now, reason, ns);
	charge_one(&thread->total, reason, ns);
	charge_process(&process->total, reason, ns);
	if (thread->launcher && reason != REASON_ASLEEP)
		charge_process(&process->host, reason, ns);
}

/*
 * How long so many minor faults took, by those that were timed. Faults differ much between phases of a program: those
 * of this one speak for it. The longest may have been interrupted, as hardly any other was: it counts once. All
 * were on the CPU, since the last look.
 */
static __always_inline __u64 estimate_faults(struct thread_state *thread, __u64 minor)
{
	__u64 now = bpf_ktime_get_ns(), on_cpu_ns = now - thread->looked_ns, longest_ns = 0, ns;

	thread->looked_ns = now;
	if (thread->timed_count > 1) {
		longest_ns = thread->timed_longest_ns;
		thread->fault_average_ns =
			(thread->timed_ns - longest_ns) / (thread->timed_count - 1);
		thread->timed_ns = 0;
		thread->timed_longest_ns = 0;
		thread->timed_count = 0;
	} else if (!thread->fault_average_ns) {
		thread->fault_average_ns = thread->timed_ns;
	}
	/* One alone waits for the next: it may be the longest. */
	ns = minor * thread->fault_average_ns;
	if (longest_ns)
		ns += longest_ns - thread->fault_average_ns;
	return ns < on_cpu_ns ? ns : on_cpu_ns;
}

/* Moves the fault counts since the last look into the sums, with their estimated time. */
static __always_inline void count_faults(
	struct thread_state *thread, struct rank_process_state *process, struct task_struct *task)
{
	__u64 minor = task->min_flt - thread->minor_base;
	__u64 major = task->maj_flt - thread->major_base;
	__u64 minor_ns;

	if (!(minor | major))
		return;
	thread->minor_base += minor;
	thread->major_base += major;
	minor_ns = minor ? estimate_faults(thread, minor) : 0;
	thread->now.minor_faults += minor;
	thread->now.major_faults += major;
	thread->now.minor_fault_ns += minor_ns;
	thread->total.minor_faults += minor;
	thread->total.major_faults += major;
	thread->total.minor_fault_ns += minor_ns;
	__sync_fetch_and_add(&process->total.minor_faults, (__u32)minor);
	__sync_fetch_and_add(&process->total.major_faults, (__u32)major);
	__sync_fetch_and_add(&process->total.minor_fault_ns, minor_ns);
	if (!thread->launcher)
		return;
	__sync_fetch_and_add(&process->host.minor_faults, (__u32)minor);
	__sync_fetch_and_add(&process->host.major_faults, (__u32)major);
	__sync_fetch_and_add(&process->host.minor_fault_ns, minor_ns);
}

/* This thread works for the device from now on. It is on the CPU, hence awake. */
static __always_inline void mark_launcher(
	struct thread_state *thread, struct rank_process_state *process)
{
	if (process->launchers_generation != generation) {
		process->launchers_generation = generation;
		process->launchers_awake = 0;
	}
	if (thread->launcher)
		return;
	thread->launcher = 1;
	thread->napping = 0;
	__sync_fetch_and_add(&process->launchers_awake, 1);
}

static __always_inline bool waits_for_device(const struct thread_state *thread)
{
	return thread->open && thread->row < RANK_ROWS_MAX &&
	       row_of(thread->row)->kind == RANK_ROW_DEVICE_WAIT;
}

/* A launcher falls asleep: when it is the last one, the device gets no more work. */
static __always_inline void start_nap(
	struct thread_state *thread, struct rank_process_state *process, __u64 now)
{
	if (!thread->launcher || thread->napping || waits_for_device(thread))
		return;
	thread->napping = 1;
	if (__sync_fetch_and_add(&process->launchers_awake, -1) == 1)
		process->idle_since = now;
}

static __always_inline void end_nap(
	struct thread_state *thread, struct rank_process_state *process, __u64 now)
{
	thread->ended_idle = 0;
	if (!thread->napping)
		return;
	thread->napping = 0;
	if (__sync_fetch_and_add(&process->launchers_awake, 1) != 0 || now < process->idle_since)
		return;
	thread->ended_idle = 1;
	__sync_fetch_and_add(&process->host.asleep_ns, now - process->idle_since);
}

#endif
