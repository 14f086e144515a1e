/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults with known truth: which ranks, when, how large, and what the kernel would have seen.
 * Plain values; no state.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_FAULT_H
#define SLOWRANK_BENCH_SIMULATOR_FAULT_H

#include "analysis/base/verdict.h"
#include "bench/simulator/layout.h"

enum sim_fault_kind {
	SIM_FAULT_COMPUTE = 0,	   /* the rank's work takes longer */
	SIM_FAULT_THROTTLE = 1,	   /* its cgroup runs out of quota */
	SIM_FAULT_CONTENTION = 2,  /* another task takes its CPU */
	SIM_FAULT_MAJOR = 3,	   /* page faults that read from storage */
	SIM_FAULT_MINOR = 4,	   /* page faults that do not */
	SIM_FAULT_BLOCK_IO = 5,	   /* waits for storage */
	SIM_FAULT_INPUT = 6,	   /* asleep before the first collective of a step */
	SIM_FAULT_LINK = 7,	   /* one rank's transfers to other hosts */
	SIM_FAULT_NIC = 8,	   /* the same for all ranks of the rank's host */
	SIM_FAULT_NODE_PAIR = 9,   /* transfers between two hosts, of rank and other */
	SIM_FAULT_CONGESTION = 10, /* all transfers between hosts */
	SIM_FAULT_STAGE = 11,	   /* imbalance: one stage (that of rank) has more work */
	SIM_FAULT_SEQUENCE = 12,   /* imbalance: microbatches of uneven length */
	SIM_FAULT_EXPERTS = 13,	   /* imbalance: one expert gets more tokens, in every group */
	SIM_FAULT_HANG = 14,	   /* the rank never arrives again */
	SIM_FAULT_DEATH = 15,	   /* its process ends */
	SIM_FAULT_NR
};

enum sim_fault_course {
	SIM_COURSE_CONSTANT = 0,
	SIM_COURSE_EVERY = 1, /* only each every-th step, from the first on */
	SIM_COURSE_DRIFT = 2, /* grows from 0 at the first step to its size at the last */
	SIM_COURSE_SPIKE = 3, /* only the first step */
};

struct sim_fault {
	enum sim_fault_kind kind;
	enum sim_fault_course course;
	uint32_t rank;	      /* of stages: any rank of it; of experts: its index in the group */
	uint32_t other;	      /* of node pairs */
	uint32_t first, last; /* steps, both inclusive */
	uint32_t every;
	/*
	 * Of work and host faults: added time, of the rank's own work. Of links: added transfer
	 * time, of the step. Of sequences: standard deviation of the logarithm of lengths.
	 */
	double size;
};

const char *sim_fault_name(enum sim_fault_kind kind);
/* The kind with that name, or SIM_FAULT_NR. */
enum sim_fault_kind sim_fault_by_name(const char *name);
enum verdict_class sim_fault_class(enum sim_fault_kind kind);
/* The cause that evidence supports; CAUSE_UNKNOWN where none is measured. */
enum cause sim_fault_cause(enum sim_fault_kind kind);

/* How large the fault is in a step: 0 when it is off. */
double sim_fault_size(const struct sim_fault *fault, uint32_t step);
/* Whether the rank is one that a right verdict may name. */
bool sim_fault_names(const struct sim_fault *fault, const struct sim_layout *layout, uint32_t rank);
/* How many such ranks there are. */
uint32_t sim_fault_rank_count(const struct sim_fault *fault, const struct sim_layout *layout);

#endif
