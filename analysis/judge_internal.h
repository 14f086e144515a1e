/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the judge share. judge.c takes steps and keeps totals; judge_blocks.c looks
 * for change points, judge_comm.c for slow transfers; judge_verdicts.c keeps the verdicts.
 */
#ifndef SLOWRANK_ANALYSIS_JUDGE_INTERNAL_H
#define SLOWRANK_ANALYSIS_JUDGE_INTERNAL_H

#include <math.h>

#include "analysis/alert_policy.h"
#include "analysis/blame.h"
#include "analysis/changepoint.h"
#include "analysis/classify.h"
#include "analysis/evidence.h"
#include "analysis/judge.h"
#include "analysis/judge_periodic.h"
#include "analysis/judge_speed.h"
#include "analysis/whatif.h"

enum {
	WARM_UP_BLOCKS = 10, /* before the first alarm: the noise must be known */
	PAST_BLOCKS = 32,    /* kept per series, to know its noise */
	DOUBTFUL_BLOCKS = 8, /* that may be a fault's */
	STEP_HISTORY = 256,  /* steps in which an onset is looked for */
	POOL_RANKS_MAX = 64, /* whose past tells the noise */
	SHAPES_MAX = 32768,  /* kinds of transfers followed, at most half of it; a power of two */
	SHAPE_PAST = 16,
	ROLES_MAX = 256,     /* later ones are compared within themselves only */
	TRACKS_MAX = 64,     /* verdicts that hold at one time */
	VERDICTS_MAX = 4096, /* in one run */
	SKETCH_BUCKETS = 4700,
	USUAL_MEMORY = 64, /* blocks; of what is usual for a rank */
	QUICK_BLOCKS_MIN = 3,
	SLOW_BLOCKS_MIN = 8,
	BLOCK_NS = 200000000, /* shorter steps are judged together: two usual quota periods */
};

/* Slow-downs below this share of a step are not told: it is normal for a program to be uneven. */
#define DELAY_SHARE_MIN 0.04
#define SMALL_SHARE_MIN 0.018 /* where a rank is held against its own past, for long */
#define COMM_SHARE_MIN 0.04
/* Of slow runs: rare slow blocks must outweigh the quiet ones between them, one in seven. */
#define SLOW_FORGET 0.3
#define SLOW_REFERENCE (0.55 * SMALL_SHARE_MIN)
#define DELAY_PER_STEP_MIN_NS 50000
#define GAIN_SHARE_MIN 0.3 /* of the delay must be gained without it */
/* Ranks that share cores take them from each other; only more than this is told. */
#define RIVALS_SEEN_MIN 0.1 /* share of the preempted excess that long intervals must show */
#define OWN_RIVALS_MAX 0.25 /* of the time others ran instead */
#define OWN_RIVALS_SHARE_MIN 0.15
/* -ln of the probability that a healthy rank is hit in so many steps of a run. */
#define HIT_SURPRISE 14.0
#define HIT_RANKS 64 /* of so many, one in 20,000 jobs has such a rank by chance, at each look */

/* Of steps in which a rank's launches were looked at. */
struct launch_sums {
	double steps, launches, silence_ns, idle_ns, wait_ns;
};

/* The blocks of a rank's delay since the sum left 0. */
struct delay_run {
	struct change_point change;
	struct excess_sums sums;
	struct excess_sums peak;  /* the block with the most delay */
	double level, peak_level; /* summed over blocks */
	uint64_t blocks, loud_blocks, first_step;
	bool peak_dropped; /* one block was a spike and is no part of it any more */
	uint32_t every;	   /* not 0: of every so-many-th step alone, blocks are such steps; */
	uint64_t phase;	   /* step number mod every */
	/* Of the blocks in which it was suspected: its delay, and what a replay without the suspects gains. */
	int64_t suspect_delay_ns, suspect_gain_ns;
};

/*
 * What may be told at once, and what must come again and again: slow-downs that are small, rare
 * or come slowly.
 */
enum run_kind { RUN_QUICK = 0, RUN_SLOW = 1, RUN_NR };

