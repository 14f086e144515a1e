/* SPDX-License-Identifier: Apache-2.0 */
/* Change points of the ranks' delays, block by block; docs/analysis.md has the formulas. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/judge_internal.h"
#include "analysis/robust_stats.h"

#define UNEVEN_TIMES_MIN 2.0 /* as much more than the usual difference */
enum { LATEST_STEPS_MIN = 4, POWER_CAP_STEPS = 16, SPIKE_BLOCKS_MIN = 4 };
/* ln of how many further looks there are at most, doubling from 4 to half of STEP_HISTORY. */
#define FURTHER_LOOKS_SURPRISE 1.8
/*
 * GPUs at their power cap differ in speed, from one to the next and over minutes (seen: two H200
 * in one host, 17 % apart, either way round). Where most of a job's are, less is no fault of one.
 */
#define POWER_CAP_LEVEL 0.25

static int reserve_scratch(struct judge *judge)
{
	size_t needed = judge->rank_end > POOL_RANKS_MAX * PAST_BLOCKS
				? judge->rank_end
				: POOL_RANKS_MAX * PAST_BLOCKS;

	if (needed <= judge->scratch_capacity)
		return 0;
	free(judge->scratch);
	judge->scratch = malloc(2 * needed * sizeof(*judge->scratch));
	judge->scratch_capacity = judge->scratch ? 2 * needed : 0;
	return judge->scratch ? 0 : -ENOMEM;
}

/* Each rank's share of the block, less what is usual for all; a quiet job's noise cancels. */
static size_t level_ranks(struct judge *judge)
{
	const struct block *block = &judge->block;
	double usual[3];
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		state->in_block = state->block_steps * 2 > block->steps;
		if (!state->in_block)
			continue;
		state->level = (double)state->block.delay_ns / (double)block->time_ns;
		state->comm = (double)state->block_comm_ns / (double)block->time_ns;
		state->wait = (double)state->block_wait_ns / (double)block->time_ns;
		count++;
	}
	for (int series = 0; series < 2; series++) {
		count = 0;
		for (uint32_t r = 0; r < judge->rank_end; r++) {
			const struct rank_state *state = &judge->ranks[r];

			if (state->in_block)
				judge->scratch[count++] = series ? state->comm : state->level;
		}
		usual[series] = lower_median_double(judge->scratch, count);
	}
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (!state->in_block)
			continue;
		state->long_run += (state->level - state->long_run) / 16;
		state->level -= usual[0];
		state->comm -= usual[1];
	}
	return count;
}

/*
 * The noise, from the past of the ranks that are usually the quieter half. The other half may
 * hold culprits that were slow from the first step on.
 */
static struct change_noise noise_of_ranks(struct judge *judge, size_t rank_count)
{
	size_t count = 0, pool = 0, stride;
	double usual;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (judge->ranks[r].in_block)
			judge->scratch[count++] = judge->ranks[r].long_run;
	}
	usual = lower_median_double(judge->scratch, count);
	stride = rank_count / 2 / POOL_RANKS_MAX + 1;
	count = 0;
	for (uint32_t r = 0; r < judge->rank_end && pool < POOL_RANKS_MAX; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (!state->in_block || state->track || state->long_run > usual || r % stride != 0)
			continue;
		pool++;
		for (uint32_t i = 0; i < state->past_count && i < PAST_BLOCKS; i++)
			judge->scratch[count++] = state->past[i];
	}
	return change_noise_of(judge->scratch, count, 0.85 * DELAY_SHARE_MIN);
}

/*
 * A stall (a checkpoint, a late start) outweighs many ordinary blocks, and would lend them its
 * level and its cause. A block that alone delayed more than all others of its run together is
 * taken out of it: one in a run, so that stalls that come again count.
 */
static void drop_spike(struct rank_state *state)
{
	if (state->peak_dropped || state->run_blocks < SPIKE_BLOCKS_MIN ||
		state->peak.delay_ns <= state->run.delay_ns - state->peak.delay_ns)
		return;
	excess_subtract(&state->run, &state->peak);
	state->run_level -= state->peak_level;
	state->run_comm_ns -= state->peak_comm_ns;
	state->run_blocks--;
	state->peak_dropped = true;
}

/* Takes the block into a rank's run. */
static void extend_run(struct judge *judge, struct rank_state *state)
{
	if (state->change.run <= 1) {
		state->run = (struct excess_sums){0};
		state->run_blocks = 0;
		state->run_level = 0;
		state->run_comm_ns = 0;
		state->run_launches = (struct launch_sums){0};
		state->run_first_step = judge->block.first_step;
		state->peak = (struct excess_sums){0};
		state->peak_dropped = false;
	}
	excess_add(&state->run, &state->block);
	state->run_comm_ns += state->block_comm_ns;
	state->run_level += state->level;
	state->run_blocks++;
	if (state->block.delay_ns > state->peak.delay_ns) {
		state->peak = state->block;
		state->peak_level = state->level;
		state->peak_comm_ns = state->block_comm_ns;
	}
	drop_spike(state);
}

