/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that delivers events, one after the other in their order, and seldom enough; whoever hands them over never
 * waits. While one is being delivered the others wait in a queue with a bound: an update takes the place of the same
 * incident's that waits already, and where the queue is full the oldest update goes, or the event itself. Each is
 * counted.
 */
#ifndef SLOWRANK_COORDINATOR_HOOKS_WORKER_H
#define SLOWRANK_COORDINATOR_HOOKS_WORKER_H

#include "coordinator/hooks/event.h"

enum {
	HOOK_QUEUE_MAX = 64,
	HOOK_BURST = 10,       /* so many at once, */
	HOOK_PERIOD_MS = 5000, /* then one in so long */
};

struct hook_worker;

struct hook_worker_options {
	/* Delivers one event and returns whether it arrived; from the worker's thread. It returns soon once
	 * hook_worker_is_late() says so. */
	bool (*deliver)(void *context, struct hook_worker *worker, const struct hook_event *event);
	void *context;
	int period_ms; /* 0 = HOOK_PERIOD_MS */
};

/* Returns 0 or a negative errno. The caller owns it. */
int hook_worker_create(const struct hook_worker_options *options, struct hook_worker **worker)
	__attribute__((warn_unused_result));

struct hook_worker_state {
	uint64_t delivered, failed, dropped, merged;
	uint64_t waiting;
};

/* What waits is delivered for so long, as fast as it goes; what is left then is dropped. last: what it all came to. */
void hook_worker_destroy(struct hook_worker *worker, int grace_ms, struct hook_worker_state *last);

/* Never waits. */
void hook_worker_push(struct hook_worker *worker, struct hook_event *event);

/* For deliver(): the time that was left at the end is over. */
bool hook_worker_is_late(struct hook_worker *worker);
/* Sleeps for so long, then returns true; false, at once: it is late. */
bool hook_worker_sleep(struct hook_worker *worker, int time_ms);

void hook_worker_get_state(struct hook_worker *worker, struct hook_worker_state *state);

#endif
