/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated job: layout, programs, noise, clocks, faults; the step entries that probes would
 * send, and the truth. A pure function of its options. Shares nothing with the analysis but the
 * vocabulary of analysis/base/step.h and the names in verdict.h. One thread for each job.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_SIMULATOR_H
#define SLOWRANK_BENCH_SIMULATOR_SIMULATOR_H

#include "bench/simulator/timeline.h"

struct sim_options {
	uint64_t seed;
	struct sim_shape shape;
	struct sim_program_options program;
	struct sim_noise noise;
	uint32_t steps;
	uint32_t irregular_every; /* each so-many-th step has a checkpoint; 0 = never */
	double on_cpu_share;	  /* 1: the ranks compute themselves */
	bool device_time;	  /* parts carry device times */
	bool polls; /* threads of the ranks move their data: throttling holds transfers to other hosts, not work */
	bool launchers_poll; /* who launches polls for the device, in some seconds more than in others */
	bool messages_hidden; /* sends and receives are no parts, but time in calls */
	/*
	 * Messages as NCCL shows them: nothing tells forward from backward; a receive right behind a send
	 * is in a group with it; an all-to-all is a group of messages, one to the rank itself and
	 * one from it. shuffled: calls of a group begin in any order.
	 */
	bool grouped, shuffled;
	bool stream_each; /* with grouped: a stream for the messages with each other rank */
	bool by_launch;	  /* parts of an entry are in order of launch, as step builders take them */
	uint32_t sample_every;	/* one of so many instances is seen; 1 = all */
	double lost_share;	/* of parts that the probes never saw */
	bool counters;		/* samples, of sockets and of the rest */
	double clock_offset_ns; /* hosts differ by up to so much */
	double clock_drift;	/* and so much, relative */
	uint32_t fault_count;
	struct sim_fault faults[SIM_FAULTS_MAX];
};

/* A quiet, regular job with these ranks: data parallel, 8 ranks a host, 40 ms steps. */
void sim_options_default(struct sim_options *options, uint32_t ranks, uint64_t seed);

struct sim_truth {
	double step_ns; /* mean, as simulated */
	/* By fault: mean step over its window (the steps that it is on in) with it and without. */
	double slowdown[SIM_FAULTS_MAX];
};

struct simulator;

/* Returns 0, -EINVAL for options that cannot be, or -ENOMEM. The caller owns it. */
int simulator_create(const struct sim_options *options, struct simulator **simulator)
	__attribute__((warn_unused_result));
void simulator_destroy(struct simulator *simulator); /* NULL is fine */

/* Simulates the next step. Returns 1, 0 when there is none (the end, or a hang), or an error. */
int simulator_step(struct simulator *simulator) __attribute__((warn_unused_result));

const struct sim_options *simulator_options(const struct simulator *simulator);
const struct sim_layout *simulator_layout(const struct simulator *simulator);
const struct sim_timeline *simulator_timeline(const struct simulator *simulator);
/* Steps simulated so far, and when step `index` ended (true time). */
uint32_t simulator_step_count(const struct simulator *simulator);
double simulator_step_end(const struct simulator *simulator, uint32_t index);
void simulator_truth(const struct simulator *simulator, struct sim_truth *truth);

/* A true time on the clock of a rank's host. */
struct host_ns simulator_host_time(const struct simulator *simulator, uint32_t rank, double time);

/* Most parts that an entry can have. */
uint32_t simulator_parts_max(const struct simulator *simulator);
/*
 * The rank's entry of the last step, with its parts written to parts (simulator_parts_max() of
 * them at most). Once for each rank and step, steps in order: it counts sequence numbers. Returns
 * false when the rank did not end the step.
 */
bool simulator_entry(struct simulator *simulator, uint32_t rank, struct step_entry *entry,
	struct collective_part *parts);

/*
 * Of a job that hangs: the call that the rank is inside of, as a part without an end (departure =
 * arrival). Returns false when it is in none.
 */
bool simulator_open_part(
	const struct simulator *simulator, uint32_t rank, struct collective_part *part);

enum { SIM_COMMUNICATORS_MAX = SIM_GROUP_NR };
/* The rank's communicators; returns how many. */
uint32_t simulator_communicators(const struct simulator *simulator, uint32_t rank,
	struct communicator communicators[SIM_COMMUNICATORS_MAX]);

enum { SIM_SAMPLES_MAX = 5 };
/* The rank's counters at the end of its last step; returns how many there are. */
uint32_t simulator_samples(const struct simulator *simulator, uint32_t rank,
	struct metric_sample samples[SIM_SAMPLES_MAX]);
/* Those of its sockets at a time within the last step. */
uint32_t simulator_socket_samples(const struct simulator *simulator, uint32_t rank, double time,
	struct metric_sample samples[SIM_SAMPLES_MAX]);

#endif
