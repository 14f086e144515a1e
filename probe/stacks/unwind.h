/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native frames of a thread from its registers and its memory: by the tables that compilers make for exceptions
 * (.eh_frame, found through .eh_frame_hdr), which lie in the process's own memory, and by frame pointers where code has
 * none. x86-64. What was found out of an address is kept. Allocates nothing after its begin; one thread.
 *
 * DWARF 5, section 6.4 (call frame information) and 2.5 (expressions); the Linux Standard Base, "Exception Frames"; the
 * System V ABI for x86-64, figure 3.36 (numbers of registers).
 */
#ifndef SLOWRANK_PROBE_STACKS_UNWIND_H
#define SLOWRANK_PROBE_STACKS_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/stacks/memory_view.h"
#include "probe/stacks/modules.h"

enum {
	UNWIND_RBX = 3,
	UNWIND_RBP = 6,
	UNWIND_RSP = 7,
	UNWIND_R12 = 12,
	UNWIND_RIP = 16,
	UNWIND_REGISTERS = 17,
};

struct unwind_registers {
	uint64_t values[UNWIND_REGISTERS];
	uint32_t known; /* a bit for each */
};

struct unwind_frame {
	uint64_t address;   /* of code */
	uint64_t stack_end; /* what of the stack lies below it is this frame's, or a called one's */
};

/* Why a stack ends where it ends. */
enum unwind_end {
	UNWIND_COMPLETE = 0,
	UNWIND_NOT_STARTED = 1, /* no registers */
	UNWIND_TOO_DEEP = 2,
	UNWIND_NO_RULE = 3, /* neither a table nor a frame pointer */
	UNWIND_NO_CODE = 4, /* an address that is no code: torn, or damaged */
	UNWIND_NO_MEMORY = 5,
};

struct unwinder;

/* modules and both views are borrowed: tables is of what does not change, stack of what does. Returns 0 or -ENOMEM. */
int unwinder_create(const struct modules *modules, struct memory_view *tables,
	struct memory_view *stack, struct unwinder **unwinder) __attribute__((warn_unused_result));
void unwinder_destroy(struct unwinder *unwinder);

/* What is mapped has changed. */
void unwinder_forget(struct unwinder *unwinder);

/*
 * Writes the addresses of the frames, the innermost first: of the first the next instruction, of the others the return
 * address less one, which lies in the call. *count: at most capacity.
 */
enum unwind_end unwind(struct unwinder *unwinder, const struct unwind_registers *registers,
	struct unwind_frame *frames, size_t capacity, size_t *count);

#endif
