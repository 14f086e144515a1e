/* SPDX-License-Identifier: Apache-2.0 */
/* Causes that the kernel timed, or counters in its place: each is a kind of excess. */
#include <math.h>
#include <stdio.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/explain/stack_causes.h"
#include "analysis/policy.h"

static enum excess_kind kind_of(enum cause cause)
{
	switch (cause) {
	case CAUSE_CGROUP_THROTTLE:
		return EXCESS_THROTTLED;
	case CAUSE_CPU_CONTENTION:
		return EXCESS_PREEMPTED;
	case CAUSE_MAJOR_PAGE_FAULT:
		return EXCESS_MAJOR_FAULT;
	case CAUSE_MINOR_PAGE_FAULT:
		return EXCESS_MINOR_FAULT;
	case CAUSE_BLOCK_IO:
		return EXCESS_BLOCK_IO;
	case CAUSE_GARBAGE_COLLECTION:
		return EXCESS_COLLECTOR;
	default:
		return EXCESS_ASLEEP;
	}
}

void measure_kind(const struct explain_context *context, struct episode *episode, enum cause cause,
	struct finding *finding)
{
	enum excess_kind kind = kind_of(cause);
	uint32_t source = cause_rule(cause)->sources;
	const struct excess_sums *sums = &episode->sums;
	double own = (double)sums->own[kind], control = (double)sums->control[kind];
	double own_ms = sums->steps ? own / 1e6 / sums->program_steps : 0;
	const char *why = NULL;

	finding->own_ns = own;
	finding->control_ns = control;
	finding->share = episode->shares[kind];
	finding->certain = control < CONTROL_HAS_NONE * own;
	finding->known = KNOWN_SHARE;
	if (finding->share >= EVIDENCE_SHARE_MIN)
		return;
	if (!(sums->evidence_mask & source) && sums->own[kind] == 0) {
		finding->known = KNOWN_MISSING;
		why = explain_missing(context, source);
	} else if (own_ms < NONE_SEEN_MS) {
		finding->known = KNOWN_NOT_IT;
		why = "none seen";
	} else if (control > CONTROL_HAS_TOO * own) {
		finding->known = KNOWN_NOT_IT;
		why = "same as control";
	}
	if (why)
		snprintf(finding->text, sizeof(finding->text), "%s", why);
}

/* The quota, and how often it ran out. */
static void describe_quota(const struct explain_context *context, const struct episode *episode,
	struct finding *finding)
{
	const struct evidence *evidence = explain_rank_of(context, episode->ranks[0]).evidence;
	int64_t now_ns = context->now_ns, quota;
	double periods, throttled;

	if (!evidence_value(evidence, METRIC_CGROUP_QUOTA_MILLICPU, now_ns, &quota))
		return;
	if (evidence_rate(evidence, METRIC_CGROUP_PERIODS, episode->onset_ns, now_ns, &periods) &&
		evidence_rate(evidence, METRIC_CGROUP_THROTTLED_PERIODS, episode->onset_ns, now_ns,
			&throttled) &&
		periods > 0)
		snprintf(finding->text, sizeof(finding->text),
			"quota %.2f CPU, out of it in %.0f %% of periods", (double)quota / 1e3,
			100 * throttled / periods);
	else
		snprintf(finding->text, sizeof(finding->text), "quota %.2f CPU",
			(double)quota / 1e3);
}

void measure_throttle(const struct explain_context *context, struct episode *episode,
	enum cause cause, struct finding *finding)
{
	measure_kind(context, episode, cause, finding);
	if (finding->known == KNOWN_SHARE)
		describe_quota(context, episode, finding);
}

void measure_contention(const struct explain_context *context, struct episode *episode,
	enum cause cause, struct finding *finding)
{
	const struct explain_rank rank = explain_rank_of(context, episode->ranks[0]);
	struct evidence_rival rival;
	struct queued queued;

