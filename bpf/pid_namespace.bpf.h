/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * Numbers of processes as slowrank sees them. In the initial pid namespace these are the kernel's
 * own; in a container with a namespace of its own, records carry the numbers of that namespace,
 * and processes to follow are found by an iterator over all tasks. The kernel side itself always
 * goes by the kernel's numbers.
 */
#ifndef SLOWRANK_BPF_PID_NAMESPACE_BPF_H
#define SLOWRANK_BPF_PID_NAMESPACE_BPF_H

#include "kernel_compat.bpf.h"

/* How deep slowrank's namespace lies; 0 = the initial one. Set by the iterator's first run. */
__u32 namespace_level;

static __always_inline bool read_number(struct task_struct *task, __u32 level, struct upid *number)
{
	/* A plain number: older kernels (6.1) refuse to add to a pointer they know the type of. */
	struct pid *numbers = BPF_CORE_READ(task, thread_pid);
	void *at;

	if (!numbers || BPF_CORE_READ(numbers, level) < level)
		return false;
	at = (void *)numbers + bpf_core_field_offset(struct pid, numbers) +
	     level * bpf_core_type_size(struct upid);
	number->nr = 0;
	number->ns = 0;
	bpf_probe_read_kernel(
		&number->nr, sizeof(number->nr), at + bpf_core_field_offset(struct upid, nr));
	bpf_probe_read_kernel(
		&number->ns, sizeof(number->ns), at + bpf_core_field_offset(struct upid, ns));
	return true;
}

/* The thread's number; 0 when slowrank cannot see it. */
static __always_inline __u32 visible_tid(struct task_struct *task)
{
	struct upid number;

	if (!namespace_level)
		return task->pid;
	return read_number(task, namespace_level, &number) ? (__u32)number.nr : 0;
}

/* The number of its process. */
static __always_inline __u32 visible_pid(struct task_struct *task)
{
	return namespace_level ? visible_tid(task->group_leader) : (__u32)task->tgid;
}

#endif
