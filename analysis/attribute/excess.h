/* SPDX-License-Identifier: Apache-2.0 */
/* What the delays of ranks are made of, summed over steps. Plain values; any thread. */
#ifndef SLOWRANK_ANALYSIS_ATTRIBUTE_EXCESS_H
#define SLOWRANK_ANALYSIS_ATTRIBUTE_EXCESS_H

#include "analysis/attribute/blame.h"
#include "analysis/base/evidence_source.h"

/* Sums over the steps of a fault, of one rank or several. */
struct excess_sums {
	uint64_t steps;
	double program_steps; /* for people: a step that is one of a program's several rounds is a part of one */
	int64_t time_ns;  /* of these steps */
	int64_t delay_ns; /* by which others were made to wait */
	int64_t own[EXCESS_NR], control[EXCESS_NR];
	int64_t minor_faults, control_minor_faults;
	int64_t past_ns;	/* of own less control: by nothing but the rank's own past */
	uint32_t evidence_mask; /* what was measured */
	bool on_device;		/* the work is a device's: the host only enqueues it */
	bool host_times;	/* and in some steps only the host's times were known, */
	bool several_groups;	/* where not all ranks met: a wait may be for another one */
};

/* Of steps in which a rank's launches were looked at. */
struct launch_sums {
	double steps, launches, silence_ns, idle_ns, wait_ns;
};
/* A value of theirs a step; 0 of none. */
static inline double launch_sums_per_step(const struct launch_sums *sums, double value)
{
	return sums->steps > 0 ? value / sums->steps : 0;
}

/* Where the host's time on the CPU is. */
static inline enum excess_kind excess_on_cpu(const struct excess_sums *sums)
{
	return sums->on_device ? EXCESS_HOST_CPU : EXCESS_COMPUTE;
}

#endif
