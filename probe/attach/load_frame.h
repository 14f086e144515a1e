/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame by which a thread that was stopped puts its registers and its signal mask back alone, by
 * the code of load_gate (load_stub.h). It lies on the thread's own stack, below its red zone, where
 * a signal's frame would lie. An interrupted system call is begun again as the kernel begins it: no
 * rt_sigreturn(), after which a sleep could not go on. x86-64.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_FRAME_H
#define SLOWRANK_PROBE_ATTACH_LOAD_FRAME_H

#include <stdint.h>
#include <sys/user.h>

enum { LOAD_RED_ZONE_BYTES = 128 };

/* Results of an interrupted call that the kernel begins again (linux/errno.h). */
enum {
	LOAD_RESTART_SYS = 512,
	LOAD_RESTART_NOINTR = 513,
	LOAD_RESTART_NOHAND = 514,
	LOAD_RESTART_BLOCK = 516,
};

/* In the order in which they are popped; the last is returned to. */
struct load_frame {
	uint64_t signal_mask;
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rcx, rdx, rsi, rdi, rax;
	uint64_t flags, rip;
};

/* Where the frame lies of a thread with these registers. */
uint64_t load_frame_address(const struct user_regs_struct *registers);

void load_frame_fill(
	const struct user_regs_struct *registers, uint64_t signal_mask, struct load_frame *frame);

#endif
