/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/* Follows tracked processes: children inherit, ended ones are removed. */
#ifndef SLOWRANK_BPF_PROCESS_TREE_BPF_H
#define SLOWRANK_BPF_PROCESS_TREE_BPF_H

#include "state.bpf.h"

/* Numbers the programs that tracked processes run; the probe starts at 1 << 31. */
__u32 last_incarnation;

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
	event_submit(event, sizeof(*event));
}

/* Before the child runs. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct rank_process_state fresh = {};
	__u32 pid = child->tgid;

	if (child->pid != child->tgid || !tracked(parent->tgid))
		return 0;
	fresh.incarnation = __sync_fetch_and_add(&last_incarnation, 1);
	if (bpf_map_update_elem(&processes, &pid, &fresh, BPF_ANY))
		__sync_fetch_and_add(&dropped, 1);
	emit_process(visible_pid(child), visible_pid(parent), EVENT_PROCESS_FORK, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	struct rank_process_state *process = tracked(task->tgid);
	struct thread_state *thread;

	if (!process)
		return 0;
	process->incarnation = __sync_fetch_and_add(&last_incarnation, 1);
	/* The calls and ranges that were open went with the old program. */
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (thread) {
		thread->open = 0;
		thread->range_depth = 0;
		thread->range_step_depth = 0;
	}
	emit_process(visible_pid(task), 0, EVENT_PROCESS_EXEC, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 pid = task->tgid;
	int code;

	if (!tracked(pid) || !task_ends_process(task))
		return 0;
	bpf_map_delete_elem(&processes, &pid);
	code = task->signal->group_exit_code;
	if (!code)
		code = task->group_leader->exit_code;
	emit_process(visible_pid(task), 0, EVENT_PROCESS_EXIT,
		code & 0x7f ? 128 + (code & 0x7f) : code >> 8);
	return 0;
}

/* What the iterator looks for, in slowrank's namespace, and whether it found it. */
__u32 wanted_pid;
__u32 wanted_found;

SEC("iter/task")
int follow_wanted(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task, *reader = bpf_get_current_task_btf();
	struct rank_process_state fresh = {};
	struct upid own, number;
	__u32 pid;

	if (!task)
		return 0;
	namespace_level = reader->thread_pid->level;
	if (task->pid != task->tgid || !read_number(reader, namespace_level, &own) ||
		!read_number(task, namespace_level, &number) || number.ns != own.ns ||
		(__u32)number.nr != wanted_pid)
		return 0;
	pid = task->tgid;
	fresh.incarnation = __sync_fetch_and_add(&last_incarnation, 1);
	/* Already followed: what was counted so far stands. */
	bpf_map_update_elem(&processes, &pid, &fresh, BPF_NOEXIST);
	wanted_found = 1;
	return 0;
}

#endif
