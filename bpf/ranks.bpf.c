// SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only)
/*
 * The kernel side: collectives (uprobes), off-CPU accounting, page faults, the process tree.
 * Everything is filtered to the tracked processes first. Per-thread state lives in task
 * storage; what a thread did between communication calls accumulates there and leaves with the
 * next collective's record.
 */
#include "kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/event_layout.h"
#include "bpf/ranks_shared.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. */
const volatile struct rank_row rank_rows[RANK_ROWS_MAX];
const volatile __u64 off_cpu_event_ns = 500000;
const volatile __u32 minor_fault_period = 8;
const volatile __u64 wakeup_bytes = 1 << 20;

/* Switched while running. */
__u32 paused;
__u64 dropped;

struct thread_state {
	struct event_activity now;   /* since the last communication call */
	struct event_activity saved; /* what `now` was at the entry of the open call */
	struct event_activity total; /* all this thread ever did */
	__u64 off_start;
	__u64 fault_start;
	__u64 entry_ns;
	__u64 entry_stack; /* stack pointer at entry: a call from above it means no return was seen */
	__u64 arguments[8];
	__u64 sequence;
	__u32 off_reason;
	__u32 other_pid;
	__u32 row;
	__u32 depth;
	__u64 minor_base, major_base; /* task_struct's counters at the last boundary */
	__u64 event_window;	      /* rate limit of off-CPU events */
	__u32 event_count;
	char other_name[EVENT_TASK_NAME_LENGTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct event_activity);
} processes SEC(".maps"); /* tracked tgid -> totals of its threads */

struct handle_key {
	__u64 handle;
	__u32 pid;
	__u32 creations; /* 0: calls on it; 1: communicators made from it */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct handle_key);
	__type(value, __u64);
} sequences SEC(".maps");

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

