/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/* The arguments of the function that a uprobe stands at. */
#ifndef SLOWRANK_BPF_CALL_ARGUMENTS_BPF_H
#define SLOWRANK_BPF_CALL_ARGUMENTS_BPF_H

#include "kernel_compat.bpf.h"

#include "bpf/ranks_shared.h"

#if defined(__TARGET_ARCH_x86)
enum { REGISTER_ARGUMENTS = 6 };
#else
enum { REGISTER_ARGUMENTS = 8 };
#endif

/* Integer and pointer arguments by position, from 0: System V on x86-64, AAPCS64 on arm64. */
static __always_inline __u64 call_argument(struct pt_regs *ctx, int position)
{
	__u64 value = 0;

	if (position < 0)
		return 0;
#if defined(__TARGET_ARCH_x86)
	switch (position) {
	case 0:
		return ctx->di;
	case 1:
		return ctx->si;
	case 2:
		return ctx->dx;
	case 3:
		return ctx->cx;
	case 4:
		return ctx->r8;
	case 5:
		return ctx->r9;
	}
#else
	struct user_pt_regs *registers = (struct user_pt_regs *)ctx;

	switch (position) {
	case 0:
		return registers->regs[0];
	case 1:
		return registers->regs[1];
	case 2:
		return registers->regs[2];
	case 3:
		return registers->regs[3];
	case 4:
		return registers->regs[4];
	case 5:
		return registers->regs[5];
	case 6:
		return registers->regs[6];
	case 7:
		return registers->regs[7];
	}
#endif
	/* On the stack, above the return address where there is one. */
	bpf_probe_read_user(&value, sizeof(value),
		(void *)(PT_REGS_SP(ctx) + RANK_RETURN_SLOT_BYTES +
			 8 * (__u64)(position - REGISTER_ARGUMENTS)));
	return value;
}

#endif
