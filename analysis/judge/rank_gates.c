/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold before a rank is told of; docs/analysis.md has the formulas. */
#include <math.h>

#include "analysis/judge/internal.h"

/* How improbable it is that a rank's latest steps and all of its peers' are hit equally often. */
static double surprise_of_latest(
	const struct judge *judge, uint32_t rank, uint64_t history, uint64_t tries, double level)
{
	const struct rank_state *state = &judge->ranks[rank];
	uint64_t peer_hits = 0, peer_tries = 0, pool = 0;

	for (int any = 0; any < 2 && pool == 0; any++) {
		for (uint32_t r = 0; r < judge->rank_end && pool < RANKS_ENOUGH; r++) {
			const struct rank_state *peer = &judge->ranks[r];

			if (r == rank || !peer->in_block || peer->incident ||
				(!any && judge_suspected_any(peer)))
				continue;
			pool++;
			peer_hits += signal_hits(
				&peer->signal, &judge->times, history, level / 2, &peer_tries);
		}
	}
	uint64_t own_tries = 0;
	uint64_t hits = signal_hits(&state->signal, &judge->times, tries, level / 2, &own_tries);

	return hit_surprise(hits, tries, peer_hits, peer_tries);
}

/* Of many ranks, some is hit as often by chance: with each e times as many, one more is asked for. */
static double surprise_needed(const struct judge *judge)
{
	return HIT_SURPRISE + log(fmax((double)judge->judged.ranks / HIT_RANKS, 1));
}

/*
 * Is the rank hit in more steps than its peers' hits can explain? Sums can be raised by a few
 * wild values, which come often when ranks share cores; counts cannot. Looked at over the whole run, for
 * hits above half its mean and half their own height (what is rare must not drown in what is usual), and
 * over its last half, quarter and so on: what came before a fault must not hide it. Each further look
 * may be chance as well, so these need more.
 */
static bool hit_more_than_peers(const struct judge *judge, uint32_t rank, const struct run *run,
	double level, struct gate_sheet *sheet)
{
	const struct signal *signal = &judge->ranks[rank].signal;
	double least = run_least(run), needed = surprise_needed(judge);
	uint64_t history = steps_kept_since(&judge->times, 0);
	uint64_t tries = steps_kept_since(&judge->times, run->first_step);

	if (gate_passed(sheet, GATE_HITS, surprise_of_latest(judge, rank, history, tries, level),
		    needed) ||
		gate_passed(sheet, GATE_HITS,
			surprise_of_latest(judge, rank, history, tries,
				signal_height_of_hits(signal, &judge->times, tries)),
			needed + FURTHER_LOOKS_SURPRISE))
		return true;
	for (tries /= 2; tries >= LATEST_STEPS_MIN; tries /= 2) {
		double latest = signal_latest_level(signal, &judge->times, tries, false);

		if (latest >= least &&
			gate_passed(sheet, GATE_HITS,
				surprise_of_latest(judge, rank, history, tries, latest),
				needed + FURTHER_LOOKS_SURPRISE))
			return true;
	}
	return false;
}

/*
 * Other programs take the CPU in bursts, which come in groups: a small or rare share must go on for longer
 * than one. Ranks that share cores preempt each other, unevenly for a while, and so do a rank's own threads;
 * slices too short to be seen one by one are what ranks do to each other.
 */
static double contention_evidence_needed(const struct judge *judge, uint32_t rank,
	const struct run *run, double level, double lasting)
{
	const struct rank_state *state = &judge->ranks[rank];
	const struct excess_sums *sums = &run->sums;
	int64_t until_ns = judge->block.start_ns + judge->block.time_ns;
	int64_t excess_ns = sums->own[EXCESS_PREEMPTED] - sums->control[EXCESS_PREEMPTED];
	struct evidence_preempted by;

	if (run->small && run->blocks < CONTENTION_BLOCKS_MIN)
		return INFINITY;
	evidence_preempted(state->evidence, until_ns - run_span_ns(run), until_ns, state->pid,
		judge->pids.list, judge->pids.count, &by);
	if (by.all_ns == 0 && judge_taken_by_others(judge, rank, until_ns - run_span_ns(run)))
		return lasting;

	double most = OWN_RIVALS_MAX * (double)by.all_ns;

	if ((double)by.ranks_ns <= most &&
		((double)(by.ranks_ns + by.own_threads_ns) <= most || level >= LARGE_SHARE_MIN) &&
		(double)by.all_ns >= RIVALS_SEEN_MIN * (double)excess_ns)
		return lasting;
	return level < LARGE_SHARE_MIN ? INFINITY : EVIDENCE_HIGH;
}

