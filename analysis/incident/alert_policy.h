/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a verdict speaks: hysteresis for recovery, limits for updates. Pure; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_INCIDENT_ALERT_POLICY_H
#define SLOWRANK_ANALYSIS_INCIDENT_ALERT_POLICY_H

#include <stdbool.h>

#include "analysis/base/verdict.h"

struct alert_memory {
	struct job_ns told; /* the last event */
	uint8_t verdict_class, cause;
	bool placed;	 /* it said where in the program it is */
	bool unmeasured; /* and that nothing is measured any more */
	uint32_t rank_count;
	uint32_t every_steps;
	double slowdown;
	double quiet; /* blocks, net of loud ones */
};

/* Notes that an event was sent. */
void alert_told(struct alert_memory *memory, const struct verdict *verdict, struct job_ns now);

/* True when what changed is worth an update, and enough time has passed. */
bool alert_update_due(
	const struct alert_memory *memory, const struct verdict *verdict, struct job_ns now);

/*
 * Takes one block; true when the verdict has recovered. gap: blocks from one loud one to the next on
 * average, 1 and more: so many times more quiet ones are needed.
 */
bool alert_recovered(struct alert_memory *memory, bool quiet, double gap);

/*
 * How sure it is that a verdict's ranks and class are right, 0..1: grows with the evidence of the
 * change point (threshold: what an alarm needs) and with the share that the cause explains; lower of
 * transfers, which more than one thing makes slow. The numbers are those of docs/results.md: fitted on
 * jobs with known truth, and checked on others.
 */
double alert_confidence(
	double evidence, double threshold, double share_explained, bool of_transfers);

#endif
