/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold before a rank is told of; docs/analysis.md has the formulas. */
#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/judge/internal.h"

/* Steps, and how many of them were hit. */
struct tries {
	uint64_t hits, count;
};

static struct tries tries_of(
	const struct judge *judge, uint32_t rank, uint64_t step_count, double share)
{
	struct tries tries = {0};

	tries.hits = signal_hits(
		&judge->ranks[rank].signal, &judge->times, step_count, share, &tries.count);
	return tries;
}

/*
 * Of the peers that nothing is suspected of; where there are none, of all that no verdict names; else of these,
 * whose steps from before their verdicts count.
 */
static struct tries tries_of_peers(const struct judge *judge, uint32_t rank, double share)
{
	uint64_t history = steps_kept_since(&judge->times, 0);
	struct tries all = {0};

	for (int allowed = 0, pool = 0; allowed < 3 && pool == 0; allowed++) {
		for (uint32_t r = 0; r < judge->rank_end && pool < RANKS_ENOUGH; r++) {
			const struct rank_state *peer = &judge->ranks[r];

			if (r == rank || !peer->in_block || (allowed < 2 && peer->incident) ||
				(allowed < 1 && judge_suspected_any(peer)))
				continue;
			struct tries one = tries_of(judge, r, history, share);

			pool++;
			all.hits += one.hits;
			all.count += one.count;
		}
	}
	return all;
}

/* Of a step with half of the delay that the mean step of this level has: its share, of a shorter step. */
static double half_of_delay(double level)
{
	return level / (2 - fmin(level, 1));
}

/*
 * So many of the latest steps, without the first ones that were not hit: a run begins with a block, of which all
 * was as usual until the change came.
 */
static uint64_t since_first_hit(const struct judge *judge, const struct signal *signal,
	const struct run *run, uint64_t step_count, double share)
{
	for (; step_count > 1; step_count--) {
		uint64_t step = judge->times.next - step_count;

		if (step_start_ns(&judge->times, step) >= run->start_ns + BLOCK_NS ||
			signal_step_ns(signal, &judge->times, step) >
				share * step_length_ns(&judge->times, step))
			break;
	}
	return step_count;
}

static uint64_t steps_since_change(
	const struct judge *judge, const struct signal *signal, const struct run *run)
{
	return since_first_hit(judge, signal, run, steps_kept_since(&judge->times, run->first_step),
		half_of_delay(run_level(run)));
}

/*
 * How improbable it is that a rank's latest steps and all of its peers' are hit equally often: by half of the delay
 * that is usual at this level, in time, for a step is the longer the more it is hit. Its own steps of before tell
 * as well what is usual, if they were hit no more often than its peers'; not of a small run, which began somewhere.
 */
static double surprise_of_latest(const struct judge *judge, uint32_t rank, const struct run *run,
	uint64_t step_count, double level)
{
	double share = half_of_delay(level);
	uint64_t since = since_first_hit(judge, &judge->ranks[rank].signal, run, step_count, share);
	struct tries usual = tries_of_peers(judge, rank, share);
	struct tries own = tries_of(judge, rank, since, share);
	struct tries before = tries_of(judge, rank, steps_kept_since(&judge->times, 0), share);

	before.hits -= own.hits;
	before.count -= own.count;
	if (!run->small && before.hits * usual.count <= usual.hits * before.count) {
		usual.hits += before.hits;
		usual.count += before.count;
	}
	return hit_surprise(own.hits, since, usual.hits, usual.count);
}

