/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * The library calls of the table: one program at entry, one at return, for all rows; the
 * attachment's cookie is the row. Only the outermost call of a thread counts: libraries call
 * themselves (collectives built from sends, PMPI from MPI), deeper on the stack.
 *
 * Seen on a 2-core VM (kernel 6.18, uprobe_multi, first instruction a push), CPU time of a call
 * that itself takes 4 ns: entry and return hooked 1,350 ns in a process that is not followed;
 * followed, 1,570 ns for a point-to-point call and 1,720 ns for a collective with its record.
 * Entry only: 790 and 1,150 ns. So the traps cost four times what the programs do.
 */
#ifndef SLOWRANK_BPF_CALLS_BPF_H
#define SLOWRANK_BPF_CALLS_BPF_H

#include "launches.bpf.h"
#include "markers.bpf.h"
#include "off_cpu.bpf.h"
#include "state.bpf.h"

static __always_inline __u64 next_sequence(__u64 handle, __u32 incarnation, __u32 use)
{
	struct handle_key key = {.handle = handle, .incarnation = incarnation, .use = use};
	__u64 one = 1, *counter = bpf_map_lookup_elem(&handles, &key);

	if (counter)
		return __sync_fetch_and_add(counter, 1);
	if (bpf_map_update_elem(&handles, &key, &one, BPF_ANY))
		__sync_fetch_and_add(&dropped, 1);
	return 0;
}

/* What is remembered of a handle ends with it: its next owner counts from 0. */
static __always_inline void forget_handle(__u64 handle, __u32 incarnation)
{
	for (__u32 use = 0; use < HANDLE_USE_NR; use++) {
		struct handle_key key = {.handle = handle, .incarnation = incarnation, .use = use};

		bpf_map_delete_elem(&handles, &key);
	}
}

/* How many communicators all members of the parent had made from it before. */
static __always_inline __u64 creation_number(const struct thread_state *thread,
	const struct rank_process_state *process, const volatile struct rank_row *row)
{
	if (row->by_group && row->action != RANK_ACTION_CREATE_BY_GROUP)
		return 0; /* some members alone call it */
	return next_sequence(thread->arguments[RANK_ARGUMENT_COMMUNICATOR], process->incarnation,
		HANDLE_CREATIONS);
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
	out->comm_call_ns = less(process->comm_call_ns, own->comm_call_ns);
	out->device_wait_ns = less(process->device_wait_ns, own->device_wait_ns);
	out->collector_ns = less(process->collector_ns, own->collector_ns);
	out->major_faults = process->major_faults - own->major_faults;
	out->minor_faults = process->minor_faults - own->minor_faults;
}

/* What the launchers did since it was told last; time_ns: of the call that tells it. */
static __always_inline void take_host(
	struct event_activity *out, struct rank_process_state *process, __u64 time_ns)
{
	fill_others(out, &process->host, &process->told);
	process->told = process->host;
	process->told_ns = time_ns;
}

static __always_inline void emit_collective(struct thread_state *thread,
	struct rank_process_state *process, const struct event_activity *before,
	const struct event_activity *inside, __u64 departure_ns, __u16 flags)
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
	event->flags = flags;
	event->before = *before;
	if (inside)
		event->inside = *inside;
	else
		__builtin_memset(&event->inside, 0, sizeof(event->inside));
	fill_others(&event->others, &process->total, &thread->total);
	fill_launches(&event->launches, process);
	event_submit(event, sizeof(*event));
}

/* Between the calls of a group lie some microseconds: one of them tells for all. */
enum { ENQUEUE_TOLD_NS = 100000 };

/*
 * A call that enqueued work, and is told in no other way, has returned. What held it up has held up what it launched: so
 * it is told as of its begin.
 */
static __always_inline void emit_enqueue(
	struct thread_state *thread, struct rank_process_state *process, __u64 now)
{
	struct event_enqueue *event;

	if (now - process->told_ns < ENQUEUE_TOLD_NS)
		return;
	event = event_reserve(sizeof(*event));
	if (!event)
		return;
	fill_header(&event->header, EVENT_ENQUEUE, sizeof(*event));
	event->header.time_ns = thread->entry_ns;
	take_host(&event->before, process, now);
	fill_others(&event->others, &process->total, &thread->total);
	event_submit(event, sizeof(*event));
}

