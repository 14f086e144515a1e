/* SPDX-License-Identifier: Apache-2.0 */
/* What GPUs at their power cap do, and what steps on devices would be like without a slow rank. */
#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/judge/internal.h"
#include "analysis/policy.h"

/*
 * Another process began to use the rank's GPU not long before the rank became slow. One that was
 * there before may be idle.
 */
static bool is_newly_shared(
	const struct judge *judge, uint32_t rank, const struct run *run, int64_t now_ns)
{
	const struct rank_state *state = &judge->ranks[rank];
	int64_t before_ns = now_ns - run->sums.time_ns - GPU_NEW_PROCESS_NS, before, now;

	return evidence_value(state->evidence, METRIC_GPU_OTHER_PROCESSES, before_ns, &before) &&
	       evidence_value(state->evidence, METRIC_GPU_OTHER_PROCESSES, now_ns, &now) &&
	       now > before;
}

bool judge_gpu_power_bound(const struct judge *judge, uint32_t rank, const struct run *run)
{
	int64_t now_ns = judge->block.start_ns + judge->block.time_ns, reasons;
	size_t bound = 0, known = 0;

	if (is_newly_shared(judge, rank, run, now_ns))
		return false;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (!evidence_value(judge->ranks[r].evidence, METRIC_GPU_SLOWDOWN_REASONS, now_ns,
			    &reasons))
			continue;
		known++;
		bound += (reasons & GPU_POWER_CAP) != 0;
	}
	return bound * 2 > known;
}

static bool was_told(const struct judge *judge, uint64_t step)
{
	for (uint32_t r = 0; r < judge->rank_end && r < EXPLAIN_OTHERS_MAX; r++) {
		if (signbit(judge->ranks[r].signal.lost_ns[step % STEP_HISTORY]))
			return true;
	}
	return false;
}

double judge_gpu_usual_step_ns(const struct judge *judge, uint64_t before_step)
{
	double lengths[STEP_HISTORY];
	uint64_t first = judge->times.next > STEP_HISTORY ? judge->times.next - STEP_HISTORY : 0;
	size_t count = 0;

	for (uint64_t s = first; s < before_step && count < STEP_HISTORY; s++) {
		if (!was_told(judge, s))
			lengths[count++] = step_mean_ns(&judge->times, s);
	}
	return count >= GPU_USUAL_STEPS_MIN ? lower_median_double(lengths, count) : 0;
}

static bool is_alone(const struct judge *judge, const struct incident *incident)
{
	for (size_t t = 0; t < judge->incidents.count; t++) {
		if (judge->incidents.list[t].active && &judge->incidents.list[t] != incident)
			return false;
	}
	return judge_verdict(judge, incident)->rank_count == 1;
}

double judge_gpu_gain_ns(const struct judge *judge, const struct incident *incident)
{
	double usual_ns = (double)incident->cost.steps * incident->usual_step_ns;
	double time_ns = (double)incident->cost.time_ns, gain_ns = (double)incident->cost.gain_ns;
	double grown_ns = time_ns - usual_ns;

	if (!incident->sums.on_device || usual_ns <= 0 || grown_ns < 0)
		return gain_ns;
	if (grown_ns <= gain_ns)
		return usual_ns > GPU_WAITING_SPEED_MAX * (time_ns - gain_ns) ? gain_ns : grown_ns;
	/* What the replay finds hidden behind other work may not be: its own delay is the limit. */
	return is_alone(judge, incident)
		       ? fmax(gain_ns, fmin(grown_ns, (double)incident->cost.delay_ns))
		       : gain_ns;
}
