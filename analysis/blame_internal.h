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

/* Sets control_ns and control_cell of every cell and the rows' sums of components. */
void blame_controls(struct blame *blame, const struct step_grid *grid);

/* Splits an activity into kinds; own_ns is the length it happened in. */
void blame_components(const struct grid_cell *cell, int64_t kinds[EXCESS_NR]);

#endif
