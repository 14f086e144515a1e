/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What views say as plain lines, for a pipe or a log: one where an incident begins, changes or ends, and one about the job now and
 * then. Times are the job's, so that a record always gives the same lines. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_WATCH_LINES_H
#define SLOWRANK_COORDINATOR_WATCH_LINES_H

#include "coordinator/watch/view.h"

enum { WATCH_KNOWN_MAX = 4096 };

struct watch_known {
	uint32_t id; /* 0: none */
	bool ended, unmeasured;
	uint8_t verdict_class, cause;
	size_t rank_count;
	uint32_t ranks[VERDICT_RANKS_MAX];
};

struct watch_lines {
	int64_t every_ns; /* from one line about the job to the next; the caller's */
	int64_t told_unix_ns;
	struct watch_known known[WATCH_KNOWN_MAX]; /* at the remainder of their ids */
};

/* Writes what is new in the view. ended: there will be no other. */
void watch_lines_write(
	struct watch_lines *lines, const struct watch_view *view, bool ended, FILE *out);

/* "JOB: 8 ranks on 2 nodes, step 480, 102.3 ms a step, 1.24x slower because of late ranks". Returns text. */
const char *watch_job_words(const struct watch_job *job, char *text, size_t capacity);

#endif
