/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others publish as straggler detection, re-implemented from its published definition, for
 * comparison on the same simulated jobs. They see the entries that the pipeline sees. One thread
 * for each.
 */
#ifndef SLOWRANK_BENCH_BASELINES_BASELINES_H
#define SLOWRANK_BENCH_BASELINES_BASELINES_H

#include "analysis/base/step.h"

enum baseline_method {
	/*
	 * The last to arrive has the shortest time in the collective: the rule by which NCCL
	 * profiles and traces are usually read. A rank that is the shortest, by more than 4 % of
	 * the step, in most steps of a window.
	 */
	BASELINE_LATEST = 0,
	/*
	 * NVIDIA Resiliency Extension, straggler detection (usage guide): the score of a rank is
	 * the best rank's median time of a section over its own, weighted by time; below 0.75 it
	 * is a straggler. Sections here: the rank's own time before each kind of collective.
	 */
	BASELINE_SECTIONS = 1,
	/* Own time per step, mean of a sliding window, 3 standard deviations above all ranks'. */
	BASELINE_Z_SCORE = 2,
	/*
	 * Bayesian online change point detection (Adams and MacKay 2007, arXiv:0710.3742) on the
	 * job's step time, normal-gamma prior. Says when, never who.
	 */
	BASELINE_CHANGE_POINT = 3,
	BASELINE_NR
};
const char *baseline_name(enum baseline_method method);

enum { BASELINE_WINDOW = 20, BASELINE_RANKS_MAX = 64, BASELINE_SECTION_NR = OPERATION_NR };

struct baseline_finding {
	bool raised;
	uint32_t first_step; /* in which it was raised first */
	uint32_t rank_count; /* named over the job; more than BASELINE_RANKS_MAX are only counted */
	uint32_t ranks[BASELINE_RANKS_MAX];
};

struct baselines;

int baselines_create(uint32_t rank_count, struct baselines **baselines)
	__attribute__((warn_unused_result));
void baselines_destroy(struct baselines *baselines); /* NULL is fine */

/* Entries of one step (with the same index) after those of another; the entry is not kept. */
void baselines_see(struct baselines *baselines, const struct step_entry *entry);
/* After the last entry. */
void baselines_finish(struct baselines *baselines);
const struct baseline_finding *baselines_finding(
	const struct baselines *baselines, enum baseline_method method);

#endif
