/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/past.h"

#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/judge/state.h"
#include "analysis/policy.h"

static struct speed_figure usual_figure(const struct explain_context *context, uint32_t rank,
	unsigned part, unsigned whole, int64_t until_ns)
{
	struct speed_figure figure = {0};

	figure.known = evidence_usual_ratio(context->ranks[rank].evidence, part, whole, until_ns,
		&figure.median, &figure.spread);
	return figure;
}

/* The lower median of their medians; 0: not known. */
static double usual_of_others(const struct explain_context *context, uint32_t rank, unsigned part,
	unsigned whole, int64_t until_ns)
{
	size_t count = 0;

	for (uint32_t r = 0; r < context->rank_count && count < EXPLAIN_OTHERS_MAX; r++) {
		struct speed_figure other = {0};

		if (r != rank)
			other = usual_figure(context, r, part, whole, until_ns);
		if (other.known)
			context->scratch[count++] = other.median;
	}
	return lower_median_double(context->scratch, count);
}

void explain_past(const struct explain_context *context, uint32_t rank, int64_t onset_ns,
	struct episode_past *past)
{
	size_t count = 0;

	*past = (struct episode_past){
		.rank = rank, .onset_ns = onset_ns, .waits = context->ranks[rank].usual_waits};
	for (unsigned m = 0; m < METRIC_NR; m++) {
		double rate;

		past->rates[m] =
			evidence_rate_before(context->ranks[rank].evidence, m, onset_ns, 0, &rate)
				? (float)rate
				: -1;
	}
	past->stolen =
		usual_figure(context, rank, METRIC_CPU_STOLEN_NS, METRIC_CPU_WANTED_NS, onset_ns);
	past->clock =
		usual_figure(context, rank, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, onset_ns);
	past->per_cycle =
		usual_figure(context, rank, METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES, onset_ns);
	if (!past->clock.known)
		return;
	past->others_clock =
		usual_of_others(context, rank, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, onset_ns);
	past->others_per_cycle = usual_of_others(
		context, rank, METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES, onset_ns);
	for (uint32_t r = 0; r < context->rank_count && count < EXPLAIN_OTHERS_MAX; r++) {
		if (r != rank && context->ranks[r].usual_waits > 0)
			context->scratch[count++] = context->ranks[r].usual_waits;
	}
	past->others_waits = lower_median_double(context->scratch, count);
}

double cpu_waits(const struct excess_sums *sums)
{
	double own = 0, works = (double)sums->own[excess_on_cpu(sums)], waits;

	for (int k = sums->on_device ? EXCESS_COMPUTE + 1 : EXCESS_COMPUTE; k < EXCESS_NR; k++)
		own += (double)sums->own[k];
	waits = fmax(0, (double)sums->time_ns - own);
	return works > 0 ? waits / (works + waits) : 1;
}
