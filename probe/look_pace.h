/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to have a job's kernels shown, where showing them all the time would cost too much: in windows.
 * They recur so rarely that the job loses LOOK_PACE_COST of its time on average, by what windows
 * were seen to cost: steps inside against those just before and after. They begin where the wall
 * clock is a multiple of their period, so that those of several hosts meet. When the length of
 * steps outside changes for good, a fault may have begun or ended: then one begins at once, from a
 * budget of its own. No I/O, no clock: time comes in. One thread.
 */
#ifndef SLOWRANK_PROBE_LOOK_PACE_H
#define SLOWRANK_PROBE_LOOK_PACE_H

#include "analysis/step.h"

#define LOOK_PACE_COST 0.01	  /* of the job's time: the goal */
#define LOOK_PACE_COST_FIRST 0.15 /* of a step: until a window was measured */
#define LOOK_PACE_FIRST_NS INT64_C(2000000000)
#define LOOK_PACE_NS INT64_C(600000000)		/* of a window that recurs, and so many steps: */
#define LOOK_PACE_CHANGE_NS INT64_C(1500000000) /* of one after a change */
#define LOOK_PACE_LENGTH_NS_MAX INT64_C(20000000000)
#define LOOK_PACE_PERIOD_NS_MAX INT64_C(64000000000)
#define LOOK_PACE_BUDGET_NS INT64_C(12000000000) /* after changes, in a minute */
enum {
	LOOK_PACE_STEPS = 8,
	LOOK_PACE_CHANGE_STEPS = 16,
	LOOK_PACE_RECENT = 32,
	LOOK_PACE_COSTS = 5,
};

struct look_pace_lengths {
	int64_t ns[LOOK_PACE_RECENT]; /* a ring */
	uint64_t count;		      /* ever */
};

struct look_pace {
	bool begun, on;
	bool change;		       /* seen, not yet looked at */
	int64_t on_ns, off_ns, end_ns; /* of the last window: begun, ended, to end */
	int64_t budget_ns, last_ns;    /* last_ns, last_unix_ns: of the last question */
	int64_t last_unix_ns;
	struct look_pace_lengths outside, inside, after; /* inside, after: of the last window */
	int64_t before_ns; /* usual length before the last window; 0: not known */
	double costs[LOOK_PACE_COSTS];
	uint64_t cost_count;
};

/* The first window begins with the first question: what is usual is learned from it. */
void look_pace_init(struct look_pace *pace);

/* A step of one rank, in order; another rank's steps are not told. */
void look_pace_step(struct look_pace *pace, struct host_ns start, struct host_ns end);

/* Whether kernels are wanted now. unix_ns: the wall clock at now. */
bool look_pace_want(struct look_pace *pace, struct host_ns now, int64_t unix_ns);

/* What a window costs, as a share of a step's length: the median of the last that were measured. */
double look_pace_cost(const struct look_pace *pace);

/* How often windows recur; 0: what they cost is below the goal, so one follows upon another. */
int64_t look_pace_period_ns(const struct look_pace *pace);

#endif
