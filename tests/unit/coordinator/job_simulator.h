/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small simulator of MPI jobs for the tests of the pipeline: ranks that work, wait, transfer;
 * noise; faults with known truth; hosts with clocks of their own; probes that cut batches. It
 * shares no code with the analysis. One thread.
 */
#ifndef SLOWRANK_TESTS_UNIT_COORDINATOR_JOB_SIMULATOR_H
#define SLOWRANK_TESTS_UNIT_COORDINATOR_JOB_SIMULATOR_H

#include <stdio.h>

#include "coordinator/pipeline_internal.h"

enum {
	SIM_RANKS_MAX = 64,
	SIM_CALLS_MAX = 32, /* collectives in a step */
	SIM_FAULTS_MAX = 8,
	SIM_HOSTS_MAX = 8,
	SIM_VERDICTS_MAX = 64,
};
#define SIM_MS 1000000.0

enum sim_fault_kind {
	SIM_COMPUTE,
	SIM_THROTTLE, /* a real quota: size is how much longer the rank's CPU time takes */
	SIM_CONTENTION,
	SIM_MAJOR,
	SIM_MINOR,
	SIM_BLOCK_IO,
	SIM_COMM,  /* the rank's link */
	SIM_LEAVE, /* it leaves collectives late, though its link is as ever */
	SIM_LOSE,  /* packets of it are sent again, size of them a call, in no time */
	SIM_STALL, /* in that share of its calls (size) a packet is missed for stall_ms */
	SIM_CROWD, /* other programs on all CPUs: every transfer is longer, more or less */
	/* With speed: its time on the CPU is longer by size, since its CPUs are stolen from it, */
	SIM_STEAL,
	SIM_CLOCK, /* have a lower clock, */
	SIM_SMT,   /* or need more cycles for the same instructions */
	SIM_SPLIT, /* the program gives the rank so much more of the work; below 0: less */
};

struct sim_fault {
	enum sim_fault_kind kind;
	unsigned rank;
	unsigned first, last; /* steps */
	double size;	      /* of the step */
};

/* Who takes part in a call. */
enum sim_group { SIM_WORLD, SIM_PAIRS, SIM_HALVES };

struct sim_call {
	enum operation operation;
	enum sim_group group;
	double share; /* of the step's work, before it */
	uint64_t length_bytes;
	unsigned root;
};

struct sim;

struct sim_options {
	unsigned ranks, hosts, steps, calls;
	struct sim_call call[SIM_CALLS_MAX];
	double step_ms;	      /* work of a step: asleep and on the CPU */
	double compute_share; /* of it on the CPU; the rest is asleep, as on a device */
	double jitter;	      /* relative standard deviation of a segment */
	double preempt_rate;  /* per rank and second */
	double preempt_ms;    /* mean of an exponential */
	double transfer_us;   /* of one call */
	double transfer_jitter;
	double imbalance; /* rank 0 has that much more work, always */
	unsigned fault_count;
	struct sim_fault faults[SIM_FAULTS_MAX];
	uint64_t seed;
	double offset_ms[SIM_HOSTS_MAX], drift_ppm[SIM_HOSTS_MAX];
	bool attached;	       /* sequences count from a different place on each rank */
	bool probe_per_rank;   /* else one per host */
	unsigned window_steps; /* > 0: entries are windows of that many steps */
	double lost_share;     /* of parts that the probes never saw */
	double batch_ms;
	bool tcp;	/* metrics of sockets */
	double echo;	/* with tcp: what others' sockets show of a slow link's data that waits */
	double waiting; /* with tcp: share of a step in which sockets have data to send, usually, */
	double unsteady; /* and how much that differs from second to second (relative deviation) */
	bool rdma;	 /* a ring of queue pairs: from each rank to the next one */
	bool lossy;	 /* with rdma: a slow link, or one that stalls, is one that loses packets */
	bool timeouts;	 /* with rdma: what is sent to a slow link's rank is sent again, unmissed */
	double stall_ms;
	unsigned timed_every;  /* with rdma: one request of so many has a time; 0: all */
	bool speed;	       /* steal, cycles and instructions are counted */
	double poll_per_cycle; /* with speed: instructions of a wait; of work it is one */
	double stolen_always,
		clock_falls; /* with speed: of all ranks; the clock from the faults' first step on */
	bool no_sched;	     /* the kernel side is missing: no activities, samples only */
	unsigned irregular_every;
	unsigned rank_exits; /* 0 = none; else this rank stops being heard of half way */
	void (*tamper)(struct sim *sim); /* with what the probes saw; NULL: nothing */
};

