/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame by which a thread that was stopped puts itself back with rt_sigreturn(), should its
 * tracer be gone. Registers, vector state and signal mask as saved; an interrupted system call is
 * begun again, but one that sleeps for a relative time ends with EINTR. x86-64.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_FRAME_H
#define SLOWRANK_PROBE_ATTACH_LOAD_FRAME_H

#include "probe/attach/load_trace.h"

/*
 * Fills frame, which will lie at address (a multiple of 64) in the process. *stack: the stack
 * pointer for the system call. -E2BIG.
 */
int load_frame_fill(const struct load_trace *trace, uint64_t address, void *frame, size_t bytes,
	uint64_t *stack) __attribute__((warn_unused_result));

#endif
