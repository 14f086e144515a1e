/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rank's GPU takes longer: what the driver says of it, beside what it says of the others'. */
#include <stdio.h>

#include "analysis/explain/measures.h"
#include "analysis/policy.h"

/* Reasons that cost speed: power cap, hardware slowdown, thermal, power brake (nvml.h). */
#define SLOWDOWN_REASONS 0xec

/*
 * A value of the first culprit, and the lower median of the others'. False where one is not known, or the culprit's is
 * 0: the others, who are many in large jobs, are not asked then.
 */
static bool compare(const struct explain_context *context, const struct episode *episode,
	const struct figure *figure, int64_t *own, int64_t *usual)
{
	double value, others;

	if (!explain_figure(context, episode->ranks[0], figure, &value) || value <= 0 ||
		!explain_figure_of_others(context, episode, figure, &others))
		return false;
	*own = (int64_t)value;
	*usual = (int64_t)others;
	return true;
}

static bool latest(const struct explain_context *context, const struct episode *episode,
	unsigned metric, int64_t at_ns, int64_t *own, int64_t *usual)
{
	const struct figure figure = {.kind = FIGURE_VALUE, .metric = metric, .until_ns = at_ns};

	return compare(context, episode, &figure, own, usual);
}

/*
 * Others compute there: now; or a while ago, for they may be gone by now; or by the next sample, which is seconds away where
 * the driver is asked seldom.
 */
static bool is_shared(const struct explain_context *context, const struct episode *episode,
	int64_t *own, int64_t *usual)
{
	const struct figure figures[] = {
		{.kind = FIGURE_VALUE, .until_ns = context->now_ns},
		{.kind = FIGURE_VALUE, .until_ns = context->now_ns - episode->sums.time_ns / 2},
		{.kind = FIGURE_VALUE_OVER,
			.from_ns = episode->onset_ns,
			.until_ns = context->now_ns},
	};

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		struct figure figure = figures[i];

		figure.metric = METRIC_GPU_OTHER_PROCESSES;
		if (compare(context, episode, &figure, own, usual) && *own > *usual)
			return true;
	}
	return false;
}

/* Errors since shortly before the onset: the driver counts those of earlier jobs, too. */
static bool has_new_errors(const struct explain_context *context, const struct episode *episode,
	char text[VERDICT_DETAIL_LENGTH])
{
	struct figure before = {.kind = FIGURE_VALUE,
		.metric = METRIC_GPU_ECC_ERRORS,
		.until_ns = episode->onset_ns - SAMPLE_NS};
	double old, old_of_others;
	int64_t own, usual;

	if (!latest(context, episode, METRIC_GPU_ECC_ERRORS, context->now_ns, &own, &usual) ||
		!explain_figure(context, episode->ranks[0], &before, &old) ||
		!explain_figure_of_others(context, episode, &before, &old_of_others))
		return false;
	own -= (int64_t)old;
	usual -= (int64_t)old_of_others;
	if (own <= usual)
		return false;
	snprintf(text, VERDICT_DETAIL_LENGTH,
		"%lld more uncorrected memory errors on its GPU, others %lld", (long long)own,
		(long long)usual);
	return true;
}

static const char *reason_text(int64_t reasons)
{
	if (reasons & 0x60)
		return "too hot";
	if (reasons & 0x88)
		return "slowed down by the hardware (power brake, or heat)";
	return reasons & GPU_POWER_CAP ? "at its power cap" : "no reason given";
}

/* The rank's GPU runs at a lower clock than the others', and says why; others do not say the same. */
static bool clock_is_low(const struct explain_context *context, const struct episode *episode,
	int64_t reasons_wanted, char text[VERDICT_DETAIL_LENGTH])
{
	int64_t own, usual, reasons, usual_reasons, now_ns = context->now_ns;

	if (!latest(context, episode, METRIC_GPU_SLOWDOWN_REASONS, now_ns, &reasons,
		    &usual_reasons) ||
		!(reasons & ~usual_reasons & reasons_wanted))
		return false;
	if (!latest(context, episode, METRIC_GPU_CLOCK_MHZ, now_ns, &own, &usual) || usual <= 0 ||
		(double)own >= GPU_CLOCK_RATIO_MAX * (double)usual)
		return false;
	snprintf(text, VERDICT_DETAIL_LENGTH, "%lld MHz, others %lld: %s", (long long)own,
		(long long)usual, reason_text(reasons));
	return true;
}

/*
 * Heat, and what else the hardware slows down for, comes before another process: it would slow
 * that one down as well. The power cap comes after: the other process is what uses up the power.
 */
static enum cause find_cause(const struct explain_context *context, const struct episode *episode,
	char text[VERDICT_DETAIL_LENGTH])
{
	int64_t own, usual;

	if (has_new_errors(context, episode, text))
		return CAUSE_GPU_ERROR;
	if (clock_is_low(context, episode, SLOWDOWN_REASONS & ~GPU_POWER_CAP, text))
		return CAUSE_GPU_CLOCK;
	if (is_shared(context, episode, &own, &usual)) {
		snprintf(text, VERDICT_DETAIL_LENGTH,
			"%lld other process%s computes on its GPU, on the others' %lld",
			(long long)own, own == 1 ? "" : "es", (long long)usual);
		return CAUSE_GPU_SHARED;
	}
	return clock_is_low(context, episode, GPU_POWER_CAP, text) ? CAUSE_GPU_CLOCK
								   : CAUSE_UNKNOWN;
}

/* Another process began to compute there since the onset. */
static bool shared_since(
	const struct explain_context *context, const struct episode *episode, int64_t *since_ns)
{
	return evidence_rose(explain_rank_of(context, episode->ranks[0]).evidence,
		METRIC_GPU_OTHER_PROCESSES, episode->onset_ns, context->now_ns, since_ns);
}

/*
 * Its work takes longer: by what the excess is made of; or, where a host that waited for its device looks busy itself, by as much of it as
 * a cause must explain, or by some, when another process came to its device meanwhile.
 */
static bool device_may_be_slow(const struct explain_context *context, const struct episode *episode)
{
	double share = episode->shares[EXCESS_COMPUTE];
	int64_t since_ns;

	if (episode->class_so_far == VERDICT_COMPUTE_SLOW)
		return true;
	return episode->class_so_far == VERDICT_UNKNOWN &&
	       (share >= CAUSE_SHARE_MIN ||
		       (share >= EVIDENCE_SHARE_MIN && shared_since(context, episode, &since_ns)));
}

/* A device that is slow, for no reason of its host's: at most one of its causes is it, and explains all. */
void measure_gpu(const struct explain_context *context, struct episode *episode, enum cause cause,
	struct finding *finding)
{
	const struct excess_sums *sums = &episode->sums;

	if (episode->cause_so_far != CAUSE_UNKNOWN || !sums->on_device ||
		!device_may_be_slow(context, episode) ||
		find_cause(context, episode, finding->text) != cause)
		return;
	if (cause == CAUSE_GPU_SHARED)
		(void)shared_since(context, episode, &finding->since_ns);
	finding->known = KNOWN_SHARE;
	finding->own_ns = (double)sums->own[EXCESS_COMPUTE];
	finding->control_ns = (double)sums->control[EXCESS_COMPUTE];
	finding->share = episode->shares[EXCESS_COMPUTE];
}
