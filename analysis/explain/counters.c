/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel could not be asked, counters of samplers stand in. */
#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/judge/state.h"
#include "analysis/policy.h"

bool explain_counter_excess(const struct explain_context *context, const struct episode *episode,
	unsigned metric, double *over, double *usual)
{
	double most = 0;
	size_t count = 0;
	bool known = false;

	for (uint32_t r = 0, i = 0; r < context->rank_count; r++) {
		bool culprit = i < episode->rank_count && episode->ranks[i] == r;
		double rate;

		i += culprit;
		if (!evidence_rate(context->ranks[r].evidence, metric, episode->onset_ns,
			    context->now_ns, &rate))
			continue;
		if (!culprit) {
			context->scratch[count++] = rate;
			continue;
		}
		most = known ? fmax(most, rate) : rate;
		known = true;
	}
	*usual = lower_median_double(context->scratch, count);
	*over = most - *usual;
	return known && count > 0;
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

	if (!explain_counter_excess(context, episode, METRIC_GPU_BUSY_NS, &over, &usual))
		return 0;
	before = past->rates[METRIC_GPU_BUSY_NS];
	if (before < 0)
		return fmax(-over, 0);
	return fmax(fmin(-over, 1 - (usual + over) - (1 - before) * (1 - late)), 0);
}

/* How long its threads waited for a CPU for each ns on one. False: not known. */
static bool queued_ratio(
	const struct explain_context *context, uint32_t rank, int64_t onset_ns, double *ratio)
{
	return evidence_ratio(context->ranks[rank].evidence, METRIC_LAUNCHERS_QUEUED_NS,
		METRIC_LAUNCHERS_CPU_NS, onset_ns, context->now_ns, ratio);
}

/* Of others on its host, who share its CPUs; without any, of other hosts. */
static bool usual_queued_ratio(
	const struct explain_context *context, const struct episode *episode, double *usual)
{
	uint32_t host = context->ranks[episode->ranks[0]].host;
	size_t here = 0, elsewhere = 0;

	for (uint32_t r = 0, i = 0; r < context->rank_count; r++) {
		bool culprit = i < episode->rank_count && episode->ranks[i] == r;
		double ratio;

		i += culprit;
		if (culprit || !queued_ratio(context, r, episode->onset_ns, &ratio))
			continue;
		if (context->ranks[r].host != host && here == 0)
			context->scratch[elsewhere++] = ratio;
		else if (context->ranks[r].host == host)
			context->scratch[here++] = ratio;
	}
	*usual = median_double(context->scratch, here ? here : elsewhere);
	return here || elsewhere;
}

bool explain_queued(
	const struct explain_context *context, const struct episode *episode, struct queued *queued)
{
	const struct episode_past *past = episode->past;
	double cpu_before = past->rates[METRIC_LAUNCHERS_CPU_NS],
	       queued_before = past->rates[METRIC_LAUNCHERS_QUEUED_NS], cpu;

	if (!queued_ratio(context, past->rank, episode->onset_ns, &queued->own) ||
		!usual_queued_ratio(context, episode, &queued->usual) ||
		!evidence_rate(context->ranks[past->rank].evidence, METRIC_LAUNCHERS_CPU_NS,
			episode->onset_ns, context->now_ns, &cpu))
		return false;
	if (cpu_before > 0 && queued_before >= 0)
		queued->usual = fmax(queued->usual, queued_before / cpu_before);
	queued->more = fmax((queued->own - queued->usual) * cpu, 0);
	return true;
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
	double idle_ns = idle_more(context, episode) * span_ns;
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
							   counters[i].metric, &over, &usual))
			continue;
		sums->evidence_mask |= counters[i].source;
		over *= counters[i].sign * counters[i].ns_each;
		move_excess(sums, counters[i].kind, fmax(over, 0) * span_ns);
	}
	if (sums->on_device && !(mask & EVIDENCE_DEVICE_WAIT))
		add_idle(context, episode, span_ns);
}
