/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/classify.h"

#include <stdio.h>

static const double throttle_share_min = 0.3;
/*
 * What is reckoned for a minor fault is the least that it costs (blame_controls.c): on four hosts with H200s it was 31
 * to 41 % of what injected ones took.
 */
static const double minor_fault_share_min = 0.25;
/* The class is host-slow when this much of the excess is off the CPU or in faults. */
static const double host_share_min = 0.5;

/*
 * By how much of its excess of waits for a CPU a host may be on one for longer, or less long. A wait that spins gets a
 * quarter of a CPU that it shares with three others, so a third of what it waits.
 */
static const double spin_share_max = 0.33, unspun_share_max = 0.1;

/* Which cause a kind of excess stands for; CAUSE_UNKNOWN for time computing and on the CPU. */
static enum cause excess_cause(enum excess_kind kind, bool on_device)
{
	switch (kind) {
	case EXCESS_ASLEEP:
		/* All that could give the device work slept, but not for the device: for data. */
		return on_device ? CAUSE_INPUT_PIPELINE : CAUSE_UNKNOWN;
	case EXCESS_PREEMPTED:
		return CAUSE_CPU_CONTENTION;
	case EXCESS_THROTTLED:
		return CAUSE_CGROUP_THROTTLE;
	case EXCESS_BLOCK_IO:
		return CAUSE_BLOCK_IO;
	case EXCESS_MAJOR_FAULT:
		return CAUSE_MAJOR_PAGE_FAULT;
	case EXCESS_MINOR_FAULT:
		return CAUSE_MINOR_PAGE_FAULT;
	case EXCESS_COLLECTOR:
		return CAUSE_GARBAGE_COLLECTION;
	default:
		return CAUSE_UNKNOWN;
	}
}

/* The source that a kind is measured by; 0 for time on the CPU or the device. */
static uint32_t excess_source(enum excess_kind kind)
{
	switch (kind) {
	case EXCESS_PREEMPTED:
	case EXCESS_BLOCK_IO:
	case EXCESS_ASLEEP:
		return EVIDENCE_SCHED;
	case EXCESS_THROTTLED:
		return EVIDENCE_THROTTLE;
	case EXCESS_MAJOR_FAULT:
	case EXCESS_MINOR_FAULT:
		return EVIDENCE_FAULTS;
	case EXCESS_COLLECTOR:
		return EVIDENCE_COLLECTOR;
	default:
		return 0;
	}
}

/*
 * What a host wants a CPU for may be a wait for its device, which spins. Where such waits are not seen, they show where it
 * shares a CPU: it is on it for longer, since its device is slow, or less long, since it waits for the CPU where it would
 * have spun. Where all ranks wait for CPUs, who spins longest waits longest. Only a host that worked as long as its control,
 * which hardly waited, was kept from working.
 */
static bool may_have_spun(const struct excess_sums *sums)
{
	double busy_ns = (double)(sums->own[EXCESS_HOST_CPU] - sums->control[EXCESS_HOST_CPU]);
	double queued_ns = (double)(sums->own[EXCESS_PREEMPTED] - sums->control[EXCESS_PREEMPTED]);

	if (!sums->on_device || (sums->evidence_mask & EVIDENCE_DEVICE_WAIT))
		return false;
	return busy_ns > spin_share_max * queued_ns || -busy_ns > unspun_share_max * queued_ns ||
	       (double)sums->control[EXCESS_PREEMPTED] >
		       0.1 * (double)sums->own[EXCESS_PREEMPTED];
}

struct classification classify_excess(const struct excess_sums *sums)
{
	struct classification result = {.verdict_class = VERDICT_COMPUTE_SLOW};
	double excess = 0, positive = 0, host = 0;
	bool on_device = sums->on_device;
	enum excess_kind best = EXCESS_COMPUTE;

	for (int k = 0; k < EXCESS_NR; k++) {
		double over = (double)(sums->own[k] - sums->control[k]);

		excess += over;
		positive += over > 0 ? over : 0;
	}
	/* Kinds with less than the control's lower the sum, yet explain nothing. */
	if (excess < 0.5 * positive)
		excess = 0.5 * positive;
	if (excess <= 0)
		return (struct classification){.verdict_class = VERDICT_UNKNOWN};
	result.excess_ns = excess;
	for (enum excess_kind k = EXCESS_COMPUTE; k < EXCESS_NR; k++) {
		double share = (double)(sums->own[k] - sums->control[k]) / excess;

		result.shares[k] = share < 0 ? 0 : share > 1 ? 1 : share;
		if (k == EXCESS_COMPUTE)
			continue;
		host += result.shares[k];
		if (k == EXCESS_PREEMPTED && may_have_spun(sums))
			continue;
		if (excess_cause(k, on_device) != CAUSE_UNKNOWN &&
			(best == EXCESS_COMPUTE || result.shares[k] > result.shares[best]))
			best = k;
	}
	bool caused = best != EXCESS_COMPUTE && result.shares[best] >= CAUSE_SHARE_MIN;

