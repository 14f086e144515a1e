/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/explain/measures.h"
#include "analysis/explain/stack_causes.h"
#include "analysis/policy.h"

typedef void measure_function(const struct explain_context *context, struct episode *episode,
	enum cause cause, struct finding *finding);

static measure_function *const measures[CAUSE_NR] = {
#define RANK_CAUSE(                                                                                \
	id, number, name, class, precedence, proof, sources, least, certain, function, ...)        \
	[CAUSE_##id] = (function),
#define LINK_CAUSE(...)
#define JOB_CAUSE(...)
#include "analysis/explain/causes.def"
#undef RANK_CAUSE
#undef LINK_CAUSE
#undef JOB_CAUSE
};

/* The share that is neither on the CPU where the CPU does the work, nor on the device where that does. */
static double host_share(const struct episode *episode)
{
	double share = 0;

	for (int k = EXCESS_COMPUTE + 1; k < EXCESS_NR; k++)
		share += episode->shares[k];
	return share;
}

/* What the excess is made of, and the class by that alone. */
static void split(struct episode *episode)
{
	const struct excess_sums *sums = &episode->sums;
	double excess = 0, positive = 0;

	for (int k = 0; k < EXCESS_NR; k++) {
		double over = (double)(sums->own[k] - sums->control[k]);

		excess += over;
		positive += over > 0 ? over : 0;
	}
	/* Kinds with less than the control's lower the sum, yet explain nothing. */
	episode->excess_ns = fmax(excess, 0.5 * positive);
	episode->class_so_far = VERDICT_UNKNOWN;
	if (episode->excess_ns <= 0)
		return;
	for (int k = 0; k < EXCESS_NR; k++)
		episode->shares[k] = fmin(
			fmax((double)(sums->own[k] - sums->control[k]) / episode->excess_ns, 0), 1);
	/* More than one kind may exceed 1 in sum when on-CPU time shrank: on-CPU decides then. */
	double host = host_share(episode);

	episode->class_so_far = VERDICT_COMPUTE_SLOW;
	if (host < HOST_SHARE_MIN || episode->shares[EXCESS_COMPUTE] >= host)
		return;
	/* A host that waited for the device, where such waits are not seen, looks busy itself. */
	episode->class_so_far = sums->on_device && !(sums->evidence_mask & EVIDENCE_DEVICE_WAIT)
					? VERDICT_UNKNOWN
					: VERDICT_HOST_SLOW;
}

/* What is less than others waited for explains no more than its share of that. */
static void hold_against_delay(struct episode *episode)
{
	double delay_ns = (double)episode->sums.delay_ns;

	if (episode->excess_ns <= 0 || episode->excess_ns >= delay_ns)
		return;
	for (int k = 0; k < EXCESS_NR; k++)
		episode->shares[k] *= episode->excess_ns / delay_ns;
	episode->excess_ns = delay_ns;
}

static bool explains_enough(const struct cause_rule *rule, const struct finding *finding)
{
	return finding->known >= KNOWN_SHARE &&
	       finding->share >= (finding->certain ? rule->share_certain : rule->share_min);
}

/* What was timed makes a host slow where most is off the CPU, or where it explains as much as the time on it. */
static bool makes_class(
	const struct episode *episode, const struct cause_rule *rule, const struct finding *finding)
{
	if (rule->precedence > PRECEDENCE_TIMED)
		return true;
	return finding->outweighs || host_share(episode) >= HOST_SHARE_MIN ||
	       finding->share >= episode->shares[EXCESS_COMPUTE];
}

static enum cause_precedence precedence_of(
	const struct cause_rule *rule, const struct finding *finding)
{
	return rule->precedence == PRECEDENCE_CERTAIN && !finding->certain ? PRECEDENCE_TIMED
									   : rule->precedence;
}

