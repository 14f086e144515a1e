/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a block: who is looked at, in which order, and who is told of. */
#include <math.h>
#include <string.h>

#include "analysis/judge/internal.h"

static int reserve_scratch(struct judge *judge)
{
	size_t needed = judge->rank_end > RANKS_ENOUGH * PAST_BLOCKS ? judge->rank_end
								     : RANKS_ENOUGH * PAST_BLOCKS;

	return array_grow((void **)&judge->scratch, &judge->scratch_capacity, needed,
		sizeof(*judge->scratch));
}

/* A steep run has something to say only of what came later than the quick one, and is very large, or has a cause. */
static bool steep_tells(const struct judge *judge, uint32_t rank)
{
	const struct rank_state *state = &judge->ranks[rank];
	const struct run *steep = &state->signal.runs[RUN_STEEP];
	struct explanation why;

	if (steep->first_step <= state->signal.runs[RUN_QUICK].first_step)
		return false;
	if (run_level(steep) >= HALF_SHARE)
		return true;
	judge_explain_run(judge, rank, steep, &why);
	return cause_says_why(why.cause);
}

static bool would_tell(const struct judge *judge, uint32_t rank, enum run_kind kind,
	struct explanation *why, struct gate_sheet *sheet)
{
	return run_is_open(&judge->ranks[rank].signal, kind, sheet) &&
	       (kind != RUN_STEEP || gate_is(sheet, GATE_APART, steep_tells(judge, rank))) &&
	       judge_worth_telling(judge, rank, kind, why, sheet);
}

/* A steep run that would be told for another cause is another fault than what the quick one began with. */
static bool is_another(const struct judge *judge, uint32_t rank, const struct explanation *why)
{
	struct explanation steep_why;

	return would_tell(judge, rank, RUN_STEEP, &steep_why, NULL) &&
	       steep_why.cause != why->cause;
}

static bool is_to_tell(const struct judge *judge, uint32_t rank, enum run_kind kind,
	struct explanation *why, struct gate_sheet *sheet)
{
	const struct rank_state *state = &judge->ranks[rank];

	if (!gate_is(sheet, GATE_PRESENT, state->in_block) ||
		!gate_is(sheet, GATE_FREE, !state->incident))
		return false;
	return would_tell(judge, rank, kind, why, sheet) &&
	       (kind != RUN_QUICK || gate_is(sheet, GATE_APART, !is_another(judge, rank, why)));
}

/* The order in which runs are told of, the quick one first. */
static const enum run_kind run_order[RUN_NR] = {RUN_QUICK, RUN_STEEP, RUN_SLOW};

/* Tells of the first run that is over its threshold and worth telling. */
static int judge_rank(struct judge *judge, uint32_t rank)
{
	struct explanation why;

	for (int i = 0; i < RUN_NR; i++) {
		if (is_to_tell(judge, rank, run_order[i], &why, NULL))
			return judge_open(
				judge, rank, &judge->ranks[rank].signal.runs[run_order[i]]);
	}
	return 0;
}

/* The same, and says why; of the run that came furthest. */
static int judge_rank_on_sheet(struct judge *judge, uint32_t rank)
{
	const struct run *runs = judge->ranks[rank].signal.runs;
	struct explanation why = {0}, best_why = {0};
	struct gate_sheet sheet, best;
	bool told = false;
	int error = 0;

	for (int i = 0; i < RUN_NR && !told; i++) {
		judge_sheet_begin(judge, rank, &sheet);
		told = is_to_tell(judge, rank, run_order[i], &why, &sheet);
		if (i > 0 && gate_sheet_reach(&sheet) <= gate_sheet_reach(&best))
			continue;
		if (judge_sheet_describe(
			    judge, &runs[run_order[i]], run_order[i] == RUN_SLOW, &sheet))
			judge_explain_run(judge, rank, &runs[run_order[i]], &why);
		best = sheet;
		best_why = why;
		if (told)
			error = judge_open(judge, rank, &runs[run_order[i]]);
	}
	judge_sheet_tell(judge, told, &best, &best_why);
	return error;
}

