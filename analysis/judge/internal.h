/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the judge offer each other. judge.c takes steps and keeps totals; judge/blocks.c looks
 * for change points, judge/transfers.c for slow transfers; incident/incidents.c keeps the verdicts.
 */
#ifndef SLOWRANK_ANALYSIS_JUDGE_INTERNAL_H
#define SLOWRANK_ANALYSIS_JUDGE_INTERNAL_H

#include "analysis/judge/state.h"

/* The end of the block, or, between two, of the last step. */
static inline int64_t judge_now_ns(const struct judge *judge)
{
	return judge->block.steps ? judge->block.start_ns + judge->block.time_ns
				  : judge->lengths.job.last_end.value;
}

static inline struct verdict *judge_verdict(
	const struct judge *judge, const struct incident *incident)
{
	return &judge->incidents.verdicts[incident->verdict];
}

/* Some verdict holds, but for one; but may be NULL. */
static inline bool judge_verdict_holds(const struct judge *judge, const struct incident *but)
{
	for (size_t i = 0; i < judge->incidents.count; i++) {
		if (judge->incidents.list[i].active && &judge->incidents.list[i] != but)
			return true;
	}
	return false;
}

/* The one that holds of a kind of which there is one at a time; NULL: none. */
static inline struct incident *judge_incident_of(struct judge *judge, enum incident_kind kind)
{
	for (size_t i = 0; i < judge->incidents.count; i++) {
		if (judge->incidents.list[i].active && judge->incidents.list[i].kind == kind)
			return &judge->incidents.list[i];
	}
	return NULL;
}

/* What is lost by transfers, or by the program's split; ranks have one each. */
static inline struct signal *judge_signal_of(struct judge *judge, enum incident_kind kind)
{
	return kind == INCIDENT_TRANSFERS ? &judge->comm->signal
	       : kind == INCIDENT_STAGES  ? &judge->imbalance->stages
					  : &judge->imbalance->uneven_input;
}

/* What comes back in a rank's steps; NULL: it has no place. */
static inline const struct periodic *judge_periodic_of(
	const struct judge *judge, const struct rank_state *state)
{
	return state->periodic ? &judge->periodics.list[state->periodic - 1].found : NULL;
}

/* Its place becomes free. */
static inline void judge_periodic_forget(struct judge *judge, struct rank_state *state)
{
	if (state->periodic)
		judge->periodics.list[state->periodic - 1] = (struct periodic_place){0};
	state->periodic = 0;
}

/* judge/totals.c: a step that was judged, or passed over; ideal_ns: what it would have taken at best. */
void judge_take_length(
	struct judge *judge, const struct step_grid *grid, int64_t length_ns, double ideal_ns);
/* The program's step that it is of. */
struct open_step *judge_open_step(struct judge *judge, const struct step_grid *grid);
/* Of one that was judged: what tells the usual step, and how well its times are known. */
void judge_sketch(
	struct judge *judge, const struct step_grid *grid, double length_ns, double ideal_ns);
/* The usual step, in ns; 0: not known. */
double judge_usual_step_ns(const struct judge *judge);

/* judge/blocks.c */
int judge_close_block(struct judge *judge) __attribute__((warn_unused_result));
/* What the open block holds is judged, when it is enough; what comes next is no part of it. */
int judge_pause(struct judge *judge) __attribute__((warn_unused_result));
/*
 * The job hung, as is told: what was suspected of somebody before has ended, and its evidence would reach over the hang. Verdicts
 * that hold go on.
 */
void judge_break(struct judge *judge);
/* incident/hang.c: the job stood still between these times, as was told; that is no evidence of slowness. */
bool judge_hang_holds(const struct judge *judge, int64_t start_ns, int64_t end_ns);
/* The step that a run of a rank began with, as a verdict dates it, and how large it is since then. */
struct dated {
	uint64_t step;
	int64_t start_ns;
	double level;
};
struct dated judge_date_run(
	const struct judge *judge, const struct signal *signal, const struct run *run);
