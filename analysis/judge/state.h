/* SPDX-License-Identifier: Apache-2.0 */
/* What the judge keeps: limits, and the states of ranks, runs, transfers, costs and verdicts. One thread. */
#ifndef SLOWRANK_ANALYSIS_JUDGE_STATE_H
#define SLOWRANK_ANALYSIS_JUDGE_STATE_H

#include <math.h>

#include "analysis/attribute/blame.h"
#include "analysis/attribute/whatif.h"
#include "analysis/base/evidence.h"
#include "analysis/detect/periodic.h"
#include "analysis/detect/progress.h"
#include "analysis/detect/signal.h"
#include "analysis/explain/explain.h"
#include "analysis/explain/looks.h"
#include "analysis/explain/stack_looks.h"
#include "analysis/incident/alert_policy.h"
#include "analysis/judge/judge.h"
#include "analysis/policy.h"

enum {
	SHAPES_MAX = 32768,  /* kinds of transfers followed, at most half of it; a power of two */
	ROLES_MAX = 256,     /* later ones are compared within themselves only */
	INCIDENTS_MAX = 64,  /* verdicts that hold at one time */
	VERDICTS_MAX = 4096, /* in one run */
	SKETCH_BUCKETS = 4700,
};

/* Its transfers to other hosts, in a step or in the open block. */
struct link_look {
	float least;	/* how many times longer the least slow is */
	uint32_t count; /* so many were looked at */
};

/* What a rank did in the open block, or in the last one while that is judged. */
struct rank_block {
	uint32_t steps;
	struct excess_sums sums;
	int64_t comm_ns, wait_ns;
	struct launch_sums launches;
};

/* What is usual for a rank: slow means. */
struct rank_usual {
	double long_run; /* its delay's share: who is usually quiet */
	double running;	 /* CPUs that its process is on; 0 = not known */
	/* The same of the threads that may move its device's data: all, or all but those that launch. */
	double moving, moving_spread;
	bool moving_apart;
	uint8_t rates;	  /* so many tell these */
	float waits;	  /* cpu_waits() while nothing was suspected; 0 = not known */
	float excess[2];  /* of the two directions: what stays is no uneven input */
	float message;	  /* work on a message, beyond its control: a share of it */
	float unevenness; /* squared deviation from them */
	float work,
		work_spread; /* for each unit of the job's progress; 0: not known. uneven/moved.c */
};

/* For how much of the time a rank's sockets have data to send. */
struct socket_look {
	float before; /* while comm->sockets.remembers; negative: not known */
	/* In steps of the class that is located, in others, the error of the difference; error < 0: not known. */
	float inside, outside, error;
};

/*
 * While a rank is suspected: excess and control of its segments between the dispatch and the combination of
 * experts, and of all others; slow sums, in ns. uneven/experts.c
 */
struct expert_sums {
	float excess, control, other_excess, other_control;
};

struct rank_state {
	bool seen;
	bool in_block;
	uint32_t evidence_mask;
	uint32_t host;
	uint32_t pid;	 /* 0: not known */
	uint64_t layout; /* of its last row without a hole; 0: none yet */
	struct evidence *evidence;
	struct judge_rank_totals totals;
	struct rank_block block;
	struct rank_usual usual;
	struct signal signal; /* its delay, less what is usual for all */
	double wait;	      /* waiting, likewise */
	double comm;	      /* late departures, likewise */
	float work;	      /* as usual.work, in the block */
	struct link_look link;
	struct socket_look busy;
	struct launch_sums run_launches; /* as the quick run; goes on in a verdict */
	struct launch_sums launches;	 /* of the latest steps looked at */
	struct expert_sums experts;
	float cost_level;  /* mean share of the step that its delay is; judge/costs.c */
	uint32_t incident; /* the one it is in, + 1 */
	uint8_t periodic;  /* what it may do every so many steps, + 1 */
};

/* Ranks that run the same part of the program. */
struct role {
	uint64_t key;	      /* uneven/roles.c */
	int64_t step_work_ns; /* of this step's usual member */
	int64_t block_work_ns;
	uint32_t step_rows;
	bool pipeline; /* it sends to, or receives from, other roles */
};

struct uneven_work;

/* Work that the program shares out unevenly. */
struct imbalance_state {
	struct role roles[ROLES_MAX];
	uint32_t role_count;
	uint32_t worst;	      /* role with the most work in the last block */
	bool by_stage;	      /* roles tell stages of one layout apart */
	bool uneven;	      /* roles differ in this step */
	double *scales;	      /* per row: its role has the mean work; where uneven is set */
	int64_t step_gain_ns; /* with even roles */
	struct signal stages,
		uneven_input; /* what the step gains with even roles, with even input */
	struct uneven_work *work;
};