static __always_inline bool is_message(const volatile struct rank_row *row)
{
	return row->action == RANK_ACTION_SEND || row->action == RANK_ACTION_RECEIVE;
}

/* A send or a receive has returned: told like a collective, as of its begin, and counted for its peer. */
static __always_inline void emit_message(struct thread_state *thread,
	struct rank_process_state *process, const volatile struct rank_row *row, __u64 now)
{
	__u32 peer = (__u32)thread->arguments[RANK_ARGUMENT_ROOT];
	struct event_activity before = {};

	take_host(&before, process, now);
	thread->sequence =
		next_sequence(thread->arguments[RANK_ARGUMENT_COMMUNICATOR], process->incarnation,
			HANDLE_MESSAGES + 2 * peer + (row->action == RANK_ACTION_RECEIVE));
	emit_collective(thread, process, &before, NULL, thread->entry_ns, 0);
}

static __always_inline bool is_free(const volatile struct rank_row *row)
{
	return row->action == RANK_ACTION_FREE || row->action == RANK_ACTION_GROUP_FREE;
}

static __always_inline void take_arguments(
	struct pt_regs *ctx, struct thread_state *thread, const volatile struct rank_row *row)
{
#pragma unroll
	for (int i = 0; i < RANK_ARGUMENT_NR; i++)
		thread->arguments[i] = call_argument(ctx, row->position[i]);
	/* int arguments: the upper halves of their registers are not defined. */
	thread->arguments[RANK_ARGUMENT_ROOT] =
		row->position[RANK_ARGUMENT_ROOT] < 0
			? (__u64)-1
			: (__u64)(__u32)thread->arguments[RANK_ARGUMENT_ROOT];
	if (row->int_count)
		thread->arguments[RANK_ARGUMENT_COUNT] =
			(__u32)thread->arguments[RANK_ARGUMENT_COUNT];
	if (thread->handle_bytes == 4)
		thread->arguments[RANK_ARGUMENT_COMMUNICATOR] =
			(__u32)thread->arguments[RANK_ARGUMENT_COMMUNICATOR];
	/* What is freed must be read now: MPI_Comm_free clears it. */
	if (row->by_pointer && is_free(row))
		bpf_probe_read_user(&thread->arguments[RANK_ARGUMENT_COMMUNICATOR],
			thread->handle_bytes == 4 ? 4 : 8,
			(void *)thread->arguments[RANK_ARGUMENT_RESULT]);
}

/*
 * Communicators are made and freed within other calls too (attribute callbacks): these inner
 * calls are told, though their time is the outer call's. Deeper ones are not.
 */
static __always_inline void open_nested(
	struct thread_state *thread, __u64 stack, __u64 number, __u32 handle_bytes)
{
	thread->outer_stack = thread->entry_stack;
	thread->outer_sequence = thread->sequence;
	thread->outer_row = thread->row;
	thread->outer_handle_bytes = thread->handle_bytes;
	__builtin_memcpy(
		thread->outer_arguments, thread->arguments, sizeof(thread->outer_arguments));
	thread->open = CALL_NESTED;
	thread->entry_stack = stack;
	thread->row = number;
	thread->handle_bytes = handle_bytes;
}

static __always_inline void close_nested(struct thread_state *thread)
{
	thread->entry_stack = thread->outer_stack;
	thread->sequence = thread->outer_sequence;
	thread->row = thread->outer_row;
	thread->handle_bytes = thread->outer_handle_bytes;
	__builtin_memcpy(thread->arguments, thread->outer_arguments, sizeof(thread->arguments));
	thread->open = CALL_OPEN;
}

/* The return of the open call was not seen: an exception or longjmp() left it. */
static __always_inline void close_lost_call(
	struct thread_state *thread, struct rank_process_state *process)
{
	struct event_activity nothing = {};

	thread->open = 0;
	if (thread->row >= RANK_ROWS_MAX)
		return;
	if (row_of(thread->row)->kind == RANK_ROW_COLLECTIVE) {
		emit_collective(thread, process, &thread->saved, 0, thread->entry_ns,
			EVENT_COLLECTIVE_NO_RETURN);
		thread->now = nothing;
	}
}

