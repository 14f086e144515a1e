/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a simulated job through the pipeline and holds what it said against the truth. One
 * outcome per job. Each call works alone: several threads may run jobs at once.
 */
#ifndef SLOWRANK_BENCH_SCORE_H
#define SLOWRANK_BENCH_SCORE_H

#include "bench/simulator/feed.h"
#include "bench/simulator/scenario.h"

struct outcome {
	struct sim_scenario scenario;
	uint64_t seed;
	uint32_t ranks, steps;
	double slowdown;  /* true, of the first fault */
	uint32_t alerts;  /* verdicts told */
	bool detected;	  /* some verdict is about the fault */
	bool rank_right;  /* every fault is named, and nobody else */
	bool class_right; /* of the verdicts that name a culprit (or, for imbalance, of all) */
	bool cause_right;
	uint32_t blamed_healthy;  /* ranks that machine verdicts name though nothing ails them */
	double slowdown_error;	  /* relative; NAN: not comparable */
	double delay_steps;	  /* from the first faulty step to the end of that of the alert */
	double onset_error_steps; /* |first step named - true|; NAN: none */
	double confidence;	  /* of the verdict that names the first fault */
	double analyse_s;	  /* CPU time of feeding, simulation included */
};

/* Returns 0 or a negative errno. see may be NULL: it gets every entry. */
int score_job(const struct sim_scenario *scenario, uint64_t seed, sim_see_entry see, void *context,
	struct outcome *outcome) __attribute__((warn_unused_result));

#endif
