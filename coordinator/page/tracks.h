/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What single ranks' steps were made of, beside their controls', column by column: of the ranks that cost the job most, in
 * bounded memory. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PAGE_TRACKS_H
#define SLOWRANK_COORDINATOR_PAGE_TRACKS_H

#include "analysis/attribute/blame.h"
#include "coordinator/page/heat.h"
#include "coordinator/page/sampled.h"

enum {
	TRACKS_MAX = 64,
	TRACK_WAIT = 0,
	TRACK_TRANSFER = 1,
	TRACK_DELAY = 2,		       /* so late by itself that others waited */
	TRACK_INHERITED = 3,		       /* late because it had waited */
	TRACK_OWN = 4,			       /* of each excess_kind */
	TRACK_CONTROL = TRACK_OWN + EXCESS_NR, /* the same of its control */
	TRACK_NR = TRACK_CONTROL + EXCESS_NR,
};

struct track {
	uint32_t rank;
	float peak;	 /* of what it cost lately: see tracks.c */
	float *sum_ns;	 /* HEAT_COLUMNS_MAX times TRACK_NR */
	uint32_t *steps; /* of each column, in which the rank was judged */
	float *sampled; /* HEAT_COLUMNS_MAX times 2 SAMPLED_NR: means of its own, and of its control's */
	uint16_t *times; /* of each column, that it was sampled; 0: its means are none */
};

struct tracked_rank {
	float lately;  /* what it cost, older steps less */
	uint32_t slot; /* its place in the list + 1; 0: none */
};

struct tracks {
	struct track list[TRACKS_MAX];
	size_t count;
	float least; /* of a full list: what the cheapest of it has cost at most */
	struct tracked_rank *ranks;
	size_t rank_capacity;
};

/* Zero-initialised: none. */
void tracks_fini(struct tracks *tracks);

/* Some of the tracks in others, to be read only. Returns 0 or -ENOMEM. */
int tracks_copy(struct tracks *into, const struct tracks *from, size_t column_count,
	const bool chosen[TRACKS_MAX]) __attribute__((warn_unused_result));

void tracks_fold(struct tracks *tracks, size_t column_count);

/* What a step was to a rank. Returns 0 or -ENOMEM: it is left out. */
int tracks_take(struct tracks *tracks, size_t column, uint32_t rank, const struct blame_row *row)
	__attribute__((warn_unused_result));

/* What was sampled of a tracked rank and of its control; NaN: nothing. */
void tracks_take_samples(struct track *track, size_t column, const float own[SAMPLED_NR],
	const float control[SAMPLED_NR]);

/* The rank's, or NULL. */
const struct track *tracks_find(const struct tracks *tracks, uint32_t rank);

#endif