static __always_inline void event_submit(void *event)
{
	/* The probe looks every few tens of milliseconds; wake it only when the ring fills up. */
	__u64 pending = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(event, pending > wakeup_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline void fill_header(struct event_header *header, __u16 kind, __u16 length)
{
	__u64 id = bpf_get_current_pid_tgid();

	header->kind = kind;
	header->length_bytes = length;
	header->pid = id >> 32;
	header->tid = (__u32)id;
	header->cpu = bpf_get_smp_processor_id();
	header->time_ns = bpf_ktime_get_ns();
}

static __always_inline struct event_activity *tracked(__u32 pid)
{
	return bpf_map_lookup_elem(&processes, &pid);
}

static __always_inline void charge(struct event_activity *activity, __u32 reason, __u64 ns)
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

/* ---- off-CPU ---- */

static __always_inline bool is_throttled(struct task_struct *task)
{
	struct task_struct___throttled *newer = (void *)task;
	struct cfs_rq *queue;

	if (bpf_core_field_exists(newer->throttled))
		return BPF_CORE_READ(newer, throttled);
	if (!bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
		return false;
	queue = BPF_CORE_READ(task, se.cfs_rq);
	return queue && BPF_CORE_READ(queue, throttle_count) > 0;
}

static __always_inline unsigned int state_of(struct task_struct *task)
{
	struct task_struct___old_state *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return (unsigned int)BPF_CORE_READ(old, state);
}

/* Blocked although not in a system call: that is a page fault waiting for its page. */
static __always_inline bool in_system_call(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
	long number = (long)BPF_CORE_READ(regs, orig_ax);
#else
	long number = (long)BPF_CORE_READ(regs, syscallno);
#endif
	return number >= 0;
}

static __always_inline void leave_cpu(struct thread_state *thread, struct task_struct *prev,
	struct task_struct *next, bool preempt)
{
	thread->off_start = bpf_ktime_get_ns();
	thread->other_pid = 0;
	if (preempt || state_of(prev) == 0) {
		thread->off_reason = is_throttled(prev) ? REASON_THROTTLED : REASON_PREEMPTED;
		if (thread->off_reason == REASON_PREEMPTED) {
			thread->other_pid = BPF_CORE_READ(next, tgid);
			BPF_CORE_READ_STR_INTO(&thread->other_name, next, comm);
		}
		return;
	}
	if (BPF_CORE_READ_BITFIELD_PROBED(prev, in_iowait))
		thread->off_reason = in_system_call(prev) ? REASON_BLOCK_IO : REASON_MAJOR_FAULT;
	else
		thread->off_reason = REASON_ASLEEP;
}

static __always_inline void emit_off_cpu(
	struct thread_state *thread, struct task_struct *task, __u64 now)
{
	struct event_off_cpu *event;

	/* At most 64 a second and thread: names are evidence, not accounting. */
	if (now - thread->event_window > 1000000000ull) {
		thread->event_window = now;
		thread->event_count = 0;
	}
	if (thread->event_count >= 64)
		return;
	thread->event_count++;
	event = event_reserve(sizeof(*event));
	if (!event)
		return;
	event->header.kind = EVENT_OFF_CPU;
	event->header.length_bytes = sizeof(*event);
	event->header.pid = BPF_CORE_READ(task, tgid);
	event->header.tid = BPF_CORE_READ(task, pid);
	event->header.cpu = bpf_get_smp_processor_id();
	event->header.time_ns = now;
	event->start_ns = thread->off_start;
	event->end_ns = now;
	event->other_pid = thread->other_pid;
	event->reason = thread->off_reason;
	__builtin_memcpy(event->other_name, thread->other_name, sizeof(event->other_name));
	event_submit(event);
}

static __always_inline void enter_cpu(
	struct thread_state *thread, struct task_struct *task, struct event_activity *process)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 length = now - thread->off_start;

	if (!thread->off_start)
		return;
	charge(&thread->now, thread->off_reason, length);
	charge(&thread->total, thread->off_reason, length);
	charge(process, thread->off_reason, length);
	if (length >= off_cpu_event_ns && !thread->depth && thread->off_reason != REASON_ASLEEP)
		emit_off_cpu(thread, task, now);
	thread->off_start = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct event_activity *process;
	struct thread_state *thread;

	if (paused)
		return 0;
	if (tracked(prev->tgid)) {
		thread = bpf_task_storage_get(&threads, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (thread)
			leave_cpu(thread, prev, next, preempt);
	}
	process = tracked(next->tgid);
	if (process) {
		thread = bpf_task_storage_get(&threads, next, 0, 0);
		if (thread)
			enter_cpu(thread, next, process);
	}
	return 0;
}

/* ---- page faults ---- */

SEC("tp_btf/page_fault_user")
int on_fault_start(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *thread;

	if (paused || !tracked(bpf_get_current_pid_tgid() >> 32))
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (thread)
		thread->fault_start = bpf_ktime_get_ns();
	return 0;
}

/* The software event of minor faults fires at the end of every minor_fault_period-th one. */
SEC("perf_event")
int on_minor_fault(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct event_activity *process = tracked(bpf_get_current_pid_tgid() >> 32);
	struct thread_state *thread;

	if (paused || !process)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread || !thread->fault_start)
		return 0;
	__u64 estimate = (bpf_ktime_get_ns() - thread->fault_start) * minor_fault_period;
	thread->now.minor_fault_ns += estimate;
	thread->total.minor_fault_ns += estimate;
	process->minor_fault_ns += estimate;
	thread->fault_start = 0;
	return 0;
}

/* ---- collectives ---- */

static __always_inline __u64 argument(struct pt_regs *ctx, int position)
{
	__u64 value = 0;

	switch (position) {
	case 0:
		return PT_REGS_PARM1(ctx);
	case 1:
		return PT_REGS_PARM2(ctx);
	case 2:
		return PT_REGS_PARM3(ctx);
	case 3:
		return PT_REGS_PARM4(ctx);
	case 4:
		return PT_REGS_PARM5(ctx);
	case 5:
#if defined(__TARGET_ARCH_x86)
		return ctx->r9;
#else
		return PT_REGS_PARM5(ctx);
#endif
	default:
		if (position < 0)
			return 0;
		/* On the stack, above the return address (x86-64 System V). */
		bpf_probe_read_user(&value, sizeof(value),
			(void *)(PT_REGS_SP(ctx) + 8 + 8 * (__u64)(position - 6)));
		return value;
	}
}

static __always_inline __u64 next_sequence(__u32 pid, __u64 handle, __u32 creations)
{
	struct handle_key key = {.handle = handle, .pid = pid, .creations = creations};
	__u64 one = 1, value = 0, *counter = bpf_map_lookup_elem(&sequences, &key);

	if (counter)
		return __sync_fetch_and_add(counter, 1);
	bpf_map_update_elem(&sequences, &key, &one, BPF_ANY);
	return value;
}

/* Moves the fault counts since the last boundary into `now`. */
static __always_inline void count_faults(struct thread_state *thread, struct task_struct *task)
{
	__u64 minor = BPF_CORE_READ(task, min_flt), major = BPF_CORE_READ(task, maj_flt);

	if (thread->minor_base | thread->major_base) {
		thread->now.minor_faults += minor - thread->minor_base;
		thread->now.major_faults += major - thread->major_base;
	}
	thread->minor_base = minor;
	thread->major_base = major;
}

static __always_inline __u64 less(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

static __always_inline void fill_others(struct event_activity *out,
	const struct event_activity *process, const struct event_activity *own)
{
	out->preempted_ns = less(process->preempted_ns, own->preempted_ns);
	out->throttled_ns = less(process->throttled_ns, own->throttled_ns);
	out->block_io_ns = less(process->block_io_ns, own->block_io_ns);
	out->asleep_ns = less(process->asleep_ns, own->asleep_ns);
	out->major_fault_ns = less(process->major_fault_ns, own->major_fault_ns);
	out->minor_fault_ns = less(process->minor_fault_ns, own->minor_fault_ns);
	out->comm_call_ns = 0;
	out->major_faults = 0;
	out->minor_faults = 0;
}

static __always_inline void emit_collective(struct thread_state *thread,
	struct event_activity *process, const struct event_activity *before,
	const struct event_activity *inside, __u64 departure_ns)
{
	struct event_collective *event = event_reserve(sizeof(*event));

	if (!event)
		return;
	fill_header(&event->header, EVENT_COLLECTIVE, sizeof(*event));
	event->arrival_ns = thread->entry_ns;
	event->departure_ns = departure_ns;
	event->handle = thread->arguments[RANK_ARGUMENT_COMMUNICATOR];
	event->sequence = thread->sequence;
	event->count = thread->arguments[RANK_ARGUMENT_COUNT];
	event->datatype = thread->arguments[RANK_ARGUMENT_DATATYPE];
	event->stream = thread->arguments[RANK_ARGUMENT_STREAM];
	event->root = (__s32)thread->arguments[RANK_ARGUMENT_ROOT];
	event->row = thread->row;
	event->flags = 0;
	event->before = *before;
	event->inside = *inside;
	fill_others(&event->others, process, &thread->total);
	event_submit(event);
}

static __always_inline void emit_marker(struct pt_regs *ctx, const volatile struct rank_row *row)
{
	struct event_marker *event;
	char text[32] = "";
	__u64 step = 0;
	bool from_nvtx = row->action == RANK_ACTION_NVTX_PUSH;

	if (from_nvtx) {
		/* ProfilerStep#N */
		static const char prefix[] = "ProfilerStep#";

		if (bpf_probe_read_user_str(text, sizeof(text), (void *)argument(ctx, 0)) < 14)
			return;
		for (int i = 0; i < 13; i++) {
			if (text[i] != prefix[i])
				return;
		}
		for (int i = 13; i < 31; i++) {
			if (text[i] < '0' || text[i] > '9')
				break;
			step = step * 10 + (__u64)(text[i] - '0');
		}
	} else {
		step = argument(ctx, 0);
	}
	event = event_reserve(sizeof(*event));
	if (!event)
		return;
	fill_header(&event->header, EVENT_MARKER, sizeof(*event));
	event->step = step;
	event->action = row->action == RANK_ACTION_MARK_END ? EVENT_MARKER_STEP_END
							    : EVENT_MARKER_STEP_BEGIN;
	event->from_nvtx = from_nvtx;
	event_submit(event);
}

static __always_inline void take_arguments(
	struct pt_regs *ctx, struct thread_state *thread, const volatile struct rank_row *row)
{
#pragma unroll
	for (int i = 0; i < RANK_ARGUMENT_NR; i++)
		thread->arguments[i] = argument(ctx, row->position[i]);
	if (row->position[RANK_ARGUMENT_ROOT] < 0)
		thread->arguments[RANK_ARGUMENT_ROOT] = (__u64)-1;
	/* What is freed must be read now: MPI_Comm_free clears it. */
	if (row->action == RANK_ACTION_FREE && row->free_by_pointer)
		bpf_probe_read_user(&thread->arguments[RANK_ARGUMENT_COMMUNICATOR], sizeof(__u64),
			(void *)thread->arguments[RANK_ARGUMENT_RESULT]);
}

SEC("uprobe")
int on_call(struct pt_regs *ctx)
{
	__u64 number = bpf_get_attach_cookie(ctx);
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *task = bpf_get_current_task_btf();
	struct event_activity *process, nothing = {};
	const volatile struct rank_row *row;
	struct thread_state *thread;

	if (paused || number >= RANK_ROWS_MAX)
		return 0;
	process = tracked(pid);
	if (!process)
		return 0;
	row = &rank_rows[number];
	if (row->kind == RANK_ROW_MARKER) {
		emit_marker(ctx, row);
		return 0;
	}
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	/* An outer call is open, and this one lies deeper on the stack: the outer one counts. */
	if (thread->depth && PT_REGS_SP(ctx) < thread->entry_stack)
		return 0;
	count_faults(thread, task);
	thread->row = number;
	thread->entry_ns = bpf_ktime_get_ns();
	thread->entry_stack = PT_REGS_SP(ctx);
	take_arguments(ctx, thread, row);
	if (row->kind == RANK_ROW_COLLECTIVE || row->kind == RANK_ROW_COMMUNICATOR)
		thread->sequence = next_sequence(pid, thread->arguments[RANK_ARGUMENT_COMMUNICATOR],
			row->kind == RANK_ROW_COMMUNICATOR);
	if (!row->blocking) {
		struct event_activity before = thread->now;

		thread->now = nothing;
		emit_collective(thread, process, &before, &nothing, thread->entry_ns);
		return 0;
	}
	thread->depth = 1;
	thread->saved = thread->now;
	thread->now = nothing;
	return 0;
}

static __always_inline void emit_communicator(
	struct pt_regs *ctx, struct thread_state *thread, const volatile struct rank_row *row)
{
	struct event_communicator *event = event_reserve(sizeof(*event));
	__u64 result = thread->arguments[RANK_ARGUMENT_RESULT];
	struct handle_key key = {.pid = bpf_get_current_pid_tgid() >> 32};

	if (!event)
		return;
	fill_header(&event->header, EVENT_COMMUNICATOR, sizeof(*event));
	event->parent = thread->arguments[RANK_ARGUMENT_COMMUNICATOR];
	event->handle = 0;
	event->color = (__s32)thread->arguments[RANK_ARGUMENT_COLOR];
	event->key = (__s32)thread->arguments[RANK_ARGUMENT_KEY];
	event->rank = -1;
	event->rank_count = -1;
	event->row = thread->row;
	event->destroyed = row->action == RANK_ACTION_FREE;
	event->unique_id_valid = 0;
	event->group = 0;
	event->sequence = thread->sequence;
	__builtin_memset(event->unique_id, 0, sizeof(event->unique_id));
	if (row->action == RANK_ACTION_CREATE_UNIQUE_ID) {
		event->rank = (__s32)thread->arguments[RANK_ARGUMENT_KEY];
		event->rank_count = (__s32)thread->arguments[RANK_ARGUMENT_COUNT];
		/* The id was passed by value: it starts where stack arguments start. */
		event->unique_id_valid = !bpf_probe_read_user(event->unique_id,
			sizeof(event->unique_id), (void *)(thread->entry_stack + 8));
		event->parent = 0;
	}
	if (event->destroyed) {
		/* The handle was read at entry: it is gone by now. */
		event->handle = thread->arguments[RANK_ARGUMENT_COMMUNICATOR];
		key.handle = event->handle;
		bpf_map_delete_elem(&sequences, &key);
		key.creations = 1;
		bpf_map_delete_elem(&sequences, &key);
	} else if (result) {
		bpf_probe_read_user(&event->handle, sizeof(event->handle), (void *)result);
		/* A new communicator at an old address counts from 0 again. */
		key.handle = event->handle;
		bpf_map_delete_elem(&sequences, &key);
	}
	event_submit(event);
}

static __always_inline void emit_rank(struct thread_state *thread, bool is_size)
{
	__u64 result = thread->arguments[RANK_ARGUMENT_RESULT];
	struct event_rank *event = event_reserve(sizeof(*event));

	if (!event)
		return;
	fill_header(&event->header, EVENT_RANK, sizeof(*event));
	event->handle = thread->arguments[RANK_ARGUMENT_COMMUNICATOR];
	event->value = -1;
	event->is_size = is_size;
	bpf_probe_read_user(&event->value, sizeof(event->value), (void *)result);
	event_submit(event);
}

SEC("uretprobe")
int on_return(struct pt_regs *ctx)
{
	__u64 number = bpf_get_attach_cookie(ctx);
	struct task_struct *task = bpf_get_current_task_btf();
	struct event_activity *process, nothing = {}, inside;
	const volatile struct rank_row *row;
	struct thread_state *thread;
	__u64 now;

	if (number >= RANK_ROWS_MAX)
		return 0;
	process = tracked(bpf_get_current_pid_tgid() >> 32);
	if (!process)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	/* Nested calls return here too; only the open one counts. After return the stack pointer
	 * stands one slot above where it was at entry. */
	if (!thread || !thread->depth || thread->row != number ||
		PT_REGS_SP(ctx) != thread->entry_stack + RANK_RETURN_SLOT_BYTES)
		return 0;
	now = bpf_ktime_get_ns();
	thread->depth = 0;
	row = &rank_rows[number];
	count_faults(thread, task);
	inside = thread->now;
	if (row->kind == RANK_ROW_COLLECTIVE) {
		struct event_activity before = thread->saved;

		thread->now = nothing;
		if (!paused)
			emit_collective(thread, process, &before, &inside, now);
		return 0;
	}
	thread->now = thread->saved;
	thread->now.comm_call_ns += now - thread->entry_ns;
	if (row->kind == RANK_ROW_COMMUNICATOR)
		emit_communicator(ctx, thread, row);
	else if (row->kind == RANK_ROW_RANK)
		emit_rank(thread, row->action == RANK_ACTION_SIZE);
	return 0;
}

/* ---- the process tree ---- */

static __always_inline void emit_process(__u32 pid, __u32 parent, __u32 action, __s32 code)
{
	struct event_process *event = event_reserve(sizeof(*event));

	if (!event)
		return;
	fill_header(&event->header, EVENT_PROCESS, sizeof(*event));
	event->header.pid = pid;
	event->header.tid = pid;
	event->parent_pid = parent;
	event->action = action;
	event->exit_code = code;
	event->reserved = 0;
	event_submit(event);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 pid = child->tgid;
	struct event_activity nothing = {};

	if (child->pid != child->tgid || !tracked(parent->tgid))
		return 0;
	if (bpf_map_update_elem(&processes, &pid, &nothing, BPF_ANY))
		__sync_fetch_and_add(&dropped, 1);
	emit_process(pid, parent->tgid, EVENT_PROCESS_FORK, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	if (tracked(task->tgid))
		emit_process(task->tgid, 0, EVENT_PROCESS_EXEC, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 pid = task->tgid;
	int code = task->exit_code;

	if (task->pid != task->tgid || !tracked(pid))
		return 0;
	bpf_map_delete_elem(&processes, &pid);
	emit_process(pid, 0, EVENT_PROCESS_EXIT, code & 0x7f ? 128 + (code & 0x7f) : code >> 8);
	return 0;
}
