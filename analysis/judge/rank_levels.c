/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank's delay, block by block, as a signal: less what is usual for all, beside the noise of all. */

#include "analysis/base/robust_stats.h"
#include "analysis/judge/internal.h"

static double usual_of_block(struct judge *judge, bool of_comm)
{
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (state->in_block)
			judge->scratch[count++] = of_comm ? state->comm : state->signal.level;
	}
	return lower_median_double(judge->scratch, count);
}

/* Blocks of a run, which may be a fault's, are left out but for its first one. */
static void learn_waits(struct rank_state *state)
{
	double waits = cpu_waits(&state->block.sums);

	if (state->incident || state->signal.runs[RUN_QUICK].change.sum > 0)
		return;
	state->usual.waits += (float)(waits - (double)state->usual.waits) /
			      (state->usual.waits > 0 ? SLOW_MEAN : 1);
}

/*
 * How much later than its peers a rank may be from the first on, so that this is what is usual for it. Of two or three ranks that work on
 * their CPUs, the program's split decides, unless they are kept from work.
 */
static double most_usual(const struct rank_state *state, size_t rank_count)
{
	const struct excess_sums *sums = &state->block.sums;
	int64_t works_ns = sums->own[EXCESS_COMPUTE] - sums->control[EXCESS_COMPUTE];

	if (rank_count >= FROM_START_PEERS)
		return DELAY_SHARE_MIN;
	if (rank_count >= PEERS_MIN || sums->on_device ||
		(double)works_ns < HALF_SHARE * (double)sums->delay_ns)
		return MACHINES_DIFFER;
	return PART_SHARE;
}

size_t judge_level_ranks(struct judge *judge)
{
	const struct block *block = &judge->block;
	double usual, usual_comm;
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		state->in_block = state->block.steps * 2 > block->steps;
		if (!state->in_block)
			continue;
		state->signal.level = (double)state->block.sums.delay_ns / (double)block->time_ns;
		state->comm = (double)state->block.comm_ns / (double)block->time_ns;
		state->wait = (double)state->block.wait_ns / (double)block->time_ns;
		learn_waits(state);
		count++;
	}
	usual = usual_of_block(judge, false);
	usual_comm = usual_of_block(judge, true);
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (!state->in_block)
			continue;
		/* Its first blocks are what is usual for a rank, if they are near to those of its peers. */
		signal_settle(&state->signal, most_usual(state, count));
		state->usual.long_run += (state->signal.level - state->usual.long_run) / SLOW_MEAN;
		state->signal.level -= usual + state->signal.usual;
		state->comm -= usual_comm;
	}
	return count;
}

/*
 * The noise, from the past of the ranks that are usually the quieter half. The other half may
 * hold culprits that were slow from the first step on.
 */
static size_t pool_past(struct judge *judge, size_t rank_count)
{
	size_t count = 0, pool = 0, stride;
	double usual;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (judge->ranks[r].in_block)
			judge->scratch[count++] = judge->ranks[r].usual.long_run;
	}
	usual = lower_median_double(judge->scratch, count);
	stride = rank_count / 2 / RANKS_ENOUGH + 1;
	count = 0;
	for (uint32_t r = 0; r < judge->rank_end && pool < RANKS_ENOUGH; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (!state->in_block || state->incident || state->usual.long_run > usual ||
			r % stride != 0)
			continue;
		pool++;
		count += signal_past(&state->signal, judge->scratch + count);
	}
	return count;
}

/* And notes the most evidence of a quick run that came to nothing, of those as large as what is asked by it. */
static void push_run(struct judge *judge, struct rank_state *state, const struct block_loss *loss,
	const struct change_noise noises[RUN_NR])
{
	const struct run *quick = &state->signal.runs[RUN_QUICK];
	double before = run_level(quick) >= WANDERS_MAX ? quick->change.evidence : 0;

	signal_push(&state->signal, &judge->block, loss, noises);
	if (quick->change.run <= 1)
		judge->judged.passing = fmax(judge->judged.passing, before);
	if (quick->change.run == 1)
		state->run_launches = (struct launch_sums){0};
}

void judge_push_runs(struct judge *judge, size_t rank_count)
{
	size_t count = pool_past(judge, rank_count);
	struct change_noise noises[RUN_NR];
	struct block_loss loss = {
		.suspect_gain_ns = {judge->replays.suspects.gain_ns[RUN_QUICK],
			judge->replays.suspects.gain_ns[RUN_SLOW],
			judge->replays.suspects.gain_ns[RUN_QUICK]},
		.weight = judge->block.irregular * 2 > judge->block.steps ? 0.5 : 1,
	};

	signal_noises(judge->scratch, count, noises);
	judge->judged.ranks = rank_count;
	judge->judged.passing -= judge->judged.passing / SLOW_RUN_BLOCKS_MAX;
	judge->judged.noise_scale = noises[RUN_SLOW].scale;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (!state->in_block)
			continue;
		loss.sums = &state->block.sums;
		if (state->incident)
			signal_push_told(&state->signal, &judge->block, &loss, noises);
		else
			push_run(judge, state, &loss, noises);
	}
}
