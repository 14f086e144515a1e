/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/judge_speed.h"

#include <math.h>
#include <stdio.h>

#include "analysis/judge_internal.h"
#include "analysis/robust_stats.h"

/* Changes below these are what healthy CPUs do: ticks of 10 ms a second, turbo steps of 100 MHz. */
#define STOLEN_MIN 0.02
#define CLOCK_FALL_MIN 0.03
#define PER_CYCLE_FALL_MIN 0.05
/* And below so many times what the rank's own samples spread by. */
#define SPREADS_MIN 3.0
/* Instructions a cycle that no loop which waits does more of; cores retire four to eight at best. */
#define WAITING_PER_CYCLE_MAX 4.0
/*
 * What waits do is estimated once they grew by so much of the time, and from several samples; it may be a quarter
 * more, and a little.
 */
#define WAITS_GROW_MIN 0.1
#define WAITS_SEEN_NS INT64_C(3000000000)
#define POLLED_MARGIN 1.25
#define POLLED_MORE 0.1
/* With so many times the instructions in a step it is more work, not a slower core. */
#define MORE_WORK 1.15
/* So many other ranks are looked at. */
enum { OTHERS_MAX = 1024 };

static const struct {
	enum cause cause;
	uint32_t source;
} kinds[SPEED_NR] = {
	[SPEED_STOLEN] = {CAUSE_CPU_STEAL, EVIDENCE_STEAL},
	[SPEED_CLOCK] = {CAUSE_CPU_CLOCK, EVIDENCE_CYCLES},
	[SPEED_PER_CYCLE] = {CAUSE_SMT_OR_MEMORY, EVIDENCE_CYCLES},
};

static struct speed_figure usual_figure(
	const struct judge *judge, uint32_t rank, unsigned part, unsigned whole, int64_t until_ns)
{
	struct speed_figure figure = {0};

	figure.known = evidence_usual_ratio(
		judge->ranks[rank].evidence, part, whole, until_ns, &figure.median, &figure.spread);
	return figure;
}

/* The lower median of their medians; 0: not known. */
static double usual_of_others(
	struct judge *judge, uint32_t rank, unsigned part, unsigned whole, int64_t until_ns)
{
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end && count < OTHERS_MAX; r++) {
		struct speed_figure other = {0};

		if (r != rank)
			other = usual_figure(judge, r, part, whole, until_ns);
		if (other.known)
			judge->scratch[count++] = other.median;
	}
	return lower_median_double(judge->scratch, count);
}

void judge_speed_usual(
	struct judge *judge, uint32_t rank, int64_t onset_ns, struct speed_usual *usual)
{
	size_t count = 0;

	*usual = (struct speed_usual){
		.rank = rank, .onset_ns = onset_ns, .waits = judge->ranks[rank].usual_waits};
	usual->stolen =
		usual_figure(judge, rank, METRIC_CPU_STOLEN_NS, METRIC_CPU_WANTED_NS, onset_ns);
	usual->clock =
		usual_figure(judge, rank, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, onset_ns);
	usual->per_cycle =
		usual_figure(judge, rank, METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES, onset_ns);
	if (!usual->clock.known)
		return;
	usual->others_clock =
		usual_of_others(judge, rank, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, onset_ns);
	usual->others_per_cycle =
		usual_of_others(judge, rank, METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES, onset_ns);
	for (uint32_t r = 0; r < judge->rank_end && count < OTHERS_MAX; r++) {
		if (r != rank && judge->ranks[r].usual_waits > 0)
			judge->scratch[count++] = judge->ranks[r].usual_waits;
	}
	usual->others_waits = lower_median_double(judge->scratch, count);
}

/* A rank's ratio since the onset, and the lower median of the others'. False where one of them is not known. */
static bool now_and_others(struct judge *judge, const struct speed_usual *usual, unsigned part,
	unsigned whole, double *now, double *others)
{
	int64_t until_ns = judge_now_ns(judge);
	size_t count = 0;

	if (!evidence_ratio(judge->ranks[usual->rank].evidence, part, whole, usual->onset_ns,
		    until_ns, now))
		return false;
	for (uint32_t r = 0; r < judge->rank_end && count < OTHERS_MAX; r++) {
		if (r != usual->rank && evidence_ratio(judge->ranks[r].evidence, part, whole,
						usual->onset_ns, until_ns, &judge->scratch[count]))
			count++;
	}
	*others = lower_median_double(judge->scratch, count);
	return count > 0;
}

static enum excess_kind on_cpu(const struct excess_sums *sums)
{
	return sums->on_device ? EXCESS_HOST_CPU : EXCESS_COMPUTE;
}

double judge_speed_waits(const struct excess_sums *sums)
{
	double own = 0, works = (double)sums->own[on_cpu(sums)], waits;

	for (int k = sums->on_device ? EXCESS_COMPUTE + 1 : EXCESS_COMPUTE; k < EXCESS_NR; k++)
		own += (double)sums->own[k];
	waits = fmax(0, (double)sums->time_ns - own);
	return works > 0 ? waits / (works + waits) : 1;
}

