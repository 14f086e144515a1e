/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/* What the kernel side tells of a thread that is looked at (probe/stacks/threads.h). */
#ifndef SLOWRANK_BPF_STACKS_SHARED_H
#define SLOWRANK_BPF_STACKS_SHARED_H

#include "bpf/event_layout.h"

enum {
	STACK_REGISTERS = 17, /* by DWARF's numbers for x86-64; 16 is the instruction pointer */
	STACK_ARGUMENTS = 6,
	STACK_NAME_LENGTH = 16,
	STACK_KERNEL_FRAMES = 24,
	STACK_TASK_UNINTERRUPTIBLE = 2, /* include/linux/sched.h */
};

struct stack_thread_record {
	event_u64 switches;		      /* off the CPU so far */
	event_u64 registers[STACK_REGISTERS]; /* as of its last entry into the kernel */
	event_u64 arguments[STACK_ARGUMENTS];
	event_u64 call; /* the system call's number; all ones = in none */
	event_u32 tid;
	event_u32 inner_tid; /* as the thread itself sees it: in a container another one */
	event_u32 state;     /* TASK_... of the kernel; 0 = runnable */
	event_u32 reserved;
	event_u32 on_cpu;    /* it runs right now */
	event_u32 displaced; /* it could run, on the CPU that the reader is on */
	char name[STACK_NAME_LENGTH];
};

#endif
