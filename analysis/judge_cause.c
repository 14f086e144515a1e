/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank's excess is made of, as the class, the cause and the evidence of a verdict. */
#include <math.h>
#include <stdio.h>

#include "analysis/judge_internal.h"
#include "analysis/robust_stats.h"

/* A major fault, when only counted: a read of one page from a local disk. */
#define MAJOR_FAULT_TYPICAL_NS 200000
#define MINOR_FAULT_TYPICAL_NS 700

const char *judge_missing_text(const struct judge *judge, uint32_t source)
{
	for (unsigned i = 0; i < sizeof(judge->missing) / sizeof(judge->missing[0]); i++) {
		if (source == 1u << i)
			return judge->missing[i];
	}
	return "";
}

static const char *missing_text(void *context, uint32_t source)
{
	return judge_missing_text(context, source);
}

/* A counter's growth on the verdict's ranks beyond the usual of the others, per ns. */
static bool counter_excess(const struct judge *judge, const struct verdict *verdict,
	unsigned metric, int64_t from_ns, double *over, double *usual)
{
	double most = 0;
	size_t count = 0;
	bool known = false;

	for (uint32_t r = 0, v = 0; r < judge->rank_end; r++) {
		bool culprit = v < verdict->rank_count && verdict->ranks[v] == r;
		double rate;

		v += culprit;
		if (!evidence_rate(
			    judge->ranks[r].evidence, metric, from_ns, judge_now_ns(judge), &rate))
			continue;
		if (!culprit) {
			judge->scratch[count++] = rate;
			continue;
		}
		most = known ? fmax(most, rate) : rate;
		known = true;
	}
	*usual = lower_median_double(judge->scratch, count);
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
	if (sums->on_device && kind == EXCESS_MINOR_FAULT)
		from++; /* these cost CPU time */
	for (; *from != EXCESS_NR && wanted_ns > 0; from++) {
		double left = (double)(sums->own[*from] - sums->control[*from]);
		double moved = fmin(fmax(left, 0), wanted_ns);

		sums->own[kind] += (int64_t)moved;
		sums->own[*from] -= (int64_t)moved;
		wanted_ns -= moved;
	}
}

/* Where the kernel could not be asked, counters of samplers stand in. */
static void add_sampled(const struct judge *judge, const struct verdict *verdict, int64_t from_ns,
	struct excess_sums *sums)
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
	uint32_t mask = sums->evidence_mask;
	/* Counters do not say in which steps they grew. */
	double span_ns = (double)sums->time_ns * (verdict->every_steps ? verdict->every_steps : 1);

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		double over, usual;

		/* Ranks on devices do not poll. */
		if (counters[i].kind == EXCESS_ASLEEP && sums->on_device)
			continue;
		if ((mask & counters[i].source) ||
			!counter_excess(judge, verdict, counters[i].metric, from_ns, &over, &usual))
			continue;
		sums->evidence_mask |= counters[i].source;
		over *= counters[i].sign * counters[i].ns_each;
		move_excess(sums, counters[i].kind, fmax(over, 0) * span_ns);
	}
}

static void tell_rival(struct judge *judge, const struct track *track, struct verdict *verdict)
{
	struct evidence_rival rival;

	if (verdict->cause != CAUSE_CPU_CONTENTION || verdict->evidence_count == 0)
		return;
	const struct rank_state *state = &judge->ranks[verdict->ranks[0]];

	if (!evidence_worst_rival(
		    state->evidence, track->onset_ns, judge_now_ns(judge), state->pid, &rival))
		return;
	snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail),
		"ran instead: %s (pid %u%s), %.0f %% of it", rival.name, rival.pid,
		rival.pid == state->pid ? ", threads of its own" : "", 100 * rival.share);
}