/* Returns the share of its CPU time that it lost to others, beyond the usual. */
static double measure_stolen(struct judge *judge, const struct speed_usual *usual,
	const struct excess_sums *sums, struct speed_loss *loss)
{
	double now, others, expected;

	loss->known = now_and_others(
		judge, usual, METRIC_CPU_STOLEN_NS, METRIC_CPU_WANTED_NS, &now, &others);
	if (!loss->known)
		return 0;
	expected = usual->stolen.known ? fmax(others, usual->stolen.median) : others;
	loss->own_ns = fmin(now, 1) * (double)sums->own[on_cpu(sums)];
	loss->control_ns = fmin(expected, 1) * (double)sums->control[on_cpu(sums)];
	snprintf(loss->detail, sizeof(loss->detail),
		"%.0f %% of what its CPUs wanted to run; others %.0f %%%s", 100 * now, 100 * others,
		usual->stolen.known && usual->stolen.median > others ? ", itself before more" : "");
	if (now - expected < fmax(STOLEN_MIN, SPREADS_MIN * usual->stolen.spread))
		return 0;
	loss->explains_ns = fmin(now - expected, 1) * (double)sums->own[on_cpu(sums)];
	return fmin(now - expected, 1);
}

static void describe_clock(const struct judge *judge, const struct speed_usual *usual, double now,
	double others, struct speed_loss *loss)
{
	const struct evidence *evidence = judge->ranks[usual->rank].evidence;
	char before[48] = "", heat[64] = "";
	double per_ns;

	if (usual->clock.known)
		snprintf(before, sizeof(before), ", before %.2f", usual->clock.median);
	if (evidence_rate(evidence, METRIC_CPU_THROTTLES, usual->onset_ns, judge_now_ns(judge),
		    &per_ns) &&
		per_ns > 0)
		snprintf(heat, sizeof(heat), "; slowed down for heat %.1f times a second",
			per_ns * 1e9);
	snprintf(loss->detail, sizeof(loss->detail), "%.2f GHz%s, others %.2f%s", now, before,
		others, heat);
}

/*
 * Against its own past, as far as the others did not slow down likewise; without one, against the others. Time that was
 * stolen counts as time on the CPU: stolen is the share that is explained already.
 */
static double measure_clock(struct judge *judge, const struct speed_usual *usual,
	const struct excess_sums *sums, double stolen, struct speed_loss *loss)
{
	double now, others, expected, fall;

	loss->known = now_and_others(
		judge, usual, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, &now, &others);
	if (!loss->known)
		return 0;
	expected = others;
	if (usual->clock.known)
		expected = usual->clock.median *
			   (usual->others_clock > 0 ? fmin(1, others / usual->others_clock) : 1);
	fall = expected > 0 ? 1 - now / expected : 0;
	describe_clock(judge, usual, now, others, loss);
	if (fall < CLOCK_FALL_MIN ||
		(usual->clock.known &&
			fall * usual->clock.median < SPREADS_MIN * usual->clock.spread))
		return 0;
	fall = fmax(0, fall - stolen);
	loss->own_ns = loss->explains_ns = fall * (double)sums->own[on_cpu(sums)];
	return fall;
}

/*
 * What waits do a cycle, at most. The others wait for the slow rank now, by its delay longer: what that made of their
 * instructions a cycle tells what waits do (their work stays as it is, so two means of two shares give both).
 */
static double polled_per_cycle(struct judge *judge, const struct speed_usual *usual,
	const struct excess_sums *sums, double others_now)
{
	double most = fmax(WAITING_PER_CYCLE_MAX, usual->per_cycle.median);
	double delay = (double)sums->delay_ns / (double)sums->time_ns, before = usual->others_waits;
	double now = before + (1 - before) * delay, polled;

	if (before <= 0 || usual->others_per_cycle <= 0 || now - before < WAITS_GROW_MIN ||
		judge_now_ns(judge) - usual->onset_ns < WAITS_SEEN_NS)
		return most;
	polled = (others_now * (1 - before) - usual->others_per_cycle * (1 - now)) / (now - before);
	return fmin(most, POLLED_MARGIN * fmax(polled, 0) + POLLED_MORE);
}

/*
 * Instructions a cycle are of work and of waits that poll, and a rank that became slow waits less. So at least
 * what its work did per cycle before is held against at most what it does now, whatever its waits did. As many
 * instructions in a step as before: else it is other work. lost: share of its time that is explained already.
 */
