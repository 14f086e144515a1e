/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device's clock against the host's: the offset (host - device) lies in an interval that
 * measured pairs set, that passive bounds narrow, and that moves on and widens with time as two clocks
 * drift apart (docs/clocks.md). Pure: a plain value, one thread.
 */
#ifndef SLOWRANK_PROBE_RING_RING_CLOCK_H
#define SLOWRANK_PROBE_RING_RING_CLOCK_H

#include <stdbool.h>

#include "analysis/base/clock_fit.h"

/* How fast the clocks may part before the drift is known: of two oscillators 20 us a second. */
#define RING_CLOCK_DRIFT_PPB 20000
/* The same beside a known drift: 1 us a second. What is faster shows as bounds that disagree. */
#define RING_CLOCK_RESIDUAL_PPB 1000
/* Upper bounds from which the drift is known: one a second as a rule. */
enum { RING_CLOCK_HIGHS = 32 };

struct ring_clock_high {
	int64_t time_ns, offset_ns;
};

struct ring_clock {
	bool valid;
	int64_t time_ns; /* host time for which the interval holds */
	int64_t low_ns, high_ns;
	bool drift_known;
	double drift;					/* of the offset, ns in a ns */
	struct ring_clock_high highs[RING_CLOCK_HIGHS]; /* the latest, in no order: a ring */
	uint32_t high_count, high_next;
	uint32_t disagreements; /* bounds in a row that cannot be */
	uint64_t restarts, shifts;
};

/* The device's clock was gpu at host time host, give or take error_ns. */
void ring_clock_pair(
	struct ring_clock *clock, struct host_ns host, struct gpu_ns gpu, int64_t error_ns);
/*
 * About host time `host` the offset was in [low_ns, high_ns]; INT64_MIN and INT64_MAX: open. Where the two contradict each other
 * the upper one counts: an end is always seen behind it, whereas a launch may be noted late.
 */
void ring_clock_bound(
	struct ring_clock *clock, struct host_ns host, int64_t low_ns, int64_t high_ns);

/* 0 when it is not valid, and for a device time of 0. */
struct host_ns ring_clock_to_host(const struct ring_clock *clock, struct gpu_ns gpu);
/* CLOCK_ERROR_UNKNOWN_NS when it is not valid. */
int64_t ring_clock_error_ns(const struct ring_clock *clock);

#endif
