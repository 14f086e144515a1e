/* SPDX-License-Identifier: Apache-2.0 */
/* What samplers count of a rank, as rates and levels that a chart shows. Any thread, as long as nobody changes the evidence meanwhile. */
#ifndef SLOWRANK_COORDINATOR_PAGE_SAMPLED_H
#define SLOWRANK_COORDINATOR_PAGE_SAMPLED_H

#include "analysis/base/evidence.h"

enum {
	SAMPLED_NR = 20,
	SAMPLED_CONTROLS_MAX = 5,
};

struct sampled_kind {
	const char *name, *unit;
	unsigned metric; /* enum metric */
	unsigned per;	 /* what it is counted for each of; METRIC_UNKNOWN: of each ns */
	bool level;	 /* it is not counted: its value is shown */
	float scale;	 /* from that to the unit */
};

extern const struct sampled_kind sampled_kinds[SAMPLED_NR];

/* Of each kind what it was between two times, by the samples nearest to them; NaN: nothing was sampled. evidence may be NULL. */
void sampled_take(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	float values[SAMPLED_NR]);

/* Of each kind the lower median of those of some ranks that have it; NaN: none has. count: at most SAMPLED_CONTROLS_MAX. */
void sampled_median(
	float values[SAMPLED_CONTROLS_MAX][SAMPLED_NR], size_t count, float median[SAMPLED_NR]);

#endif
