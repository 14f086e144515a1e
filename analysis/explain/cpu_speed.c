/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the CPUs that a rank ran on were slower than usual: stolen by a hypervisor, at a lower clock, or with fewer
 * instructions a cycle though it had as many to run.
 */

#include <math.h>
#include <stdio.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/judge/state.h"
#include "analysis/policy.h"

/* A rank's ratio since the onset, and the lower median of the others'. False where one of them is not known. */
static bool now_and_others(const struct explain_context *context, const struct episode_past *usual,
	unsigned part, unsigned whole, double *now, double *others)
{
	int64_t until_ns = context->now_ns;
	size_t count = 0;

	if (!evidence_ratio(context->ranks[usual->rank].evidence, part, whole, usual->onset_ns,
		    until_ns, now))
		return false;
	for (uint32_t r = 0; r < context->rank_count && count < EXPLAIN_OTHERS_MAX; r++) {
		if (r != usual->rank &&
			evidence_ratio(context->ranks[r].evidence, part, whole, usual->onset_ns,
				until_ns, &context->scratch[count]))
			count++;
	}
	*others = lower_median_double(context->scratch, count);
	return count > 0;
}

/* What of the rank's time on the CPU was lost, as shares of it, 0: nothing that counts; and what there is to say of it. */
struct loss {
	bool known;
	double lost, own, control; /* shares */
	char text[VERDICT_DETAIL_LENGTH];
};

static void look_at_stolen(
	const struct explain_context *context, const struct episode *episode, struct loss *loss)
{
	const struct episode_past *usual = episode->past;
	double now, others, expected;

	loss->known = now_and_others(
		context, usual, METRIC_CPU_STOLEN_NS, METRIC_CPU_WANTED_NS, &now, &others);
	if (!loss->known)
		return;
	expected = usual->stolen.known ? fmax(others, usual->stolen.median) : others;
	loss->own = fmin(now, 1);
	loss->control = fmin(expected, 1);
	snprintf(loss->text, sizeof(loss->text),
		"%.0f %% of what its CPUs wanted to run; others %.0f %%%s", 100 * now, 100 * others,
		usual->stolen.known && usual->stolen.median > others ? ", itself before more" : "");
	if (now - expected >= fmax(STOLEN_MIN, SPREADS_MIN * usual->stolen.spread))
		loss->lost = fmin(now - expected, 1);
}

static void describe_clock(const struct explain_context *context, const struct episode_past *usual,
	double now, double others, struct loss *loss)
{
	const struct evidence *evidence = context->ranks[usual->rank].evidence;
	char before[48] = "", heat[64] = "";
	double per_ns;

	if (usual->clock.known)
		snprintf(before, sizeof(before), ", before %.2f", usual->clock.median);
	if (evidence_rate(
		    evidence, METRIC_CPU_THROTTLES, usual->onset_ns, context->now_ns, &per_ns) &&
		per_ns > 0)
		snprintf(heat, sizeof(heat), "; slowed down for heat %.1f times a second",
			per_ns * 1e9);
	snprintf(loss->text, sizeof(loss->text), "%.2f GHz%s, others %.2f%s", now, before, others,
		heat);
}

/*
 * Against its own past, as far as the others did not slow down likewise; without one, against the others. Time that was
 * stolen counts as time on the CPU: stolen is the share that is explained already.
 */
static void look_at_clock(const struct explain_context *context, const struct episode *episode,
	double stolen, struct loss *loss)
{
	const struct episode_past *usual = episode->past;
	double now, others, expected, fall;

	loss->known = now_and_others(
		context, usual, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, &now, &others);
	if (!loss->known)
		return;
	expected = others;
	if (usual->clock.known)
		expected = usual->clock.median *
			   (usual->others_clock > 0 ? fmin(1, others / usual->others_clock) : 1);
	fall = expected > 0 ? 1 - now / expected : 0;
	describe_clock(context, usual, now, others, loss);
	if (fall < CLOCK_FALL_MIN ||
		(usual->clock.known &&
			fall * usual->clock.median < SPREADS_MIN * usual->clock.spread))
		return;
	loss->lost = loss->own = fmax(0, fall - stolen);
}

/*
 * What waits do a cycle, at most. The others wait for the slow rank now, by its delay longer: what that made of their
 * instructions a cycle tells what waits do (their work stays as it is, so two means of two shares give both).
 */
static double polled_per_cycle(
	const struct explain_context *context, const struct episode *episode, double others_now)
{
	const struct episode_past *usual = episode->past;
	double most = fmax(WAITING_PER_CYCLE_MAX, usual->per_cycle.median);
	double delay = (double)episode->timed.delay_ns / (double)episode->timed.time_ns;
	double before = usual->others_waits, now = before + (1 - before) * delay, polled;

	if (before <= 0 || usual->others_per_cycle <= 0 || now - before < WAITS_GROW_MIN ||
		context->now_ns - usual->onset_ns < WAITS_SEEN_NS)
		return most;
	polled = (others_now * (1 - before) - usual->others_per_cycle * (1 - now)) / (now - before);
	return fmin(most, POLLED_MARGIN * fmax(polled, 0) + POLLED_MORE);
}

