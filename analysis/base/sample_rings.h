/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The latest samples of each metric of one rank, by the host's clock. Metrics that are sampled together
 * share their times: a group's samples lie in rows, a time and then a value of each. Of each group the
 * latest are kept, in a ring. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_BASE_SAMPLE_RINGS_H
#define SLOWRANK_ANALYSIS_BASE_SAMPLE_RINGS_H

#include "analysis/base/step.h"

enum { SAMPLE_RING_MAX = 32 }; /* samples of a metric: half a minute at 1 Hz */

struct sample {
	int64_t time_ns, value;
};

struct sample_group;

/* Zero-initialised is empty. */
struct sample_rings {
	struct sample_group *groups;
	struct sample_place {
		uint8_t group; /* index + 1; 0: it has no sample */
		uint8_t column;
	} places[METRIC_NR];
	uint8_t group_count;
};
void sample_rings_fini(struct sample_rings *rings);

/*
 * Ask for the memory that the next samples go to: each fetches what the next one looks at. Of many ranks
 * none of it is in a cache; of several, asked one after the other, it comes side by side.
 */
void sample_rings_expect(const struct sample_rings *rings);
void sample_rings_expect_groups(const struct sample_rings *rings);
void sample_rings_expect_rows(const struct sample_rings *rings);

/* metric: below METRIC_NR. Returns 0 or -ENOMEM. */
int sample_rings_add(struct sample_rings *rings, unsigned metric, struct sample sample)
	__attribute__((warn_unused_result));

/* A metric's latest sample not after a time, and its first one after a time. False: there is none. */
bool sample_rings_latest(
	const struct sample_rings *rings, unsigned metric, int64_t time_ns, struct sample *found);
bool sample_rings_first_after(
	const struct sample_rings *rings, unsigned metric, int64_t time_ns, struct sample *found);

#endif