/* Of many ranks, some is hit as often by chance: with each e times as many, one more is asked for. */
static double surprise_needed(const struct judge *judge, const struct run *run)
{
	return (run_is_of_long_steps(run) ? LONG_HIT_SURPRISE : HIT_SURPRISE) +
	       log(fmax((double)judge->judged.ranks / HIT_RANKS, 1));
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
	double least = run_least(run), needed = surprise_needed(judge, run);
	uint64_t tries = steps_kept_since(&judge->times, run->first_step);

	if (gate_passed(
		    sheet, GATE_HITS, surprise_of_latest(judge, rank, run, tries, level), needed) ||
		gate_passed(sheet, GATE_HITS,
			surprise_of_latest(judge, rank, run, tries,
				signal_height_of_hits(signal, &judge->times, tries)),
			needed + FURTHER_LOOKS_SURPRISE))
		return true;
	for (tries /= 2; tries >= LATEST_STEPS_MIN; tries /= 2) {
		double latest = signal_latest_level(signal, &judge->times, tries, false);

		if (latest >= least && gate_passed(sheet, GATE_HITS,
					       surprise_of_latest(judge, rank, run, tries, latest),
					       needed + FURTHER_LOOKS_SURPRISE))
			return true;
	}
	return false;
}

/*
 * What programs do by themselves for a moment must last, by so much evidence at most. Where this one was seen for long enough, and the level
 * is large, what it did by itself so far says how much.
 */
static double evidence_of_lasting(const struct judge *judge, const struct run *run, double most)
{
	if (run->small || run_level(run) < WANDERS_MAX || judge->judged.count < LONG_ENOUGH)
		return most;
	return fmax(fmin(SEEN_MIN * judge->judged.passing, most), CHANGE_THRESHOLD);
}

/*
 * Other programs take the CPU in bursts, which come in groups: a small or rare share must go on for longer
 * than one. Ranks that share cores preempt each other, unevenly for a while, and so do a rank's own threads, and what watches them;
 * slices too short to be seen one by one are what ranks do to each other.
 */
static double contention_evidence_needed(
	const struct judge *judge, uint32_t rank, const struct run *run)
{
	const struct rank_state *state = &judge->ranks[rank];
	const struct excess_sums *sums = &run->sums;
	double level = run_level(run);
	int64_t until_ns = judge->block.start_ns + judge->block.time_ns;
	int64_t excess_ns = sums->own[EXCESS_PREEMPTED] - sums->control[EXCESS_PREEMPTED];
	struct evidence_preempted by;

	if (run->small && run->blocks < CONTENTION_BLOCKS_MIN)
		return INFINITY;
	evidence_preempted(state->evidence, until_ns - run_span_ns(run), until_ns, state->pid,
		judge->pids.list, judge->pids.count, &by);
	if (by.all_ns == 0 && judge_taken_by_others(judge, rank, until_ns - run_span_ns(run)))
		return evidence_of_lasting(judge, run, EVIDENCE_LASTING);

	double most = OWN_RIVALS_MAX * (double)by.all_ns;

	if ((double)by.ranks_ns <= most &&
		((double)(by.ranks_ns + by.own_threads_ns) <= most || level >= LARGE_SHARE_MIN) &&
		(double)by.all_ns >= RIVALS_SEEN_MIN * (double)excess_ns)
		return evidence_of_lasting(judge, run, EVIDENCE_LASTING);
	return level < LARGE_SHARE_MIN ? INFINITY : EVIDENCE_HIGH;
}

struct dated judge_date_run(
	const struct judge *judge, const struct signal *signal, const struct run *run)
{
	struct dated dated = {.step = run->first_step, .level = run_level(run)};

	if (!run->every) {
		/* Something small before it must not pass for its begin. */
		dated.level = fmax(dated.level,
			signal_latest_level(signal, &judge->times, LATEST_STEPS, false));
		dated.step = signal_onset(
			signal, &judge->times, &judge->block, run_begin(run), dated.level);
	}
	dated.start_ns =
		step_start_or(&judge->times, dated.step, judge_now_ns(judge) - run->sums.time_ns);
	return dated;
}

/* A run as a verdict would date it, and what the job lost since it began. */
struct weighed {
	struct dated dated;
	struct progress_loss lost;
};

/* What the job does less in a second since a time than before another, which is no later. */
static struct progress_loss lost_from(
	const struct judge *judge, int64_t usual_until_ns, int64_t from_ns)
{
	int64_t now_ns = judge_now_ns(judge);
	struct progress_rate usual = progress_before(judge->progress, usual_until_ns, now_ns);
	struct progress_rate now = progress_beside(judge->progress, from_ns, now_ns);

	return progress_lost(&usual, &now);
}

