/* SPDX-License-Identifier: Apache-2.0 */
/* What windows of launches say of a host that is late: that it launched nothing, and what its device had left to run. */
#include <math.h>
#include <stdio.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/policy.h"

/* How long a rank that is in no verdict launched nothing, a step. False: too little is known of it. */
static bool silence_of(const struct explain_context *context, uint32_t rank, double *silence_ns)
{
	const struct explain_rank other = explain_rank_of(context, rank);

	*silence_ns = launch_sums_per_step(other.launches, other.launches->silence_ns);
	return !other.blamed && other.launches->steps >= LAUNCH_STEPS_MIN;
}

bool explain_launch_control(const struct explain_context *context, uint32_t rank, uint32_t *control)
{
	double usual, one;
	size_t count = 0;

	for (uint32_t r = 0; r < context->rank_count; r++) {
		if (r != rank && silence_of(context, r, &one))
			context->scratch[count++] = one;
	}
	if (count == 0)
		return false;
	usual = lower_median_double(context->scratch, count);
	*control = 0;
	while (*control == rank || !silence_of(context, *control, &one) || one != usual)
		++*control;
	return true;
}

void explain_launch_windows(const struct explain_context *context, const struct episode *episode,
	struct finding *finding)
{
	const struct excess_sums *sums = &episode->sums;
	const struct launch_sums *own =
		explain_rank_of(context, episode->ranks[0]).episode_launches;
	const struct launch_sums *usual;
	double steps = sums->program_steps, own_ns, usual_ns;
	uint32_t control;

	if (!sums->host_times || sums->steps == 0 || own->steps < LAUNCH_STEPS_MIN ||
		!explain_launch_control(context, episode->ranks[0], &control))
		return;
	usual = explain_rank_of(context, control).launches;
	own_ns = launch_sums_per_step(own, own->silence_ns);
	usual_ns = launch_sums_per_step(usual, usual->silence_ns);
	finding->known = KNOWN_BESIDE;
	finding->certain = true; /* that it is late is known; this says how */
	finding->own_ns = own_ns * steps;
	finding->control_ns = usual_ns * steps;
	finding->share = fmin(1, fmax(0, (own_ns - usual_ns) * steps / (double)sums->delay_ns));
	snprintf(finding->text, sizeof(finding->text),
		"no launch, and not waiting for the device; with nothing left to run %.1f ms, "
		"others "
		"%.1f; %.0f launches a step, others %.0f",
		launch_sums_per_step(own, own->idle_ns) / 1e6,
		launch_sums_per_step(usual, usual->idle_ns) / 1e6,
		launch_sums_per_step(own, own->launches),
		launch_sums_per_step(usual, usual->launches));
}
