/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one subject (a rank, all transfers, the program's split) costs the job, step by step and slot by slot: what is usual, how it
 * is noisy, and the runs of slots in which it was more. Everything that is told of begins as a run of a signal;
 * docs/analysis.md has the formulas. Plain values, zeros are an empty one; one thread.
 */
#ifndef SLOWRANK_ANALYSIS_DETECT_SIGNAL_H
#define SLOWRANK_ANALYSIS_DETECT_SIGNAL_H

#include "analysis/attribute/excess.h"
#include "analysis/detect/changepoint.h"
#include "analysis/detect/gates.h"
#include "analysis/detect/step_times.h"

/* A slot of the job's time: short steps until there are BLOCK_NS of them, or one long step. */
struct block {
	uint64_t first_step, end_step; /* numbers that its steps are kept under: [first, end) */
	uint64_t steps, irregular;
	int64_t start_ns, time_ns;
};

/*
 * What may be told at once; what must come again and again: slow-downs that are small, rare or come slowly; and what
 * rises far above a quick run that had begun before, which is judged without what that one has gathered.
 */
enum run_kind { RUN_QUICK = 0, RUN_SLOW = 1, RUN_STEEP = 2, RUN_NR = 3 };

/* Whose time a delay is: that of what does the work (a device, or the CPU where there is none), or the host's. */
enum run_side { SIDE_WORK = 0, SIDE_HOST = 1, SIDE_NR = 2 };

/* By how much more it is of a side than of the other, summed over blocks, not below 0; and since when it is above, in steps after a run's first. */
struct run_lean {
	float sum_ns;
	uint32_t after;
};

/* The blocks of a signal since its sum left 0. */
struct run {
	struct change_point change;
	/* Their steps and time, what was lost, and of ranks what that is made of; of a verdict's ranks, of all of them. */
	struct excess_sums sums;
	struct excess_sums peak; /* the block that lost most */
	double level;		 /* summed over blocks */
	uint64_t first_step;
	int64_t start_ns, loud_ns;
	float peak_level;
	uint32_t blocks, loud_blocks;
	uint32_t every;	   /* not 0: of every so-many-th step alone, blocks are such steps; */
	uint32_t phase;	   /* step number mod every */
	bool small;	   /* a slow run */
	bool dated;	   /* the first step is the onset, and not to be looked for */
	bool peak_dropped; /* it outweighed all other blocks, and is no part of them any more */
	/* Of the blocks in which it was suspected: what was lost, and what a replay without the suspects gains. */
	int64_t suspect_delay_ns, suspect_gain_ns;
	struct run_lean leans[SIDE_NR]; /* by enum run_side */
};

struct signal {
	float lost_ns[STEP_HISTORY]; /* by step number; negative: of a fault that was told of */
	double level;		     /* lost of the last block's time, less what is usual */
	double usual;		     /* as a share; not below 0 */
	double usual_least;	     /* at best, so far */
	bool settled;		     /* what is usual is known */
	uint32_t usual_blocks;	     /* from so many, at most USUAL_MEMORY */
	uint32_t past_count, doubtful_count;
	float past[PAST_BLOCKS]; /* levels of quiet blocks: the noise */
	float doubtful
		[DOUBTFUL_BLOCKS]; /* of those of a run that is open: past, unless it is told */
	struct run runs[RUN_NR];
};

/* What a signal lost in a block: sums, of which suspect_gain_ns is what a replay without the suspects gains. */
struct block_loss {
	const struct excess_sums *sums;
	int64_t suspect_gain_ns[RUN_NR];
	double weight; /* below 1 where blocks say less */
};

/* Steps */

/* Of the step that was noted last, which may be kept together with others. */
void signal_take_step(
	struct signal *signal, const struct step_times *times, double lost_ns, bool told);
/* What it lost in a step that is kept, beyond what is usual, in ns. */
double signal_step_ns(const struct signal *signal, const struct step_times *times, uint64_t step);
/* The steps since one are told of: no measure of what is usual. */
void signal_set_told(struct signal *signal, const struct step_times *times, uint64_t since);
/* The share that was lost in so many of the latest steps; without_most: less the step that lost most, since a stall is no level. */
double signal_latest_level(const struct signal *signal, const struct step_times *times,
	uint64_t step_count, bool without_most);
/*
 * How large it is in the steps that hold most of it (the mean over lost time, not over steps): of what is
 * steady its level, of what is rare the height of a single hit.
 */
double signal_height_of_hits(
	const struct signal *signal, const struct step_times *times, uint64_t step_count);
/* In how many of so many latest steps more than a share of the step was lost. Those of a fault that was told of are no tries. */
uint64_t signal_hits(const struct signal *signal, const struct step_times *times,
	uint64_t step_count, double share, uint64_t *tries);
/* Steps of a run: its first, and the one since which its delay is of the side that most of it is of. */
struct run_begin {
	uint64_t first_step, side_since;
};

/* The first step of a change to a level, of a run, and of its side. block: the open one, or the last. */
uint64_t signal_onset(const struct signal *signal, const struct step_times *times,
	const struct block *block, struct run_begin begin, double level);

/* Blocks */

/* The first blocks are known: they are what is usual, if they lose less than a share. */
void signal_settle(struct signal *signal, double least);
/* Values of the past, one after the other; returns how many, at most PAST_BLOCKS. */
size_t signal_past(const struct signal *signal, double *values);
/* The noise of each kind of run, from values of the past, which are overwritten. */
void signal_noises(double *values, size_t count, struct change_noise noises[RUN_NR]);
/* Takes the block whose level is set. */
void signal_push(struct signal *signal, const struct block *block, const struct block_loss *loss,
	const struct change_noise noises[RUN_NR]);
/*
 * The same while a verdict holds that names it, for the quick run that was told of: it goes on, and a steep run is what rises so far
 * above it that the job loses twice as much and more.
 */
void signal_push_told(struct signal *signal, const struct block *block,
	const struct block_loss *loss, const struct change_noise noises[RUN_NR]);
/* The block is surely quiet, whatever else it says: it is part of the noise. */
void signal_note_quiet(struct signal *signal);
/* The block says nothing: some of what was seen is forgotten. */
void signal_forget_some(struct signal *signal);

/* A run has come so far that it is looked at what the job would be like without. */
bool signal_suspected(const struct signal *signal, enum run_kind kind);
bool signal_suspected_any(const struct signal *signal);

/* Runs */

/* Shares below it are not told. */
double run_least(const struct run *run);
/* The mean of its blocks, as a share. */
double run_level(const struct run *run);
/* The same, of all of its time: what is usual is in it. */
double run_share(const struct run *run);
/* Mean length of its steps. */
double run_step_ns(const struct run *run);
/* Its evidence, in units of blocks however long their steps make them: what must last, must for a time. */
double run_evidence_in_time(const struct run *run);
/* Half of the time and more was lost in two blocks and more: their evidence counts in time. */
bool run_is_of_long_steps(const struct run *run);
struct run_begin run_begin(const struct run *run);
/* By how much of its delay that side outweighs the other since then; 1 where the run has been of it from its begin. */
double run_side_share(const struct run *run);
/* What its sums are taken from: of every so-many-th step, the others too. */
int64_t run_span_ns(const struct run *run);
/* It goes on, has not just begun, and has changed clearly. */
bool run_is_open(const struct signal *signal, enum run_kind kind, struct gate_sheet *sheet);
/* It lasted, and is more than jitter, than what is normal for a program, and than noise. scale: of one block. */
bool run_is_large(const struct signal *signal, const struct step_times *times, enum run_kind kind,
	double scale, struct gate_sheet *sheet);

void excess_add(struct excess_sums *sums, const struct excess_sums *other);
void excess_subtract(struct excess_sums *sums, const struct excess_sums *other);

#endif
