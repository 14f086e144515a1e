/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs drawn at random: layout, size, step length, noise, fault. The same kind and seed give the
 * same job. No state; any thread.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_SCENARIO_H
#define SLOWRANK_BENCH_SIMULATOR_SCENARIO_H

#include "bench/simulator/simulator.h"

enum sim_family {
	SIM_FAMILY_DATA = 0,
	SIM_FAMILY_TENSOR = 1,	    /* data x tensor */
	SIM_FAMILY_PIPELINE = 2,    /* data x tensor x pipeline, 1F1B */
	SIM_FAMILY_INTERLEAVED = 3, /* the same, two chunks on each rank */
	SIM_FAMILY_EXPERT = 4,
	SIM_FAMILY_SHARDED = 5, /* FSDP */
	SIM_FAMILY_NR
};
const char *sim_family_name(enum sim_family family);

enum sim_plan {		       /* how the fault, or several, lie in time */
	SIM_PLAN_CONSTANT = 0, /* from a step on to the end */
	SIM_PLAN_RECOVERY = 1, /* it ends before the job does */
	SIM_PLAN_EVERY = 2,    /* every 7th step */
	SIM_PLAN_DRIFT = 3,
	SIM_PLAN_SPIKE = 4,   /* one step: nothing to alarm for */
	SIM_PLAN_SEVERAL = 5, /* two ranks at once */
	SIM_PLAN_MOVING = 6,  /* another rank in the second half */
	SIM_PLAN_NR
};
const char *sim_plan_name(enum sim_plan plan);

struct sim_scenario {
	struct sim_options options;
	enum sim_family family;
	enum sim_plan plan;
	enum sim_fault_kind kind; /* SIM_FAULT_NR: a healthy job */
	uint32_t noise_level;	  /* 0 quiet, 1 usual, 2 heavy */
};

struct sim_scenario_limits {
	uint32_t ranks_min, ranks_max;
	bool plain;	 /* constant faults only */
	bool one_course; /* machine faults of this course only, where the kind can have it */
	enum sim_plan course;
	uint32_t every;	   /* machine faults only in every so-many-th step; 0: as drawn */
	uint32_t families; /* bits by enum sim_family that are drawn; 0 = all */
	bool polls;	   /* threads of the ranks move their data */
	bool device_time; /* parts carry device times; half of the gradients are reduced beside the work */
	bool even;	  /* all sizes equally often; else larger ones more rarely */
	uint64_t rank_steps_max; /* steps are as long as that takes; 0 = whatever there is */
};

void sim_scenario_draw(struct sim_scenario *scenario, enum sim_fault_kind kind, uint64_t seed,
	const struct sim_scenario_limits *limits);

#endif