static __always_inline void enter_nested(struct pt_regs *ctx, __u64 stack,
	struct thread_state *thread, const struct rank_process_state *process,
	const volatile struct rank_row *row, __u64 cookie)
{
	open_nested(thread, stack, cookie & RANK_COOKIE_ROW_MASK,
		cookie & RANK_COOKIE_INT_HANDLES ? 4 : 8);
	take_arguments(ctx, thread, row);
	thread->sequence = creation_number(thread, process, row);
}

/* Read once: the verifier takes no address of a register that was computed. */
static __always_inline __u64 stack_pointer(struct pt_regs *ctx)
{
	__u64 stack = PT_REGS_SP(ctx);

	barrier_var(stack);
	return stack;
}

/* A garbage collection holds up all threads of the program, whichever runs it. */
static __always_inline void take_collector(struct thread_state *thread,
	struct rank_process_state *process, const volatile struct rank_row *row)
{
	__u64 now = bpf_ktime_get_ns(), length = now - thread->collector_start;

	if (row->action == RANK_ACTION_MARK_BEGIN) {
		thread->collector_start = now;
		return;
	}
	if (!thread->collector_start)
		return;
	thread->collector_start = 0;
	thread->now.collector_ns += length;
	thread->total.collector_ns += length;
	__sync_fetch_and_add(&process->total.collector_ns, length);
	__sync_fetch_and_add(&process->host.collector_ns, length);
}

SEC("uprobe")
int on_call(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), number = cookie & RANK_COOKIE_ROW_MASK;
	__u64 stack = stack_pointer(ctx);
	struct task_struct *task = bpf_get_current_task_btf();
	const volatile struct rank_row *row;
	struct rank_process_state *process;
	struct event_activity nothing = {};
	struct thread_state *thread;

	if (paused || number >= RANK_ROWS_MAX)
		return 0;
	process = tracked(bpf_get_current_pid_tgid() >> 32);
	if (!process)
		return 0;
	row = row_of(number);
	thread = thread_of(task, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		__sync_fetch_and_add(&dropped, 1);
		return 0;
	}
	if (row->kind == RANK_ROW_MARKER) {
		take_marker(ctx, thread, row);
		return 0;
	}
	if (row->kind == RANK_ROW_COLLECTOR) {
		take_collector(thread, process, row);
		return 0;
	}
	if (thread->open == CALL_NESTED && stack >= thread->entry_stack)
		close_nested(thread); /* its return was not seen */
	if (thread->open) {
		/* Deeper on the stack: the outer call counts. */
		if (stack < thread->entry_stack) {
			if (thread->open == CALL_OPEN && row->kind == RANK_ROW_COMMUNICATOR)
				enter_nested(ctx, stack, thread, process, row, cookie);
			return 0;
		}
		close_lost_call(thread, process);
	}
	settle(thread, process, task);
	count_faults(thread, process, task);
	thread->row = number;
	thread->handle_bytes = cookie & RANK_COOKIE_INT_HANDLES ? 4 : 8;
	thread->entry_ns = bpf_ktime_get_ns();
	thread->entry_stack = stack;
	take_arguments(ctx, thread, row);
	if (row->kind == RANK_ROW_COLLECTIVE)
		thread->sequence = next_sequence(thread->arguments[RANK_ARGUMENT_COMMUNICATOR],
			process->incarnation, HANDLE_CALLS);
	else if (row->kind == RANK_ROW_COMMUNICATOR)
		thread->sequence = creation_number(thread, process, row);
	if (row->device || row->kind == RANK_ROW_DEVICE_WAIT)
		mark_launcher(thread, process);
	if (!row->blocking) {
		if (row->device) {
			note_enqueue(
				process, thread->entry_ns, thread->arguments[RANK_ARGUMENT_STREAM]);
			take_host(&thread->now, process, thread->entry_ns);
		}
		emit_collective(thread, process, &thread->now, 0, thread->entry_ns, 0);
		thread->now = nothing;
		return 0;
	}
	thread->open = CALL_OPEN;
	thread->kept_ns = 0;
	thread->saved = thread->now;
	thread->now = nothing;
	return 0;
}