/* The largest share among causes of one precedence; only_where: of those that stacks tell. */
static enum cause largest(const struct episode *episode, enum cause_precedence precedence,
	const struct finding *findings, bool only_where)
{
	enum cause best = CAUSE_UNKNOWN;

	for (size_t i = 0; i < CAUSE_ROWS; i++) {
		enum cause cause = cause_order[i];
		const struct cause_rule *rule = cause_rule(cause);
		const struct finding *finding = &findings[cause];

		if (rule->subject == SUBJECT_RANK && precedence_of(rule, finding) == precedence &&
			explains_enough(rule, finding) && makes_class(episode, rule, finding) &&
			(!only_where || rule->sources & EVIDENCE_STACKS) &&
			(best == CAUSE_UNKNOWN || finding->share > findings[best].share))
			best = cause;
	}
	return best;
}

/*
 * The cause among those of one precedence. Where something waited says more than how long: a wait that the kernel timed gives way to what
 * stacks tell, though they saw less of it.
 */
static enum cause choose(const struct episode *episode, enum cause_precedence precedence,
	const struct finding *findings)
{
	enum cause best = largest(episode, precedence, findings, false), where;

	if (cause_rule(best)->proof != PROOF_OF_WAIT)
		return best;
	where = largest(episode, precedence, findings, true);
	return where == CAUSE_UNKNOWN ? best : where;
}

/* All rows of one precedence, which may look at what is known so far. */
static void measure(const struct explain_context *context, struct episode *episode,
	enum cause_precedence precedence, struct finding *findings)
{
	for (size_t i = 0; i < CAUSE_ROWS; i++) {
		enum cause cause = cause_order[i];

		if (measures[cause] && cause_rule(cause)->precedence == precedence)
			measures[cause](context, episode, cause, &findings[cause]);
	}
}

/* Compute that is long in the experts alone, on all of these ranks, is the router's doing. */
static bool is_of_experts(const struct explain_context *context, const struct episode *episode)
{
	for (uint32_t i = 0; i < episode->rank_count; i++) {
		if (!explain_rank_of(context, episode->ranks[i]).experts_only)
			return false;
	}
	return true;
}

/* Where no device does the work, the rank's own code is the work. */
static enum verdict_class class_of(const struct episode *episode, enum cause cause)
{
	if (cause == CAUSE_HOST_CODE && episode->class_so_far == VERDICT_COMPUTE_SLOW)
		return VERDICT_COMPUTE_SLOW;
	return cause_rule(cause)->verdict_class;
}

void explain(const struct explain_context *context, const struct episode *given,
	struct explanation *explanation)
{
	struct episode episode = *given;
	struct stack_seen stacks;

