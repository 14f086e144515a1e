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
} CORE;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} CORE;

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip;
	unsigned long cs, flags, sp, ss;
} CORE;
#endif

struct task_struct {
	unsigned int __state;
	pid_t pid;
	pid_t tgid;
	unsigned int flags;
	unsigned in_iowait : 1;
	struct sched_entity se;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	unsigned long min_flt;
	unsigned long maj_flt;
	int exit_code;
	char comm[16];
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
