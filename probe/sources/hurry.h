/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A while in which something dear is looked at more often, from when something begins to speak for it: that keeps within
 * a share of a core. No I/O, no clock. One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_HURRY_H
#define SLOWRANK_PROBE_SOURCES_HURRY_H

#include "probe/sources/duty_cycle.h"

struct hurry {
	int64_t length_ns;
	bool on;
	struct host_ns start;
	struct host_ns onset,
		wanted;	 /* since when something speaks for it, and when it last did; 0: never */
	uint64_t looks;	 /* in this hurry */
	int64_t cost_ns; /* likewise */
	struct duty_cycle duty;
};

/* share: of a core that all hurries may cost; interval_ns: between the beginnings of two, on average at least. */
void hurry_init(struct hurry *hurry, int64_t length_ns, double share, int64_t interval_ns);

/*
 * Whether to hurry now; wanted: something speaks for it. What goes on for longer than a hurry is no reason for another one;
 * four at most are not yet paid for, so that a short one without need takes none from what comes next.
 */
bool hurry_follow(struct hurry *hurry, bool wanted, struct host_ns now);

/* A look was taken, at so much CPU time; outside of a hurry it counts for nothing. */
void hurry_looked(struct hurry *hurry, int64_t cost_ns);

#endif