/*
 * Instructions a cycle are of work and of waits that poll, and a rank that became slow waits less. So at least
 * what its work did per cycle before is held against at most what it does now, whatever its waits did. As many
 * instructions in a step as before: else it is other work. lost: share of its time that is explained already.
 */
static void look_at_cycles(const struct explain_context *context, const struct episode *episode,
	double lost, struct loss *loss)
{
	const struct episode_past *usual = episode->past;
	const struct excess_sums *sums = &episode->timed;
	double before = usual->per_cycle.median, now, clock, others, others_clock;

	loss->known = usual->waits > 0 && usual->waits < 1 && usual->per_cycle.known &&
		      usual->clock.known &&
		      now_and_others(context, usual, METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES,
			      &now, &others) &&
		      now_and_others(context, usual, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS,
			      &clock, &others_clock);
	if (!loss->known)
		return;
	double polled = polled_per_cycle(context, episode, others);
	double least = (before - polled * usual->waits) / (1 - usual->waits);
	double most = now / (1 - cpu_waits(sums));
	double work = now * clock * (double)sums->time_ns;
	double usual_work = before * usual->clock.median * (double)(sums->time_ns - sums->delay_ns);

	snprintf(loss->text, sizeof(loss->text),
		"%.2f instructions a cycle, before %.2f; %.0f %% of the instructions a step", now,
		before, usual_work > 0 ? 100 * work / usual_work : 0);
	if (work > MORE_WORK * usual_work || most > (1 - PER_CYCLE_FALL_MIN) * least ||
		before - now < SPREADS_MIN * usual->per_cycle.spread)
		return;
	loss->lost = loss->own = (1 - lost) * (1 - most / least);
}

/* A loss of time on the CPU as a finding: it explains no more than that grew, as the kernel saw it. */
static void put_loss(const struct explain_context *context, const struct episode *episode,
	const struct loss *loss, enum cause cause, struct finding *finding)
{
	enum excess_kind kind = excess_on_cpu(&episode->timed);
	double own_ns = (double)episode->timed.own[kind];
	double control_ns = (double)episode->timed.control[kind];
	double explains_ns = fmin(loss->lost * own_ns, fmax(0, own_ns - control_ns));

	if (!loss->known) { /* recorded by a version without that source, or too early */
		snprintf(finding->text, sizeof(finding->text), "%s",
			explain_missing(context, cause_rule(cause)->sources));
		finding->known = finding->text[0] ? KNOWN_UNASKED : KNOWN_NOTHING;
		return;
	}
	finding->own_ns = loss->own * own_ns;
	finding->control_ns = loss->control * control_ns;
	finding->outweighs = true;
	finding->known = KNOWN_NOT_IT;
	if (explains_ns > 0 && episode->excess_ns > 0) {
		finding->known = KNOWN_SHARE;
		finding->share = fmin(explains_ns / episode->excess_ns, 1);
	}
	snprintf(finding->text, sizeof(finding->text), "%s%.140s",
		finding->known == KNOWN_NOT_IT ? "as usual: " : "", loss->text);
	/* Of a host that may have waited for its device, nobody knows what it was busy for. */
	if (finding->known == KNOWN_SHARE && episode->class_so_far == VERDICT_UNKNOWN)
		finding->known = KNOWN_NOTHING;
}

void measure_steal(const struct explain_context *context, const struct episode *episode,
	struct finding *finding)
{
	struct loss stolen = {0};

	look_at_stolen(context, episode, &stolen);
	put_loss(context, episode, &stolen, CAUSE_CPU_STEAL, finding);
}

void measure_cpu_clock(const struct explain_context *context, const struct episode *episode,
	struct finding *finding)
{
	struct loss stolen = {0}, clock = {0};

	look_at_stolen(context, episode, &stolen);
	look_at_clock(context, episode, stolen.lost, &clock);
	put_loss(context, episode, &clock, CAUSE_CPU_CLOCK, finding);
}

void measure_per_cycle(const struct explain_context *context, const struct episode *episode,
	struct finding *finding)
{
	struct loss stolen = {0}, clock = {0}, cycles = {0};

	look_at_stolen(context, episode, &stolen);
	look_at_clock(context, episode, stolen.lost, &clock);
	look_at_cycles(context, episode, fmin(stolen.lost + clock.lost, 1), &cycles);
	put_loss(context, episode, &cycles, CAUSE_SMT_OR_MEMORY, finding);
}
