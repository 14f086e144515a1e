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

struct rank_state {
	bool seen;
	uint32_t evidence_mask;
	uint32_t block_steps;
	struct excess_sums block;
	int64_t block_comm_ns, block_wait_ns;
	struct signal signal; /* its delay, less what is usual for all */
	double wait;	      /* waiting, likewise */
	float usual_waits; /* cpu_waits() while nothing was suspected, a slow mean; 0 = not known */
	double comm;	   /* late departures, likewise */
	float link_least; /* of its transfers to other hosts, how many times longer the least slow is */
	uint32_t link_count; /* so many of them were looked at; 0: none */
	float busy_before;   /* its sockets, while comm->remembers; negative: not known */
	/* In steps of the class that is located, in others, the error of the difference; error < 0: not known. */
	float busy_inside, busy_outside, busy_error;
	uint32_t host;
	double long_run; /* slow mean of the delay's share: who is usually quiet */
	bool in_block;
	struct launch_sums block_launches,
		run_launches;	     /* as the quick run; goes on in a verdict */
	struct launch_sums launches; /* of the latest steps looked at */
	uint32_t incident;	     /* the one it is in, + 1 */
	uint8_t periodic;	     /* what it may do every so many steps, + 1 */
	uint32_t pid;		     /* 0: not known */
	uint64_t layout;	     /* of its last row without a hole; 0: none yet */
	struct evidence *evidence;
	struct judge_rank_totals totals;
	float usual_excess
		[2];	     /* of the two directions, slow means: what stays is no uneven input */
	float cost_level;    /* mean share of the step that its delay is; judge/costs.c */
	float usual_message; /* work on a message, beyond its control: a share of it, slow mean */
	float unevenness;    /* squared deviation from them, slow mean */
	/* While it is suspected: excess and control of its segments between the dispatch and the
	 * combination of experts, and of all others; slow sums, in ns. uneven/experts.c */
	float expert_excess, expert_control, other_excess, other_control;
};

/* Ranks that run the same part of the program. */
struct role {
	uint64_t key;	      /* uneven/roles.c */
	int64_t step_work_ns; /* of this step's usual member */
	int64_t block_work_ns;
	uint32_t step_rows;
	bool pipeline; /* it sends to, or receives from, other roles */
};

/* Work on both ends of messages: deviations from the usual, slow sums; judge_messages.c. */
struct message_state {
	float *work; /* per cell of a step */
	size_t cell_capacity;
	double steps, count, xx, yy, xy;
};

/* What peers do at each place of a layout, on average over steps. */
struct even_layout {
	uint64_t key, seen; /* seen: the last step */
	uint32_t cell_count;
	float samples;
	float *work_ns; /* by place */
};

enum { EVEN_LAYOUTS_MAX = 64 };

/* The step with even sequences; judge_even.c. */
struct even_state {
	struct even_layout layouts[EVEN_LAYOUTS_MAX];
	uint32_t layout_count;
	int64_t *own_ns; /* per cell of a step */
	size_t cell_capacity;
	struct whatif_line line;
	double gain_ns, time_ns; /* of steps looked at: slow sums */
};