	measure_kind(context, episode, cause, finding);
	if (!(episode->sums.evidence_mask & EVIDENCE_SCHED) &&
		(episode->sums.evidence_mask & EVIDENCE_DEVICE_WAIT) &&
		explain_queued(context, episode, &queued)) {
		if (finding->known == KNOWN_MISSING)
			finding->known = KNOWN_NOT_IT;
		/* Its device waits for what is launched late: that is none of the device's work. */
		finding->outweighs = finding->certain;
		snprintf(finding->text, sizeof(finding->text),
			"its threads waited %.0f %% of the time that they wanted a CPU, usual %.0f "
			"%%",
			100 * queued.own / (1 + queued.own),
			100 * queued.usual / (1 + queued.usual));
	} else if (finding->known == KNOWN_SHARE &&
		   evidence_worst_rival(
			   rank.evidence, episode->onset_ns, context->now_ns, rank.pid, &rival)) {
		snprintf(finding->text, sizeof(finding->text),
			"ran instead: %s (pid %u%s), %.0f %% of it", rival.name, rival.pid,
			rival.pid == rank.pid ? ", threads of its own" : "", 100 * rival.share);
	}
}

void measure_minor_faults(const struct explain_context *context, struct episode *episode,
	enum cause cause, struct finding *finding)
{
	const struct excess_sums *sums = &episode->sums;
	double steps = sums->program_steps;

	measure_kind(context, episode, cause, finding);
	/* Faults that the control has not do not come by themselves, and less is reckoned than they take. */
	finding->outweighs = finding->certain;
	if (finding->known == KNOWN_SHARE && steps > 0)
		snprintf(finding->text, sizeof(finding->text),
			"%.0f minor faults a step, control %.0f",
			(double)sums->minor_faults / steps,
			(double)sums->control_minor_faults / steps);
}

void measure_collector(const struct explain_context *context, struct episode *episode,
	enum cause cause, struct finding *finding)
{
	measure_kind(context, episode, cause, finding);
	if (finding->known == KNOWN_MISSING && !finding->text[0])
		finding->known = KNOWN_NOTHING; /* no program here has one */
}

/* What most of its sleep was explains as much as all of that, and says more. */
static double share_of_asleep(const struct episode *episode, double share)
{
	double asleep = episode->shares[EXCESS_ASLEEP];

	return fmin(share >= STACK_WAITS_SHARE_MIN * asleep ? fmax(share, asleep) : share, 1);
}

/* Of all of the episode's steps, the time that a rank was stopped. */
static double stopped_ns(const struct explain_context *context, const struct episode *episode,
	uint32_t rank, struct evidence_stopped *stopped)
{
	uint32_t every = episode->every_steps ? episode->every_steps : 1;

	evidence_stopped(explain_rank_of(context, rank).evidence, episode->onset_ns,
		episode->loud_until_ns, stopped);
	return (double)episode->sums.time_ns * every * (double)stopped->time_ns /
	       fmax((double)stopped->known_ns, 1);
}

/* The kernel counts it as sleep, and tells each stop. */
void measure_stopped(const struct explain_context *context, struct episode *episode,
	enum cause cause, struct finding *finding)
{
	struct evidence_stopped own, other;
	size_t count = 0;

	(void)cause;
	finding->own_ns = stopped_ns(context, episode, episode->ranks[0], &own);
	if (own.time_ns == 0 || episode->excess_ns <= 0)
		return;
	for (uint32_t r = 0; r < context->rank_count && count < EXPLAIN_OTHERS_MAX; r++) {
		if (!explain_names(episode, r))
			context->scratch[count++] = stopped_ns(context, episode, r, &other);
	}
	finding->control_ns = lower_median_double(context->scratch, count);
	finding->known = KNOWN_NOT_IT;
	snprintf(finding->text, sizeof(finding->text), "same as control");
	if (finding->control_ns > CONTROL_HAS_TOO * finding->own_ns)
		return;
	finding->known = KNOWN_SHARE;
	finding->share = share_of_asleep(
		episode, (finding->own_ns - finding->control_ns) / episode->excess_ns);
	if (own.pid)
		snprintf(finding->text, sizeof(finding->text), "held by %s (pid %u)", own.name,
			own.pid);
	else
		snprintf(finding->text, sizeof(finding->text), "by a signal");
}

/*
 * All that could give the device work slept, but not for the device: for data, unless stacks say for what. Elsewhere sleep has no
 * cause.
 */
void measure_input(const struct explain_context *context, struct episode *episode, enum cause cause,
	struct finding *finding)
{
	if (episode->sums.on_device && !explain_stacks_tell(episode, CAUSE_DATA_LOADER))
		measure_kind(context, episode, cause, finding);
}
