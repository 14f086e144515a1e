/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forward model: every rank runs its program, collectives wait for their last member,
 * receives for their message, and times follow by the maxima and sums of max-plus algebra
 * (Baccelli et al., Synchronization and Linearity, 1992). One timeline is one world: with a
 * fault masked it is the same job without it, under the same noise. One thread for each.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_TIMELINE_H
#define SLOWRANK_BENCH_SIMULATOR_TIMELINE_H

#include "analysis/base/step.h"
#include "bench/simulator/fault.h"
#include "bench/simulator/program.h"

enum { SIM_FAULTS_MAX = 8 };

/* How far healthy ranks differ from a clock-work. */
struct sim_noise {
	double work;	     /* standard deviation of the logarithm of a piece of work */
	double rank;	     /* the same of a rank's lasting speed */
	double spikes_per_s; /* preemptions, Pareto lengths */
	double spike_ns;     /* smallest */
	double spike_index;  /* of the Pareto distribution */
	double spike_largest_ns;
	double collector_per_step; /* pauses of garbage collectors, of every rank now and then */
	double collector_ns;
	double transfer;      /* standard deviation of the logarithm of a transfer */
	double transfer_tail; /* chance that a transfer takes Pareto-distributed times as long */
	double leave_ns;      /* members leave within so much of each other */
	double sequence;      /* uneven microbatches in health */
};

struct sim_world {
	uint64_t seed;
	const struct sim_layout *layout;
	const struct sim_program *usual, *irregular; /* by stage; irregular may be NULL */
	uint32_t irregular_every;		     /* 0 = never */
	const struct sim_noise *noise;
	double step_ns;	     /* of link faults: what sizes are shares of */
	double on_cpu_share; /* of work; the rest is asleep, waiting for a device */
	bool polls;	     /* while it communicates, a thread of each rank runs */
	const struct sim_fault *faults;
	uint32_t fault_count;
	uint32_t masked; /* bit per fault that this world is free of */
};

/* One part as it came about; times true, in ns. */
struct sim_part {
	double arrival, departure;
	double busy_ns; /* how long its data keeps a socket busy: until a collective's end, from a send on */
	uint64_t sent_bytes; /* with its end */
	uint32_t before;     /* index into activities + 1; 0 = none */
};

/* What one rank's counters would show. */
struct sim_counters {
	double busy_ns, sent_bytes; /* of sockets */
	double throttled_ns, cpu_ns;
	double cpu_began_ns; /* cpu_ns when the step began */
	double major_faults, minor_faults;
};

struct sim_stretch { /* off the CPU for long */
	uint32_t rank;
	uint8_t reason; /* enum off_cpu_reason */
	double start, end;
};

struct sim_timeline {
	struct sim_world world;
	bool recording; /* else only times are kept */
	uint32_t step;	/* that was run last */
	bool step_irregular;
	uint32_t part_stride; /* parts of rank r start at r * part_stride */
	double *now;	      /* by rank: when its step ended */
	double *started;      /* by rank: when its step began */
	struct sim_part *parts;
	struct activity *activities;
	size_t activity_count, activity_capacity;
	struct sim_stretch *stretches;
	size_t stretch_count, stretch_capacity;
	struct sim_counters *counters; /* by rank */
	bool *stuck;		       /* by rank: hangs, or waits for one that does */
	bool any_stuck;
	double end;		   /* of the step: when the last rank ended it */
	struct sim_engine *engine; /* private */
};

/* The world's pointers must outlive it. Returns 0, -EINVAL or -ENOMEM. */
int sim_timeline_create(const struct sim_world *world, bool recording,
	struct sim_timeline **timeline) __attribute__((warn_unused_result));
void sim_timeline_destroy(struct sim_timeline *timeline); /* NULL is fine */

/*
 * Runs the next step (steps count from 0). Returns 0, -ENOMEM, or -EDEADLK when the programs
 * wait for each other in a circle though no rank hangs: an error of the simulator.
 */
int sim_timeline_step(struct sim_timeline *timeline, uint32_t step)
	__attribute__((warn_unused_result));

/* The program that a rank ran in the last step. */
const struct sim_program *sim_timeline_program(const struct sim_timeline *timeline, uint32_t rank);

/* What the rank's sockets would show at a time within the last step; it only grows. */
struct sim_sockets {
	double busy_ns, sent_bytes;
	double cpu_ns; /* of the process */
};
struct sim_sockets sim_timeline_sockets(
	const struct sim_timeline *timeline, uint32_t rank, double time);

/*
 * The call that a stuck rank is inside of, and since when; NULL when it is in none: then it is
 * one that hangs.
 */
const struct sim_op *sim_timeline_open(
	const struct sim_timeline *timeline, uint32_t rank, double *since);

#endif
