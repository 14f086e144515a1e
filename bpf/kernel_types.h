/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * The kernel types that the programs read, declared with only the fields they touch. CO-RE finds
 * the real offsets when a program is loaded, so one build runs on many kernels.
 */
#ifndef SLOWRANK_BPF_KERNEL_TYPES_H
#define SLOWRANK_BPF_KERNEL_TYPES_H

/* libbpf then takes the kernel's own register names. */
#define __VMLINUX_H__

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#define CORE __attribute__((preserve_access_index))

typedef int pid_t;

struct cfs_rq {
	int throttled;
	int throttle_count;
	unsigned long long throttled_clock_self_time; /* since 6.6 */
} CORE;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} CORE;

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
} CORE;

typedef struct {
	int counter;
} CORE atomic_t;

struct signal_struct {
	atomic_t live;
	int group_exit_code;
} CORE;

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip;
	unsigned long cs, flags, sp, ss;
} CORE;
#else
struct user_pt_regs {
	unsigned long long regs[31];
	unsigned long long sp, pc, pstate;
} CORE;
struct pt_regs {
	unsigned long long regs[31];
	unsigned long long sp, pc, pstate, orig_x0;
	int syscallno;
} CORE;
#endif

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
} CORE;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} CORE;

struct task_struct {
	unsigned int __state;
	pid_t pid;
	pid_t tgid;
	unsigned int flags;
	unsigned in_iowait : 1;
	unsigned int ptrace;
	struct task_struct *parent;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct pid *thread_pid;
	unsigned long min_flt;
	unsigned long maj_flt;
	int exit_code;
	char comm[16];
} CORE;

struct bpf_iter__task {
	struct task_struct *task;
} CORE;

/* Linux 6.18 throttles task by task. */
struct task_struct___throttled {
	bool throttled;
} CORE;

/* Before 5.14. */
struct task_struct___old_state {
	long state;
} CORE;

#endif
