/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a command back until its probe is ready, but not for long: whatever the probe does, the
 * command starts. Shared by the two processes and by those between them.
 */
#ifndef SLOWRANK_PROBE_START_GATE_H
#define SLOWRANK_PROBE_START_GATE_H

#include <stdatomic.h>
#include <stdbool.h>

enum { START_LIMIT_MS = 1500 }; /* a probe that takes longer comes late to its job */

struct start_gate {
	atomic_int *state;	    /* enum start_state, in memory that the processes share */
	int waiting_fd, opening_fd; /* the ends of a pipe; closed at exec */
};

/* Before the processes part. Returns 0 or a negative errno. */
int start_gate_create(struct start_gate *gate) __attribute__((warn_unused_result));

/* In the command's process: returns once the probe is ready or gone, or after START_LIMIT_MS. */
void start_gate_wait(struct start_gate *gate);

/* In the probe's process: it is ready. False when the command was started without waiting for it. */
bool start_gate_open(struct start_gate *gate);

/* In the processes between: keeps neither end. */
void start_gate_leave(struct start_gate *gate);

/* In any: the command was started, and the probe is still not ready. */
bool start_gate_probe_is_late(const struct start_gate *gate);

#endif
