/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cartesian communicators: which ranks share a part of a grid. MPI 3.1, section 7.2: ranks are
 * numbered row by row (the last coordinate goes fastest). Pure.
 */
#ifndef SLOWRANK_PROBE_RANK_GRID_H
#define SLOWRANK_PROBE_RANK_GRID_H

#include <stdbool.h>
#include <stdint.h>

enum { RANK_GRID_DIMENSIONS_MAX = 8 };

struct rank_grid {
	uint32_t dimension_count; /* 0 = no grid, or one that is not known */
	uint32_t lengths[RANK_GRID_DIMENSIONS_MAX];
};

/* False when lengths are no grid of at most that many dimensions. */
bool rank_grid_make(struct rank_grid *grid, const int32_t *lengths, uint32_t count)
	__attribute__((warn_unused_result));

uint32_t rank_grid_size(const struct rank_grid *grid);

/*
 * MPI_Cart_sub: the part of the grid that a rank is in, when the dimensions marked in keep stay. The
 * part's number (the coordinates that go, row by row), its own grid, the rank's place in it.
 */
void rank_grid_part(const struct rank_grid *grid, const int32_t *keep, uint32_t rank,
	uint32_t *number, struct rank_grid *part, uint32_t *part_rank);

#endif
