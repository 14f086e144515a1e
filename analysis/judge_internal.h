/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the judge offer each other. judge.c takes steps and keeps totals; judge_blocks.c looks
 * for change points, judge_comm.c for slow transfers; judge_verdicts.c keeps the verdicts.
 */
#ifndef SLOWRANK_ANALYSIS_JUDGE_INTERNAL_H
#define SLOWRANK_ANALYSIS_JUDGE_INTERNAL_H

#include "analysis/judge_state.h"

/* The end of the block, or, between two, of the last step. */
static inline int64_t judge_now_ns(const struct judge *judge)
{
	return judge->block.steps ? judge->block.start_ns + judge->block.time_ns
				  : judge->job.last_end.value;
}

/* What a run's sums are taken from: of every so-many-th step, the others too. */
static inline int64_t judge_run_span_ns(const struct delay_run *run)
{
	return run->sums.time_ns * (run->every ? run->every : 1);
}

void excess_add(struct excess_sums *sums, const struct excess_sums *other);
void excess_subtract(struct excess_sums *sums, const struct excess_sums *other);

/* judge.c: some verdict holds, but for one; but may be NULL. */
bool judge_verdict_holds(const struct judge *judge, const struct track *but);

/* judge_blocks.c */
int judge_close_block(struct judge *judge) __attribute__((warn_unused_result));
/* What the open block holds is judged, when it is enough; what comes next is no part of it. */
int judge_pause(struct judge *judge) __attribute__((warn_unused_result));
/* judge_hang.c: the job stood still between these times, as was told; that is no evidence of slowness. */
bool judge_hang_holds(const struct judge *judge, int64_t start_ns, int64_t end_ns);
/* The change on a rank is large enough, real enough and unlike what its peers have. */
bool judge_worth_telling(const struct judge *judge, uint32_t rank, const struct delay_run *run,
	struct explanation *why, struct gate_sheet *sheet); /* sheet NULL: notes nothing */
/*
 * Means over so many blocks, of which the one of what is usual, differ by less than this by chance. scale: of
 * the noise of one block.
 */
double judge_chance_level(double scale, uint64_t blocks, uint64_t usual_blocks);
/* Median length of these steps, as far as they are kept; 0 of too few. */
double judge_usual_length(const struct judge *judge, uint64_t from, uint64_t until);
/* A run has come so far that it is looked at what the job would be like without the rank. */
bool judge_suspected(const struct rank_state *state, int kind);
bool judge_suspected_any(const struct rank_state *state);

/* Of a run, or of a verdict that came of it: below this level it is not told. */
double judge_level_min(const struct rank_state *state, const struct delay_run *run);
static inline double judge_quiet_level(const struct track *track)
{
	return fmax(QUIET_SHARE * track->least, QUIET_OF_LEVEL * track->level);
}

/*
 * What a run is made of is told of its rank: of a known class, for as long as its cause needs, and nothing
 * that hosts, devices or several ranks do now and then.
 */
bool judge_evidence_suffices(const struct judge *judge, uint32_t rank, const struct delay_run *run,
	struct explanation *why, struct gate_sheet *sheet);

/* judge_sheet.c: what is noted of a look at a rank, or at transfers; empties it, of the block. */
void judge_sheet_begin(const struct judge *judge, uint32_t rank, struct gate_sheet *sheet);
/*
 * Of a rank's run, before a verdict is opened of it: what it says beside its gates. True: there is a delay that nobody has
 * explained yet.
 */
bool judge_sheet_describe(const struct judge *judge, const struct delay_run *run, bool small,
	struct gate_sheet *sheet);
/* Then, to who watches. opened: there was to be a verdict. */
void judge_sheet_tell(const struct judge *judge, bool opened, struct gate_sheet *sheet,
	const struct explanation *why);

/* judge_runs.c: levels, what is usual, and runs. */
/* Ends the block for all ranks; returns how many were in it, below 2 nothing was judged. */
size_t judge_level_ranks(struct judge *judge);
void judge_push_runs(struct judge *judge, size_t rank_count);
/* A rank's delay in a step beyond what is usual for it, in ns. */
double judge_step_delay(const struct judge *judge, const struct rank_state *state, uint64_t step);

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
bool judge_experts_only(const struct rank_state *state);

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

/*
 * judge_gpu.c: how long steps on devices were before a step, where no fault was told of; 0 when too few were. And
 * the gain of a track's loud blocks, held against these: less what its ideal steps would be shorter, and
 * more, as far as its own delay goes, where steps grew by more than the replay gains.
 */
double judge_gpu_usual_step_ns(const struct judge *judge, uint64_t before_step);
double judge_gpu_gain_ns(const struct judge *judge, const struct track *track);

/* judge_launches.c: takes what was seen of a rank in a step, */
void judge_launches_take(struct rank_state *state, const struct step_launches *launches);
/* and the end of a block, before any verdict of it is begun. */
void judge_launches_block(struct judge *judge);
/*
 * Whether a rank that only the host's times say to be late really held up the others: its device had
 * nothing to do meanwhile, or its host was waiting for it. True where there are device times.
 */
bool judge_launches_prove(const struct judge *judge, uint32_t rank, const struct delay_run *run,
	const struct explanation *explanation);

/* A rank's delay in its latest steps, as a share of their length; judge_blocks.c. */
double judge_latest_level(
	const struct judge *judge, const struct rank_state *state, uint64_t step_count);

/* Most ranks' GPUs run at their power cap, and no other process has come to the rank's. */
bool judge_gpu_power_bound(const struct judge *judge, uint32_t rank, const struct delay_run *run);

/* judge_cause.c: why the rank of a run is slow, by what is known until now, */
void judge_explain_run(const struct judge *judge, uint32_t rank, const struct delay_run *run,
	struct explanation *explanation);
/* and why those of a track are, by what was known when it was last loud: class, cause and evidence into its verdict. */
void judge_tell_cause(
	const struct judge *judge, const struct track *track, struct verdict *verdict);
struct explain_context judge_explain_context(const struct judge *judge, int64_t now_ns);

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
