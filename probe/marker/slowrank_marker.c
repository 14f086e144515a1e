/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/marker/slowrank.h"

/*
 * A uprobe costs ten times as much where the kernel must single-step the first instruction
 * instead of emulating it. The nop of one byte is emulated by every kernel (the longer ones
 * only by new ones; endbr64 by none, so the library is built without -fcf-protection).
 */
#define MARKER __attribute__((visibility("default"), noinline, used))

/* The argument is kept alive, so that no compiler drops it at a call it sees through. */
#define MARKER_BODY(step) __asm__ volatile("nop" : : "r"(step) : "memory")

MARKER void slowrank_step_begin(uint64_t step)
{
	MARKER_BODY(step);
}

MARKER void slowrank_step_end(uint64_t step)
{
	MARKER_BODY(step);
}
