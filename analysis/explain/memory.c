/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the kernel frees in a rank's own time, because its cgroup is at its limit or its host has none left. */
#include <math.h>
#include <stdio.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/judge/state.h"
#include "analysis/policy.h"

/*
 * How fast a counter grows, a second: of the ranks since the onset, and at most of its past and of its controls. False where it is
 * not known, or less than least: the others, who are many in large jobs, are not asked then.
 */
static bool rates_of(const struct explain_context *context, const struct episode *episode,
	unsigned metric, double least, double *now, double *usual)
{
	bool enough = false;
	double over;

	for (uint32_t i = 0; i < episode->rank_count && !enough; i++)
		enough = evidence_rate(context->ranks[episode->ranks[i]].evidence, metric,
				 episode->onset_ns, context->now_ns, &over) &&
			 over * 1e9 >= least;
	if (!enough || !explain_counter_excess(context, episode, metric, &over, usual))
		return false;
	*now = (over + *usual) * 1e9;
	*usual = fmax(*usual, (double)episode->past->rates[metric]) * 1e9;
	return true;
}

/* Much more than before, and than its controls do: what they do all the time slows nobody down. */
static bool reclaims(const struct explain_context *context, const struct episode *episode,
	struct finding *finding)
{
	static const struct {
		unsigned metric;
		double least;
		const char *text;
	} signs[] = {
		{METRIC_MEMORY_RECLAIM_PAGES, RECLAIM_PAGES_MIN,
			"%.0f pages a second looked at to free some in its cgroup, usual %.0f"},
		{METRIC_MEMORY_LIMIT_HITS, RECLAIM_HITS_MIN,
			"its cgroup was at its memory limit %.0f times a second, usual %.0f"},
	};
	bool found = false;

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		double now, usual;

		if (!rates_of(context, episode, signs[i].metric, signs[i].least, &now, &usual) ||
			now < RECLAIM_TIMES_MIN * usual)
			continue;
		snprintf(finding->text, sizeof(finding->text), signs[i].text, now, usual);
		found = true;
	}
	return found;
}

/*
 * For so much of the time some task of its cgroup, or of its host where the kernel tells no better, stalled for memory: more than
 * before, and than on other hosts.
 */
static double stalled_share(const struct explain_context *context, const struct episode *episode)
{
	const struct rank_state *own = &context->ranks[episode->ranks[0]];
	double now, usual;
	size_t count = 0;

	if (!evidence_rate(own->evidence, METRIC_PSI_MEMORY_SOME_NS, episode->onset_ns,
		    context->now_ns, &now))
		return 0;
	for (uint32_t r = 0; r < context->rank_count && count < EXPLAIN_OTHERS_MAX; r++) {
		const struct rank_state *other = &context->ranks[r];

		if (other->host != own->host &&
			evidence_rate(other->evidence, METRIC_PSI_MEMORY_SOME_NS, episode->onset_ns,
				context->now_ns, &context->scratch[count]))
			count++;
	}
	usual = fmax(lower_median_double(context->scratch, count),
		(double)episode->past->rates[METRIC_PSI_MEMORY_SOME_NS]);
	return fmin(fmax(0, now - fmax(0, usual)), 1);
}

static double over(const struct excess_sums *sums, enum excess_kind kind)
{
	return fmax(0, (double)(sums->own[kind] - sums->control[kind]));
}

/*
 * Where its cgroup reclaims: major faults, for pages are pushed out that it needs; and, as far as tasks stalled for memory, also
 * other faults, sleep and time on the CPU: who frees pages does so in all of them.
 */
void measure_reclaim(const struct explain_context *context, const struct episode *episode,
	struct finding *finding)
{
	const struct excess_sums *sums = &episode->sums;
	double faults_ns = over(sums, EXCESS_MAJOR_FAULT), stalled_ns;

	if (episode->excess_ns <= 0 || !reclaims(context, episode, finding))
		return;
	stalled_ns = fmin(stalled_share(context, episode) * (double)sums->time_ns,
		faults_ns + over(sums, EXCESS_MINOR_FAULT) + over(sums, EXCESS_ASLEEP) +
			over(sums, EXCESS_BLOCK_IO) + over(sums, excess_on_cpu(sums)));
	finding->known = KNOWN_SHARE;
	finding->own_ns = fmax(faults_ns, stalled_ns);
	finding->share = fmin(finding->own_ns / episode->excess_ns, 1);
	finding->outweighs = stalled_ns >= faults_ns;
}