/* The same since a run began; where that step is not kept any more, for as long as the run is. */
static struct progress_loss lost_since(const struct judge *judge, const struct run *run)
{
	int64_t from_ns = step_start_or(
		&judge->times, run->first_step, judge_now_ns(judge) - run->sums.time_ns);

	return lost_from(judge, from_ns, from_ns);
}

/*
 * Hosts of devices become slower by up to a third for seconds, without a reason that is seen. One that is late for half of
 * the time, or that the job lost as much by, is no such host; where all become slow, one may be the first for a moment.
 */
static double evidence_of_device_host(
	const struct judge *judge, const struct run *run, const struct progress_loss *lost)
{
	if (run_span_ns(run) < QUICK_BLOCKS_MIN * BLOCK_NS)
		return INFINITY;
	return fmax(run_level(run), lost->known ? lost->share : 0) < HALF_SHARE
		       ? EVIDENCE_HIGH
		       : evidence_of_lasting(judge, run, EVIDENCE_DOUBLE);
}

/* The level of a device in the latest steps since it changed. */
static double latest_of_device(const struct judge *judge, uint32_t rank, const struct run *run)
{
	const struct signal *signal = &judge->ranks[rank].signal;
	uint64_t steps = steps_since_change(judge, signal, run);

	return signal_latest_level(
		signal, &judge->times, steps < POWER_CAP_STEPS ? steps : POWER_CAP_STEPS, true);
}

/*
 * Devices and what feeds them differ for a second, too, now one, now the other. What is no more than that must last where nothing
 * tells why, and the job surely loses by it, if that can be told.
 */
static double evidence_of_small_device(const struct progress_loss *lost)
{
	return lost->known && lost->share < CHANCE_UNITS * lost->error ? INFINITY : EVIDENCE_HIGH;
}

/*
 * How much evidence a change needs to be told, at least CHANGE_THRESHOLD. Without a period, uneven work is what many
 * programs do. Other programs take the CPU in bursts, and a program sleeps for reasons of its own: such a
 * thing must last four blocks, or three where a step alone takes as long as a block.
 */
