/* SPDX-License-Identifier: Apache-2.0 */
/* What counters of samplers say: of a rank and of the others; and where the kernel could not be asked, in its place. */
#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/policy.h"

bool explain_names(const struct episode *episode, uint32_t rank)
{
	for (uint32_t i = 0; i < episode->rank_count; i++) {
		if (episode->ranks[i] == rank)
			return true;
	}
	return false;
}

bool explain_is_control(const struct explain_context *context, const struct episode *episode,
	uint32_t own_rank, uint32_t rank)
{
	return rank < context->rank_count && !explain_names(episode, rank) &&
	       !explain_rank_of(context, rank).blamed &&
	       explain_rank_of(context, rank).role == explain_rank_of(context, own_rank).role;
}

const char *explain_missing(const struct explain_context *context, uint32_t source)
{
	for (unsigned i = 0; i < EVIDENCE_SOURCE_NR; i++) {
		if (source == 1u << i)
			return context->missing[i];
	}
	return "";
}

bool explain_figure(const struct explain_context *context, uint32_t rank,
	const struct figure *figure, double *value)
{
	const struct evidence *evidence = explain_rank_of(context, rank).evidence;
	double spread;
	int64_t latest;

	switch (figure->kind) {
	case FIGURE_VALUE:
		if (!evidence_value(evidence, figure->metric, figure->until_ns, &latest))
			return false;
		*value = (double)latest;
		return true;
	case FIGURE_VALUE_OVER:
		if (!evidence_value_over(
			    evidence, figure->metric, figure->from_ns, figure->until_ns, &latest))
			return false;
		*value = (double)latest;
		return true;
	case FIGURE_RATE:
		return evidence_rate_since(
			evidence, figure->metric, figure->from_ns, figure->until_ns, 0, value);
	case FIGURE_RATIO:
		return evidence_ratio(evidence, figure->metric, figure->other_metric,
			figure->from_ns, figure->until_ns, value);
	case FIGURE_USUAL_RATIO:
		return evidence_usual_ratio(evidence, figure->metric, figure->other_metric,
			&(struct evidence_span){0, figure->until_ns}, 1, value, &spread);
	}
	return false;
}

bool explain_figure_of_others(const struct explain_context *context, const struct episode *episode,
	const struct figure *figure, double *usual)
{
	uint32_t host = explain_rank_of(context, episode->ranks[0]).host;
	size_t count = 0;

	for (uint32_t r = 0; r < context->rank_count && count < EXPLAIN_OTHERS_MAX; r++) {
		bool same = figure->of_host ? explain_rank_of(context, r).host == host
					    : explain_names(episode, r);

		if (!same && explain_figure(context, r, figure, &context->scratch[count]))
			count++;
	}
	*usual = lower_median_double(context->scratch, count);
	return count > 0;
}

bool explain_counter_excess(const struct explain_context *context, const struct episode *episode,
	unsigned metric, double least, double *over, double *usual)
{
	const struct figure rate = {.kind = FIGURE_RATE,
		.metric = metric,
		.from_ns = episode->onset_ns,
		.until_ns = context->now_ns};
	double most = -INFINITY, one;

	for (uint32_t i = 0; i < episode->rank_count; i++) {
		if (explain_figure(context, episode->ranks[i], &rate, &one))
			most = fmax(most, one);
	}
	if (most < least || !explain_figure_of_others(context, episode, &rate, usual))
		return false;
	*over = most - *usual;
	return true;
}

/*
 * Of an excess, what a counter says of another kind: out of time on the CPU; of a device's host, first out of what it
 * was off the CPU for unknown reasons (throttling is waiting for a CPU, faults and storage are sleep).
 */