/* The change on a rank is large enough, real enough and unlike what its peers have. */
bool judge_worth_telling(const struct judge *judge, uint32_t rank, enum run_kind kind,
	struct explanation *why, struct gate_sheet *sheet); /* sheet NULL: notes nothing */
/*
 * Of two or three ranks, a program may give one more to do than the others, now or by and by: where nothing says why a CPU takes
 * longer, it must be by twice what machines differ.
 */
bool judge_more_than_split(const struct judge *judge, const struct excess_sums *sums, double level,
	const struct explanation *why, struct gate_sheet *sheet);
/* A run has come so far that it is looked at what the job would be like without the rank. */
static inline bool judge_suspected(const struct rank_state *state, enum run_kind kind)
{
	return !state->incident && signal_suspected(&state->signal, kind);
}

static inline bool judge_suspected_any(const struct rank_state *state)
{
	return !state->incident && signal_suspected_any(&state->signal);
}

/* Of a verdict: a block below this level is quiet. */
static inline double judge_quiet_level(const struct incident *incident)
{
	return fmax(QUIET_SHARE * incident->least, QUIET_OF_LEVEL * incident->level);
}

/*
 * What a run is made of is told of its rank: of a known class, for as long as its cause needs, and nothing
 * that hosts, devices or several ranks do now and then.
 */
bool judge_evidence_suffices(const struct judge *judge, uint32_t rank, const struct run *run,
	struct explanation *why, struct gate_sheet *sheet);

/* judge/sheet.c: what is noted of a look at a rank, or at transfers; empties it, of the block. */
void judge_sheet_begin(const struct judge *judge, uint32_t rank, struct gate_sheet *sheet);
/*
 * Of a rank's run, before a verdict is opened of it: what it says beside its gates. True: there is a delay that nobody has
 * explained yet.
 */
bool judge_sheet_describe(
	const struct judge *judge, const struct run *run, bool small, struct gate_sheet *sheet);
/* Then, to who watches. opened: there was to be a verdict. */
void judge_sheet_tell(const struct judge *judge, bool opened, struct gate_sheet *sheet,
	const struct explanation *why);