/*
 * FNV-1a over ints of the program's memory; 0 when they are too many or cannot be read. A function
 * of its own, so that the verifier looks at its loop once.
 */
__noinline __u64 list_digest(__u64 from, __u32 count)
{
	__u64 digest = 14695981039346656037ull;

	if (count > EVENT_LIST_MAX)
		return 0;
	for (__u32 i = 0; i < EVENT_LIST_MAX; i++) {
		__u32 number = 0;

		if (i >= count)
			break;
		if (bpf_probe_read_user(&number, sizeof(number), (void *)(from + 4 * (__u64)i)))
			return 0;
		digest = (digest ^ number) * 1099511628211ull;
	}
	return digest ? digest : 1;
}

static __always_inline void read_list(struct event_communicator *event,
	const struct thread_state *thread, const volatile struct rank_row *row)
{
	struct event_list *list = &event->list;
	__u64 from = thread->arguments[RANK_ARGUMENT_KEY];
	__u32 count = (__u32)thread->arguments[RANK_ARGUMENT_COUNT];

	list->count = count;
	list->digest = count > EVENT_LIST_MAX ? 0 : list_digest(from, count * row->list_ints);
#pragma unroll
	for (__u32 i = 0; i < EVENT_LIST_NUMBERS; i++) {
		if (list->number_count == i &&
			!bpf_probe_read_user(&list->numbers[i], sizeof(list->numbers[i]),
				(void *)(from + sizeof(list->numbers[i]) * i)))
			list->number_count = i + 1;
	}
}

static __always_inline __u64 group_argument(const struct thread_state *thread, int argument)
{
	__u64 handle = thread->arguments[argument];

	return thread->handle_bytes == 4 ? (__u32)handle : handle;
}

static __always_inline void read_unique_id(struct event_communicator *event,
	const struct thread_state *thread, const volatile struct rank_row *row)
{
	/* Passed by value, it starts where stack arguments start. */
	__u64 from = row->by_pointer ? thread->arguments[RANK_ARGUMENT_COLOR]
				     : thread->entry_stack + RANK_RETURN_SLOT_BYTES;

	event->parent = 0;
	event->color = 0;
	event->key = 0;
	event->rank = (__s32)thread->arguments[RANK_ARGUMENT_KEY];
	event->rank_count = (__s32)thread->arguments[RANK_ARGUMENT_COUNT];
	event->unique_id_valid =
		!bpf_probe_read_user(event->unique_id, sizeof(event->unique_id), (void *)from);
}

static __always_inline void emit_communicator(struct thread_state *thread,
	const struct rank_process_state *process, const volatile struct rank_row *row)
{
	struct event_communicator *event;
	__u64 result = thread->arguments[RANK_ARGUMENT_RESULT], handle = 0, group_call = 0;

	if (is_free(row))
		handle = thread->arguments[RANK_ARGUMENT_COMMUNICATOR];
	else if (result)
		bpf_probe_read_user(&handle, thread->handle_bytes == 4 ? 4 : 8, (void *)result);
	/* A new communicator at an old address counts from 0 again. */
	forget_handle(handle, process->incarnation);
	if (row->by_group)
		group_call = next_sequence(HANDLE_NONE, process->incarnation, HANDLE_GROUP_CALLS);
	event = event_reserve(sizeof(*event));
	if (!event)
		return;
	fill_header(&event->header, EVENT_COMMUNICATOR, sizeof(*event));
	event->parent = thread->arguments[RANK_ARGUMENT_COMMUNICATOR];
	event->handle = handle;
	event->sequence = thread->sequence;
	event->color = (__s32)thread->arguments[RANK_ARGUMENT_COLOR];
	event->key = (__s32)thread->arguments[RANK_ARGUMENT_KEY];
	event->rank = -1;
	event->rank_count = -1;
	event->row = thread->row;
	event->destroyed = is_free(row);
	event->unique_id_valid = 0;
	event->group = group_argument(thread, RANK_ARGUMENT_COLOR);
	event->other_group = group_argument(thread, RANK_ARGUMENT_KEY);
	event->group_call = group_call;
	__builtin_memset(event->unique_id, 0, sizeof(event->unique_id));
	if (row->list_ints)
		read_list(event, thread, row);
	if (row->action == RANK_ACTION_CREATE_UNIQUE_ID)
		read_unique_id(event, thread, row);
	event_submit(event, sizeof(*event));
}