struct transfer_shape {
	uint64_t shape; /* 0 = free */
	uint64_t kind;	/* the same of other communicators */
	int64_t sum_ns;
	uint32_t count;		  /* in this block */
	float past[QUIET_BLOCKS]; /* means of quiet blocks, ns */
	float usual_ns;		  /* their median; negative: not known yet */
	float expected_ns; /* that, or what others of its kind take; negative: not known yet */
	float slow; /* slow mean of how many times longer it is than expected; 0: not known yet */
	uint32_t past_count;
};

enum incident_kind {
	INCIDENT_RANKS = 0,
	INCIDENT_TRANSFERS = 1,
	INCIDENT_STAGES = 2,
	INCIDENT_SEQUENCES = 3,
};

/* Of the blocks in which an incident was loud. */
struct incident_cost {
	int64_t time_ns, gain_ns;
	int64_t delay_ns;    /* what its ranks were late by, hidden or not */
	int64_t affected_ns; /* of time_ns, in every so-many-th step: these */
	uint64_t steps;
	int64_t block_gain_ns; /* of the open one */
};

/*
 * What of a fault is part of its slow-down: until the last block with half of its highest level, for what is less fades; and but for what
 * came behind a longer rest than usual, which may be something else.
 */
struct incident_felt {
	int64_t until_ns;
	int64_t apart_ns; /* that rest, less the loud blocks since; 0: they outweigh it */
};

/* One fault, as people see it: a verdict that holds. */
struct incident {
	bool active;
	enum incident_kind kind;
	uint32_t every; /* not 0: level, sums and loud blocks are of every so-many-th step; */
	uint32_t phase; /* step number mod every. A block without one says nothing */
	size_t verdict;
	struct alert_memory memory;
	struct excess_sums sums;
	struct incident_cost cost;
	double level;		/* mean over its loud blocks */
	double least;		/* below a part of it a block is quiet */
	struct run_begin begin; /* of the run that began first of those that it came of */
	uint64_t onset_step, alert_step;
	uint64_t loud_blocks; /* since the alert */
	double gap;	      /* blocks from one loud one to the next, on average */
	struct run between;   /* blocks since the last loud one */
	double evidence;
	double most_level; /* at most, so far */
	int64_t onset_ns, loud_until_ns;
	struct incident_felt felt;
	double usual_step_ns;	    /* of a rank on a device, before its onset; 0: not known */
	struct episode_past past;   /* of the rank that it began with */
	struct progress_rate usual; /* of the job, before its onset */
	int64_t aside_ns;	    /* since when no slot told what is usual */
};

/* What a row's transfers were, until they go into its rank's state. */
struct comm_row {
	double excess_ns;
	struct link_look link;
};

/* Steps by how much longer their transfers were than expected, in powers of two of ns. */
enum { LOSS_HEIGHTS = 48 };

struct loss_steps {
	uint64_t counts[LOSS_HEIGHTS];
	double excess_ns[LOSS_HEIGHTS], time_ns;
};

/* Of one rank, and of no other, packets are lost: are transfers long since then? locate/loss.c */
struct loss_watch {
	bool active;
	bool proven;  /* they are: no chance explains it */
	bool doubted; /* when its losses began, another rank's requests became slow */
	uint32_t rank;
	int64_t looked_ns, start_ns;
	uint64_t first_step, next_step; /* of those in since; to be taken */
	struct loss_steps since;	/* steps since then */
	struct loss_steps other;	/* in which no one rank's were */
};

/* How much the share of time in which a rank's sockets have data to send differs, of itself; judge_busier.c. */
struct busy_noise {
	double deviation;	  /* standard, of one rate */
	double freedom;		  /* degrees of freedom that it is known with; 0: not known */
	double length_ns, before; /* of such a rate; so many of a rank tell what is usual */
	bool of_changes;	  /* deviation is that of changes since then, of other ranks */
};

/* What sockets' rates are held against. */
struct socket_memory {
	bool remembers;		 /* what sockets did before the verdict that holds */
	struct busy_noise noise; /* while it remembers */
	int64_t told_until_ns; /* when the last verdict ended: what sockets did before is no noise; 0: none */
	bool by_class;	   /* who is located is busier in steps of the run's class than in others */
	int64_t unlike_ns; /* since when not all are slow that it names; 0: they are */
};

struct comm_state {
	struct transfer_shape shapes[SHAPES_MAX];
	uint32_t used[SHAPES_MAX / 2]; /* indices into shapes, in order of appearance */
	size_t shape_count;
	uint32_t *by_kind;     /* the same by kind, then by appearance */
	size_t sorted_count;   /* so many of them */
	int64_t *faster;       /* per instance of the step */
	struct comm_row *rows; /* of the step */
	struct whatif_line line;
	/* Without a verdict or hang, the latest first: that one until the begin of the latest block in which nobody was suspected. */
	struct evidence_span calm[CALM_SPANS];
	int64_t learnt_until_ns; /* of these, when it was known how much processes usually run */
	bool slow_before;	 /* some rank's transfers were long in the last step */
	int64_t step_gain_ns, block_gain_ns;
	/* Of the line, after the last step: what rows gained beyond the usual one, mean and most. */
	int64_t ahead_mean_ns, ahead_most_ns;
	struct signal signal; /* what the step gains with all transfers as expected */
	double noise_scale;   /* of its level in a block */
	struct run run;	      /* that is told of, or looked at */
	struct socket_memory sockets;
	struct link_flows links;
	bool ports_lose; /* some rank's ports counted lost packets */
	struct loss_watch loss;
	struct periodic periodic;
	struct excess_sums block; /* the last one: its steps and time, and what they gain */
};