/* judge/rank_levels.c: levels, what is usual, and runs. */
/* Ends the block for all ranks; returns how many were in it, below 2 nothing was judged. */
size_t judge_level_ranks(struct judge *judge);
void judge_push_runs(struct judge *judge, size_t rank_count);
/* judge/holds.c */
/* After blame: what ranks hold of transfers that others of their processes' threads move is theirs. */
int judge_hold_transfers(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/* What is usual is learnt from what was until a fault; after it, anew. */
void judge_end_calm(struct judge *judge);
/*
 * No process was kept from running for as long as transfers took longer since a time, share of it, as far as samples
 * reach: it is known well enough that none holds them up.
 */
bool judge_holds_excluded(const struct judge *judge, int64_t from_ns, double share);
/*
 * Its process runs less than usual since a time, and those of other ranks of its host do not run as much more: so neither
 * these nor threads of its own took the CPU. False where that is not known.
 */
bool judge_taken_by_others(const struct judge *judge, uint32_t rank, int64_t from_ns);
/* judge/transfer_shapes.c */
/* Of a transfer, made when it is the first of its kind; NULL: there are too many kinds. */
struct transfer_shape *judge_transfer_shape(
	struct comm_state *comm, const struct blame_transfer *transfer);
/* By how much longer than expected a transfer was; 0 where that is not known. */
int64_t judge_transfer_excess_ns(struct comm_state *comm, const struct blame_transfer *transfer);
/* judge/transfers.c */
int judge_comm_step(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/*
 * rank_level: the largest level of a rank that is suspected of being late, 0 when none is; it
 * explains as much of the transfers. Returns true at an alarm.
 */
bool judge_comm_block(struct judge *judge, double rank_level);
/*
 * What of a gain slow transfers cost: replays gain something in quiet time too, for noise makes transfers of some
 * instance longer than expected in each step. time = cost + quiet time, gain = cost + its usual share.
 */
double judge_comm_cost_ns(const struct comm_state *comm, double time_ns, double gain_ns);
/* locate/sockets.c: names the ranks whose link it is, into the verdict; false when that cannot be told. */
bool judge_comm_locate(
	struct judge *judge, int64_t from_ns, int64_t until_ns, struct verdict *verdict);
/* locate/busier.c: how much sockets' rates differed before a time. */
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
 * incident/move.c: before judge_follow(). Transfers are still slow, but of others than the verdict names: it
 * ends, and one of these begins.
 */
int judge_comm_move(struct judge *judge) __attribute__((warn_unused_result));
/* incident/move.c: a rank that is told of delays the job far more by now: its verdict ends before that, and another one begins. */
int judge_worsen(struct judge *judge) __attribute__((warn_unused_result));
/* locate/since.c: so long ago, or so many steps, whatever is longer; a step's start if it is still known. */
int64_t judge_before_now(const struct judge *judge, int64_t length_ns, uint64_t steps);
/*
 * Nobody is slow since a run's onset, but some may be since later: those who are of late are named, and the run begins
 * when their sockets became busy. False: the run is as it was.
 */
bool judge_comm_locate_late(struct judge *judge, int64_t onset_ns, struct verdict *verdict);
/*
 * They may be about to move: while the latest transfers hold some of both, who is slow since the onset changes from block
 * to block, and is not looked at, for as long again.
 */
bool judge_comm_moves(const struct judge *judge);

/*
 * locate/link_tell.c: the same, by what queue pairs tell. share: of the time, transfers are so much
 * longer than usual. False when no pair of ranks is slow, or none is known.
 */
bool judge_link_locate(struct judge *judge, double share, int64_t from_ns, int64_t until_ns,
	struct verdict *verdict);

/* locate/loss.c: of whom packets are lost. */
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
bool judge_loss_block(struct judge *judge, bool counts, struct run *run);
/* A verdict on transfers begins: what was seen until now is in it. */
void judge_loss_told(struct judge *judge);

/* uneven/experts.c: all of the rank's excess is in its experts: they get more tokens, its machine is not slow. */
bool judge_experts_only(const struct rank_state *state);

/* uneven/moved.c: takes the delays out of the block that are of work which other ranks had before; */
void judge_moved_block(struct judge *judge);
/* and learns what is usual, once runs know the block. */
void judge_moved_learn(struct judge *judge);

/* uneven/imbalance.c */
struct imbalance_state *judge_imbalance_create(void);	     /* NULL without memory */
void judge_imbalance_destroy(struct imbalance_state *state); /* NULL is fine */
/* After blame. */
int judge_imbalance_step(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/*
 * By how much the work of ranks differs from step to step, a root mean square as a share of the
 * block's steps; 0 when sequences are not uneven.
 */
double judge_uneven_level(const struct judge *judge);

/* Ends the block. */
void judge_imbalance_block(struct judge *judge);
/* The run that is to be told of; NULL: none is, or one of the kind is told already. */
const struct run *judge_imbalance_alarm(struct judge *judge, enum incident_kind kind);
/* Fills ranks, cause and evidence. */
void judge_imbalance_tell(struct judge *judge, enum incident_kind kind, struct verdict *verdict);

/* judge/costs.c: after all else; the gain is that of every rank like its controls. */
int judge_costs_step(struct judge *judge, const struct step_grid *grid, int64_t length_ns,
	int64_t ideal_gain_ns) __attribute__((warn_unused_result));
struct cost_state *judge_costs_create(void);	    /* NULL without memory */
void judge_costs_destroy(struct cost_state *state); /* NULL is fine */

/*
 * judge/device_steps.c: how long steps on devices were before a step, where no fault was told of; 0 when too few were. And
 * the gain of an incident's loud blocks, held against these: less what its ideal steps would be shorter, and
 * more, as far as its own delay goes, where steps grew by more than the replay gains.
 */
double judge_gpu_usual_step_ns(const struct judge *judge, uint64_t before_step);
double judge_gpu_gain_ns(const struct judge *judge, const struct incident *incident);

/* judge/launch_proof.c: takes what was seen of a rank in a step, */
void judge_launches_take(struct rank_state *state, const struct step_launches *launches);
/* and the end of a block, before any verdict of it is begun. */
void judge_launches_block(struct judge *judge);
/*
 * Whether a rank that only the host's times say to be late really held up the others: its device had
 * nothing to do meanwhile, or its host was waiting for it. True where there are device times.
 */
bool judge_launches_prove(const struct judge *judge, uint32_t rank, const struct run *run,
	const struct explanation *explanation);

/* Most ranks' GPUs run at their power cap, and no other process has come to the rank's. */
bool judge_gpu_power_bound(const struct judge *judge, uint32_t rank, const struct run *run);

/* judge/causes_of.c: why the rank of a run is slow, by what is known until now, */
void judge_explain_run(const struct judge *judge, uint32_t rank, const struct run *run,
	struct explanation *explanation);
/*
 * and why those of an incident are, by what was known when it was last loud: class, cause and evidence into its verdict. Returns
 * when the cause was not there yet, if that was since the onset.
 */
int64_t judge_tell_cause(
	const struct judge *judge, const struct incident *incident, struct verdict *verdict);
/* Nothing is left of the cause that an incident was told with, and what is left would not be told: its verdict stays as it is. */
bool judge_cause_is_gone(const struct judge *judge, const struct incident *incident);
/* incident/incidents.c: with that, its verdict tells nothing of what its ranks were late for before the cause came. */
void judge_date_since_cause(const struct judge *judge, struct incident *incident, int64_t since_ns);
struct explain_context judge_explain_context(const struct judge *judge, int64_t now_ns);

/* incident/incidents.c */
/* Of transfers, or of the program's split. */
int judge_open_job(struct judge *judge, enum incident_kind kind, const struct run *run)
	__attribute__((warn_unused_result));
/* Room for one more; -ENOSPC when there are too many. */
int judge_add_verdict(struct judge *judge, struct verdict **verdict)
	__attribute__((warn_unused_result));
int judge_open(struct judge *judge, uint32_t rank, const struct run *run)
	__attribute__((warn_unused_result));
void judge_end_incident(struct judge *judge, struct incident *incident);
/* A verdict turns out to be of every so-many-th step. */
void judge_incident_periodic(
	struct judge *judge, struct incident *incident, const struct periodic *found);
void judge_follow(struct judge *judge); /* after a block: updates and recoveries */
/* Likewise: causes that were not known when a verdict was told last. */
void judge_late_samples(struct judge *judge);
/* After a step that was not judged: verdicts that would be over by now, had the job been quiet, say that nothing is measured. */
void judge_follow_unmeasured(struct judge *judge);
/* Of the run of slow transfers: its first step, and that step's start. */
int64_t judge_comm_onset(const struct judge *judge, uint64_t *step);

/* incident/periods.c: takes a step of a rank that has a place. */
void judge_periodic_take(struct judge *judge, const struct rank_state *state, uint64_t step,
	const struct excess_sums *sums);
/*
 * After a block: looks at ranks and transfers, once a second at most, and at verdicts, which may turn out
 * to be of every so-many-th step.
 */
void judge_periodic_look(struct judge *judge);
/* Then: tells of ranks for which it is certain. Returns 0 or a negative errno of judge_open(). */
int judge_periodic_block(struct judge *judge) __attribute__((warn_unused_result));

#endif
