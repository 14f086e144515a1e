/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rank's delay, block by block: what is usual for it, what its noise is, and the runs of blocks
 * in which it was more; docs/analysis.md has the formulas.
 */
#include <math.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/judge_internal.h"

/* Its first blocks are what is usual for a rank, if they are near to those of its peers. */
static void settle(struct rank_state *state, size_t rank_count)
{
	double values[PAST_BLOCKS], median;

	for (uint32_t i = 0; i < WARM_UP_BLOCKS; i++)
		values[i] = (double)state->past[i];
	median = fmax(median_double(values, WARM_UP_BLOCKS), 0);
	state->settled = true;
	state->usual_blocks = WARM_UP_BLOCKS;
	if (median >= (rank_count >= FROM_START_PEERS ? DELAY_SHARE_MIN : MACHINES_DIFFER))
		return;
	state->usual = state->usual_least = median;
	for (uint32_t i = 0; i < WARM_UP_BLOCKS; i++)
		state->past[i] -= (float)median;
	memset(state->runs, 0, sizeof(state->runs));
}

static double usual_of_block(struct judge *judge, bool of_comm)
{
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (state->in_block)
			judge->scratch[count++] = of_comm ? state->comm : state->level;
	}
	return lower_median_double(judge->scratch, count);
}

/* Blocks of a run, which may be a fault's, are left out but for its first one. */
static void learn_waits(struct rank_state *state)
{
	double waits = cpu_waits(&state->block);

	if (state->track || state->runs[RUN_QUICK].change.sum > 0)
		return;
	state->usual_waits += (float)(waits - (double)state->usual_waits) /
			      (state->usual_waits > 0 ? SLOW_MEAN : 1);
}

size_t judge_level_ranks(struct judge *judge)
{
	const struct block *block = &judge->block;
	double usual, usual_comm;
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		state->in_block = state->block_steps * 2 > block->steps;
		if (!state->in_block)
			continue;
		state->level = (double)state->block.delay_ns / (double)block->time_ns;
		state->comm = (double)state->block_comm_ns / (double)block->time_ns;
		state->wait = (double)state->block_wait_ns / (double)block->time_ns;
		learn_waits(state);
		count++;
	}
	usual = usual_of_block(judge, false);
	usual_comm = usual_of_block(judge, true);
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (!state->in_block)
			continue;
		if (!state->settled && state->past_count >= WARM_UP_BLOCKS)
			settle(state, count);
		state->long_run += (state->level - state->long_run) / SLOW_MEAN;
		state->level -= usual + state->usual;
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
			judge->scratch[count++] = judge->ranks[r].long_run;
	}
	usual = lower_median_double(judge->scratch, count);
	stride = rank_count / 2 / RANKS_ENOUGH + 1;
	count = 0;
	for (uint32_t r = 0; r < judge->rank_end && pool < RANKS_ENOUGH; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (!state->in_block || state->track || state->long_run > usual || r % stride != 0)
			continue;
		pool++;
		for (uint32_t i = 0; i < state->past_count && i < PAST_BLOCKS; i++)
			judge->scratch[count++] = (double)state->past[i];
	}
	return count;
}

/*
 * A stall (a checkpoint, a late start) outweighs many ordinary blocks, and would determine the run's
 * level and its cause. A block that alone delayed more than all others of its run together is
 * taken out of it: one in a run, so that stalls that come again count.
 */
static void drop_spike(struct delay_run *run)
{
	if (run->peak_dropped || run->blocks <= QUICK_BLOCKS_MIN ||
		run->peak.delay_ns <= run->sums.delay_ns - run->peak.delay_ns)
		return;
	excess_subtract(&run->sums, &run->peak);
	run->level -= run->peak_level;
	run->blocks--;
	run->peak_dropped = true;
}

/* Takes the block into a rank's run. */
static void extend_run(
	const struct judge *judge, const struct rank_state *state, struct delay_run *run)
{
	if (run->change.run <= 1)
		*run = (struct delay_run){
			.change = run->change, .first_step = judge->block.first_step};
	excess_add(&run->sums, &state->block);
	run->level += state->level;
	run->blocks++;
	run->loud_blocks += state->level >= QUIET_SHARE * judge_level_min(state, run);
	if (state->block.delay_ns > run->peak.delay_ns) {
		run->peak = state->block;
		run->peak_level = state->level;
	}
	drop_spike(run);
}

bool judge_suspected(const struct rank_state *state, int kind)
{
	return !state->track &&
	       state->runs[kind].change.sum >= (kind == RUN_QUICK ? CHANGE_SUSPECT : CHANGE_NEAR);
}

bool judge_suspected_any(const struct rank_state *state)
{
	return judge_suspected(state, RUN_QUICK) || judge_suspected(state, RUN_SLOW);
}

