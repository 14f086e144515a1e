/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step as it was: the calls of some of its ranks, and the walk from its end back to who held it up. Kept of the worst
 * step of each stretch, in bounded memory. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PAGE_WALK_H
#define SLOWRANK_COORDINATOR_PAGE_WALK_H

#include "analysis/judge/judge.h"

enum {
	WALK_ROWS_MAX = 24,
	WALK_CELLS_MAX = 1024, /* of all rows of a step */
	WALK_HOPS_MAX = 48,
};

struct walk_cell {
	int64_t arrival_ns, departure_ns; /* since the step's start */
	uint32_t instance;		  /* GRID_NONE: it joins none */
	int64_t held_ns; /* so long it was off its CPU in the call, when all had come */
	uint8_t operation;
	uint8_t lane;
};

struct walk_row {
	uint32_t rank;
	uint32_t first_cell, cell_count;
	bool cut; /* earlier calls are left out */
	int64_t delay_ns, wait_ns;
};

/* On the way back from the step's end: what a rank did alone, before it came to an instance or (held) in it. */
struct walk_hop {
	uint32_t rank, instance;
	bool held;
	int64_t from_ns, to_ns;
};

struct walk_step {
	uint64_t number;
	int64_t start_ns, length_ns; /* job time */
	int64_t worst_ns;	     /* the largest delay by one rank */
	uint32_t rank_count;	     /* of the step; rows are some of them */
	size_t row_count, hop_count;
	struct walk_row rows[WALK_ROWS_MAX]; /* by rank */
	struct walk_hop hops[WALK_HOPS_MAX]; /* the last one first */
	struct walk_cell *cells;
};

/* The largest delay that one rank made, and whose it was (its row). */
int64_t walk_worst_ns(const struct judged_step *judged, uint32_t *row);

/* Fills in a step. Returns 0 or -ENOMEM. The caller ends it with walk_fini(). */
int walk_take(struct walk_step *step, const struct judged_step *judged)
	__attribute__((warn_unused_result));
/* The same step in another one. Returns 0 or -ENOMEM. */
int walk_copy(struct walk_step *into, const struct walk_step *from)
	__attribute__((warn_unused_result));
void walk_fini(struct walk_step *step);

#endif
