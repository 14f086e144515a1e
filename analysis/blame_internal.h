/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of blame share. One thread. */
#ifndef SLOWRANK_ANALYSIS_BLAME_INTERNAL_H
#define SLOWRANK_ANALYSIS_BLAME_INTERNAL_H

#include "analysis/blame.h"

/* What a rank is late by, on its way to the next instance. */
struct blame_carry {
	int64_t own_ns;	   /* by its own segments; negative: early */
	int64_t comm_ns;   /* by leaving the last collective late */
	int64_t opaque_ns; /* spent in waits whose partners are not known */
};

/*
 * A row on its way through the step: what is touched for each member lies in one line of a cache. The
 * sums go into the row in the end.
 */
struct blame_tally {
	struct blame_carry carry;
	int64_t delay_ns, comm_delay_ns, inherited_ns, wait_ns, transfer_ns;
};

/* Sets cells, leads, what is mixed, and the rows' sums of components. Returns 0 or -ENOMEM. */
int blame_controls(struct blame *blame, const struct step_grid *grid)
	__attribute__((warn_unused_result));

/*
 * Charges the members of an instance with what they are late by, and splits their time in it into
 * waiting and transfer. The instances before it on each of its members' rows have met already.
 */
void blame_meet(struct blame *blame, const struct step_grid *grid, uint32_t index);

/* Makes an array at least so long; its contents stay and the rest is not set. 0 or -ENOMEM. */
int blame_reserve(void **array, size_t *capacity, size_t count, size_t size)
	__attribute__((warn_unused_result));

/* Splits a cell's activity into kinds; own_ns: the cell's, the length it happened in. */
void blame_components(const struct grid_cell *cell, int64_t own_ns, int64_t kinds[EXCESS_NR]);

#endif
