/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of blame share. One thread. */
#ifndef SLOWRANK_ANALYSIS_ATTRIBUTE_BLAME_INTERNAL_H
#define SLOWRANK_ANALYSIS_ATTRIBUTE_BLAME_INTERNAL_H

#include "analysis/attribute/blame.h"
#include "analysis/policy.h"

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

/* What an instance's columns tell, and what came of it. */
struct blame_column_meeting {
	int64_t usual_ns; /* arrival; by duration: what a call takes */
	int64_t usual_transfer_ns;
	int64_t worst_comm_ns; /* by which a member was late for having left its last one late */
};

/* All that an instance's members bring lies in columns, and nothing of it is opaque. */
static inline bool blame_in_columns(const struct blame *blame, const struct grid_instance *instance)
{
	return blame->traits.alike && !blame->traits.opaque && instance->usable &&
	       instance->waits_for == WAITS_FOR_ALL;
}

/*
 * blame_meet() for instances in columns: independent of carried lateness but for what these are
 * charged with. Takes that one of order, and those after it that have the same members; returns the place
 * after them.
 */
size_t blame_meet_columns(struct blame *blame, const struct step_grid *grid, size_t first);
/* Its two ends, for each instance: what its columns tell, and what transfers and holds come of it. */
void blame_look(struct blame *blame, const struct step_grid *grid, uint32_t index,
	struct blame_column_meeting *seen);
void blame_tell(struct blame *blame, const struct step_grid *grid, uint32_t index,
	const struct blame_column_meeting *seen);

/*
 * blame_past.c: how long the rows of one rank and layout usually are, and those of the rank for each call: running medians,
 * which stay as they are while somebody is suspected.
 */
struct past_row {
	uint64_t key;  /* 0 = free */
	uint64_t step; /* of the last of them */
	int64_t length_ns;
	uint32_t seen; /* known from PAST_SEEN_MIN on */
};
/* How long such a row usually is; INT64_MAX where that is not known, or without memory. Learns this one. */
int64_t blame_past_usual_ns(
	struct blame *blame, const struct step_grid *grid, const struct grid_row *row);
void blame_past_destroy(struct blame_past *past); /* NULL is fine */

/* Splits a cell's activity into kinds; own_ns: the cell's, the length it happened in. */
void blame_components(const struct grid_cell *cell, int64_t own_ns, int64_t kinds[EXCESS_NR]);

#endif
