/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an excess is made of decides its class; what explains most of it, beyond what its
 * control shows too, is the cause. Pure; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_CLASSIFY_H
#define SLOWRANK_ANALYSIS_CLASSIFY_H

#include "analysis/blame.h"
#include "analysis/evidence_source.h"
#include "analysis/verdict.h"

/* Sums over the steps of a fault, of one rank or several. */
struct excess_sums {
	uint64_t steps;
	int64_t time_ns;  /* of these steps */
	int64_t delay_ns; /* by which others were made to wait */
	int64_t own[EXCESS_NR], control[EXCESS_NR];
	int64_t minor_faults, control_minor_faults;
	uint32_t evidence_mask; /* what was measured */
	bool on_device;		/* the work is a device's: the host only enqueues it */
	bool host_times;	/* and in some steps only the host's times were known, */
	bool several_groups;	/* where not all ranks met: a wait may be for another one */
};

struct classification {
	enum verdict_class verdict_class;
	enum cause cause;
	double share_explained;
	double excess_ns;
	double shares[EXCESS_NR]; /* of the excess, by kind; 0..1 */
};

/* A cause is named when it explains this much of the excess; else it is unknown. */
#define CAUSE_SHARE_MIN 0.35

struct classification classify_excess(const struct excess_sums *sums);

/* Adds a cause that was looked at, with why it is not the one; more than fit are left out. */
void verdict_reject(struct verdict *verdict, enum cause cause, const char *why);

/* Fills a verdict's evidence and rejections from the sums; texts of missing sources by bit. */
void classify_evidence(const struct excess_sums *sums, const struct classification *classification,
	const char *(*missing)(void *context, uint32_t source), void *context,
	struct verdict *verdict);

#endif
