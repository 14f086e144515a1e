/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was usual for a rank before it became slow: how fast its counters grew, and how fast its CPUs were. Kept with the
 * episode, since samples are so for half a minute only. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_PAST_H
#define SLOWRANK_ANALYSIS_EXPLAIN_PAST_H

#include "analysis/attribute/excess.h"
#include "analysis/base/step.h"

struct explain_context;

/* Counters whose growth before is asked for later. */
enum past_rate {
	PAST_RECLAIM_PAGES = 0,
	PAST_LIMIT_HITS = 1,
	PAST_MEMORY_STALLED = 2,
	PAST_GPU_BUSY = 3,
	PAST_LAUNCHERS_CPU = 4,
	PAST_LAUNCHERS_QUEUED = 5,
	PAST_PROCESS_CPU = 6,
	PAST_RATE_NR
};

/* Median over a rank's samples, and their spread. */
struct speed_figure {
	bool known;
	double median, spread;
};

struct episode_past {
	uint32_t rank;
	int64_t onset_ns;	       /* of the job's clock */
	double rates[PAST_RATE_NR];    /* per ns; negative: not known */
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

void explain_past(const struct explain_context *context, uint32_t rank, int64_t onset_ns,
	struct episode_past *past);

#endif