struct imbalance_state {
	struct role roles[ROLES_MAX];
	uint32_t role_count;
	uint32_t worst;			    /* role with the most work in the last block */
	double worst_work_ms, mean_work_ms; /* a step */
	struct signal stages,
		uneven_input;	  /* what the step gains with even roles, with even input */
	int64_t block_gain_ns[2]; /* of these */
	double products[3];	  /* of deviations of both directions: xx, yy, xy; slow sums */
	bool beside; /* in the last step, some device's collectives went on beside its work */
	double absolute, work; /* of deviations of both together, of rows' work; slow sums */
	double taken;	       /* of the work, while the rank was kept off its CPU; likewise */
	double rows;	       /* in them */
	double steps;	       /* in them */
	struct message_state messages;
	struct even_state even;
	double *scales;	      /* per row: its role has the mean work; where uneven is set */
	bool uneven;	      /* roles differ in this step */
	bool sequences;	      /* they are uneven, as of this step */
	int64_t step_gain_ns; /* with even roles */
	struct whatif_line line;
	size_t scale_capacity;
	/* Per row: which role, as a key; its work in the step. Kept while rows and layouts stay. */
	uint64_t *keys;
	uint32_t *parents;
	int64_t *work_ns;
	size_t key_capacity;
	uint64_t grouped; /* hash of the rows that the keys are of */
	bool by_stage;	  /* keys tell stages of one layout apart */
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

/* One fault, as people see it: a verdict that holds. */
struct incident {
	bool active;
	enum incident_kind kind;
	uint32_t every; /* not 0: level, sums and loud blocks are of every so-many-th step; */
	uint64_t phase; /* step number mod every. A block without one says nothing */
	size_t verdict;
	struct alert_memory memory;
	struct excess_sums sums;
	int64_t time_ns, gain_ns; /* of the blocks in which it was loud */
	int64_t affected_ns;	  /* of time_ns, in every so-many-th step: these */
	int64_t block_gain_ns;
	double level;		 /* mean over its loud blocks */
	double least;		 /* below a part of it a block is quiet */
	uint64_t run_first_step; /* of the runs that it came of */
	uint64_t onset_step, alert_step;
	uint64_t loud_blocks; /* since the alert */
	double gap;	      /* blocks from one loud one to the next, on average */
	struct run between;   /* blocks since the last loud one */
	double evidence;
	int64_t onset_ns, loud_until_ns;
	uint64_t steps;		    /* of the blocks in time_ns */
	double usual_step_ns;	    /* of a rank on a device, before its onset; 0: not known */
	struct episode_past past;   /* of the rank that it began with */
	struct progress_rate usual; /* of the job, before its onset */
	int64_t aside_ns;	    /* since when no slot told what is usual */
};

/* What a row's transfers were, until they go into its rank's state. */
struct comm_row {
	double excess_ns;
	float link_least; /* as of a rank_state */
	uint32_t link_count;
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

struct comm_state {
	struct transfer_shape shapes[SHAPES_MAX];
	uint32_t used[SHAPES_MAX / 2]; /* indices into shapes, in order of appearance */
	size_t shape_count;
	uint32_t *by_kind;     /* the same by kind, then by appearance */
	size_t sorted_count;   /* so many of them */
	int64_t *faster;       /* per instance of a step */
	struct comm_row *rows; /* of a step */
	struct whatif_line line;
	size_t instance_capacity, row_capacity;
	bool slow_before; /* some rank's transfers were long in the last step */
	int64_t step_gain_ns, block_gain_ns;
	/* Of the line, after the last step: what rows gained beyond the usual one, mean and most. */
	int64_t ahead_mean_ns, ahead_most_ns;
	struct signal signal;	 /* what the step gains with all transfers as expected */
	double noise_scale;	 /* of its level in a block */
	struct run run;		 /* that is told of, or looked at */
	bool remembers;		 /* what sockets did before the verdict that holds */
	struct busy_noise noise; /* while it remembers */
	int64_t told_until_ns; /* when the last verdict ended: what sockets did before is no noise; 0: none */
	bool by_class;	   /* who is located is busier in steps of the run's class than in others */
	int64_t unlike_ns; /* since when not all are slow that it names; 0: they are */
	struct loss_watch loss;
	struct periodic periodic;
	struct excess_sums block; /* the last one: its steps and time, and what they gain */
};

/* A part of the job whose cost is followed; judge_costs.c. */
struct cost {
	uint64_t key; /* rank, host, role, phase; of links a hash */
	struct job_cost told;
	double gain_ns, gain_rank_ns; /* sums */
	struct whatif_line line;
};

/* Something that may cost: how much of the step, on average of late, at most. */
struct cost_level {
	uint64_t key;
	float level;
	uint32_t steps, rows;
	int64_t step_ns;	       /* of this step */
	uint32_t first, last, members; /* ranks; how many hosts, of links */
};

enum { COST_LINKS_MAX = 32 };

struct cost_state {
	struct cost costs[COST_NR][COSTS_PER_KIND];
	uint32_t counts[COST_NR];
	struct whatif_line line;  /* with everything as it should be */
	struct cost_level *nodes; /* by host */
	struct cost_level roles[ROLES_MAX];
	struct cost_level links[COST_LINKS_MAX];
	uint32_t link_count;
	uint8_t *link_of; /* per instance of a step: index into links, or COST_LINKS_MAX */
	int64_t *faster;  /* per instance */
	double *scales;	  /* per row */
	size_t node_capacity, instance_capacity, row_capacity;
	double lost_ns;	     /* to all parts together, in the steps replayed */
	double seen_ns;	     /* the same, more roughly: in all steps */
	double seen_then_ns; /* and in those replayed */
	bool loud;	     /* something cost time in the last step */
	bool quiet;	     /* nothing was replayed in the last step: the lines are empty */
	bool skipped;	     /* it was not to be */
	bool over_budget;    /* nothing is in this group of steps */
	uint64_t group;
	double spent_cells; /* replayed, less what the time since has paid for */
};

/* A step of the program, as far as it was judged. */
struct open_step {
	uint64_t number;
	double length_ns, ideal_ns;
	bool incomplete, contradictory;
};

enum { PERIODICS_MAX = 64 }; /* 255 at most */

/* What comes back in a rank's steps. Places are few: what is less certain gives way. */
struct periodic_place {
	uint32_t rank;
	struct periodic found;
};

struct judge {
	struct judge_options options;
	void (*on_sheet)(void *context, const struct gate_sheet *sheet,
		const struct explanation *why); /* NULL: nobody asks */
	void *sheet_context;
	struct blame blame;
	struct whatif whatif;
	struct whatif_line lines[INCIDENTS_MAX]; /* of incidents: without their ranks */
	struct whatif_line suspect_lines[RUN_STEEP], ideal_line;
	uint64_t suspects[RUN_STEEP]; /* hash of who they are; 0 = none, or slow as quick */
	uint8_t *healed;	      /* per row */
	size_t healed_capacity;
	struct rank_state *ranks;
	size_t rank_capacity;
	uint32_t rank_end;
	char missing[EVIDENCE_SOURCE_NR][VERDICT_DETAIL_LENGTH];
	struct block block;
	int64_t suspect_gain_ns
		[RUN_STEEP]; /* of it, with the suspects of a kind like their controls */
	uint64_t blocks;
	size_t ranks_in_block; /* the last one */
	double noise_scale;    /* of their levels in it */
	bool timed, paused; /* some step was; the last ones were not, of a job whose others are */
	double *scratch;
	size_t scratch_capacity;
	struct comm_state *comm;
	struct link_flows links;
	bool ports_lose; /* some rank's ports counted lost packets */
	struct imbalance_state *imbalance;
	struct cost_state *costs;
	struct progress *progress;
	struct step_times times;
	struct open_step open_step;
	int64_t known_ns; /* when all rounds of the latest step were known: they come together */
	double clock_error_us;
	double quiet_lengths_ns[QUIET_BLOCKS]; /* mean steps of the latest of them */
	uint64_t quiet_blocks;		       /* blocks without a suspect */
	double quiet_step_ns;		       /* their median; 0 = not known */
	bool several_hosts;
	uint32_t *pids; /* of the job's ranks, ascending */
	size_t pid_count, pid_capacity;
	struct periodic_place periodics[PERIODICS_MAX]; /* of ranks */
	uint32_t periodic_turn;				/* the rank to be looked at next */
	int64_t periodic_ns;				/* of the latest look */
	size_t incident_count;
	struct incident incidents[INCIDENTS_MAX];
	struct verdict *verdicts;
	size_t verdict_count, verdict_capacity;
	size_t hang_verdict;	  /* the one that holds, + 1 */
	struct job_ns hang_since; /* of the latest one; 0: none so far */
	struct job_ns hang_told;
	struct judge_looks *looks; /* NULL until there is one */
	struct job_totals job;
	double time_sum_ns, ideal_sum_ns, wasted_rank_ns;
	uint32_t sketch[SKETCH_BUCKETS], ideal_sketch[SKETCH_BUCKETS];
};

#endif