struct rank_state {
	bool seen;
	uint32_t evidence_mask;
	uint32_t block_steps;
	struct excess_sums block;
	int64_t block_comm_ns, block_wait_ns;
	/* Delay as a share of the last block, less what is usual for all, less what is for it. */
	double level;
	double usual;	       /* what is usual for the rank; not below 0 */
	double usual_least;    /* at best, so far */
	bool settled;	       /* what is usual is known */
	uint32_t usual_blocks; /* from so many, at most USUAL_MEMORY */
	double wait;	       /* waiting, likewise */
	float usual_waits; /* judge_speed_waits() while nothing was suspected, a slow mean; 0 = not known */
	double comm;	  /* late departures, likewise */
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
	struct delay_run runs[RUN_NR];
	float past[PAST_BLOCKS]; /* levels of quiet blocks */
	float doubtful
		[DOUBTFUL_BLOCKS]; /* of those of a run that is open: past, unless it is told */
	uint32_t doubtful_count;
	uint32_t past_count;
	float delays[STEP_HISTORY]; /* ns, by step number; negative: of a fault told of */
	uint32_t track;		    /* the verdict it is in, + 1 */
	uint8_t periodic;	    /* what it may do every so many steps, + 1 */
	uint32_t pid;		    /* 0: not known */
	uint64_t layout;	    /* of its last row without a hole; 0: none yet */
	struct evidence *evidence;
	struct judge_rank_totals totals;
	float usual_excess
		[2];	     /* of the two directions, slow means: what stays is no uneven input */
	float cost_level;    /* mean share of the step that its delay is; judge_costs.c */
	float usual_message; /* work on a message, beyond its control: a share of it, slow mean */
	float unevenness;    /* squared deviation from them, slow mean */
	/* While it is suspected: excess and control of its segments between the dispatch and the
	 * combination of experts, and of all others; slow sums, in ns. judge_experts.c */
	float expert_excess, expert_control, other_excess, other_control;
};

/* Ranks that run the same part of the program. */
struct role {
	uint64_t key;	      /* judge_roles.c */
	int64_t step_work_ns; /* of this step's usual member */
	int64_t block_work_ns;
	uint32_t step_rows;
	bool pipeline; /* it sends to, or receives from, other roles */
};

enum imbalance { IMBALANCE_NONE = 0, IMBALANCE_STAGE = 1, IMBALANCE_SEQUENCE = 2, IMBALANCE_NR };

/* Work that is uneven by the program's own doing: between roles, or with the input. */
struct imbalance_series {
	struct change_point change;
	int64_t block_gain_ns, run_gain_ns, run_time_ns, run_start_ns;
	uint64_t run_first_step, run_blocks;
	double level; /* of the last block */
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
	struct imbalance_series series[IMBALANCE_NR];
	double products[3]; /* of deviations of both directions: xx, yy, xy; slow sums */
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
	uint32_t count;		/* in this block */
	float past[SHAPE_PAST]; /* means of quiet blocks, ns */
	float usual_ns;		/* their median; negative: not known yet */
	float expected_ns;	/* that, or what others of its kind take; negative: not known yet */
	float slow; /* slow mean of how many times longer it is than expected; 0: not known yet */
	uint32_t past_count;
};

/* Blocks in which transfers are long, on the whole. */
struct comm_run {
	uint64_t first_step, steps, blocks, loud_blocks;
	bool dated;	/* the first step is the onset, and not to be looked for */
	bool small;	/* of the slow series */
	uint32_t every; /* as of a delay_run */
	uint64_t phase;
	int64_t start_ns, time_ns, loud_ns, excess_ns;
	int64_t peak_ns; /* the excess of the block with the most; negative: which is no part of the run */
	double evidence;
};

/* Transfers' excess block by block: what must be told at once, and what is small or rare. */
struct comm_series {
	struct change_point change;
	struct comm_run run;
	uint32_t past_in_run; /* of the past, the latest: of the run, but for some of its first */
};

