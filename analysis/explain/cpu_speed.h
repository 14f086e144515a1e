/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was usual for the CPUs that a rank runs on, before it became slow: stolen by a hypervisor, their clock, what they do a
 * cycle. explain/cpu_speed.c measures how much of an excess it explains that they are slower since. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_CPU_SPEED_H
#define SLOWRANK_ANALYSIS_EXPLAIN_CPU_SPEED_H

#include "analysis/explain/excess.h"

struct explain_context;

/* Median over a rank's samples, and their spread. */
struct speed_figure {
	bool known;
	double median, spread;
};

/* What was usual for a rank before it became slow. Kept, since samples are so for half a minute only. */
struct speed_usual {
	uint32_t rank;
	int64_t onset_ns;	       /* of the job's clock */
	struct speed_figure stolen;    /* of the time that its CPUs were wanted; 0..1 */
	struct speed_figure clock;     /* cycles a ns on a CPU */
	struct speed_figure per_cycle; /* instructions */
	double waits;		       /* cpu_waits(); 0: not known */
	double others_clock, others_per_cycle, others_waits; /* lower medians; 0: not known */
};

/*
 * Of the time in which a rank's host worked on the CPU, or waited and may have polled: the share of waits, at most 1.
 */
double cpu_waits(const struct excess_sums *sums);

void cpu_speed_usual(const struct explain_context *context, uint32_t rank, int64_t onset_ns,
	struct speed_usual *usual);

#endif
