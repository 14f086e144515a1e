/* SPDX-License-Identifier: Apache-2.0 */
/* What windows of launches say of a host that is late: that it launched nothing, and what its device had left to run. */
#include <math.h>
#include <stdio.h>

#include "analysis/base/robust_stats.h"
#include "analysis/explain/measures.h"
#include "analysis/judge/state.h"
#include "analysis/policy.h"

static bool is_usual(const struct rank_state *state)
{
	return !state->incident && state->launches.steps >= LAUNCH_STEPS_MIN;
}

static double silence_of(const struct rank_state *state)
{
	return launch_sums_per_step(&state->launches, state->launches.silence_ns);
}

bool explain_launch_control(const struct explain_context *context, uint32_t rank, uint32_t *control)
{
	double usual;
	size_t count = 0;

	for (uint32_t r = 0; r < context->rank_count; r++) {
		if (r != rank && is_usual(&context->ranks[r]))
			context->scratch[count++] = silence_of(&context->ranks[r]);
	}
	if (count == 0)
		return false;
	usual = lower_median_double(context->scratch, count);
	*control = 0;
	while (*control == rank || !is_usual(&context->ranks[*control]) ||
		silence_of(&context->ranks[*control]) != usual)
		++*control;
	return true;
}

void explain_launch_windows(const struct explain_context *context, const struct episode *episode,
	struct finding *finding)
{
	const struct excess_sums *sums = &episode->sums;
	const struct launch_sums *own = &context->ranks[episode->ranks[0]].run_launches, *usual;
	double steps = (double)sums->steps, own_ns, usual_ns;
	uint32_t control;

	if (!sums->host_times || sums->steps == 0 || own->steps < LAUNCH_STEPS_MIN ||
		!explain_launch_control(context, episode->ranks[0], &control))
		return;
	usual = &context->ranks[control].launches;
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
