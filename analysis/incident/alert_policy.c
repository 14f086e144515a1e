/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/incident/alert_policy.h"

#include <math.h>

#include "analysis/policy.h"

void alert_told(struct alert_memory *memory, const struct verdict *verdict, struct job_ns now)
{
	memory->told = now;
	memory->verdict_class = verdict->verdict_class;
	memory->cause = verdict->cause;
	memory->placed = verdict->where.text[0] != '\0';
	memory->unmeasured = verdict->sure.unmeasured_since != 0;
	memory->rank_count = verdict->rank_count + verdict->more_ranks;
	memory->every_steps = verdict->period.steps;
	memory->slowdown = verdict->slowdown;
}

bool alert_update_due(
	const struct alert_memory *memory, const struct verdict *verdict, struct job_ns now)
{
	double told_cost = memory->slowdown - 1, cost = verdict->slowdown - 1;

	if (now.value - memory->told.value < UPDATE_GAP_NS)
		return false;
	return memory->verdict_class != verdict->verdict_class || memory->cause != verdict->cause ||
	       (!memory->placed && verdict->where.text[0]) ||
	       memory->unmeasured != (verdict->sure.unmeasured_since != 0) ||
	       memory->rank_count != verdict->rank_count + verdict->more_ranks ||
	       memory->every_steps != verdict->period.steps ||
	       fabs(cost - told_cost) > UPDATE_COST_CHANGE * fmax(told_cost, UPDATE_COST_MIN);
}

bool alert_recovered(struct alert_memory *memory, bool quiet, double gap)
{
	if (quiet)
		memory->quiet++;
	else
		memory->quiet = fmax(0, memory->quiet - RECOVERY_LOUD * gap);
	return memory->quiet >= RECOVERY_BLOCKS * gap;
}

double alert_confidence(
	double evidence, double threshold, double share_explained, bool of_transfers)
{
	double by_evidence = 1 - exp(-CONFIDENCE_EVIDENCE * evidence / threshold);
	double by_cause =
		CONFIDENCE_NO_CAUSE + (1 - CONFIDENCE_NO_CAUSE) * fmin(fmax(share_explained, 0), 1);
	double confidence = by_evidence * by_cause * (of_transfers ? CONFIDENCE_TRANSFERS : 1);

	return fmin(confidence, CONFIDENCE_MAX);
}
