/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When something that costs the job may be switched on again: short windows, so far apart that what they
 * cost stays below a share of the job's time. The cost is measured window by window, so the cycle backs
 * off by itself, and comes back when the job calls less often. Some windows may be had in advance, where
 * something speaks for them; the next ones are as much later. No I/O, no clock. One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_DUTY_CYCLE_H
#define SLOWRANK_PROBE_SOURCES_DUTY_CYCLE_H

#include "analysis/base/step.h"

struct duty_cycle {
	double share;	     /* of one thread's time that all windows may cost, above 0 */
	int64_t interval_ns; /* between the beginnings of two windows, at least */
	int64_t next_ns;     /* not before */
	int64_t rest_ns;     /* what the last window put between its begin and the next one */
	uint64_t windows, hits;
	int64_t open_ns, cost_ns; /* sums over all windows */
};

void duty_cycle_init(struct duty_cycle *duty, double share, int64_t interval_ns);
bool duty_cycle_is_due(const struct duty_cycle *duty, struct host_ns now);
/* In advance: at most so many windows, as dear as the last, are not yet paid for. */
bool duty_cycle_may_hurry(const struct duty_cycle *duty, unsigned unpaid_most, struct host_ns now);

/*
 * A window has ended, open_ns after it began at start: hits calls were hit, at a cost of cost_ns in all.
 * A thread cannot lose more than the time that the window was open.
 */
void duty_cycle_close(struct duty_cycle *duty, struct host_ns start, int64_t open_ns, uint64_t hits,
	int64_t cost_ns);

#endif
