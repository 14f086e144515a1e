/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step as it would have been if some ranks had behaved like their controls, everything else
 * kept: a max-plus replay of the grid, instance by instance. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_WHATIF_H
#define SLOWRANK_ANALYSIS_WHATIF_H

#include "analysis/blame.h"

struct whatif {
	int64_t *times; /* per row */
	int64_t *scratch;
	int64_t *relief; /* per cell: what its peers at this position gain from the healed rows */
	int64_t *leads;	 /* per member: what its row does before it */
	int64_t *tails;	 /* per row: and after its last one */
	uint32_t *cursors;
	uint32_t *ended;      /* per row: cells that ended, in order of departure */
	int64_t *ends;	      /* per cell, of overlapped grids */
	const double *scales; /* per row, of overlapped grids: work times this; NULL: as it was */
	size_t row_capacity, cell_capacity;
};

void whatif_init(struct whatif *whatif);
void whatif_fini(struct whatif *whatif);

/*
 * Replays the step. healed: one byte per row, not 0 for the rows whose segments become their
 * controls' and whose holds vanish. *gain_ns: by how much the step becomes shorter, not negative.
 * Returns 0 or -ENOMEM.
 */
int whatif_replay(struct whatif *whatif, const struct step_grid *grid, const struct blame *blame,
	const uint8_t *healed, int64_t *gain_ns) __attribute__((warn_unused_result));

/*
 * The same with each row's work multiplied; overlapped grids only, elsewhere the gain is 0.
 */
int whatif_scale(struct whatif *whatif, const struct step_grid *grid, const struct blame *blame,
	const double *scales, int64_t *gain_ns) __attribute__((warn_unused_result));

/* What a cell's calls that are no cells take; less where peers at its place are healed. */
int64_t whatif_opaque_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const uint8_t *healed, uint32_t c);

/* The same for grids with overlapped rows; called by whatif_replay(), relief filled when healed. */
void whatif_replay_streams(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const uint8_t *healed);

#endif
