/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a piece of work and a transfer take in a world: noise and faults, with the activity
 * that the kernel would have seen. Private to the simulator's timeline; one thread.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_WORK_H
#define SLOWRANK_BENCH_SIMULATOR_WORK_H

#include "bench/simulator/timeline.h"

/* What is on in a step, worked out once for it. */
struct sim_active {
	uint32_t count;
	struct {
		const struct sim_fault *fault;
		double size;
		double link_factor; /* of transfers, of link faults */
	} faults[SIM_FAULTS_MAX];
	/*
	 * What all work, and all passes, take times as long in a world free of an imbalance: the same
	 * work, spread evenly.
	 */
	double evened_work, evened_passes;
	uint32_t microbatch_count;
	bool *touched;	   /* by rank: some fault changes its work */
	uint64_t *streams; /* by rank: start of its random numbers in this step */
	double *debt_ns;   /* by rank: time that a fault owes and did not take yet */
};

int sim_active_init(struct sim_active *active, const struct sim_world *world)
	__attribute__((warn_unused_result));
void sim_active_fini(struct sim_active *active);
void sim_active_step(struct sim_active *active, const struct sim_world *world, uint32_t step);

/* One piece of work: what it took, and what the rank's thread did meanwhile. */
struct sim_worked {
	double length_ns;
	struct activity activity;
	uint8_t reason;	   /* enum off_cpu_reason of a long stretch; 0 = none */
	double stretch_ns; /* at its end */
};
void sim_work(struct sim_active *active, const struct sim_world *world, uint32_t rank,
	uint32_t step, uint32_t op_index, const struct sim_op *op, struct sim_worked *worked);

/*
 * A transfer of an instance of a group, or of a message (two ranks); extra_ns gets what faults
 * added to it.
 */
double sim_transfer(const struct sim_active *active, const struct sim_world *world,
	const struct sim_op *op, const uint32_t *members, uint32_t member_count, bool crosses,
	uint64_t random, double *extra_ns);

/* Whether the rank's own link is what a fault slows down: its sockets show it. */
bool sim_link_slow(const struct sim_active *active, const struct sim_world *world, uint32_t rank);
/* Whether its process is kept from running while it communicates. */
bool sim_held(const struct sim_active *active, const struct sim_world *world, uint32_t rank);

#endif