static double evidence_needed(const struct judge *judge, uint32_t rank, const struct run *run,
	const struct explanation *why, const struct progress_loss *lost)
{
	const struct excess_sums *sums = &run->sums;
	bool irregular = judge->block.irregular * 2 > judge->block.steps;

	if (why->cause == CAUSE_CPU_CONTENTION)
		return contention_evidence_needed(judge, rank, run);
	if (cause_rule(why->cause)->proof == PROOF_IF_LASTS)
		return evidence_of_lasting(judge, run, EVIDENCE_LASTING);
	/* Any rank's runtime collects now and then, by chance in three steps in a row, or in four of eleven. */
	if (why->cause == CAUSE_GARBAGE_COLLECTION && run_level(run) < COLLECTOR_SHARE_MIN)
		return evidence_of_lasting(
			judge, run, run->small ? EVIDENCE_DOUBLE : EVIDENCE_LASTING);
	if (why->computes && sums->on_device && !cause_says_why(why->cause) &&
		latest_of_device(judge, rank, run) < LARGE_SHARE_MIN)
		return evidence_of_small_device(lost);
	/* Waits alone say that a device is slow, nothing besides does. */
	if ((irregular || sums->host_times) && why->computes)
		return evidence_of_lasting(judge, run, EVIDENCE_DOUBLE);
	if (why->verdict_class == VERDICT_HOST_SLOW && !cause_says_why(why->cause))
		return sums->on_device || sums->host_times
			       ? evidence_of_device_host(judge, run, lost)
		       : run->loud_blocks >= LASTING_BLOCKS
			       ? CHANGE_THRESHOLD
			       : evidence_of_lasting(judge, run, EVIDENCE_LASTING);
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

/* Of the time since a run began, the share that a rank was stopped, by a signal or a debugger. */
static double stopped_share(const struct judge *judge, uint32_t rank, const struct run *run)
{
	int64_t until_ns = judge->block.start_ns + judge->block.time_ns;
	struct evidence_stopped stopped;

	evidence_stopped(
		judge->ranks[rank].evidence, until_ns - run_span_ns(run), until_ns, &stopped);
	return stopped.known_ns > 0 ? (double)stopped.time_ns / (double)stopped.known_ns : 0;
}

/* Nor is a stop noise: programs do not stop themselves. A job that somebody stops as a whole has all of its ranks stopped. */
static bool stopped_beyond_doubt(
	const struct judge *judge, uint32_t rank, const struct run *run, double least)
{
	double own = stopped_share(judge, rank, run), late;
	size_t peers = 0, stopped = 0;

	late = (double)run->sums.delay_ns / fmax((double)run->sums.time_ns, 1);
	if (own < fmax(STOPPED_SHARE_MIN * late, least))
		return false;
	for (uint32_t r = 0; r < judge->rank_end && peers < RANKS_ENOUGH; r++) {
		if (r == rank || !judge->ranks[r].in_block)
			continue;
		peers++;
		stopped += stopped_share(judge, r, run) >= CONTROL_HAS_NONE * own;
	}
	return 2 * stopped < peers;
}

/* The job lost enough of what a rank is late by, and some least; allowed: as much less of it does. */
static bool is_lost(const struct progress_loss *lost, double least, double allowed, double late,
	enum gate gate, struct gate_sheet *sheet)
{
	return gate_passed_in(sheet, gate, (lost->known ? lost->share : 0) + allowed,
		fmax(GAIN_SHARE_MIN * late, least), late);
}

/*
 * The job does less in a second than before, and others waited for no other reason. What a replay without the rank gains counts
 * unless that is refuted; without a past, it alone tells. Of devices, whose clocks and hosts wander, the job must have lost
 * as much since the step, too, from which a verdict would date it.
 */
static bool makes_steps_longer(const struct judge *judge, const struct signal *signal,
	const struct run *run, const struct weighed *weighed, struct gate_sheet *sheet)
{
	const struct run *later = &signal->runs[RUN_QUICK];
	double gain_ns = (double)run->suspect_gain_ns, delay_ns = (double)run->suspect_delay_ns;
	/* Held against its own past, a rank gains what it took longer, whether or not the job did. */
	bool own_past = 2 * run->sums.past_ns > run->sums.delay_ns;
	bool gains = !own_past && gain_ns >= GAIN_SHARE_MIN * delay_ns;
	struct progress_loss lost = weighed->lost;

	if (!lost.known && later->blocks && later->first_step > run->first_step)
		lost = lost_since(judge, later);
	if (!lost.known && !own_past)
		return gate_passed_in(
			sheet, GATE_LONGER, gain_ns, GAIN_SHARE_MIN * delay_ns, delay_ns);
	if (!is_lost(&lost, gains ? 0 : PROGRESS_LOST_ERRORS * lost.error,
		    gains ? PROGRESS_REFUTED_ERRORS * lost.error : 0, run_share(run), GATE_LONGER,
		    sheet))
		return false;
	if (!run->sums.on_device)
		return true;
	lost = lost_from(judge, weighed->dated.start_ns, weighed->dated.start_ns);
	return !lost.known || is_lost(&lost, 0, 0, weighed->dated.level, GATE_SINCE, sheet);
}

/* A run that began with the host's time is still one of it until a device has, since, surely outweighed that. */
static bool is_of_host(const struct run *run, const struct explanation *why)
{
	return why->verdict_class == VERDICT_HOST_SLOW ||
	       (why->computes && run_side_share(run) < HALF_SHARE);
}

/* The job lost as large a share of its time since a run began as hosts are late by, or surely as much time as none of them costs. */
static bool is_seen_to_cost(const struct run *run, const struct progress_loss *lost)
{
	double surely = lost->share - PROGRESS_LOST_ERRORS * lost->error;

	return lost->known &&
	       (lost->share >= WANDERS_MAX || surely * (double)run_span_ns(run) >= WANDERS_COST_NS);
}

/*
 * Hosts that launch work for devices differ, now one, now the other, and stall once in a while, without
 * a reason that is seen (Python on H200s: by 7 % for 15 s; by 15 % for 3 to 13 s where the host is what
 * takes the time; 200 ms at once). So below the one share nothing is told; below the other it must have
 * gone on for longer than that, and the usual step must have become longer. Stacks that its control has not are a reason, unless
 * they are in the program's own code, where a host that is late by itself is as well; to wait for input is none: workers of a healthy loader run
 * ahead and fall behind, too.
 * By a device's times alone, only the last of several hosts is late: the others run ahead of their devices, which wait, and may be as
 * slow. So where nothing says why, that it costs the job something must be seen: in what the job did before, or in what was launched.
 */
static bool is_more_than_wandering(const struct judge *judge, const struct rank_state *state,
	const struct run *run, const struct progress_loss *lost, const struct explanation *why,
	struct gate_sheet *sheet)
{
	const struct cause_rule *rule = cause_rule(why->cause);
	double level, before, length;

	if (!run->sums.on_device || !is_of_host(run, why) ||
		(cause_says_why(why->cause) && why->cause != CAUSE_INPUT_PIPELINE) ||
		(rule->sources & EVIDENCE_STACKS && rule->precedence != PRECEDENCE_CODE))
		return true;
	bool costs =
		cause_says_why(why->cause) || run->sums.host_times || is_seen_to_cost(run, lost);

	level = steps_kept_since(&judge->times, run->first_step) <
				judge->times.next - run->first_step
			? run_level(run)
			: signal_latest_level(&state->signal, &judge->times,
				  steps_since_change(judge, &state->signal, run), true);
	if (gate_passed(sheet, GATE_WANDERS, level, costs ? WANDERS_MAX : INFINITY))
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

/* No noise, by statistics. */
static bool is_clear(
	const struct judge *judge, uint32_t rank, const struct run *run, struct gate_sheet *sheet)
{
	return gate_passed(sheet, GATE_CHANGE, run_evidence_in_time(run), CHANGE_THRESHOLD) &&
	       hit_more_than_peers(judge, rank, run, run_level(run), sheet) &&
	       gate_is(sheet, GATE_USUAL, judge->ranks[rank].signal.settled);
}

/* A rank is late by a good part of what the job lost. */
static bool is_good_part(
	double late, const struct progress_loss *lost, enum gate gate, struct gate_sheet *sheet)
{
	double surely = lost->share - PROGRESS_LOST_ERRORS * lost->error;

	return !lost->known || gate_passed_in(sheet, gate, late, PART_SHARE * surely, surely);
}

/* By how much ranks were late in the latest steps: the lower median. */
static double usual_latest(const struct judge *judge, uint64_t step_count)
{
	double levels[RANKS_ENOUGH];
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end && count < RANKS_ENOUGH; r++) {
		if (judge->ranks[r].in_block)
			levels[count++] = signal_latest_level(
				&judge->ranks[r].signal, &judge->times, step_count, false);
	}
	return lower_median_double(levels, count);
}

/*
 * Where nothing says why, it is late by a good part of what the job lost since the run began, and of what it loses by now: else
 * something slows all, which a rank was late for beforehand, or before others were.
 */
static bool has_its_part(const struct judge *judge, const struct signal *signal,
	const struct run *run, const struct weighed *weighed, const struct explanation *why,
	struct gate_sheet *sheet)
{
	uint64_t half = (judge->times.next - weighed->dated.step) / 2;
	int64_t start_ns = weighed->dated.start_ns;
	struct progress_loss lost;
	double level;

	if (cause_says_why(why->cause))
		return true;
	if (!is_good_part(run_share(run), &weighed->lost, GATE_PART, sheet))
		return false;
	if (half == 0)
		return true;
	level = signal_latest_level(signal, &judge->times, half, false);
	if (!gate_passed(sheet, GATE_LATE_NOW, level - usual_latest(judge, half),
		    PART_SHARE * run_level(run)))
		return false;
	lost = lost_from(
		judge, start_ns, step_start_or(&judge->times, judge->times.next - half, start_ns));
	return is_good_part(level, &lost, GATE_PART_NOW, sheet);
}

/* Of a known class, and nothing that hosts, devices or programs do by themselves. */
static bool is_explained(const struct judge *judge, uint32_t rank, const struct run *run,
	const struct weighed *weighed, const struct explanation *why, struct gate_sheet *sheet)
{
	const struct rank_state *state = &judge->ranks[rank];

	if (!gate_is(sheet, GATE_CLASS, why->verdict_class != VERDICT_UNKNOWN))
		return false;
	if (why->computes && run->sums.on_device &&
		!gate_is(sheet, GATE_POWER,
			latest_of_device(judge, rank, run) >= WANDERS_MAX ||
				!judge_gpu_power_bound(judge, rank, run)))
		return false;
	/* Where all ranks' work differs from step to step, some rank has more of it for a while. */
	if (why->computes && !gate_passed(sheet, GATE_UNEVEN, run_level(run),
				     UNEVEN_TIMES_MIN * judge_uneven_level(judge)))
		return false;
	return judge_more_than_split(judge, &run->sums, run_level(run), why, sheet) &&
	       has_its_part(judge, &state->signal, run, weighed, why, sheet) &&
	       gate_is(sheet, GATE_LAUNCHES, judge_launches_prove(judge, rank, run, why)) &&
	       is_more_than_wandering(judge, state, run, &weighed->lost, why, sheet);
}

/*
 * As a verdict would date it, it has gone on for a block: what rises at the end of something lesser may be a stall. What is small, or
 * rare, is dated by one of its hits, and has gone on for longer.
 */
static bool has_gone_on(const struct judge *judge, const struct run *run, const struct dated *dated,
	struct gate_sheet *sheet)
{
	return run->small ||
	       gate_passed(sheet, GATE_DATED, (double)(judge_now_ns(judge) - dated->start_ns) / 1e6,
		       BLOCK_NS / 1e6);
}

/* A change is told when it is large enough to matter and really makes the step longer. */
bool judge_worth_telling(const struct judge *judge, uint32_t rank, enum run_kind kind,
	struct explanation *why, struct gate_sheet *sheet)
{
	const struct rank_state *state = &judge->ranks[rank];
	const struct run *run = &state->signal.runs[kind];
	struct weighed weighed;
	bool certain;

	if (!small_is_certain(judge, run) &&
		!gate_passed(sheet, GATE_CERTAIN, run_level(run), DELAY_SHARE_MIN))
		return false;
	if (!run_is_large(&state->signal, &judge->times, kind, judge->judged.noise_scale, sheet))
		return false;
	weighed.dated = judge_date_run(judge, &state->signal, run);
	weighed.lost = lost_since(judge, run);
	if (!makes_steps_longer(judge, &state->signal, run, &weighed, sheet) ||
		!has_gone_on(judge, run, &weighed.dated, sheet))
		return false;
	certain = throttled_beyond_doubt(&run->sums, run_least(run)) ||
		  stopped_beyond_doubt(judge, rank, run, run_least(run));
	if (!certain && !is_clear(judge, rank, run, sheet))
		return false;
	/* Why is asked last: it takes longer than all else. */
	judge_explain_run(judge, rank, run, why);
	return is_explained(judge, rank, run, &weighed, why, sheet) &&
	       (certain || gate_passed(sheet, GATE_EVIDENCE, run_evidence_in_time(run),
				   evidence_needed(judge, rank, run, why, &weighed.lost)));
}

bool judge_evidence_suffices(const struct judge *judge, uint32_t rank, const struct run *run,
	struct explanation *why, struct gate_sheet *sheet)
{
	const struct progress_loss lost = lost_since(judge, run);

	judge_explain_run(judge, rank, run, why);
	return gate_is(sheet, GATE_CLASS, why->verdict_class != VERDICT_UNKNOWN) &&
	       gate_passed(sheet, GATE_EVIDENCE, run_evidence_in_time(run),
		       evidence_needed(judge, rank, run, why, &lost));
}
