/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/past.h"

#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/policy.h"

static struct speed_figure usual_figure(
	const struct evidence *evidence, unsigned part, unsigned whole, int64_t until_ns)
{
	struct speed_figure figure = {0};

	figure.known = evidence_usual_ratio(evidence, part, whole,
		&(struct evidence_span){0, until_ns}, 1, &figure.median, &figure.spread);
	return figure;
}

/* The lower median of the others' medians; 0: not known. */
static double usual_of_others(const struct explain_context *context, uint32_t rank, unsigned part,
	unsigned whole, int64_t until_ns)
{
	const struct episode alone = {.ranks = &rank, .rank_count = 1};
	const struct figure figure = {.kind = FIGURE_USUAL_RATIO,
		.metric = part,
		.other_metric = whole,
		.until_ns = until_ns};
	double usual;

	(void)explain_figure_of_others(context, &alone, &figure, &usual);
	return usual;
}

static double usual_waits_of_others(const struct explain_context *context, uint32_t rank)
{
	size_t count = 0;

	for (uint32_t r = 0; r < context->rank_count && count < EXPLAIN_OTHERS_MAX; r++) {
		double waits = r == rank ? 0 : (double)explain_rank_of(context, r).usual_waits;

		if (waits > 0)
			context->scratch[count++] = waits;
	}
	return lower_median_double(context->scratch, count);
}

void explain_past(const struct explain_context *context, uint32_t rank, int64_t onset_ns,
	struct episode_past *past)
{
	static const unsigned metrics[PAST_RATE_NR] = {
		[PAST_RECLAIM_PAGES] = METRIC_MEMORY_RECLAIM_PAGES,
		[PAST_LIMIT_HITS] = METRIC_MEMORY_LIMIT_HITS,
		[PAST_MEMORY_STALLED] = METRIC_PSI_MEMORY_SOME_NS,
		[PAST_GPU_BUSY] = METRIC_GPU_BUSY_NS,
		[PAST_LAUNCHERS_CPU] = METRIC_LAUNCHERS_CPU_NS,
		[PAST_LAUNCHERS_QUEUED] = METRIC_LAUNCHERS_QUEUED_NS,
		[PAST_PROCESS_CPU] = METRIC_PROCESS_CPU_NS,
	};
	const struct explain_rank own = explain_rank_of(context, rank);

	*past = (struct episode_past){
		.rank = rank, .onset_ns = onset_ns, .waits = (double)own.usual_waits};
	for (size_t i = 0; i < PAST_RATE_NR; i++) {
		if (!evidence_rate_before(own.evidence, metrics[i], onset_ns, 0, &past->rates[i]))
			past->rates[i] = -1;
	}
	past->stolen =
		usual_figure(own.evidence, METRIC_CPU_STOLEN_NS, METRIC_CPU_WANTED_NS, onset_ns);
	past->clock =
		usual_figure(own.evidence, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, onset_ns);
	past->per_cycle =
		usual_figure(own.evidence, METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES, onset_ns);
	if (!past->clock.known)
		return;
	past->others_clock =
		usual_of_others(context, rank, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, onset_ns);
	past->others_per_cycle = usual_of_others(
		context, rank, METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES, onset_ns);
	past->others_waits = usual_waits_of_others(context, rank);
}

double cpu_waits(const struct excess_sums *sums)
{
	double own = 0, works = (double)sums->own[excess_on_cpu(sums)], waits;

	for (int k = sums->on_device ? EXCESS_COMPUTE + 1 : EXCESS_COMPUTE; k < EXCESS_NR; k++)
		own += (double)sums->own[k];
	waits = fmax(0, (double)sums->time_ns - own);
	return works > 0 ? waits / (works + waits) : 1;
}