/*
 * How much evidence a change needs to be told, at least CHANGE_THRESHOLD. Without a period, uneven work is what many
 * programs do. Other programs take the CPU in bursts, and a program sleeps for reasons of its own: such a
 * thing must last four blocks, or three where a step alone takes as long as a block.
 */
static double evidence_needed(const struct judge *judge, uint32_t rank, const struct run *run,
	const struct explanation *why, double level)
{
	const struct excess_sums *sums = &run->sums;
	bool irregular = judge->block.irregular * 2 > judge->block.steps;
	double lasting = sums->time_ns - sums->delay_ns >= (int64_t)sums->steps * BLOCK_NS
				 ? CHANGE_THRESHOLD
				 : EVIDENCE_LASTING;

	if (why->cause == CAUSE_CPU_CONTENTION)
		return contention_evidence_needed(judge, rank, run, level, lasting);
	if (cause_rule(why->cause)->proof == PROOF_IF_LASTS)
		return lasting;
	/* Any rank's runtime collects now and then, in three steps in a row by chance. */
	if (why->cause == CAUSE_GARBAGE_COLLECTION && level < COLLECTOR_SHARE_MIN)
		return lasting;
	/* Waits alone say that a device is slow, nothing besides does. */
	if ((irregular || sums->host_times) && why->computes)
		return EVIDENCE_DOUBLE;
	if (why->verdict_class == VERDICT_HOST_SLOW && !cause_says_why(why->cause))
		return sums->on_device || sums->host_times  ? EVIDENCE_DOUBLE
		       : run->loud_blocks >= LASTING_BLOCKS ? CHANGE_THRESHOLD
							    : lasting;
	return CHANGE_THRESHOLD;
}

/*
 * Throttling is no noise: only a rank whose cgroup ran out of its quota has any. Where it makes
 * up much of the delay and the controls have next to none, it needs no statistics, which fail in
 * programs of thousands of tiny steps: a quota period stops one step in fifty.
 */
static bool throttled_beyond_doubt(const struct excess_sums *sums, double least)
{
	double own = (double)sums->own[EXCESS_THROTTLED];
	double control = (double)sums->control[EXCESS_THROTTLED];

	return control < CONTROL_HAS_NONE * own &&
	       own - control >= THROTTLED_SHARE_MIN * (double)sums->delay_ns &&
	       own - control >= least * (double)sums->time_ns;
}

/*
 * The job does less in a second than before, and others waited for no other reason. What a replay without the rank gains counts
 * unless that is refuted; without a past, it alone tells.
 */
static bool makes_steps_longer(
	const struct judge *judge, const struct run *run, struct gate_sheet *sheet)
{
	int64_t now_ns = judge_now_ns(judge);
	int64_t from_ns = step_start_or(&judge->times, run->first_step, now_ns - run->sums.time_ns);
	struct progress_rate usual = progress_before(judge->progress, from_ns, now_ns);
	struct progress_rate now = progress_between(judge->progress, from_ns, now_ns);
	struct progress_loss lost = progress_lost(&usual, &now);

	double late = (double)run->sums.delay_ns / (double)run->sums.time_ns;
	double enough = GAIN_SHARE_MIN * late;
	double gain_ns = (double)run->suspect_gain_ns, delay_ns = (double)run->suspect_delay_ns;

	/* Held against its own past, a rank gains what it took longer, whether or not the job did. */
	if (2 * run->sums.past_ns > run->sums.delay_ns)
		return gate_passed_in(sheet, GATE_LONGER, lost.known ? lost.share : 0,
			fmax(enough, PROGRESS_LOST_ERRORS * lost.error), late);
	if (!lost.known)
		return gate_passed_in(
			sheet, GATE_LONGER, gain_ns, GAIN_SHARE_MIN * delay_ns, delay_ns);
	if (gain_ns >= GAIN_SHARE_MIN * delay_ns)
		return gate_passed_in(sheet, GATE_LONGER,
			lost.share + PROGRESS_REFUTED_ERRORS * lost.error, enough, late);
	return gate_passed_in(sheet, GATE_LONGER, lost.share,
		fmax(enough, PROGRESS_LOST_ERRORS * lost.error), late);
}

/*
 * Hosts that launch work for devices differ, now one, now the other, and stall once in a while, without
 * a reason that is seen (Python on H200s: by 7 % for 15 s; by 15 % for 3 to 13 s where the host is what
 * takes the time; 200 ms at once). So below the one share nothing is told; below the other it must have
 * gone on for longer than that, and the usual step must have become longer.
 */
