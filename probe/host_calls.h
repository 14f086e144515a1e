/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are only enqueued, of a process without device times: each is held until the host waits for
 * its device behind it, or calls again. With such a wait it becomes a part with PART_HOST_TIME: from the
 * call to the end of the wait. What the host took itself since the end of the wait before goes into
 * before.host_ns: all that time less waits for the device. Where it sent or received before the call, its
 * waits may be for another rank: then they count as communication (before.comm_call_ns). One thread.
 */
#ifndef SLOWRANK_PROBE_HOST_CALLS_H
#define SLOWRANK_PROBE_HOST_CALLS_H

#include "analysis/base/step.h"

/* A call with what came with it. */
struct host_call {
	struct collective_part part;
	struct activity others;
	struct step_launches launches; /* running totals; wait_ns counts outside of windows too */
};

/* Zero-initialised is empty. */
struct host_calls {
	bool any; /* there was a call */
	bool holds;
	struct host_call held;
	int64_t departed_ns;	  /* end of the last wait, or the last call; 0 = none yet */
	int64_t departed_wait_ns; /* all waits until then */
	struct activity did;	  /* told since the last call, and not with one */
};

/* What the host did until it enqueued something else than a call: it lies before the next one. */
void host_calls_did(struct host_calls *calls, const struct activity *did);

/* Each takes what happened next, and returns true when a call is done: *done is then the older one. */
bool host_calls_enqueue(
	struct host_calls *calls, const struct host_call *call, struct host_call *done);
bool host_calls_wait(struct host_calls *calls, struct host_ns end,
	const struct step_launches *launches, struct host_call *done);
/* Nothing more comes for the one that is held, or it would come too late. */
bool host_calls_flush(struct host_calls *calls, struct host_call *done);

#endif
