/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rank_grid.h"

#include "analysis/base/step.h"

bool rank_grid_make(struct rank_grid *grid, const int32_t *lengths, uint32_t count)
{
	struct rank_grid made = {.dimension_count = count};
	uint64_t size = 1;

	if (count == 0 || count > RANK_GRID_DIMENSIONS_MAX)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (lengths[i] <= 0)
			return false;
		made.lengths[i] = (uint32_t)lengths[i];
		size *= made.lengths[i];
		if (size > STEP_RANK_COUNT_MAX)
			return false;
	}
	*grid = made;
	return true;
}

uint32_t rank_grid_size(const struct rank_grid *grid)
{
	uint32_t size = 1;

	for (uint32_t i = 0; i < grid->dimension_count; i++)
		size *= grid->lengths[i];
	return size;
}

void rank_grid_part(const struct rank_grid *grid, const int32_t *keep, uint32_t rank,
	uint32_t *number, struct rank_grid *part, uint32_t *part_rank)
{
	uint32_t below = rank_grid_size(grid);

	*number = *part_rank = 0;
	*part = (struct rank_grid){0};
	for (uint32_t i = 0; i < grid->dimension_count; i++) {
		uint32_t length = grid->lengths[i];

		below /= length;
		uint32_t coordinate = rank / below % length;
		uint32_t *place = keep[i] ? part_rank : number;

		*place = *place * length + coordinate;
		if (keep[i])
			part->lengths[part->dimension_count++] = length;
	}
}