enum { PERIODICS_MAX = 64 }; /* 255 at most */

/* What comes back in a rank's steps. Places are few: what is less certain gives way. */
struct periodic_place {
	uint32_t rank;
	struct periodic found;
};

struct periodic_places {
	struct periodic_place list[PERIODICS_MAX]; /* of ranks */
	uint32_t turn;				   /* the rank to be looked at next */
	int64_t looked_ns;			   /* when it was looked for latest */
};

/* A hang that was told of. */
struct hang_state {
	size_t verdict;	     /* the one that holds, + 1 */
	struct job_ns since; /* of the latest one; 0: none so far */
	struct job_ns told;
};

/* What is told of: what holds now, and each verdict so far. */
struct incidents {
	struct incident list[INCIDENTS_MAX];
	size_t count;
	struct whatif_line lines[INCIDENTS_MAX]; /* without their ranks */
	struct verdict *verdicts;
	size_t verdict_count, verdict_capacity;
	struct hang_state hang;
};

/* The job without those who may be at fault, by kind of run. */
struct suspects {
	struct whatif_line lines[RUN_STEEP];
	uint64_t who[RUN_STEEP];    /* a hash; 0 = nobody, or slow as quick */
	int64_t gain_ns[RUN_STEEP]; /* of the block, with them like their controls */
};

/* Blocks without a suspect. */
struct quiet_blocks {
	double lengths_ns[QUIET_BLOCKS]; /* mean steps of the latest of them */
	uint64_t count;
	double step_ns; /* their median; 0 = not known */
};

struct judged_blocks {
	uint64_t count;
	size_t ranks;	    /* in the last one */
	bool moved;	    /* the program moved work, as of the last one */
	double noise_scale; /* of their levels in it */
	double passing; /* the most evidence of a large quick run that came to nothing; it fades */
	struct quiet_blocks quiet;
};

struct replays {
	struct whatif whatif;
	uint8_t *healed;	  /* per row of the step: who is replayed like its controls */
	struct whatif_line ideal; /* with all of them so */
	struct suspects suspects;
};

/* The latest steps, where they are not judged: whose times are not known, or contradict each other. */
struct unmeasured_steps {
	bool any;
	uint64_t first_step; /* of the program */
	int64_t start_ns;
};

/* What the job is, by its steps so far. */
struct job_traits {
	bool several_hosts;
	bool timed;	/* some step was */
	bool on_device; /* and by a device */
	bool paused;	/* the last ones were not, of a job whose others are */
	struct unmeasured_steps unmeasured;
};

/* A step of the program, as far as it was judged. */
struct open_step {
	uint64_t number;
	double length_ns, ideal_ns;
	bool incomplete, contradictory;
};

/* How long steps were; judge/totals.c */
struct step_lengths {
	struct open_step open;
	struct job_totals job;
	double time_sum_ns, ideal_sum_ns, wasted_rank_ns;
	uint32_t sketch[SKETCH_BUCKETS], ideal_sketch[SKETCH_BUCKETS];
};

/* The processes of the job's ranks, ascending. */
struct process_ids {
	uint32_t *list;
	size_t count, capacity;
};

/* Who asked for what was noted of each look, and for steps; NULL: nobody. */
struct judge_watch {
	void (*on_sheet)(
		void *context, const struct gate_sheet *sheet, const struct explanation *why);
	void *context;
	void (*on_step)(void *context, const struct judged_step *step);
	void *step_context;
};

struct judge {
	struct judge_options options;
	struct judge_watch watch;
	struct arena arena; /* of all that is of one step */
	struct blame blame;
	struct replays replays;
	struct rank_state *ranks;
	size_t rank_capacity;
	uint32_t rank_end;
	char missing[EVIDENCE_SOURCE_NR][VERDICT_DETAIL_LENGTH];
	struct process_ids pids;
	struct step_times times;
	struct block block;
	struct judged_blocks judged;
	struct job_traits traits;
	double *scratch;
	size_t scratch_capacity;
	struct comm_state *comm;
	struct imbalance_state *imbalance;
	struct cost_state *costs;
	struct progress *progress;
	struct periodic_places periodics;
	struct incidents incidents;
	struct judge_looks *looks;  /* NULL until there is one */
	struct stack_looks *stacks; /* likewise */
	struct step_lengths lengths;
};

#endif