/*
 * In how many of the latest steps a rank's delay was above a share of the step. Steps of a fault that
 * was told of are no tries.
 */
static uint64_t count_hits(const struct judge *judge, const struct rank_state *state,
	uint64_t step_count, double share, uint64_t *tries)
{
	uint64_t hits = 0;

	for (uint64_t i = 1; i <= step_count; i++) {
		size_t at = (judge->next_step - i) % STEP_HISTORY;

		*tries += !signbit(state->delays[at]);
		hits += (double)state->delays[at] > share * (double)judge->step_length_ns[at];
	}
	return hits;
}

/* without_most: less the one step that delayed most, since a stall is no level. */
static double level_of_latest(const struct judge *judge, const struct rank_state *state,
	uint64_t step_count, bool without_most)
{
	double delay = 0, length = 0, most = -1, most_length = 0;

	for (uint64_t i = 1; i <= step_count; i++) {
		size_t at = (judge->next_step - i) % STEP_HISTORY;
		double value = fabs((double)state->delays[at]);

		delay += value;
		length += (double)judge->step_length_ns[at];
		if (value > most) {
			most = value;
			most_length = (double)judge->step_length_ns[at];
		}
	}
	if (without_most) {
		delay -= most;
		length -= most_length;
	}
	return length > 0 ? delay / length : 0;
}

double judge_latest_level(
	const struct judge *judge, const struct rank_state *state, uint64_t step_count)
{
	return level_of_latest(judge, state, step_count, false);
}

/* How improbable a rank's hits in its latest steps are, going by its peers' in all of theirs. */
static double surprise_of_latest(
	const struct judge *judge, uint32_t rank, uint64_t history, uint64_t tries, double level)
{
	const struct rank_state *state = &judge->ranks[rank];
	uint64_t peer_hits = 0, peer_tries = 0, pool = 0;

	for (int any = 0; any < 2 && pool == 0; any++) {
		for (uint32_t r = 0; r < judge->rank_end && pool < POOL_RANKS_MAX; r++) {
			const struct rank_state *peer = &judge->ranks[r];

			if (r == rank || !peer->in_block || peer->track ||
				(!any && peer->change.sum >= CHANGE_SUSPECT))
				continue;
			pool++;
			peer_hits += count_hits(judge, peer, history, level / 2, &peer_tries);
		}
	}
	uint64_t own_tries = 0, hits = count_hits(judge, state, tries, level / 2, &own_tries);

	return hit_surprise(hits, tries, ((double)peer_hits + 0.5) / ((double)peer_tries + 1));
}

/*
 * Is the rank hit in more steps than its peers' hits can explain? Sums can be raised by a few
 * wild values, which come often when ranks share cores; counts cannot. Looked at over the whole run,
 * and over its last half, quarter and so on: what came before a fault must not hide it. Each further
 * look may be chance as well, so these need more.
 */
static bool hit_more_than_peers(const struct judge *judge, uint32_t rank, double level)
{
	const struct rank_state *state = &judge->ranks[rank];
	uint64_t history = judge->next_step < STEP_HISTORY ? judge->next_step : STEP_HISTORY;
	uint64_t tries = judge->next_step - state->run_first_step;

	if (tries > history)
		tries = history;
	if (surprise_of_latest(judge, rank, history, tries, level) >= HIT_SURPRISE)
		return true;
	for (tries /= 2; tries >= LATEST_STEPS_MIN; tries /= 2) {
		double latest = judge_latest_level(judge, state, tries);

		if (latest >= DELAY_SHARE_MIN &&
			surprise_of_latest(judge, rank, history, tries, latest) >=
				HIT_SURPRISE + FURTHER_LOOKS_SURPRISE)
			return true;
	}
	return false;
}

/*
 * How much evidence a change needs to be told. Without a period, uneven work is what many
 * programs do, and sleeping without a known reason is often the program's own. Ranks that share
 * cores preempt each other, unevenly for a while.
 */
static double evidence_needed(const struct judge *judge, const struct rank_state *state,
	const struct classification *class, double level)
{
	bool irregular = judge->block.irregular * 2 > judge->block.steps;
	int64_t until_ns = judge->block.start_ns + judge->block.time_ns;

	if (class->cause == CAUSE_CPU_CONTENTION) {
		int64_t seen_ns;
		double own_rivals =
			evidence_rivals_among(state->evidence, until_ns - state->run.time_ns,
				until_ns, judge->pids, judge->pid_count, &seen_ns);

		/* Slices too short to be seen one by one are what ranks do to each other. */
		if (own_rivals <= OWN_RIVALS_MAX &&
			(double)seen_ns >=
				RIVALS_SEEN_MIN * (double)(state->run.own[EXCESS_PREEMPTED] -
							   state->run.control[EXCESS_PREEMPTED]))
			return 1.4 * CHANGE_THRESHOLD;
		return level < OWN_RIVALS_SHARE_MIN ? INFINITY : 4 * CHANGE_THRESHOLD;
	}
	/* Waits alone say that a device is slow, nothing besides does. */
	if (((irregular || state->run.host_times) &&
		    class->verdict_class == VERDICT_COMPUTE_SLOW) ||
		(class->verdict_class == VERDICT_HOST_SLOW && class->cause == CAUSE_UNKNOWN))
		return 2 * CHANGE_THRESHOLD;
	return CHANGE_THRESHOLD;
}