/* Programs ask for their rank again and again: only news is told. */
static __always_inline void emit_rank(struct thread_state *thread,
	const struct rank_process_state *process, const volatile struct rank_row *row)
{
	bool is_size = row->action == RANK_ACTION_SIZE;
	struct handle_key key = {
		.handle = thread->arguments[RANK_ARGUMENT_COMMUNICATOR],
		.incarnation = process->incarnation,
		.use = is_size ? HANDLE_TOLD_SIZE : HANDLE_TOLD_RANK,
	};
	struct event_rank *event;
	__u64 told, *before = bpf_map_lookup_elem(&handles, &key);
	__s32 value = -1;

	bpf_probe_read_user(&value, sizeof(value), (void *)thread->arguments[RANK_ARGUMENT_RESULT]);
	told = 1 + (__u64)(__u32)value;
	if (before && *before == told)
		return;
	event = event_reserve(sizeof(*event));
	if (!event)
		return;
	bpf_map_update_elem(&handles, &key, &told, BPF_ANY);
	fill_header(&event->header, EVENT_RANK, sizeof(*event));
	event->handle = key.handle;
	event->value = value;
	event->is_size = is_size;
	event_submit(event, sizeof(*event));
}

SEC("uretprobe")
int on_return(struct pt_regs *ctx)
{
	__u64 number = bpf_get_attach_cookie(ctx) & RANK_COOKIE_ROW_MASK, now, length;
	__u64 stack = stack_pointer(ctx);
	struct task_struct *task = bpf_get_current_task_btf();
	const volatile struct rank_row *row;
	struct rank_process_state *process;
	struct event_activity nothing = {};
	struct thread_state *thread;

	if (paused || number >= RANK_ROWS_MAX)
		return 0;
	/* Nested calls return here too; only the open one counts. After return the stack pointer
	 * stands one slot above where it was at entry. */
	thread = thread_of(task, 0);
	if (!thread)
		return 0;
	if (thread->open == CALL_NESTED && stack > thread->entry_stack + RANK_RETURN_SLOT_BYTES)
		close_nested(thread); /* its return was not seen */
	if (!thread->open || thread->row != number ||
		stack != thread->entry_stack + RANK_RETURN_SLOT_BYTES)
		return 0;
	process = tracked(bpf_get_current_pid_tgid() >> 32);
	if (!process)
		return 0;
	now = bpf_ktime_get_ns();
	row = row_of(number);
	if (thread->open == CALL_NESTED) {
		emit_communicator(thread, process, row);
		close_nested(thread);
		return 0;
	}
	settle(thread, process, task);
	count_faults(thread, process, task);
	thread->open = 0;
	if (row->kind == RANK_ROW_COLLECTIVE) {
		emit_collective(thread, process, &thread->saved, &thread->now, now, 0);
		thread->now = nothing;
		return 0;
	}
	length = now - thread->entry_ns;
	thread->now = thread->saved;
	if (row->kind == RANK_ROW_DEVICE_WAIT) {
		thread->now.device_wait_ns += length;
		thread->total.device_wait_ns += length;
		__sync_fetch_and_add(&process->total.device_wait_ns, length);
		__sync_fetch_and_add(&process->host.device_wait_ns, length);
		take_device_wait(thread, process, row->action, now);
		return 0;
	}
	length -= take_hold(thread, task, now);
	thread->now.comm_call_ns += length;
	thread->total.comm_call_ns += length;
	__sync_fetch_and_add(&process->total.comm_call_ns, length);
	if (row->kind == RANK_ROW_COMMUNICATOR)
		emit_communicator(thread, process, row);
	else if (row->kind == RANK_ROW_RANK)
		emit_rank(thread, process, row);
	else if (messages_told && is_message(row))
		emit_message(thread, process, row, now);
	else if (row->device)
		emit_enqueue(thread, process, now);
	return 0;
}

#endif
