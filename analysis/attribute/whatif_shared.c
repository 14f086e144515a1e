/* SPDX-License-Identifier: Apache-2.0 */
/* What all replays need: a healed cell's own time, waits, what a replay gains, and what of it shows in the next step only. */
#include <stdlib.h>
#include <string.h>

#include "analysis/attribute/blame_internal.h"
#include "analysis/attribute/whatif.h"
#include "analysis/base/robust_stats.h"

/* What of a cell's own time is not EXCESS_COMPUTE. */
static int64_t host_part_ns(const struct step_grid *grid, uint32_t c)
{
	int64_t kinds[EXCESS_NR] = {0}, sum_ns = 0;

	blame_components(&grid->cells[c], grid_own_ns(grid, c), kinds);
	for (int k = EXCESS_COMPUTE + 1; k < EXCESS_NR; k++)
		sum_ns += kinds[k];
	return sum_ns;
}

int64_t whatif_healed_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t c)
{
	const struct grid_cell *cell = &grid->cells[c];
	const struct blame_cell compared = blame_cell_of(blame, grid, c);
	int64_t own_ns = grid_own_ns(grid, c), host_ns = 0, healed_ns;

	if (whatif->change.part == WHATIF_ALL || compared.control_cell == GRID_NONE ||
		compared.control_ns == own_ns)
		return compared.control_ns;
	if (cell->own != &activity_none || (cell->part->flags & PART_DEVICE_TIME))
		host_ns = host_part_ns(grid, c);
	if (host_ns || grid->cells[compared.control_cell].own != &activity_none)
		host_ns -= host_part_ns(grid, compared.control_cell);
	healed_ns = whatif->change.part == WHATIF_HOST ? own_ns - host_ns
						       : compared.control_ns + host_ns;
	return healed_ns > 0 ? healed_ns : 0;
}

int64_t whatif_wait_ns(
	const struct step_grid *grid, const struct blame *blame, uint32_t index, uint32_t member)
{
	return grid->departure_ns[member] - grid->arrival_ns[member] -
	       blame_transfer_ns(blame, grid, &blame->meetings[index], member);
}

int64_t whatif_least_wait_ns(
	const struct step_grid *grid, const struct blame *blame, uint32_t index)
{
	const struct grid_instance *instance = &grid->instances[index];
	int64_t least_ns = INT64_MAX;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		uint32_t at = instance->first_member + m;

		if (!(grid->member_parts[at].flags & MEMBER_DOUBTFUL))
			least_ns = smaller(least_ns, whatif_wait_ns(grid, blame, index, at));
	}
	return least_ns;
}

void whatif_line_fini(struct whatif_line *line)
{
	free(line->ahead_ns);
	*line = (struct whatif_line){0};
}

void whatif_line_reset(struct whatif_line *line)
{
	if (line->capacity)
		memset(line->ahead_ns, 0, line->capacity * sizeof(*line->ahead_ns));
}

int whatif_line_reserve(struct whatif_line *line, const struct step_grid *grid)
{
	size_t count = grid->row_count ? grid->rows[grid->row_count - 1].rank + (size_t)1 : 0;

	return array_grow(
		(void **)&line->ahead_ns, &line->capacity, count, sizeof(*line->ahead_ns));
}

int64_t whatif_line_gain(
	struct whatif *whatif, const struct step_grid *grid, struct whatif_line *line)
{
	int64_t limit_ns = larger(grid->step.end_ns - grid->step.start_ns, 0), usual_ns;

	for (size_t r = 0; r < grid->row_count; r++)
		whatif->scratch[r] = whatif->ends_before[r] - whatif->times[r];
	usual_ns = lower_median_int64(whatif->scratch, grid->row_count);
	if (!line)
		return usual_ns;
	whatif_line_reset(line); /* ranks that are not here have nothing to bring */
	for (size_t r = 0; r < grid->row_count; r++) {
		int64_t ahead_ns = whatif->ends_before[r] - whatif->times[r] - usual_ns;

		line->ahead_ns[grid->rows[r].rank] = clamp(ahead_ns, -limit_ns, limit_ns);
	}
	return usual_ns;
}

int64_t whatif_released_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const struct grid_instance *instance)
{
	const uint8_t *healed = whatif->change.healed;
	bool holds =
		blame->held[instance - grid->instances] && whatif->change.part != WHATIF_COMPUTE;
	int64_t with = 0, without = 0;

	for (uint32_t m = 0; holds && m < instance->member_count; m++) {
		int64_t hold = blame->holds[instance->first_member + m];

		if (hold > with)
			with = hold;
		if (!healed[grid->member_parts[instance->first_member + m].row] && hold > without)
			without = hold;
	}
	return with - without;
}