/*
 * Throttling is no noise: only a rank whose cgroup ran out of its quota has any. Where it makes
 * up much of the delay and the controls have next to none, it needs no statistics, which fail in
 * programs of thousands of tiny steps: a quota period stops one step in fifty.
 */
static bool throttled_beyond_doubt(const struct rank_state *state)
{
	double own = (double)state->run.own[EXCESS_THROTTLED];
	double control = (double)state->run.control[EXCESS_THROTTLED];

	return control < 0.1 * own && own - control >= 0.25 * (double)state->run.delay_ns &&
	       own - control >= DELAY_SHARE_MIN * (double)state->run.time_ns;
}

/* A change is told when it is large enough to matter and really makes the step longer. */
bool judge_worth_telling(const struct judge *judge, uint32_t rank)
{
	const struct rank_state *state = &judge->ranks[rank];
	double level = state->run_level / (double)state->run_blocks;
	double delay_per_step = (double)state->run.delay_ns / (double)state->run.steps;
	struct classification class = classify_excess(&state->run);

	if (state->run_blocks < 3 || level < DELAY_SHARE_MIN ||
		delay_per_step < DELAY_PER_STEP_MIN_NS || class.verdict_class == VERDICT_UNKNOWN)
		return false;
	if (class.verdict_class == VERDICT_COMPUTE_SLOW && state->run.on_device &&
		level_of_latest(judge, state, POWER_CAP_STEPS, true) < POWER_CAP_LEVEL &&
		judge_gpu_power_bound(judge, rank))
		return false;
	/* Where all ranks' work differs from step to step, some rank has more of it for a while. */
	if (class.verdict_class == VERDICT_COMPUTE_SLOW &&
		level < UNEVEN_TIMES_MIN * judge_uneven_level(judge))
		return false;
	if (!throttled_beyond_doubt(state) &&
		(judge->blocks < WARM_UP_BLOCKS ||
			state->change.evidence < evidence_needed(judge, state, &class, level) ||
			!hit_more_than_peers(judge, rank, level)))
		return false;
	if (!judge_launches_prove(judge, rank, &class))
		return false;
	return (double)judge->block.suspect_gain_ns >=
	       0.3 * (double)state->block.delay_ns; /* others did not wait for another reason */
}

static void push_past(struct rank_state *state)
{
	state->past[state->past_count++ % PAST_BLOCKS] = (float)state->level;
	if (state->past_count == 2 * PAST_BLOCKS)
		state->past_count = PAST_BLOCKS; /* keeps the ring's phase */
}

static void reset_block(struct judge *judge)
{
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		state->block = (struct excess_sums){0};
		state->block_steps = 0;
		state->block_comm_ns = 0;
		state->block_wait_ns = 0;
		state->link_count = 0;
	}
	judge->block = (struct block){0};
	judge->blocks++;
}

int judge_close_block(struct judge *judge)
{
	double weight = judge->block.irregular * 2 > judge->block.steps ? 0.5 : 1;
	int error = reserve_scratch(judge);
	double rank_level = 0;
	size_t rank_count;

	if (error < 0)
		return error;
	rank_count = level_ranks(judge);
	if (rank_count < 2 || judge->blocks == 0) { /* the first block is the program's start */
		reset_block(judge);
		return 0;
	}
	struct change_noise noise = noise_of_ranks(judge, rank_count);

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (!state->in_block)
			continue;
		if (state->track)
			continue;
		if (state->change.sum < 0.67 * CHANGE_THRESHOLD)
			push_past(state); /* what may be a fault is no noise */
		(void)change_point_push(&state->change, &noise, state->level, weight);
		if (state->change.sum > 0)
			extend_run(judge, state);
		if (state->change.sum >= 0.67 * CHANGE_THRESHOLD)
			rank_level = fmax(rank_level, state->level);
	}
	judge_launches_block(judge);
	for (size_t t = 0; t < judge->track_count; t++) {
		if (judge->tracks[t].active && !judge->tracks[t].comm)
			rank_level = fmax(rank_level, judge->tracks[t].level);
	}
	bool slow_transfers = judge_comm_block(judge, rank_level);
	enum imbalance uneven = judge_imbalance_block(judge);

	judge_follow(judge);
	for (uint32_t r = 0; r < judge->rank_end && error == 0; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (state->in_block && !state->track && state->change.sum >= CHANGE_THRESHOLD &&
			judge_worth_telling(judge, r))
			error = judge_open(judge, r);
	}
	if (slow_transfers && error == 0)
		error = judge_open_comm(judge);
	if (uneven != IMBALANCE_NONE && error == 0)
		error = judge_open_imbalance(judge, uneven);
	reset_block(judge);
	return error;
}

int judge_pause(struct judge *judge)
{
	if (judge->block.time_ns >= BLOCK_NS / 2)
		return judge_close_block(judge);
	reset_block(judge);
	return 0;
}
