/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the coordinator keep up with the job? Batches wait at their probes while it does not, so each comes in
 * later after it was made. By the probe's clock and the coordinator's, less the shortest such way of the same
 * probe: what the clocks are apart cancels out. No clock is read. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_BACKLOG_H
#define SLOWRANK_COORDINATOR_BACKLOG_H

#include <stddef.h>

#include "analysis/base/step.h"

/* Probes send every 250 ms, and wait for a second at most to make up a batch. */
#define BACKLOG_LATE_NS INT64_C(5000000000)
#define BACKLOG_CAUGHT_UP_NS INT64_C(1000000000)

/* Of one probe. Zero-initialised is new. */
struct probe_backlog {
	bool known, late;
	int64_t least_way_ns; /* of a batch, from when it was made; the clocks' offset included */
	struct job_ns received;
};

/* Of all of them. Zero-initialised is empty. */
struct backlog {
	size_t late_count; /* probes whose batches come in late */
	int64_t most_ns;   /* the latest batch since that began */
};

enum backlog_change {
	BACKLOG_SAME = 0,
	BACKLOG_BEGAN = 1,     /* most_ns says how late it is */
	BACKLOG_CAUGHT_UP = 2, /* most_ns says how late it was */
};

/* To be called for each batch that is not a double. last: no more will come of this probe. */
enum backlog_change backlog_take(struct backlog *backlog, struct probe_backlog *probe,
	struct host_ns made, struct job_ns received, bool last);

#endif
