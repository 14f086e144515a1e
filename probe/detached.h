/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe beside a command that is started: a process in a session of its own, with none of the
 * command's files, behind a relay (relay.h). Neither of the two is needed for the command to start, to
 * run, or to end.
 */
#ifndef SLOWRANK_PROBE_DETACHED_H
#define SLOWRANK_PROBE_DETACHED_H

#include <sys/types.h>

#include "probe/coordinator_process.h"
#include "probe/end_hold.h"
#include "probe/options.h"
#include "probe/session.h"
#include "probe/start_gate.h"

enum { DETACHED_TEXT_LENGTH = 512 };

struct attach_process;

struct detached {
	const struct probe_options *options;
	const struct job_place *place;
	const char *why_no_device;
	pid_t target; /* the command's process; its end is the job's */
	struct start_gate *gate;
	struct end_hold *hold;	/* see end_hold.h */
	const char *unfinished; /* see relay.h */
};

/*
 * The rest of this process's life: it becomes the relay, and a child of it the probe. Neither has
 * nng, BPF or other threads before.
 */
_Noreturn void detached_watch(const struct detached *detached);

/*
 * The same beside processes that run already, until they end or a signal ends the watch; of detached, target and
 * gate do not count. This process is the relay. Returns the exit status: 2 where nothing was watched.
 */
int detached_attach(const struct detached *detached, const struct session_job *job);

/* What to say where the report is not ready soon after the end. */
void detached_say_unfinished(const struct probe_options *options, const struct job_place *place,
	char text[DETACHED_TEXT_LENGTH]);

#endif