static void push_past(struct rank_state *state, float level)
{
	state->past[state->past_count++ % PAST_BLOCKS] = level;
	if (state->past_count == 2 * PAST_BLOCKS)
		state->past_count = PAST_BLOCKS; /* keeps the ring's phase */
}

/*
 * The first blocks of a run may be a fault's, and are no noise then: they would hide the next one. Known
 * when the run has come to nothing, or was told (then the verdict forgets them).
 */
static void push_doubtful(struct rank_state *state)
{
	for (uint32_t i = 0; i < state->doubtful_count; i++)
		push_past(state, state->doubtful[i]);
	state->doubtful_count = 0;
}

/*
 * What is usual for a rank follows slowly, and upwards only so far that a drift is told in the end: not
 * above what was usual at best by more than what is worth telling.
 */
static void learn_usual(struct rank_state *state, double by)
{
	double most = state->usual_least + SMALL_SHARE_MIN;

	state->usual = fmin(fmax(state->usual + by, 0), most);
	state->usual_least = fmin(state->usual_least, state->usual);
}

/* gain_ns: of the block, without those that are suspected in a run of this kind. */
static void push_run(const struct judge *judge, struct rank_state *state, struct delay_run *run,
	const struct change_noise *noise, double weight, int64_t gain_ns, bool suspected)
{
	(void)change_point_push(&run->change, noise, state->level, weight);
	if (run->change.sum <= 0)
		return;
	extend_run(judge, state, run);
	if (suspected) {
		run->suspect_gain_ns += gain_ns;
		run->suspect_delay_ns += state->block.delay_ns;
	}
}

static void push_rank(const struct judge *judge, struct rank_state *state,
	const struct change_noise noises[RANK_RUN_NR], double weight)
{
	double scale = noises[RUN_QUICK].scale;
	bool suspected[RUN_NR] = {
		judge_suspected(state, RUN_QUICK), judge_suspected(state, RUN_SLOW)};

	/* What may be a fault is no noise. */
	if (!state->settled || state->runs[RUN_QUICK].change.sum < CHANGE_NEAR) {
		if (state->doubtful_count == DOUBTFUL_BLOCKS)
			push_doubtful(state);
		state->doubtful[state->doubtful_count++] = (float)state->level;
	}
	if (state->settled && !judge_suspected_any(state)) {
		state->usual_blocks += state->usual_blocks < USUAL_MEMORY;
		learn_usual(state, fmin(fmax(state->level, -2 * scale), 2 * scale) /
					   (double)state->usual_blocks);
	}
	for (int kind = 0; kind < RANK_RUN_NR; kind++) {
		/* Who is suspected in a steep run, is in the quick one. */
		int like = kind == RUN_SLOW ? RUN_SLOW : RUN_QUICK;

		push_run(judge, state, &state->runs[kind], &noises[kind], weight,
			judge->block.suspect_gain_ns[like], suspected[like]);
	}
	if (state->runs[RUN_QUICK].change.run == 1)
		state->run_launches = (struct launch_sums){0};
	if (state->runs[RUN_QUICK].change.sum <= 0)
		push_doubtful(state);
	/* What was not worth telling for so long becomes the rank's baseline. */
	if (state->runs[RUN_SLOW].blocks >= SLOW_RUN_BLOCKS_MAX && state->settled) {
		learn_usual(
			state, state->runs[RUN_SLOW].level / (double)state->runs[RUN_SLOW].blocks);
		state->runs[RUN_SLOW] = (struct delay_run){0};
	}
}

void judge_push_runs(struct judge *judge, size_t rank_count)
{
	double weight = judge->block.irregular * 2 > judge->block.steps ? 0.5 : 1;
	size_t count = pool_past(judge, rank_count);
	struct change_noise noises[RANK_RUN_NR];

	noises[RUN_QUICK] =
		change_noise_of(judge->scratch, count, QUICK_REFERENCE_SHARE * DELAY_SHARE_MIN);
	noises[RUN_SLOW] = change_noise_of(judge->scratch, count, SLOW_REFERENCE);
	noises[RUN_SLOW].forget = SLOW_FORGET;
	noises[RUN_STEEP] = change_noise_of(judge->scratch, count, LARGE_SHARE_MIN);
	judge->ranks_in_block = rank_count;
	judge->noise_scale = noises[RUN_SLOW].scale;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (state->in_block && !state->track)
			push_rank(judge, state, noises, weight);
	}
}

double judge_step_delay(const struct judge *judge, const struct rank_state *state, uint64_t step)
{
	return fabs((double)state->delays[step % STEP_HISTORY]) -
	       state->usual * (double)judge->step_length_ns[step % STEP_HISTORY];
}
