/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process between the job's standard error and all that slowrank says of the job. It alone holds
 * the job's standard error, and soon after the command's end it lets go: nobody who waits
 * for the end of that file waits for a probe or for a coordinator. Where nobody reads standard
 * error, only this process is held up. One thread.
 */
#ifndef SLOWRANK_PROBE_RELAY_H
#define SLOWRANK_PROBE_RELAY_H

#include <sys/types.h>

#include "probe/end_hold.h"
#include "probe/start_gate.h"

/* After the command's end, the time for the report, and for what was not read yet. */
enum { RELAY_LIMIT_MS = 750 };

struct relay_options {
	int messages; /* where probe and coordinator write; the other end is closed */
	pid_t probe;  /* a child of this process */
	int target;   /* readable once the command, or the watch, has ended; -1: never told */
	const struct start_gate *gate; /* the command's; NULL: the watch ends with the probe */
	struct end_hold *hold;	       /* see end_hold.h */
	const char *unfinished;	       /* told where RELAY_LIMIT_MS was not enough; NULL: nothing */
};

/*
 * Copies messages to standard error until all who write them are gone, or until RELAY_LIMIT_MS
 * after the command's end, or longer for a hold. Tells when the probe ends early or is late. Closes
 * messages and target. Returns the probe's exit status, 0 where it has none yet.
 */
int relay_run(const struct relay_options *options);

#endif
