/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of CUDA events around what a thread enqueues on a stream: when the device came to it, and when it
 * was done. A pool of pairs for each context, made by the helper thread; callers take a pair, record its
 * events and go on: no lock of ours, no allocation, no wait. The helper looks later which are done, and
 * writes RING_RECORD_TIMED_CALL. Its clock (RING_CLOCK_EVENTS) is measured by an event on a stream of its own,
 * about once a second.
 *
 * Nothing is recorded into a graph that is captured. A context that says no once is left alone.
 */
#ifndef SLOWRANK_PROBE_INJECT_TIMED_EVENTS_H
#define SLOWRANK_PROBE_INJECT_TIMED_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIMED_CALLS_MAX = 16 }; /* of one pair */

struct timed_call {
	uint64_t handle;
	int64_t entered_ns, returned_ns; /* on the host */
};

struct timed_pair;

/* Any thread. Records the start; NULL: these calls are not timed, and are counted. */
struct timed_pair *timed_events_start(void *stream, size_t call_count);
/*
 * Records the stop, for at most TIMED_CALLS_MAX calls. launched_ns: when the host was done with launching;
 * where it took unusually long, when it had certainly begun.
 */
void timed_events_stop(
	struct timed_pair *pair, const struct timed_call *calls, size_t count, int64_t launched_ns);
/* There was nothing between the two after all. */
void timed_events_cancel(struct timed_pair *pair, size_t call_count);
/* The caller's time that went into timing, before its call and after it, with so many pairs; waits are left out. */
void timed_events_spent(int64_t before_ns, int64_t after_ns, size_t pair_count);
/* Calls that cannot be told apart. */
void timed_events_count_failed(size_t call_count);

/* The helper's. False: there is no driver that has events. */
bool timed_events_load(void);
/* What is in flight is not told. */
void timed_events_forget(void);
/* Makes pools that callers asked for, writes what is done, measures clocks. */
void timed_events_poll(void);
/* Tells what became of the calls, and up to when all is told. */
void timed_events_report(uint32_t pointers);

#endif
