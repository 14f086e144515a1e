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
	uint64_t steps, latest; /* steps of the program; the latest one's number */
	int64_t sampled_ns;	/* job time when samples were looked at last */
	uint64_t left_out;	/* of them, since there was no memory */
	size_t first_column;	/* of news: the one that the heat's cells begin with */
	struct walk_step walks[TRAIL_WALKS_MAX]; /* the worst of each stretch of so many steps */
	size_t walk_count;
};

/* Returns 0 or -ENOMEM. The caller owns it. */
int trail_create(struct trail **trail) __attribute__((warn_unused_result));
void trail_destroy(struct trail *trail); /* NULL is fine */

/*
 * What is new of it for who has a copy of its columns before first_column, in a trail of its own: of the map the columns from that
 * one on (all, with 0), some of the tracks, and the rest. NULL without memory. The caller owns it; before all else comes trail_complete().
 */
struct trail *trail_news(
	const struct trail *trail, size_t first_column, const bool chosen[TRACKS_MAX]);
/* Gives news the map's columns before their first one, out of a copy of the same heat.generation, which is destroyed. */
void trail_complete(struct trail *news, struct trail *copy);

/* For judge_watch_steps(): the context is the trail. */
void trail_take(void *trail, const struct judged_step *step);

#endif