static void measure_per_cycle(struct judge *judge, const struct speed_usual *usual,
	const struct excess_sums *sums, double lost, struct speed_loss *loss)
{
	double before = usual->per_cycle.median, now, clock, others, others_clock;

	loss->known = usual->waits > 0 && usual->waits < 1 && usual->per_cycle.known &&
		      usual->clock.known &&
		      now_and_others(judge, usual, METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES, &now,
			      &others) &&
		      now_and_others(judge, usual, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, &clock,
			      &others_clock);
	if (!loss->known)
		return;
	double polled = polled_per_cycle(judge, usual, sums, others);
	double least = (before - polled * usual->waits) / (1 - usual->waits);
	double most = now / (1 - judge_speed_waits(sums));
	double work = now * clock * (double)sums->time_ns;
	double usual_work = before * usual->clock.median * (double)(sums->time_ns - sums->delay_ns);

	snprintf(loss->detail, sizeof(loss->detail),
		"%.2f instructions a cycle, before %.2f; %.0f %% of the instructions a step", now,
		before, usual_work > 0 ? 100 * work / usual_work : 0);
	if (work > MORE_WORK * usual_work || most > (1 - PER_CYCLE_FALL_MIN) * least ||
		before - now < SPREADS_MIN * usual->per_cycle.spread)
		return;
	loss->own_ns = loss->explains_ns =
		(1 - lost) * (1 - most / least) * (double)sums->own[on_cpu(sums)];
}

void judge_speed_measure(struct judge *judge, const struct speed_usual *usual,
	const struct excess_sums *sums, struct speed_losses *losses)
{
	enum excess_kind kind = on_cpu(sums);
	double excess_ns = fmax(0, (double)(sums->own[kind] - sums->control[kind]));

	*losses = (struct speed_losses){0};
	double stolen = measure_stolen(judge, usual, sums, &losses->of[SPEED_STOLEN]);
	double fall = measure_clock(judge, usual, sums, stolen, &losses->of[SPEED_CLOCK]);

	measure_per_cycle(judge, usual, sums, fmin(stolen + fall, 1), &losses->of[SPEED_PER_CYCLE]);
	/* What else was long, a device's work say, is not explained by any of these. */
	for (int k = 0; k < SPEED_NR; k++)
		losses->of[k].explains_ns = fmin(losses->of[k].explains_ns, excess_ns);
}

static double share_of(const struct speed_loss *loss, const struct classification *class)
{
	return class->excess_ns > 0 ? fmin(loss->explains_ns / class->excess_ns, 1) : 0;
}

void judge_speed_classify(const struct speed_losses *losses, struct classification *class)
{
	for (int k = 0; k < SPEED_NR; k++) {
		double share = share_of(&losses->of[k], class);

		if (class->verdict_class == VERDICT_UNKNOWN || share < CAUSE_SHARE_MIN ||
			share <= class->share_explained)
			continue;
		class->verdict_class = VERDICT_HOST_SLOW;
		class->cause = kinds[k].cause;
		class->share_explained = share;
	}
}

/* The cause's own evidence goes first. */
static void add_evidence(const struct excess_sums *sums, const struct speed_loss *loss,
	enum cause cause, struct verdict *verdict)
{
	double steps = (double)(sums->steps ? sums->steps : 1) * 1e6;
	struct verdict_evidence evidence = {.kind = (uint8_t)cause,
		.overlap_ms_per_step = loss->own_ns / steps,
		.control_ms_per_step = loss->control_ns / steps};
	uint32_t at = verdict->evidence_count;

	if (at == VERDICT_EVIDENCE_MAX)
		return;
	snprintf(evidence.detail, sizeof(evidence.detail), "%s", loss->detail);
	verdict->evidence_count++;
	for (; at > 0 && cause == (enum cause)verdict->cause; at--)
		verdict->evidence[at] = verdict->evidence[at - 1];
	verdict->evidence[at] = evidence;
}

static void reject(const struct judge *judge, const struct speed_loss *loss, int kind, double share,
	struct verdict *verdict)
{
	char why[VERDICT_DETAIL_LENGTH];

	if (!loss->known) {
		const char *missing = judge_missing_text(judge, kinds[kind].source);

		/* Of a record of before there was such a source, or too early to tell; or no matter any more. */
		if (!missing[0] || verdict->cause != CAUSE_UNKNOWN)
			return;
		snprintf(why, sizeof(why), "not measurable: %.130s", missing);
	} else if (loss->explains_ns > 0) {
		snprintf(why, sizeof(why), "explains only %.0f %% of the excess", 100 * share);
	} else {
		snprintf(why, sizeof(why), "as usual: %.140s", loss->detail);
	}
	verdict_reject(verdict, kinds[kind].cause, why);
}

void judge_speed_tell(const struct judge *judge, const struct excess_sums *sums,
	const struct speed_losses *losses, const struct classification *class,
	struct verdict *verdict)
{
	for (int k = 0; k < SPEED_NR; k++) {
		const struct speed_loss *loss = &losses->of[k];
		double share = share_of(loss, class);

		if (share >= 0.1)
			add_evidence(sums, loss, kinds[k].cause, verdict);
		if (kinds[k].cause != (enum cause)verdict->cause)
			reject(judge, loss, k, share, verdict);
	}
}