static void move_excess(struct excess_sums *sums, enum excess_kind kind, double wanted_ns)
{
	static const enum excess_kind of_host[] = {
		EXCESS_PREEMPTED, EXCESS_ASLEEP, EXCESS_HOST_CPU, EXCESS_NR};
	static const enum excess_kind of_cpu[] = {EXCESS_COMPUTE, EXCESS_NR};
	const enum excess_kind *from = sums->on_device ? of_host : of_cpu;

	if (sums->on_device && kind != EXCESS_THROTTLED)
		from++; /* nobody faults in a queue */
	if (sums->on_device && (kind == EXCESS_MINOR_FAULT || kind == EXCESS_PREEMPTED))
		from++; /* these cost CPU time, and sleep is without waits for a CPU */
	for (; *from != EXCESS_NR && wanted_ns > 0; from++) {
		double left = (double)(sums->own[*from] - sums->control[*from]);
		double moved = fmin(fmax(left, 0), wanted_ns);

		sums->own[kind] += (int64_t)moved;
		sums->own[*from] -= (int64_t)moved;
		wanted_ns -= moved;
	}
}

/*
 * How long the device had nothing to do, per ns: longer than those of others, which work on the collective meanwhile, and
 * longer than it had before. Steps that are longer by the delay have the idle time of before once.
 */
static double idle_more(const struct explain_context *context, const struct episode *episode)
{
	const struct excess_sums *sums = &episode->sums;
	const struct episode_past *past = episode->past;
	double late = (double)sums->delay_ns / (double)sums->time_ns, over, usual, before;

	if (!explain_counter_excess(context, episode, METRIC_GPU_BUSY_NS, -1, &over, &usual))
		return 0;
	before = past->rates[PAST_GPU_BUSY];
	if (before < 0)
		return fmax(-over, 0);
	return fmax(fmin(-over, 1 - (usual + over) - (1 - before) * (1 - late)), 0);
}

/* Of others on its host, who share its CPUs; without any, of other hosts. */
static bool usual_queued_ratio(const struct explain_context *context, const struct episode *episode,
	const struct figure *queued, double *usual)
{
	uint32_t host = explain_rank_of(context, episode->ranks[0]).host;
	size_t here = 0, elsewhere = 0;

	for (uint32_t r = 0; r < context->rank_count; r++) {
		bool near = explain_rank_of(context, r).host == host;
		double ratio;

		if (explain_names(episode, r) || (!near && here) ||
			!explain_figure(context, r, queued, &ratio))
			continue;
		context->scratch[near ? here++ : elsewhere++] = ratio;
	}
	*usual = median_double(context->scratch, here ? here : elsewhere);
	return here || elsewhere;
}

bool explain_queued(
	const struct explain_context *context, const struct episode *episode, struct queued *queued)
{
	const struct episode_past *past = episode->past;
	const struct figure waits = {.kind = FIGURE_RATIO,
		.metric = METRIC_LAUNCHERS_QUEUED_NS,
		.other_metric = METRIC_LAUNCHERS_CPU_NS,
		.from_ns = episode->onset_ns,
		.until_ns = context->now_ns};
	const struct figure works = {.kind = FIGURE_RATE,
		.metric = METRIC_LAUNCHERS_CPU_NS,
		.from_ns = episode->onset_ns,
		.until_ns = context->now_ns};
	double cpu_before = past->rates[PAST_LAUNCHERS_CPU],
	       queued_before = past->rates[PAST_LAUNCHERS_QUEUED], cpu;

	if (!explain_figure(context, past->rank, &waits, &queued->own) ||
		!usual_queued_ratio(context, episode, &waits, &queued->usual) ||
		!explain_figure(context, past->rank, &works, &cpu))
		return false;
	if (cpu_before > 0 && queued_before >= 0)
		queued->usual = fmax(queued->usual, queued_before / cpu_before);
	queued->more = fmax((queued->own - queued->usual) * cpu, 0);
	return true;
}

/*
 * The share of the time that its process was kept from running: a host that waits for its device polls, as do those of the
 * others, which wait for it. So it runs less than before, and less so than these do.
 */
