/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a stopped thread at a place where it may call pthread_create()? It may not be inside the
 * allocator, the dynamic loader, a signal handler, or a system call that cannot be begun again.
 * Frames are found by their return addresses on the stack: what follows a call instruction in such
 * code. An old value that looks like one costs another try, never harm. x86-64.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_PLACE_H
#define SLOWRANK_PROBE_ATTACH_LOAD_PLACE_H

#include "probe/attach/load_target.h"
#include "probe/attach/load_trace.h"

enum load_place {
	LOAD_PLACE_SAFE = 0,
	LOAD_PLACE_SYSTEM_CALL = 1, /* in one that a stop would end early */
	LOAD_PLACE_LIBRARY = 2,	    /* in the C library, the loader or an allocator */
	LOAD_PLACE_SIGNAL = 3,	    /* in a signal handler */
	LOAD_PLACE_SEQUENCE = 4,    /* in a restartable sequence */
	LOAD_PLACE_FOREIGN = 5,	    /* not a thread of the C library */
	LOAD_PLACE_UNKNOWN = 6,	    /* its stack cannot be read */
	LOAD_PLACE_STACK = 7,	    /* not on the thread's stack: one of a coroutine may be full */
	LOAD_PLACE_NR
};
const char *load_place_name(enum load_place place);

/* True when a stop lets the system call go on as if nothing had happened. */
bool load_place_call_goes_on(int64_t number);

/* thread is stopped; what: as /proc told of it. */
enum load_place load_place_of(const struct load_target *target, const struct load_thread *what,
	const struct load_trace *trace);

#endif