static bool is_more_than_wandering(const struct judge *judge, const struct rank_state *state,
	const struct run *run, const struct explanation *why, struct gate_sheet *sheet)
{
	double level, before, length;

	if (!run->sums.on_device || why->verdict_class != VERDICT_HOST_SLOW ||
		cause_says_why(why->cause))
		return true;
	level = signal_latest_level(&state->signal, &judge->times,
		steps_kept_since(&judge->times, run->first_step), true);
	if (gate_passed(sheet, GATE_WANDERS, level, WANDERS_MAX))
		return true;
	if (level < MACHINES_DIFFER || run->sums.time_ns < HOST_WANDERS_NS)
		return false;
	before = step_usual_ns(&judge->times, 0, run->first_step);
	length = step_usual_ns(&judge->times, run->first_step, judge->times.next);
	return before > 0 && gate_passed_in(sheet, GATE_WANDERS, length - before,
				     GAIN_SHARE_MIN * level * length, length);
}

/*
 * Of two ranks, nothing says whether one became a little slower or the other a little faster; and the
 * clocks of devices wander by a few percent.
 */
static bool small_is_certain(const struct judge *judge, const struct run *run)
{
	return judge->judged.ranks >= PEERS_MIN && !run->sums.on_device && !run->sums.host_times;
}

static bool within_power_cap(
	const struct judge *judge, const struct rank_state *state, const struct run *run)
{
	uint64_t steps = steps_kept_since(&judge->times, run->first_step);

	return signal_latest_level(&state->signal, &judge->times,
		       steps < POWER_CAP_STEPS ? steps : POWER_CAP_STEPS, true) < WANDERS_MAX;
}

/* No noise, by statistics. */
static bool is_clear(
	const struct judge *judge, uint32_t rank, const struct run *run, struct gate_sheet *sheet)
{
	return gate_passed(sheet, GATE_CHANGE, run->change.evidence, CHANGE_THRESHOLD) &&
	       hit_more_than_peers(judge, rank, run, run_level(run), sheet) &&
	       gate_is(sheet, GATE_USUAL, judge->ranks[rank].signal.settled);
}

/* Of a known class, and nothing that hosts, devices or programs do by themselves. */
static bool is_explained(const struct judge *judge, uint32_t rank, const struct run *run,
	const struct explanation *why, struct gate_sheet *sheet)
{
	const struct rank_state *state = &judge->ranks[rank];

	if (!gate_is(sheet, GATE_CLASS, why->verdict_class != VERDICT_UNKNOWN))
		return false;
	if (why->computes && run->sums.on_device &&
		!gate_is(sheet, GATE_POWER,
			!within_power_cap(judge, state, run) ||
				!judge_gpu_power_bound(judge, rank, run)))
		return false;
	/* Where all ranks' work differs from step to step, some rank has more of it for a while. */
	if (why->computes && !gate_passed(sheet, GATE_UNEVEN, run_level(run),
				     UNEVEN_TIMES_MIN * judge_uneven_level(judge)))
		return false;
	return gate_is(sheet, GATE_LAUNCHES, judge_launches_prove(judge, rank, run, why)) &&
	       is_more_than_wandering(judge, state, run, why, sheet);
}

/* A change is told when it is large enough to matter and really makes the step longer. */
bool judge_worth_telling(const struct judge *judge, uint32_t rank, enum run_kind kind,
	struct explanation *why, struct gate_sheet *sheet)
{
	const struct rank_state *state = &judge->ranks[rank];
	const struct run *run = &state->signal.runs[kind];
	bool certain;

	if (!small_is_certain(judge, run) &&
		!gate_passed(sheet, GATE_CERTAIN, run_level(run), DELAY_SHARE_MIN))
		return false;
	if (!run_is_large(&state->signal, &judge->times, kind, judge->judged.noise_scale, sheet) ||
		!makes_steps_longer(judge, run, sheet))
		return false;
	certain = throttled_beyond_doubt(&run->sums, run_least(run));
	if (!certain && !is_clear(judge, rank, run, sheet))
		return false;
	/* Why is asked last: it takes longer than all else. */
	judge_explain_run(judge, rank, run, why);
	return is_explained(judge, rank, run, why, sheet) &&
	       (certain || gate_passed(sheet, GATE_EVIDENCE, run->change.evidence,
				   evidence_needed(judge, rank, run, why, run_level(run))));
}

bool judge_evidence_suffices(const struct judge *judge, uint32_t rank, const struct run *run,
	struct explanation *why, struct gate_sheet *sheet)
{
	judge_explain_run(judge, rank, run, why);
	return gate_is(sheet, GATE_CLASS, why->verdict_class != VERDICT_UNKNOWN) &&
	       gate_passed(sheet, GATE_EVIDENCE, run->change.evidence,
		       evidence_needed(judge, rank, run, why, run_level(run)));
}
