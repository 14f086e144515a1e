/* SPDX-License-Identifier: Apache-2.0 */
/* A grid's cells by instance, so that what is looked at member by member lies in one piece. */
#include "analysis/join/align.h"

#include "analysis/policy.h"

const struct activity activity_none;

struct grid_member grid_member_of(const struct step_grid *grid, const struct grid_cell *cell)
{
	const struct grid_row *row = &grid->rows[cell->row];

	return (struct grid_member){
		.row = cell->row,
		.flags = cell->flags |
			 (cell->inside != &activity_none ? (uint32_t)MEMBER_INSIDE : 0) |
			 (cell->part->flags & PART_DEVICE_TIME ? (uint32_t)MEMBER_DEVICE_TIME : 0) |
			 (cell->part->flags & PART_HOST_TIME ? (uint32_t)MEMBER_HOST_TIME : 0) |
			 (row->overlapped ? (uint32_t)MEMBER_OVERLAPPED : 0) |
			 (row->in_turn ? (uint32_t)MEMBER_IN_TURN : 0) | grid_row_flags(row),
	};
}

void grid_refresh_members(struct step_grid *grid)
{
	enum { CELLS_AHEAD = 16 };

	for (size_t i = 0; i < grid->instance_count; i++)
		grid->instances[i].inside = false;
	for (size_t c = 0; c < grid->cell_count; c++) {
		const struct grid_cell *cell = &grid->cells[c];
		uint32_t at = grid->places[c];

		if (c + CELLS_AHEAD < grid->cell_count) {
			uint32_t ahead = grid->places[c + CELLS_AHEAD];

			__builtin_prefetch(&grid->arrival_ns[ahead], 1);
			__builtin_prefetch(&grid->departure_ns[ahead], 1);
			__builtin_prefetch(&grid->own_ns[ahead], 1);
			__builtin_prefetch(&grid->member_parts[ahead], 1);
		}
		grid->arrival_ns[at] = grid->times[c].arrival_ns;
		grid->departure_ns[at] = grid->times[c].departure_ns;
		grid->own_ns[at] = grid->times[c].own_ns;
		if (cell->inside != &activity_none && cell->instance != GRID_NONE)
			grid->instances[cell->instance].inside = true;
		grid->member_parts[at] = grid_member_of(grid, cell);
	}
}

/* An instance's members, from `next` on. Returns where the next one's are. */
static uint32_t place_instance(struct grid_instance *instance, uint32_t next)
{
	instance->first_member = next;
	next += instance->member_count;
	return next + (instance->member_count >= GRID_GAP_MEMBERS_MIN ? GRID_MEMBER_GAP : 0);
}

void grid_place_members(struct step_grid *grid)
{
	uint32_t *cursors = grid->making.scratch, next = 0;

	for (size_t i = 0; i < grid->instance_count; i++)
		cursors[i] = GRID_NONE;
	for (size_t o = 0; o < grid->order_count; o++) {
		next = place_instance(&grid->instances[grid->order[o]], next);
		cursors[grid->order[o]] = grid->instances[grid->order[o]].first_member;
	}
	for (size_t i = 0; i < grid->instance_count; i++) {
		if (cursors[i] != GRID_NONE)
			continue;
		next = place_instance(&grid->instances[i], next);
		cursors[i] = grid->instances[i].first_member;
	}
	for (size_t c = 0; c < grid->cell_count; c++) {
		uint32_t i = grid->cells[c].instance;

		grid->places[c] = i == GRID_NONE ? next++ : cursors[i]++;
		grid->members[grid->places[c]] = (uint32_t)c;
	}
	grid->member_end = next;
}

bool grid_times_contradict(
	const struct step_grid *grid, const struct grid_instance *instance, int64_t *left_ns)
{
	int64_t entered_ns = INT64_MIN, first_ns = INT64_MAX;

	if (!instance->usable || instance->waits_for != WAITS_FOR_ALL)
		return false;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		size_t at = instance->first_member + m;

		if (!(grid->member_parts[at].flags & MEMBER_DEVICE_TIME))
			continue;
		if (grid->arrival_ns[at] > entered_ns)
			entered_ns = grid->arrival_ns[at];
		if (grid->departure_ns[at] < first_ns)
			first_ns = grid->departure_ns[at];
	}
	*left_ns = first_ns;
	return entered_ns > first_ns && entered_ns - first_ns > CONTRADICTION_NS &&
	       entered_ns - first_ns > CONTRADICTION_ERRORS * instance->clock_error_ns;
}