struct sim_rank {
	double now; /* true time, ns */
	double departed;
	double period_used; /* CPU time used in the current quota period */
	double period_start;
	uint64_t random;
	struct activity before, inside;
	uint64_t sequence[3];
	double busy_ns, sent, throttled_ns, cpu_ns;
	double waits, waits_until;		/* with unsteady: share of a step, for so long */
	double stolen_ns, cycles, instructions; /* of cpu_ns */
	struct step_entry *entries;
	size_t entry_count, handed_count;
	struct metric_sample *samples;
	size_t sample_count;
	double next_sample;
	struct message_queue_pair queue_pairs[2]; /* to the next rank, to the one before */
	double retransmits, out_of_order, packets;
	double stalled, kept; /* ns: what it sends now waits; it leaves so much later */
	struct message_queue_pair *told;
	size_t told_count;
	struct off_cpu_interval *intervals;
	size_t interval_count;
};

struct sim {
	struct sim_options options;
	struct sim_rank rank[SIM_RANKS_MAX];
	double *step_start; /* true */
	double end;
	/* what the pipeline said */
	unsigned alert_count, update_count, recovered_count;
	struct verdict alerts[SIM_VERDICTS_MAX];
	FILE *log;
};

/* A job of MPI ranks that is healthy: four all-reduces in steps of 20 ms. */
struct sim_options sim_defaults(unsigned ranks, uint64_t seed);
/* The same on four hosts, whose CPUs other programs want from step 250 on: its first fault. */
struct sim_options sim_crowded(unsigned ranks, uint64_t seed, unsigned steps);

/* Makes all steps; sim_free() afterwards. fed: what was put into batches is theirs. */
void sim_simulate(struct sim *sim, const struct sim_options *options);
void sim_free(struct sim *sim, bool fed);

/* A time of the simulation as the clock of a rank's host shows it. */
int64_t sim_host_ns(const struct sim *sim, unsigned rank, double time);
/* In which of the groups of a kind a rank is; the id of a group's communicator. */
unsigned sim_group_of(const struct sim *sim, enum sim_group group, unsigned rank);
uint64_t sim_communicator(enum sim_group group, unsigned index);

/* How far each rank has been handed on, and each probe has counted its batches. */
struct sim_feed {
	size_t entry[SIM_RANKS_MAX], interval[SIM_RANKS_MAX], sample[SIM_RANKS_MAX],
		told[SIM_RANKS_MAX];
	uint64_t number[SIM_RANKS_MAX];
};

/* What the probe of ranks first..last has to say up to a time; made_batch_release() frees it. */
struct message_batch *sim_batch(struct sim *sim, struct sim_feed *feed, unsigned probe,
	unsigned first, unsigned last, double until, bool final);

/* Counts what the pipeline tells of and keeps the alerts; the context is the struct sim. */
void sim_on_verdict(void *context, enum verdict_event event, const struct verdict *verdict);

/* Feeds the whole job; the pipeline is the caller's. 0, or a negative errno. */
int sim_feed_all(struct sim *sim, struct pipeline *pipeline);

/* What is left of a job once its pipeline is gone. */
struct sim_result {
	int error;
	struct job_totals totals;
	size_t verdict_count;
	struct verdict verdicts[SIM_VERDICTS_MAX];
	uint32_t rank_count, node_count;
	struct rank_totals ranks[SIM_RANKS_MAX];
};

/* Simulates, feeds and reports one job. The caller calls sim_free(sim, true). */
void sim_job(struct sim *sim, const struct sim_options *options, struct sim_result *result);

#endif