struct track {
	bool active, comm;
	uint8_t imbalance; /* enum imbalance */
	uint32_t every;	   /* not 0: level, sums and loud blocks are of every so-many-th step; */
	uint64_t phase;	   /* step number mod every. A block without one says nothing */
	size_t verdict;
	struct alert_memory memory;
	struct excess_sums sums;
	int64_t time_ns, gain_ns; /* of the blocks in which it was loud */
	int64_t affected_ns;	  /* of time_ns, in every so-many-th step: these */
	int64_t block_gain_ns;
	double level;		 /* mean over its loud blocks */
	double least;		 /* below a part of it a block is quiet */
	uint64_t run_first_step; /* of the runs that it came of */
	uint64_t alert_step;
	uint64_t loud_blocks;	 /* since the alert */
	double gap;		 /* blocks from one loud one to the next, on average */
	struct comm_run between; /* of transfers, and of every: blocks since the last loud one */
	double evidence;
	int64_t onset_ns, loud_until_ns;
	uint64_t steps;			/* of the blocks in time_ns */
	double usual_step_ns;		/* of a rank on a device, before its onset; 0: not known */
	struct speed_usual usual_speed; /* of the rank that it began with */
	double clock_error_us;
};

struct block {
	uint64_t first_step, steps, irregular;
	int64_t start_ns, time_ns;
	int64_t suspect_gain_ns[RUN_NR]; /* with the suspects of a kind like their controls */
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

/* Of one rank, and of no other, packets are lost: are transfers long since then? judge_loss.c */
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
enum { BUSY_FREEDOM_MIN = 2 }; /* less says nothing of it */

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
	float past[2 * PAST_BLOCKS];
	uint32_t past_count;
	struct comm_series series[RUN_NR];
	bool given_up;		 /* the slow series: what it had was nobody's */
	struct comm_run run;	 /* that is told of, or looked at */
	bool remembers;		 /* what sockets did before the verdict that holds */
	struct busy_noise noise; /* while it remembers */
	int64_t told_until_ns; /* when the last verdict ended: what sockets did before is no noise; 0: none */
	bool by_class;	   /* who is located is busier in steps of the run's class than in others */
	int64_t unlike_ns; /* since when not all are slow that it names; 0: they are */
	struct loss_watch loss;
	struct periodic periodic;
	double excess_share; /* of the last block, at most 1: a late departure shows in the next */
	int64_t excess_ns;   /* of it, all */
	float steps[STEP_HISTORY]; /* ns of excess, by step number; negative: set aside */
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
	bool too_dear;	     /* nothing is in this group of steps */
	uint64_t group;
	double spent_cells; /* replayed, less what the time since has paid for */
};

struct judge {
	struct judge_options options;
	struct blame blame;
	struct whatif whatif;
	struct whatif_line lines[TRACKS_MAX]; /* of tracks: without their ranks */
	struct whatif_line suspect_lines[RUN_NR], ideal_line;
	uint64_t suspects[RUN_NR]; /* hash of who they are; 0 = none, or slow as quick */
	uint8_t *healed;	   /* per row */
	size_t healed_capacity;
	struct rank_state *ranks;
	size_t rank_capacity;
	uint32_t rank_end;
	char missing[EVIDENCE_SOURCE_NR][VERDICT_DETAIL_LENGTH];
	struct block block;
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
	int64_t step_start_ns[STEP_HISTORY];
	int64_t step_length_ns[STEP_HISTORY];
	uint64_t next_step;
	double clock_error_us;
	double quiet_step_ns; /* mean step while nobody is suspected, a slow mean; 0 = not known */
	bool several_hosts;
	uint32_t *pids; /* of the job's ranks, ascending */
	size_t pid_count, pid_capacity;
	struct periodic periodics[PERIODICS_MAX]; /* of ranks */
	uint32_t periodic_turn;			  /* the rank to be looked at next */
	int64_t periodic_ns;			  /* of the latest look */
	size_t track_count;
	struct track tracks[TRACKS_MAX];
	struct verdict *verdicts;
	size_t verdict_count, verdict_capacity;
	size_t hang_verdict;	   /* the one that holds, + 1 */
	struct judge_looks *looks; /* NULL until there is one; judge_deep.c */
	struct job_totals job;
	double time_sum_ns, ideal_sum_ns, wasted_rank_ns;
	uint32_t sketch[SKETCH_BUCKETS], ideal_sketch[SKETCH_BUCKETS];
};

/* The end of the block. */
static inline int64_t judge_now_ns(const struct judge *judge)
{
	return judge->block.start_ns + judge->block.time_ns;
}

