/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a simulated job through the pipeline and holds what it said against the truth. One
 * outcome per job. Each call works alone: several threads may run jobs at once.
 */
#ifndef SLOWRANK_BENCH_SCORE_H
#define SLOWRANK_BENCH_SCORE_H

#include "bench/baselines/baselines.h"
#include "bench/simulator/feed.h"
#include "bench/simulator/scenario.h"

enum { OUTCOME_VERDICTS_MAX = 8 };

struct outcome {
	struct sim_scenario scenario;
	uint64_t seed;
	uint32_t ranks, steps, steps_judged;
	double slowdown;  /* true, of the first fault */
	uint32_t alerts;  /* verdicts told */
	bool detected;	  /* some verdict is about the fault */
	bool rank_right;  /* every fault is named, and nobody else */
	bool class_right; /* of the verdicts that name a culprit (or, for imbalance, of all) */
	bool cause_right;
	uint32_t blamed_healthy; /* ranks that machine verdicts name though nothing ails them */
	double slowdown_told;  /* by the first verdict about the first fault; NAN: not comparable */
	double slowdown_error; /* relative; NAN: not comparable */
	uint32_t every_steps;  /* said of the first fault */
	double delay_steps;    /* from the first faulty step to the end of that of the alert */
	double delay_s;	       /* the same, in simulated seconds */
	double onset_error_steps; /* |first step named - true|; NAN: none */
	/* Each verdict (the first ones): what it says of itself, and whether it is about a fault, of
	 * the right class, and names no healthy rank. */
	uint32_t verdict_count;
	struct {
		double confidence;
		bool right;
	} verdicts[OUTCOME_VERDICTS_MAX];
	struct {
		bool detected;	 /* raised in or after the first faulty step; a fault is on */
		bool rank_right; /* as above; of the healthy: nothing was raised */
		bool alarm;	 /* raised at all */
		uint32_t blamed_healthy;
	} baselines[BASELINE_NR];
	double analyse_s; /* CPU time of feeding, simulation included */
};

/* Returns 0 or a negative errno. baselines: run them too, on the same entries. */
int score_job(const struct sim_scenario *scenario, uint64_t seed, bool baselines,
	struct outcome *outcome) __attribute__((warn_unused_result));

/* Writes the job's record instead: what score_job() would judge. The same errors. */
int score_record(const struct sim_scenario *scenario, uint64_t seed, const char *path)
	__attribute__((warn_unused_result));

#endif
