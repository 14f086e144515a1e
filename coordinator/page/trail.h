/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page shows of a job's course: taken step by step while it is judged, in bounded memory whatever the job's size and
 * length (some 64 MiB at most). Steps share columns, two at first become one where there are too many. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PAGE_TRAIL_H
#define SLOWRANK_COORDINATOR_PAGE_TRAIL_H

#include "analysis/judge/judge.h"
#include "coordinator/page/heat.h"
#include "coordinator/page/tracks.h"
#include "coordinator/page/walk.h"

enum { TRAIL_WALKS_MAX = 64 };

struct trail_column {
	uint64_t first_step;
	uint32_t steps, judged;
	int64_t start_ns;   /* job time */
	int64_t longest_ns; /* of its steps */
	double length_ns;   /* of all of them */
};

struct trail {
	struct heat heat;
	struct tracks tracks;
	struct trail_column columns[HEAT_COLUMNS_MAX];
	size_t column_count;
	uint32_t steps_in_column, steps_in_walk; /* at most; powers of two */
	uint64_t before; /* the caller\'s: steps before those of the pipeline that is watched */
	uint64_t steps, latest;			 /* steps of the program; the latest one's number */
	uint64_t left_out;			 /* of them, since there was no memory */
	struct walk_step walks[TRAIL_WALKS_MAX]; /* the worst of each stretch of so many steps */
	size_t walk_count;
};

/* Returns 0 or -ENOMEM. The caller owns it. */
int trail_create(struct trail **trail) __attribute__((warn_unused_result));
void trail_destroy(struct trail *trail); /* NULL is fine */

/* One more with the same in it; NULL without memory. The caller owns it. */
struct trail *trail_copy(const struct trail *trail);

/* For judge_watch_steps(): the context is the trail. */
void trail_take(void *trail, const struct judged_step *step);

#endif
