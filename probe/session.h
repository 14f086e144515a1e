/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe at work: sources, job, samplers and uplink in one loop, until the job ends. Opened
 * before the job starts, so that probes are in place before its first collective. One thread
 * (nng has its own, behind the uplink).
 */
#ifndef SLOWRANK_PROBE_SESSION_H
#define SLOWRANK_PROBE_SESSION_H

#include <sys/types.h>

#include "probe/attach_deep.h"
#include "probe/coordinator_process.h"
#include "probe/end_hold.h"
#include "probe/options.h"
#include "probe/process_tree.h"

struct session;

/* What a session is told besides its options. */
struct session_job {
	bool attached;		   /* the job ran before */
	const char *why_no_device; /* the in-process library was not given to it; "" = it was */
	struct end_hold *hold;	   /* of the command's end, outlives the session; NULL = none */
	struct attach_deep *deep;  /* attach --deep, outlives the session; NULL = not asked */
	const struct attach_process *processes; /* that ran before, to be tracked; the caller's */
	size_t process_count;
};

/*
 * Loads the sources, finds or starts the coordinator. What cannot work is told in one line on
 * stderr and in the coverage; only memory errors and an unusable URL fail. Returns 0 or a
 * negative errno after one line on stderr. The caller owns it. From here on this process ignores
 * SIGPIPE and SIGXFSZ: start the command before.
 */
int session_create(const struct probe_options *options, const struct job_place *place,
	const struct session_job *job, struct session **session)
	__attribute__((warn_unused_result));
void session_destroy(struct session *session); /* NULL is fine */

/* Follows pid and what it starts. */
void session_track(struct session *session, pid_t pid);
/*
 * What pid, which is tracked, started meanwhile is tracked, too: the job began before the sources were
 * ready.
 */
void session_started_late(struct session *session, pid_t pid);
/* Attaches to the libraries that a command will load. */
void session_prepare_command(struct session *session, char *const argv[]);

/*
 * Works until every tracked process has ended or *stop is set. leader: the process whose end
 * ends the session even when it left others behind; 0 = none.
 */
void session_run(struct session *session, pid_t leader, const volatile int *stop);

/* Sends what is left, waits for the coordinator's report (bounded) where nobody else does. */
void session_finish(struct session *session);

#endif