	memset(explanation, 0, sizeof(*explanation));
	episode.timed = given->sums;
	episode.cause_so_far = CAUSE_UNKNOWN;
	episode.cpu_lost = 0;
	memset(episode.shares, 0, sizeof(episode.shares));
	explain_add_counters(context, &episode);
	split(&episode);
	hold_against_delay(&episode);
	explain_stacks(context, &episode, &stacks);
	episode.stacks = &stacks;
	for (int p = 0; p < PRECEDENCE_NR; p++) {
		enum cause cause;

		measure(context, &episode, (enum cause_precedence)p, explanation->findings);
		if (episode.cause_so_far != CAUSE_UNKNOWN)
			continue;
		cause = choose(&episode, (enum cause_precedence)p, explanation->findings);
		if (cause == CAUSE_UNKNOWN)
			continue;
		episode.cause_so_far = cause;
		episode.class_so_far = class_of(&episode, cause);
	}
	explanation->cause = episode.cause_so_far;
	explanation->share = explanation->findings[explanation->cause].share;
	explanation->verdict_class = episode.class_so_far;
	explanation->sums = episode.sums;
	explain_stacks_where(&episode, explanation->cause, &explanation->where);
	explanation->computes = episode.class_so_far == VERDICT_COMPUTE_SLOW;
	explanation->experts = explanation->computes && is_of_experts(context, &episode);
	if (explanation->experts)
		explanation->verdict_class = VERDICT_WORKLOAD_IMBALANCE;
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

static void add_evidence(const struct excess_sums *sums, enum cause cause, double own_ns,
	double control_ns, const char *text, struct verdict *verdict)
{
	double steps = sums->program_steps > 0 ? sums->program_steps : 1;
	struct verdict_evidence *evidence = &verdict->evidence[verdict->evidence_count];

	if (verdict->evidence_count == VERDICT_EVIDENCE_MAX)
		return;
	verdict->evidence_count++;
	*evidence = (struct verdict_evidence){.kind = (uint8_t)cause,
		.overlap_ms_per_step = own_ns / 1e6 / steps,
		.control_ms_per_step = control_ns / 1e6 / steps};
	snprintf(evidence->detail, sizeof(evidence->detail), "%s", text);
}

/* A cause that stands behind another kind of excess explains the same of it, and says more. */
static bool is_as_much(const struct finding *finding, const struct explanation *explanation)
{
	return explanation->cause != CAUSE_UNKNOWN &&
	       fabs(finding->share - explanation->share) < 1e-9;
}

static void tell_rejection(
	const struct explanation *explanation, enum cause cause, struct verdict *verdict)
{
	const struct finding *finding = &explanation->findings[cause];
	char why[VERDICT_DETAIL_LENGTH];

	switch (finding->known) {
	case KNOWN_UNASKED:
		if (cause_says_why(explanation->cause))
			break;
		/* fall through */
	case KNOWN_MISSING:
		snprintf(why, sizeof(why), "not measurable%s%.130s", finding->text[0] ? ": " : "",
			finding->text);
		verdict_reject(verdict, cause, why);
		break;
	case KNOWN_NOT_IT:
		verdict_reject(verdict, cause, finding->text);
		break;
	case KNOWN_SHARE:
		snprintf(why, sizeof(why), "explains %s %.0f %% of the excess",
			is_as_much(finding, explanation) ? "the same" : "only",
			100 * finding->share);
		verdict_reject(verdict, cause, why);
		break;
	default:
		break;
	}
}

/* What says which class it is, where no cause does. */
static void tell_class(const struct explanation *explanation, struct verdict *verdict)
{
	const struct excess_sums *sums = &explanation->sums;
	bool told = false;

	for (uint32_t i = 0; i < verdict->evidence_count; i++)
		told |= verdict->evidence[i].kind == CAUSE_UNKNOWN;
	if (sums->host_times && sums->steps && explanation->computes && !told)
		add_evidence(sums, CAUSE_UNKNOWN, (double)sums->own[EXCESS_COMPUTE],
			(double)sums->control[EXCESS_COMPUTE],
			"its host waited for its device before it could call", verdict);
	if (!explanation->experts)
		return;
	if (verdict->evidence_count == 0)
		add_evidence(sums, explanation->cause, 0, 0, "", verdict);
	snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail),
		"long only between dispatch and combination of experts: they get more tokens than "
		"others");
}

void explain_tell(const struct explanation *explanation, struct verdict *verdict)
{
	const struct excess_sums *sums = &explanation->sums;

	verdict->on_device = sums->on_device;
	verdict->where = explanation->where;
	if (explanation->verdict_class == VERDICT_UNKNOWN)
		return;
	verdict->verdict_class = (uint8_t)explanation->verdict_class;
	verdict->cause = (uint8_t)explanation->cause;
	verdict->sure.share_explained = explanation->share;
	verdict->evidence_count = 0;
	verdict->rejected_count = 0;
	for (size_t i = 0; i < CAUSE_ROWS + 1; i++) { /* the cause's own evidence first */
		enum cause cause = i == 0 ? explanation->cause : cause_order[i - 1];
		const struct finding *finding = &explanation->findings[cause];
		bool is_cause = cause == explanation->cause;

		if (is_cause ? i == 0 && cause != CAUSE_UNKNOWN
			     : finding->known == KNOWN_BESIDE ||
					(finding->known == KNOWN_SHARE &&
						finding->share >= EVIDENCE_SHARE_MIN))
			add_evidence(sums, cause, finding->own_ns, finding->control_ns,
				finding->text, verdict);
		if (!is_cause)
			tell_rejection(explanation, cause, verdict);
	}
	tell_class(explanation, verdict);
}