static void tell_throttle(struct judge *judge, const struct track *track, struct verdict *verdict)
{
	const struct evidence *evidence = judge->ranks[verdict->ranks[0]].evidence;
	double periods, throttled;
	int64_t quota;

	if (verdict->cause != CAUSE_CGROUP_THROTTLE || verdict->evidence_count == 0 ||
		!evidence_value(
			evidence, METRIC_CGROUP_QUOTA_MILLICPU, judge_now_ns(judge), &quota))
		return;
	if (evidence_rate(evidence, METRIC_CGROUP_PERIODS, track->onset_ns, judge_now_ns(judge),
		    &periods) &&
		evidence_rate(evidence, METRIC_CGROUP_THROTTLED_PERIODS, track->onset_ns,
			judge_now_ns(judge), &throttled) &&
		periods > 0)
		snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail),
			"quota %.2f CPU, out of it in %.0f %% of periods", (double)quota / 1e3,
			100 * throttled / periods);
	else
		snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail),
			"quota %.2f CPU", (double)quota / 1e3);
}

/* Compute that is long in the experts alone, on all of these ranks, is the router's doing. */
static void tell_experts(const struct judge *judge, struct verdict *verdict)
{
	bool experts = verdict->verdict_class == VERDICT_COMPUTE_SLOW && verdict->rank_count > 0;

	for (uint32_t i = 0; i < verdict->rank_count && experts; i++)
		experts = judge_experts_only(judge, verdict->ranks[i]);
	if (!experts)
		return;
	verdict->verdict_class = VERDICT_WORKLOAD_IMBALANCE;
	if (verdict->evidence_count == 0)
		verdict->evidence[verdict->evidence_count++] =
			(struct verdict_evidence){.kind = verdict->cause};
	snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail),
		"long only between dispatch and combination of experts: they get more tokens than "
		"others");
}

void judge_tell_cause(struct judge *judge, const struct track *track, struct verdict *verdict)
{
	struct excess_sums sums = track->sums;
	struct speed_losses losses;
	struct classification class;

	judge_speed_measure(judge, &track->usual_speed, &sums, &losses);
	add_sampled(judge, verdict, track->onset_ns, &sums);
	class = classify_excess(&sums);
	judge_speed_classify(&losses, &class);
	if (class.verdict_class != VERDICT_UNKNOWN) {
		verdict->verdict_class = (uint8_t) class.verdict_class;
		verdict->cause = (uint8_t) class.cause;
		verdict->share_explained = class.share_explained;
		classify_evidence(&sums, &class, missing_text, judge, verdict);
		judge_speed_tell(judge, &sums, &losses, &class, verdict);
		tell_rival(judge, track, verdict);
		tell_throttle(judge, track, verdict);
		judge_gpu_cause(
			judge, &sums, class.shares[EXCESS_COMPUTE], judge_now_ns(judge), verdict);
	}
	verdict->on_device = sums.on_device;
	judge_deep_cause(judge, &sums, track->onset_ns, track->loud_until_ns, verdict);
	judge_launches_tell(judge, &sums, verdict);
	tell_experts(judge, verdict);
}

struct classification judge_classify_counted(
	const struct judge *judge, uint32_t rank, const struct delay_run *run)
{
	const struct verdict alone = {.rank_count = 1, .ranks = {rank}, .every_steps = run->every};
	struct excess_sums sums = run->sums;

	add_sampled(judge, &alone, judge_now_ns(judge) - judge_run_span_ns(run), &sums);
	return classify_excess(&sums);
}

struct classification judge_classify_rank(
	struct judge *judge, uint32_t rank, const struct delay_run *run)
{
	struct verdict alone = {.rank_count = 1, .ranks = {rank}, .every_steps = run->every};
	int64_t from_ns = judge_now_ns(judge) - judge_run_span_ns(run);
	struct excess_sums sums = run->sums;
	struct speed_usual usual;
	struct speed_losses losses;

	judge_speed_usual(judge, rank, from_ns, &usual);
	judge_speed_measure(judge, &usual, &sums, &losses);
	add_sampled(judge, &alone, from_ns, &sums);
	struct classification class = classify_excess(&sums);

	judge_speed_classify(&losses, &class);

	if (class.verdict_class == VERDICT_COMPUTE_SLOW && judge_experts_only(judge, rank))
		class.verdict_class = VERDICT_WORKLOAD_IMBALANCE;
	return class;
}
