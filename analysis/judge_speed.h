/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the CPUs that a rank ran on were slower than usual, and how much of its excess that explains: stolen by a
 * hypervisor, at a lower clock, or with fewer instructions a cycle though it had as many to run. Internal to judge;
 * one thread.
 */
#ifndef SLOWRANK_ANALYSIS_JUDGE_SPEED_H
#define SLOWRANK_ANALYSIS_JUDGE_SPEED_H

#include "analysis/classify.h"

struct judge;

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
	double waits;		       /* judge_speed_waits(); 0: not known */
	double others_clock, others_per_cycle, others_waits; /* lower medians; 0: not known */
};

enum speed_kind { SPEED_STOLEN = 0, SPEED_CLOCK = 1, SPEED_PER_CYCLE = 2, SPEED_NR };

struct speed_loss {
	bool known;		   /* it could be measured, also of others */
	double own_ns, control_ns; /* lost to it, in the steps of the sums */
	double explains_ns;	   /* what that explains of the excess */
	char detail[VERDICT_DETAIL_LENGTH];
};

struct speed_losses {
	struct speed_loss of[SPEED_NR];
};

/*
 * Of the time in which a rank's host worked on the CPU, or waited and may have polled: the share of waits, at most 1.
 */
double judge_speed_waits(const struct excess_sums *sums);

void judge_speed_usual(
	struct judge *judge, uint32_t rank, int64_t onset_ns, struct speed_usual *usual);

/* sums: of the steps since the onset, as the kernel saw them, without counters that stand in. */
void judge_speed_measure(struct judge *judge, const struct speed_usual *usual,
	const struct excess_sums *sums, struct speed_losses *losses);

/* The largest loss is the cause, and the host is slow, where it explains enough and more than what was found before. */
void judge_speed_classify(const struct speed_losses *losses, struct classification *class);

/* Adds evidence and rejections to a verdict that has its cause. */
void judge_speed_tell(const struct judge *judge, const struct excess_sums *sums,
	const struct speed_losses *losses, const struct classification *class,
	struct verdict *verdict);

#endif
