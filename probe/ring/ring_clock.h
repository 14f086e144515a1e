/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device's clock against the host's: the offset (host - device) lies in an interval that
 * measured pairs set, that passive bounds narrow, and that widens with time by what two clocks can
 * drift apart (docs/clocks.md). Pure: a plain value, one thread.
 */
#ifndef SLOWRANK_PROBE_RING_RING_CLOCK_H
#define SLOWRANK_PROBE_RING_RING_CLOCK_H

#include <stdbool.h>

#include "analysis/base/clock_fit.h"

/* How far the clocks may part: 1 us a second. NTP slews up to 500 ppm, but a machine at rest
 * stays below 1; what is faster shows as bounds that disagree, and moves the interval. */
#define RING_CLOCK_DRIFT_PPB 1000

struct ring_clock {
	bool valid;
	int64_t time_ns; /* host time for which the interval holds */
	int64_t low_ns, high_ns;
	uint32_t disagreements; /* bounds in a row that cannot be */
	uint64_t restarts, shifts;
};

/* The device's clock was gpu at host time host, give or take error_ns. */
void ring_clock_pair(
	struct ring_clock *clock, struct host_ns host, struct gpu_ns gpu, int64_t error_ns);
/* At host time `host` the offset was in [low_ns, high_ns]; INT64_MIN and INT64_MAX: open. */
void ring_clock_bound(
	struct ring_clock *clock, struct host_ns host, int64_t low_ns, int64_t high_ns);

/* 0 when it is not valid, and for a device time of 0. */
struct host_ns ring_clock_to_host(const struct ring_clock *clock, struct gpu_ns gpu);
/* CLOCK_ERROR_UNKNOWN_NS when it is not valid. */
int64_t ring_clock_error_ns(const struct ring_clock *clock);

#endif