static void reset_block(struct judge *judge)
{
	judge->blame.traits.suspected = false;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		judge->blame.traits.suspected |= state->incident || judge_suspected_any(state);
		state->block.sums = (struct excess_sums){0};
		state->block.steps = 0;
		state->block.comm_ns = 0;
		state->block.wait_ns = 0;
		state->link.count = 0;
	}
	judge->block = (struct block){0};
	memset(judge->replays.suspects.gain_ns, 0, sizeof(judge->replays.suspects.gain_ns));
	judge->judged.count++;
}

/* The largest level of a rank that is late, or about to be called so. */
static double level_of_late(const struct judge *judge)
{
	double level = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (state->in_block && !state->incident &&
			state->signal.runs[RUN_QUICK].change.sum >= CHANGE_NEAR)
			level = fmax(level, state->signal.level);
	}
	for (size_t t = 0; t < judge->incidents.count; t++) {
		const struct incident *incident = &judge->incidents.list[t];
		double share_of_block = 1;

		if (!incident->active || incident->kind == INCIDENT_TRANSFERS)
			continue;
		if (incident->every)
			(void)periodic_level(&judge->comm->signal, &judge->times, &judge->block,
				incident->every, incident->phase, &share_of_block);
		level = fmax(level, share_of_block * incident->level);
	}
	return level;
}

int judge_close_block(struct judge *judge)
{
	int error = reserve_scratch(judge);
	size_t rank_count;

	progress_end_slot(judge->progress, judge_verdict_holds(judge, NULL));
	if (error < 0)
		return error;
	judge_moved_block(judge);
	rank_count = judge_level_ranks(judge);
	if (rank_count < 2 ||
		judge->judged.count == 0) { /* the first block is the program's start */
		reset_block(judge);
		return 0;
	}
	judge_push_runs(judge, rank_count);
	judge_moved_learn(judge);
	judge_launches_block(judge);
	judge_periodic_look(judge);
	bool slow_transfers = judge_comm_block(judge, level_of_late(judge));
	judge_imbalance_block(judge);

	error = judge_comm_move(judge);
	judge_late_samples(judge);
	judge_follow(judge);
	if (error == 0)
		error = judge_worsen(judge);
	/* Before the runs, which see the same steps and date them worse. */
	if (error == 0)
		error = judge_periodic_block(judge);
	for (uint32_t r = 0; r < judge->rank_end && error == 0; r++)
		error = judge->watch.on_sheet ? judge_rank_on_sheet(judge, r)
					      : judge_rank(judge, r);
	if (slow_transfers && error == 0)
		error = judge_open_job(judge, INCIDENT_TRANSFERS, &judge->comm->run);
	for (int kind = INCIDENT_STAGES; kind <= INCIDENT_SEQUENCES && error == 0; kind++) {
		const struct run *run = judge_imbalance_alarm(judge, (enum incident_kind)kind);

		if (run)
			error = judge_open_job(judge, (enum incident_kind)kind, run);
	}
	reset_block(judge);
	return error;
}

int judge_pause(struct judge *judge)
{
	if (judge->block.time_ns >= BLOCK_NS / 2)
		return judge_close_block(judge);
	progress_end_slot(judge->progress, judge_verdict_holds(judge, NULL));
	reset_block(judge);
	return 0;
}

void judge_break(struct judge *judge)
{
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (!state->incident)
			memset(state->signal.runs, 0, sizeof(state->signal.runs));
	}
	if (!judge_incident_of(judge, INCIDENT_TRANSFERS))
		memset(judge->comm->signal.runs, 0, sizeof(judge->comm->signal.runs));
	progress_end_slot(judge->progress, judge_verdict_holds(judge, NULL));
	reset_block(judge);
	judge_end_calm(judge);
}
