/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call on the stopped thread: a mapping for code, block and stack, and pthread_create() there.
 * One at a time, by the thread's tracer. x86-64.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_CALL_H
#define SLOWRANK_PROBE_ATTACH_LOAD_CALL_H

#include "probe/attach/load_stub.h"
#include "probe/attach/load_target.h"
#include "probe/attach/load_trace.h"

struct load_call {
	const struct load_target *target;
	const char *library_name, *start;
	uint64_t mapping; /* in the process; 0 = none */
	bool running;	  /* the thread was let into the code */
	bool returned;	  /* pthread_create() has */
	int32_t result;	  /* an errno */
	bool left;	  /* the thread puts itself back, or has; the mapping must stay */
};

/* Maps, copies, and lets the thread run into the code. Then end() must follow, whatever came. */
int load_call_begin(struct load_call *call, struct load_trace *trace)
	__attribute__((warn_unused_result));

/* Until pthread_create() has returned. -ETIMEDOUT, -ESRCH. */
int load_call_wait(struct load_call *call, int64_t end_ns) __attribute__((warn_unused_result));

/*
 * Puts the thread back and lets it go; unmaps when no thread was made. A thread that is still in
 * the call, or has left it meanwhile, is let go as it is.
 */
int load_call_end(struct load_call *call, struct load_trace *trace)
	__attribute__((warn_unused_result));

#endif