/* What a run's sums are taken from: of every so-many-th step, the others too. */
static inline int64_t judge_run_span_ns(const struct delay_run *run)
{
	return run->sums.time_ns * (run->every ? run->every : 1);
}

void excess_add(struct excess_sums *sums, const struct excess_sums *other);
void excess_subtract(struct excess_sums *sums, const struct excess_sums *other);

/* judge_blocks.c */
int judge_close_block(struct judge *judge) __attribute__((warn_unused_result));
/* What the open block holds is judged, when it is enough; what comes next is no part of it. */
int judge_pause(struct judge *judge) __attribute__((warn_unused_result));
/* The change on a rank is large enough, real enough and unlike what its peers have. */
bool judge_worth_telling(const struct judge *judge, uint32_t rank, const struct delay_run *run);
/*
 * Means over so many blocks, of which the one of what is usual, differ by less than this by chance. scale: of
 * the noise of one block.
 */
double judge_chance_level(double scale, uint64_t blocks, uint64_t usual_blocks);
/* A run has come so far that it is looked at what the job would be like without the rank. */
bool judge_suspected(const struct rank_state *state, int kind);
bool judge_suspected_any(const struct rank_state *state);

/* Of a run, or of a verdict that came of it: below this level it is not told. */
double judge_level_min(const struct rank_state *state, const struct delay_run *run);
/* A block below this share of that level says that nothing is wrong; or below this one of a verdict's. */
#define QUIET_SHARE 0.6
#define QUIET_OF_LEVEL 0.28
static inline double judge_quiet_level(const struct track *track)
{
	return fmax(QUIET_SHARE * track->least, QUIET_OF_LEVEL * track->level);
}

/*
 * What a run is made of is told of its rank: of a known class, for as long as its cause needs, and nothing
 * that hosts, devices or several ranks do now and then.
 */
bool judge_evidence_suffices(const struct judge *judge, uint32_t rank, const struct delay_run *run);

/* judge_runs.c: levels, what is usual, and runs. */
/* Ends the block for all ranks; returns how many were in it, below 2 nothing was judged. */
size_t judge_level_ranks(struct judge *judge);
void judge_push_runs(struct judge *judge, size_t rank_count);
/* A rank's delay in a step beyond what is usual for it, in ns. */
double judge_step_delay(const struct judge *judge, const struct rank_state *state, uint64_t step);

/* A transfer is slow when its shape takes so many times what is expected. */
#define TRANSFER_SLOW 1.15F