static double kept_from_running(
	const struct explain_context *context, const struct episode *episode)
{
	const struct episode_past *past = episode->past;
	double before = past->rates[PAST_PROCESS_CPU], over, others, others_before;
	struct figure rate = {.kind = FIGURE_RATE,
		.metric = METRIC_PROCESS_CPU_NS,
		.from_ns = episode->onset_ns - EVIDENCE_BEFORE_NS,
		.until_ns = episode->onset_ns};

	if (before <= 0 ||
		!explain_counter_excess(context, episode, rate.metric, 0, &over, &others) ||
		!explain_figure_of_others(context, episode, &rate, &others_before))
		return 0;

	double kept = (before - (others + over) - fmax(others_before - others, 0)) / before;

	/* Less is what hosts wander by. */
	return kept >= HALF_SHARE ? kept : 0;
}

/*
 * What a device's host wants a CPU for may be a wait for its device, which spins. It was no such wait for as long as the
 * device had nothing to do; as much of the time its threads queued, longer than others for each ns on a CPU, was
 * time in which they would have launched. A throttled thread queues, too.
 */
static void add_idle(const struct explain_context *context, struct episode *episode, double span_ns)
{
	struct excess_sums *sums = &episode->sums;
	double busy_ns = (double)(sums->own[EXCESS_HOST_CPU] - sums->control[EXCESS_HOST_CPU]);
	double idle_ns =
		fmax(idle_more(context, episode), kept_from_running(context, episode)) * span_ns;
	double throttled_ns =
		(double)(sums->own[EXCESS_THROTTLED] - sums->control[EXCESS_THROTTLED]);
	struct queued queued;

	if (busy_ns <= 0 || idle_ns < HOST_SHARE_MIN * busy_ns)
		return;
	sums->evidence_mask |= EVIDENCE_DEVICE_WAIT;
	if (!(sums->evidence_mask & EVIDENCE_SCHED) && explain_queued(context, episode, &queued))
		move_excess(sums, EXCESS_PREEMPTED,
			fmin(queued.more * span_ns - fmax(throttled_ns, 0), idle_ns));
}

void explain_add_counters(const struct explain_context *context, struct episode *episode)
{
	static const struct {
		uint32_t source;
		unsigned metric;
		enum excess_kind kind;
		double ns_each, sign;
	} counters[] = {
		{EVIDENCE_THROTTLE, METRIC_CGROUP_THROTTLED_NS, EXCESS_THROTTLED, 1, 1},
		{EVIDENCE_FAULTS, METRIC_PROCESS_MAJOR_FAULTS, EXCESS_MAJOR_FAULT,
			MAJOR_FAULT_TYPICAL_NS, 1},
		{EVIDENCE_FAULTS, METRIC_PROCESS_MINOR_FAULTS, EXCESS_MINOR_FAULT,
			MINOR_FAULT_TYPICAL_NS, 1},
		/* Ranks poll while they wait, so less CPU time than the others' was time off it. */
		{EVIDENCE_SCHED, METRIC_PROCESS_CPU_NS, EXCESS_ASLEEP, 1, -1},
	};
	struct excess_sums *sums = &episode->sums;
	uint32_t mask = sums->evidence_mask;
	/* Counters do not say in which steps they grew. */
	double span_ns = (double)sums->time_ns * (episode->every_steps ? episode->every_steps : 1);

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		double over, usual;

		/* Ranks on devices do not poll. */
		if (counters[i].kind == EXCESS_ASLEEP && sums->on_device)
			continue;
		if ((mask & counters[i].source) || !explain_counter_excess(context, episode,
							   counters[i].metric, 0, &over, &usual))
			continue;
		sums->evidence_mask |= counters[i].source;
		over *= counters[i].sign * counters[i].ns_each;
		move_excess(sums, counters[i].kind, fmax(over, 0) * span_ns);
	}
	if (sums->on_device && !(mask & EVIDENCE_DEVICE_WAIT))
		add_idle(context, episode, span_ns);
}
