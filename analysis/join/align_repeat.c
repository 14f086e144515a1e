/* SPDX-License-Identifier: Apache-2.0 */
/* A grid whose next step repeats it: only times are filled in, and activities where there are any. */
#include "analysis/join/align.h"

#include <stdlib.h>

bool grid_repeatable(const struct step_grid *grid)
{
	return grid->linked && !grid->overlapped && grid->row_count > 0 &&
	       grid->order_count == grid->instance_count;
}

void grid_repeat(struct step_grid *grid)
{
	free(grid->scratch); /* of ordering */
	grid->scratch = NULL;
	grid->scratch_capacity = 0;
	free(grid->times);
	grid->times = NULL;
	grid->time_capacity = 0;
	grid->clock_error_ns = 0;
	grid->sum_count = 0;
	grid->last_sums = NULL;
	grid->errors_moved = false;
	grid->repeats++;
	for (size_t i = 0; i < grid->instance_count; i++)
		grid->instances[i].inside = false;
}

void grid_repeat_row(struct step_grid *grid, struct grid_row *row, int64_t start_ns,
	int64_t clock_error_ns, bool hole, bool bare)
{
	grid->errors_moved |= row->clock_error_ns != clock_error_ns;
	row->start_ns = start_ns;
	row->clock_error_ns = clock_error_ns;
	row->hole = hole;
	row->bare = bare;
	row->plain = true;
	if (clock_error_ns > grid->clock_error_ns)
		grid->clock_error_ns = clock_error_ns;
}

int64_t grid_repeat_activity(struct step_grid *grid, struct grid_row *row, uint32_t position,
	const struct activity *before, const struct activity *inside, int64_t segment_ns)
{
	uint32_t c = row->first_cell + position;
	struct grid_cell *cell = &grid->cells[c];
	int64_t comm_ns = before->comm_call_ns;

	cell->own = before;
	cell->inside = inside;
	cell->opaque_ns = comm_ns < segment_ns ? comm_ns : segment_ns;
	row->plain &= before == &activity_none;
	if (grid->joins[c] != GRID_NONE)
		grid->instances[grid->joins[c]].inside |= inside != &activity_none;
	grid->member_parts[grid->places[c]].flags =
		(inside != &activity_none ? (uint32_t)MEMBER_INSIDE : 0) | grid_row_flags(row);
	return segment_ns - cell->opaque_ns;
}

void grid_repeat_cells(struct step_grid *grid, const struct grid_row *row, uint32_t first,
	uint32_t count, const struct grid_times *times)
{
	int64_t *restrict arrival_ns = grid->arrival_ns, *restrict departure_ns =
								 grid->departure_ns;
	int64_t *restrict own_ns = grid->own_ns;
	const uint32_t *places = &grid->places[row->first_cell + first];

	for (uint32_t p = 0; p < count; p++) {
		uint32_t at = places[p];

		arrival_ns[at] = times->arrival_ns[p];
		departure_ns[at] = times->departure_ns[p];
		own_ns[at] = times->own_ns[p];
	}
}

void grid_repeat_end(struct step_grid *grid)
{
	for (size_t i = 0; i < grid->instance_count && grid->errors_moved; i++) {
		struct grid_instance *instance = &grid->instances[i];
		const struct grid_member *members = &grid->member_parts[instance->first_member];

		instance->clock_error_ns = 0;
		for (uint32_t m = 0; m < instance->member_count; m++) {
			int64_t error_ns = grid->rows[members[m].row].clock_error_ns;

			if (error_ns > instance->clock_error_ns)
				instance->clock_error_ns = error_ns;
		}
	}
}