/* judge_comm.c */
int judge_comm_step(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/*
 * rank_level: the largest level of a rank that is suspected of being late, 0 when none is; it
 * explains as much of the transfers. Returns true at an alarm.
 */
bool judge_comm_block(struct judge *judge, double rank_level);
/* Takes the last block into a run; blocks 0: the run begins with it. */
void judge_comm_extend(const struct judge *judge, struct comm_run *run);
/* Of the run that is looked at. */
double judge_comm_share(const struct comm_state *comm);
/*
 * What of a gain slow transfers cost: replays gain something in quiet time too, for noise makes transfers of some
 * instance longer than expected in each step. time = cost + quiet time, gain = cost + its usual share.
 */
double judge_comm_cost_ns(const struct comm_state *comm, double time_ns, double gain_ns);
double judge_comm_step_ns(const struct comm_state *comm);
/* judge_sockets.c: names the ranks whose link it is, into the verdict; false when that cannot be told. */
bool judge_comm_locate(
	struct judge *judge, int64_t from_ns, int64_t until_ns, struct verdict *verdict);
/* judge_busier.c: how much sockets' rates differed before a time. */
void judge_busy_noise(const struct judge *judge, int64_t until_ns, struct busy_noise *noise);
/*
 * How much busier a rank's sockets may seem to be by chance, as a share of the time since from_ns; 0 where
 * nothing is known of that.
 */
double judge_busy_chance(const struct judge *judge, const struct busy_noise *of_all, uint32_t rank,
	int64_t from_ns, int64_t until_ns);
/*
 * A rank's sockets are surely busier by its own rates alone, over whole samples (of the part of one that is left after the onset, the
 * noise is all of it); or, located by class, in steps of the class.
 */
bool judge_surely_changed(
	const struct judge *judge, uint32_t rank, int64_t from_ns, int64_t until_ns);
/* A verdict begins: what sockets did before its onset is kept until it ends. */
void judge_comm_remember(struct judge *judge, int64_t onset_ns);
/*
 * Since when a rank's sockets are as busy as they are since slow_ns, when they were as before the verdict
 * at quiet_ns. False where that is not known.
 */
bool judge_comm_began(const struct judge *judge, uint32_t rank, int64_t quiet_ns, int64_t slow_ns,
	int64_t *began_ns);
/*
 * judge_move.c: before judge_follow(). Transfers are still slow, but of others than the verdict names: it
 * ends, and one of these begins.
 */
int judge_comm_move(struct judge *judge) __attribute__((warn_unused_result));
/*
 * Nobody is slow since a run's onset, but some may be since later: those who are of late are named, and the run begins
 * when their sockets became busy. False: the run is as it was.
 */
bool judge_comm_locate_late(struct judge *judge, int64_t onset_ns, struct verdict *verdict);
/* They may be about to. */
bool judge_comm_moves(const struct judge *judge);

/*
 * judge_link_tell.c: the same, by what queue pairs tell. share: of the time, transfers are so much
 * longer than usual. False when no pair of ranks is slow, or none is known.
 */
bool judge_link_locate(struct judge *judge, double share, int64_t from_ns, int64_t until_ns,
	struct verdict *verdict);

/* judge_loss.c: of whom packets are lost. */
struct loss_finding {
	uint32_t rank;
	bool received; /* what is sent to it is lost, by several ranks; else what it sends */
	bool fresh;    /* and was not, or hardly, at some time before */
	double per_s, others_per_s; /* so many; of the rank that is next */
};
/* The one rank whose packets are lost between two times; false: none, or not one. */
bool judge_loss_find(
	const struct judge *judge, int64_t from_ns, int64_t until_ns, struct loss_finding *finding);
/*
 * Takes a block; counts: what is usual is known, and its transfers are long for no other reason. True when
 * they are so much longer while packets of one rank are lost that no chance explains it: fills in since
 * when, as a run.
 */
bool judge_loss_block(struct judge *judge, bool counts, struct comm_run *run);
/* A verdict on transfers begins: what was seen until now is in it. */
void judge_loss_told(struct judge *judge);

/* judge_experts.c: of suspected ranks, where in the step their excess is. */
void judge_experts_step(struct judge *judge, const struct step_grid *grid);
/* All of the rank's excess is in its experts: they get more tokens, its machine is not slow. */
bool judge_experts_only(const struct judge *judge, uint32_t rank);

/* judge_messages.c: after blame, of steps with sends and receives. */
int judge_messages_step(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/* What the two ends of a message do goes together, and differs from message to message. */
bool judge_messages_alike(const struct message_state *state);
double judge_messages_correlation(const struct message_state *state);

/* judge_roles.c: fills keys for the step's rows. Returns 0 or -ENOMEM. */
int judge_roles_key(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));
void judge_roles_fini(struct imbalance_state *state);

/* judge_imbalance.c: after blame */
int judge_imbalance_step(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/*
 * By how much the work of ranks differs from step to step, a root mean square as a share of the
 * block's steps; 0 when sequences are not uneven.
 */
double judge_uneven_level(const struct judge *judge);

/* judge_even.c: by how much the step is longer than with even sequences. sampled: to be looked at. */
int judge_even_step(struct judge *judge, const struct step_grid *grid, bool sampled,
	int64_t *gain_ns) __attribute__((warn_unused_result));
void judge_even_fini(struct even_state *state);
/* Ends the block; returns the kind that alarms, or IMBALANCE_NONE. */
enum imbalance judge_imbalance_block(struct judge *judge);
/* Fills ranks, cause and evidence. */
void judge_imbalance_tell(struct judge *judge, enum imbalance kind, struct verdict *verdict);

/* judge_costs.c: after all else; the gain is that of every rank like its controls. */
int judge_costs_step(struct judge *judge, const struct step_grid *grid, int64_t length_ns,
	int64_t ideal_gain_ns) __attribute__((warn_unused_result));
void judge_costs_destroy(struct cost_state *state); /* NULL is fine */

/* judge_gpu.c: a cause for compute that a device is slow in, from its driver's counters. */
void judge_gpu_cause(struct judge *judge, const struct excess_sums *sums, double compute_share,
	int64_t now_ns, struct verdict *verdict);

/*
 * How long steps on devices were before a step, where no fault was told of; 0 when too few were. And
 * the gain of a track's loud blocks, held against these: less what its ideal steps would be shorter, and
 * more, as far as its own delay goes, where steps grew by more than the replay gains.
 */
double judge_gpu_usual_step_ns(const struct judge *judge, uint64_t before_step);
double judge_gpu_gain_ns(const struct judge *judge, const struct track *track);

/*
 * judge_deep.c: what deep looks from the onset on, and until the verdict's last loud block, say of
 * ranks on devices, where no other cause is known: as cause and evidence, or as a reason why they
 * cannot say.
 */
void judge_deep_cause(struct judge *judge, const struct excess_sums *sums, int64_t onset_ns,
	int64_t until_ns, struct verdict *verdict);
void judge_looks_destroy(struct judge_looks *looks); /* NULL is fine */

/* judge_launches.c: takes what was seen of a rank in a step, */
void judge_launches_take(struct rank_state *state, const struct step_launches *launches);
/* and the end of a block, before any verdict of it is begun. */
void judge_launches_block(struct judge *judge);
/*
 * Whether a rank that only the host's times say to be late really held up the others: its device had
 * nothing to do meanwhile, or its host was waiting for it. True where there are device times.
 */
bool judge_launches_prove(const struct judge *judge, uint32_t rank, const struct delay_run *run,
	const struct classification *class);
/* Adds evidence to a verdict on host times; launch-gaps becomes its cause where none is known. */
void judge_launches_tell(
	const struct judge *judge, const struct excess_sums *sums, struct verdict *verdict);

/* A rank's delay in its latest steps, as a share of their length; judge_blocks.c. */
enum { LATEST_STEPS = 8 };
double judge_latest_level(
	const struct judge *judge, const struct rank_state *state, uint64_t step_count);

/* Most ranks' GPUs run at their power cap, and no other process has come to the rank's. */
bool judge_gpu_power_bound(const struct judge *judge, uint32_t rank, const struct delay_run *run);

/* judge_cause.c: what a run's excess is made of, */
struct classification judge_classify_rank(
	struct judge *judge, uint32_t rank, const struct delay_run *run);
/* and that of a track's ranks: class, cause and evidence into its verdict. */
void judge_tell_cause(struct judge *judge, const struct track *track, struct verdict *verdict);
/* Why a source cannot be measured, by its bit; "" where nothing is known to be wrong. */
const char *judge_missing_text(const struct judge *judge, uint32_t source);

/* judge_verdicts.c */
int judge_open_imbalance(struct judge *judge, enum imbalance kind)
	__attribute__((warn_unused_result));
/* Room for one more; -ENOSPC when there are too many. */
int judge_add_verdict(struct judge *judge, struct verdict **verdict)
	__attribute__((warn_unused_result));
int judge_open(struct judge *judge, uint32_t rank, const struct delay_run *run)
	__attribute__((warn_unused_result));
int judge_open_comm(struct judge *judge) __attribute__((warn_unused_result));
void judge_end_track(struct judge *judge, struct track *track);
/* A verdict turns out to be of every so-many-th step. */
void judge_track_periodic(
	struct judge *judge, struct track *track, uint32_t every, uint64_t phase, double level);
void judge_follow(struct judge *judge); /* after a block: updates and recoveries */
/* judge_onset.c: the first step of a change, by the history of a series; of_rank NULL: transfers. */
uint64_t judge_onset(const struct judge *judge, const struct rank_state *of_rank,
	uint64_t run_first_step, double level);
/* What came after the alert says better how large the change is, and so where it began. */
void judge_refine_onset(struct judge *judge, struct track *track);
/* The same of the run of slow transfers: its step and that step's start. */
int64_t judge_comm_onset(const struct judge *judge, uint64_t *step);
/* By what share of the time transfers are longer, in the run or in its latest steps, whatever is more. */
double judge_comm_latest_level(const struct judge *judge);

#endif
