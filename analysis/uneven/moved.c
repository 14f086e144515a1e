/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that the program moved. Programs that balance their load give some ranks more of it and others less: all of
 * it together is as much as before. A slow machine takes longer for its own work, and nobody has less. Work is time
 * on the CPU for each unit of the job's progress, so that neither the length of steps nor where they are cut matters.
 * On devices that ranks share, and where the kernel does not tell who runs, one has less time because another has more.
 */
#include <math.h>

#include "analysis/uneven/internal.h"

static bool anybody_suspected(const struct judge *judge)
{
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (state->incident || judge_suspected_any(state))
			return true;
	}
	return false;
}

static bool is_measured(const struct judge *judge, const struct rank_state *state)
{
	return state->block.steps == judge->block.steps && !state->block.sums.on_device &&
	       state->evidence_mask & EVIDENCE_SCHED;
}

/* So much more than usual; 0 where that is no more than machines differ by, or than usual blocks do. */
static double work_grown(const struct rank_state *state)
{
	double usual = (double)state->usual.work, grown = (double)state->work - usual;

	return state->work > 0 && usual > 0 && fabs(grown) > MACHINES_DIFFER * usual &&
			       fabs(grown) > CHANCE_DEVIATIONS * (double)state->usual.work_spread
		       ? grown
		       : 0;
}

/* Some have as much less as others have more. */
static bool is_moved(const struct judge *judge)
{
	double more = 0, less = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double grown = work_grown(&judge->ranks[r]);

		more += fmax(grown, 0);
		less += fmax(-grown, 0);
	}
	return less > 0 && fabs(more - less) <= HALF_SHARE * more;
}

/*
 * What is left of a rank's delay in the block is what kept it off its CPU, and the like. Who has no more work than
 * usual is late beside those that have less; only by what that grew, which is too little to tell, it may be slow.
 */
static void take_out_work(struct judge *judge, struct rank_state *state, double done_ns)
{
	struct excess_sums *sums = &state->block.sums;
	double work = (double)(sums->own[EXCESS_COMPUTE] - sums->control[EXCESS_COMPUTE]);
	double all = 0, left;

	for (int k = 0; k < EXCESS_NR; k++)
		all += (double)(sums->own[k] - sums->control[k]);
	all = fmax(fmax(all, work), (double)sums->delay_ns);
	if (work_grown(state) <= 0)
		work -= fmax((double)(state->work - state->usual.work), 0) * done_ns;
	left = all > 0 ? 1 - fmax(work, 0) / all : 1;
	sums->delay_ns = (int64_t)(left * (double)sums->delay_ns);
	for (uint64_t i = 1; i <= steps_kept_since(&judge->times, judge->block.first_step); i++)
		state->signal.lost_ns[(judge->times.next - i) % STEP_HISTORY] *= (float)left;
}

void judge_moved_block(struct judge *judge)
{
	double done_ns = progress_latest_done_ns(judge->progress);

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		state->work =
			done_ns > 0 && is_measured(judge, state)
				? (float)((double)state->block.sums.own[EXCESS_COMPUTE] / done_ns)
				: 0;
	}
	judge->judged.moved = is_moved(judge);
	for (uint32_t r = 0; r < judge->rank_end && judge->judged.moved; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (state->work > 0 && state->usual.work > 0)
			take_out_work(judge, &judge->ranks[r], done_ns);
	}
}

void judge_moved_learn(struct judge *judge)
{
	if (judge->judged.moved || anybody_suspected(judge))
		return;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];
		struct rank_usual *usual = &state->usual;

		if (state->work <= 0)
			continue;
		if (usual->work > 0)
			usual->work_spread +=
				(fabsf(state->work - usual->work) - usual->work_spread) / SLOW_MEAN;
		usual->work += (state->work - usual->work) / (usual->work > 0 ? SLOW_MEAN : 1);
	}
}
