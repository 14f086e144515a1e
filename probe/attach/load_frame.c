/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_frame.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <ucontext.h>

/* Of the kernel's asm/sigcontext.h and asm/ucontext.h. */
enum {
	FLAG_XSTATE = 1, /* UC_FP_XSTATE */
	FLAG_SS = 2 | 4, /* UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
	SOFTWARE_WORD =
		464, /* struct _fpx_sw_bytes within the FXSAVE area; ptrace puts XCR0 there */
	LEGACY_BYTES = 512 + 64,
};
static const uint32_t magic_1 = 0x46505853, magic_2 = 0x46505845;
/* Dynamically enabled state (AMX) is larger than what the kernel takes from most threads. */
#define XSTATE_DYNAMIC (UINT64_C(3) << 17)

/* Results of an interrupted call that the kernel would begin again (linux/errno.h). */
enum { RESTART_SYS = 512, RESTART_NOINTR = 513, RESTART_NOHAND = 514, RESTART_BLOCK = 516 };

static size_t xstate_bytes_of(uint64_t components)
{
	size_t end = LEGACY_BYTES;

	for (unsigned i = 2; i < 63; i++) {
		unsigned bytes, offset, c, d;

		if (!(components & UINT64_C(1) << i) ||
			!__get_cpuid_count(0xd, i, &bytes, &offset, &c, &d))
			continue;
		if (offset + bytes > end)
			end = offset + bytes;
	}
	return end;
}

static void fill_xstate(const struct load_trace *trace, uint8_t *out, size_t capacity, bool *fits)
{
	struct {
		uint32_t magic, extended_bytes;
		uint64_t components;
		uint32_t bytes, padding[7];
	} software = {.magic = magic_1};
	uint64_t components;
	size_t bytes;

	memcpy(&components, trace->xstate + SOFTWARE_WORD, sizeof(components));
	components &= ~XSTATE_DYNAMIC;
	bytes = xstate_bytes_of(components);
	*fits = bytes <= trace->xstate_bytes && bytes + sizeof(magic_2) <= capacity;
	if (!*fits)
		return;
	software.components = components;
	software.bytes = (uint32_t)bytes;
	software.extended_bytes = (uint32_t)(bytes + sizeof(magic_2));
	memcpy(out, trace->xstate, bytes);
	memcpy(out + SOFTWARE_WORD, &software, sizeof(software));
	memcpy(out + bytes, &magic_2, sizeof(magic_2));
}

static void fill_registers(const struct user_regs_struct *from, greg_t *to)
{
	int64_t result = (int64_t)from->rax;

	to[REG_R8] = (greg_t)from->r8;
	to[REG_R9] = (greg_t)from->r9;
	to[REG_R10] = (greg_t)from->r10;
	to[REG_R11] = (greg_t)from->r11;
	to[REG_R12] = (greg_t)from->r12;
	to[REG_R13] = (greg_t)from->r13;
	to[REG_R14] = (greg_t)from->r14;
	to[REG_R15] = (greg_t)from->r15;
	to[REG_RDI] = (greg_t)from->rdi;
	to[REG_RSI] = (greg_t)from->rsi;
	to[REG_RBP] = (greg_t)from->rbp;
	to[REG_RBX] = (greg_t)from->rbx;
	to[REG_RDX] = (greg_t)from->rdx;
	to[REG_RAX] = (greg_t)from->rax;
	to[REG_RCX] = (greg_t)from->rcx;
	to[REG_RSP] = (greg_t)from->rsp;
	to[REG_RIP] = (greg_t)from->rip;
	to[REG_EFL] = (greg_t)from->eflags;
	to[REG_CSGSFS] = (greg_t)((from->cs & 0xffff) | (from->gs & 0xffff) << 16 |
				  (from->fs & 0xffff) << 32 | (from->ss & 0xffff) << 48);
	if ((int64_t)from->orig_rax < 0)
		return;
	if (result == -RESTART_SYS || result == -RESTART_NOINTR || result == -RESTART_NOHAND) {
		to[REG_RAX] = (greg_t)from->orig_rax;
		to[REG_RIP] -= 2;
	} else if (result == -RESTART_BLOCK) {
		to[REG_RAX] = -EINTR;
	}
}

int load_frame_fill(const struct load_trace *trace, uint64_t address, void *frame, size_t bytes,
	uint64_t *stack)
{
	const size_t at = (sizeof(ucontext_t) + 63) & ~(size_t)63;
	ucontext_t context;
	bool fits;

	memset(&context, 0, sizeof(context));
	context.uc_flags = FLAG_XSTATE | FLAG_SS;
	context.uc_stack.ss_flags = 7; /* not valid: the thread's own stays */
	fill_registers(&trace->registers, context.uc_mcontext.gregs);
	memcpy(&context.uc_sigmask, &trace->signal_mask, sizeof(trace->signal_mask));
	if (bytes < at)
		return -E2BIG;
	fill_xstate(trace, (uint8_t *)frame + at, bytes - at, &fits);
	if (!fits)
		return -E2BIG;
	uint64_t state = address + at;
	memcpy(&context.uc_mcontext.fpregs, &state, sizeof(state));
	memcpy(frame, &context, sizeof(context));
	*stack = address;
	return 0;
}

#endif
