/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_frame.h"

#include <stdbool.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

enum { SYSCALL_BYTES = 2 }; /* of the instruction */

uint64_t load_frame_address(const struct user_regs_struct *registers)
{
	return registers->rsp - LOAD_RED_ZONE_BYTES - sizeof(struct load_frame);
}

/* The kernel's arch_do_signal_or_restart(), of a thread without a signal to handle. */
static void begin_again(const struct user_regs_struct *registers, struct load_frame *frame)
{
	int64_t result = (int64_t)registers->rax;

	if ((int64_t)registers->orig_rax < 0)
		return;
	if (result == -LOAD_RESTART_SYS || result == -LOAD_RESTART_NOINTR ||
		result == -LOAD_RESTART_NOHAND)
		frame->rax = registers->orig_rax;
	else if (result == -LOAD_RESTART_BLOCK)
		frame->rax = SYS_restart_syscall;
	else
		return;
	frame->rip -= SYSCALL_BYTES;
}

void load_frame_fill(
	const struct user_regs_struct *registers, uint64_t signal_mask, struct load_frame *frame)
{
	*frame = (struct load_frame){
		.signal_mask = signal_mask,
		.r15 = registers->r15,
		.r14 = registers->r14,
		.r13 = registers->r13,
		.r12 = registers->r12,
		.rbp = registers->rbp,
		.rbx = registers->rbx,
		.r11 = registers->r11,
		.r10 = registers->r10,
		.r9 = registers->r9,
		.r8 = registers->r8,
		.rcx = registers->rcx,
		.rdx = registers->rdx,
		.rsi = registers->rsi,
		.rdi = registers->rdi,
		.rax = registers->rax,
		.flags = registers->eflags,
		.rip = registers->rip,
	};
	begin_again(registers, frame);
}

#endif
