/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a thread that has not moved for long: the call it is inside of, as the kernel side has
 * it, why it is off the CPU, and its state in /proc. Costs the thread nothing: it reads what is kept
 * anyway. One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_THREAD_LOOK_H
#define SLOWRANK_PROBE_SOURCES_THREAD_LOOK_H

#include <stdbool.h>
#include <sys/types.h>

#include "bpf/event_layout.h"
#include "probe/sources/bpf_source.h"

enum { THREAD_LOOK_THREADS_MAX = 256, THREAD_LOOK_PLACE_LENGTH = 32 };

struct thread_look {
	bool open;		      /* it is inside of a call of the table */
	struct event_collective call; /* then: row, arrival, handle, sequence, root; no activity */
	uint32_t reason;	      /* enum rank_reason while it is off the CPU; 0 = on it */
	char state;		      /* letter of /proc/PID/stat; 0 = unknown */
	char place[THREAD_LOOK_PLACE_LENGTH]; /* where in the kernel it is blocked; "" = unknown */
	uint32_t threads;		      /* of the process; 0 = unknown */
	uint64_t cpu_ms;		      /* that all of them used so far */
	uint64_t io_bytes;   /* that they read and wrote so far; 0 = unknown, too */
	uint64_t entered_ns; /* when one of those looked at last began a call of the table */
};

/*
 * Looks at the process's main thread and, when that is in no call, at the others, at most
 * THREAD_LOOK_THREADS_MAX (needs Linux 6.9 for these): the first that is inside of a call counts, else
 * the main one. bpf NULL: state and place only. Returns 0, or -ESRCH when the process is gone.
 */
int thread_look(const struct bpf_source *bpf, pid_t pid, struct thread_look *look)
	__attribute__((warn_unused_result));

#endif