	/* A throttled rank also waits longer for a CPU, since it comes back at the end of the queue:
	 * where there was clear throttling and none on the control, that is the cause. */
	if (result.shares[EXCESS_THROTTLED] >= throttle_share_min &&
		(double)sums->control[EXCESS_THROTTLED] <
			0.1 * (double)sums->own[EXCESS_THROTTLED]) {
		best = EXCESS_THROTTLED;
		caused = true;
	}
	/* Nor do faults that the control has not come by themselves. */
	bool faults = best == EXCESS_MINOR_FAULT &&
		      result.shares[best] >= minor_fault_share_min &&
		      (double)sums->control[best] < 0.1 * (double)sums->own[best];

	caused |= faults;
	/* More than one kind may exceed 1 in sum when on-CPU time shrank: on-CPU decides then. */
	if (host >= host_share_min && (caused || result.shares[EXCESS_COMPUTE] < host))
		result.verdict_class = VERDICT_HOST_SLOW;
	else if (caused && (faults || result.shares[best] >= result.shares[EXCESS_COMPUTE]))
		result.verdict_class = VERDICT_HOST_SLOW;
	/* A host that waited for the device, where such waits are not seen, looks busy itself. */
	if (on_device && result.verdict_class == VERDICT_HOST_SLOW && !caused &&
		!(sums->evidence_mask & EVIDENCE_DEVICE_WAIT))
		result.verdict_class = VERDICT_UNKNOWN;
	if (result.verdict_class == VERDICT_HOST_SLOW && caused) {
		result.cause = excess_cause(best, on_device);
		result.share_explained = result.shares[best];
	}
	return result;
}

static double ms_per_step(const struct excess_sums *sums, int64_t ns)
{
	return sums->steps ? (double)ns / 1e6 / (double)sums->steps : 0;
}

void verdict_reject(struct verdict *verdict, enum cause cause, const char *why)
{
	struct verdict_rejection *rejection;

	if (verdict->rejected_count == VERDICT_EVIDENCE_MAX)
		return;
	rejection = &verdict->rejected[verdict->rejected_count++];
	rejection->kind = (uint8_t)cause;
	snprintf(rejection->why, sizeof(rejection->why), "%s", why);
}

static void describe_faults(const struct excess_sums *sums, struct verdict_evidence *evidence)
{
	if (evidence->kind == CAUSE_MINOR_PAGE_FAULT && sums->steps)
		snprintf(evidence->detail, sizeof(evidence->detail),
			"%.0f minor faults a step, control %.0f",
			(double)sums->minor_faults / (double)sums->steps,
			(double)sums->control_minor_faults / (double)sums->steps);
}

static void judge_kind(const struct excess_sums *sums, const struct classification *classification,
	const char *(*missing)(void *context, uint32_t source), void *context,
	enum excess_kind kind, struct verdict *verdict)
{
	double own = ms_per_step(sums, sums->own[kind]);
	double control = ms_per_step(sums, sums->control[kind]);
	double share = classification->shares[kind];
	enum cause cause = excess_cause(kind, sums->on_device);
	char why[VERDICT_DETAIL_LENGTH];

	if (share >= 0.1 && verdict->evidence_count < VERDICT_EVIDENCE_MAX) {
		struct verdict_evidence *evidence = &verdict->evidence[verdict->evidence_count++];

		*evidence = (struct verdict_evidence){.kind = (uint8_t)cause,
			.overlap_ms_per_step = own,
			.control_ms_per_step = control};
		describe_faults(sums, evidence);
		if (cause != (enum cause)verdict->cause) {
			snprintf(why, sizeof(why), "explains only %.0f %% of the excess",
				100 * share);
			verdict_reject(verdict, cause, why);
		}
		return;
	}
	if (!(sums->evidence_mask & excess_source(kind)) && sums->own[kind] == 0) {
		const char *reason = missing(context, excess_source(kind));

		if (kind == EXCESS_COLLECTOR && !reason[0])
			return; /* no program here has one */
		snprintf(why, sizeof(why), "not measurable%s%.130s", reason[0] ? ": " : "", reason);
		verdict_reject(verdict, cause, why);
	} else if (own < 0.001) {
		verdict_reject(verdict, cause, "none seen");
	} else if (control > 0.5 * own) {
		verdict_reject(verdict, cause, "same as control");
	} else {
		snprintf(why, sizeof(why), "explains only %.0f %% of the excess", 100 * share);
		verdict_reject(verdict, cause, why);
	}
}

void classify_evidence(const struct excess_sums *sums, const struct classification *classification,
	const char *(*missing)(void *context, uint32_t source), void *context,
	struct verdict *verdict)
{
	static const enum excess_kind kinds[] = {EXCESS_THROTTLED, EXCESS_PREEMPTED,
		EXCESS_MAJOR_FAULT, EXCESS_MINOR_FAULT, EXCESS_BLOCK_IO, EXCESS_COLLECTOR,
		EXCESS_ASLEEP};
	bool on_device = sums->on_device;
	size_t kind_count = sizeof(kinds) / sizeof(kinds[0]) - !on_device; /* asleep: no cause */

	verdict->evidence_count = 0;
	verdict->rejected_count = 0;
	/* The cause's own evidence first. */
	for (size_t i = 0; i < kind_count; i++) {
		if (excess_cause(kinds[i], on_device) == (enum cause)verdict->cause)
			judge_kind(sums, classification, missing, context, kinds[i], verdict);
	}
	for (size_t i = 0; i < kind_count; i++) {
		if (excess_cause(kinds[i], on_device) != (enum cause)verdict->cause)
			judge_kind(sums, classification, missing, context, kinds[i], verdict);
	}
}
