/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device times of collectives, sends and receives that the in-process library times by events (attach --deep), given to
 * the calls that uprobes see: the same communicator, at a moment within the call as the library saw it; or to
 * calls that NCCL's plug-in tells without times: the same thread, at such a moment. So no call can get another's. Of
 * one process; one thread.
 *
 * A call waits until its times come, however long the device takes. The library tells up to when all
 * calls were told: what was made before, and has no times, gets none.
 */
#ifndef SLOWRANK_PROBE_CALL_TIMES_H
#define SLOWRANK_PROBE_CALL_TIMES_H

#include <sys/types.h>

#include "analysis/base/step.h"

/* The library tells four times a second; when it does not, nothing more will come. */
#define CALL_TIMES_SILENCE_NS INT64_C(5000000000)

struct call_times;

struct call_times_event {
	uint64_t handle;		  /* the communicator's, as passed */
	pid_t thread;			  /* that made the call; 0: not known */
	struct host_ns entered, returned; /* the call, on the host */
	struct host_ns launched;	  /* its kernel starts no earlier */
	struct host_ns start, stop;	  /* 0: not known */
};

struct call_times_counts {
	uint64_t timed, untimed;
	uint64_t dropped; /* calls and events that did not fit */
};

/* Returns NULL without memory. */
struct call_times *call_times_create(struct host_ns now);
void call_times_destroy(struct call_times *times); /* NULL is fine */

/* A call, enqueued at part->arrival. handle: the library's, of the communicator. */
void call_times_call(struct call_times *times, const struct collective_part *part, uint64_t handle);

/*
 * A call that the plug-in told of, enqueued at part->enqueue, with the number that it has there. A process has
 * either these or the others.
 */
void call_times_told_call(struct call_times *times, const struct collective_part *part,
	pid_t thread, uint64_t number);

/* It may come before its call. */
void call_times_event(struct call_times *times, const struct call_times_event *event);

/* Of calls made before then, nothing more will come. now: when that was heard. */
void call_times_settled(struct call_times *times, struct host_ns settled, struct host_ns now);

/*
 * Hands out a call with device times (PART_DEVICE_TIME), or one that gets none (PART_ENQUEUE_ONLY), with its
 * number among all calls, from 1: they do not come in order. finish: nothing more will come. Returns
 * false when there is none.
 */
bool call_times_take(struct call_times *times, struct host_ns now, bool finish,
	struct collective_part *part, uint64_t *number);

void call_times_get_counts(const struct call_times *times, struct call_times_counts *counts);

#endif
