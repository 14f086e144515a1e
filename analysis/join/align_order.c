/* SPDX-License-Identifier: Apache-2.0 */
/* The instances of a grid in the order of the ranks' programs. */
#include <string.h>

#include "analysis/join/align.h"

/* The state of ordering: which cells have started and ended, by row. */
struct ordering {
	struct step_grid *grid;
	uint32_t *started; /* per row: cells, in order of arrival */
	uint32_t *ended;   /* per row: cells, in order of departure, without a gap */
	uint32_t *arrived; /* per instance */
	uint8_t *cell_ended;
	uint32_t *ready; /* queue of rows */
	size_t ready_count;
};

/* One more cell of a row ended; the row goes on when that is what its next cell waits for. */
static void end_cell(struct ordering *ordering, uint32_t c, uint32_t r, bool overlapped)
{
	const struct step_grid *grid = ordering->grid;
	const struct grid_row *row = &grid->rows[r];

	if (!overlapped) { /* one after the other */
		ordering->ended[r]++;
		return;
	}
	ordering->cell_ended[c] = 1;
	while (ordering->ended[r] < row->cell_count) {
		uint32_t next = grid->by_departure[row->first_cell + ordering->ended[r]];

		if (!ordering->cell_ended[next])
			return;
		ordering->ended[r]++;
	}
}

static void start_cell(struct ordering *ordering, const struct grid_row *row, uint32_t c)
{
	struct step_grid *grid = ordering->grid;
	uint32_t i = grid->cells[c].instance, r = (uint32_t)(row - grid->rows);

	if (i == GRID_NONE ||
		((row->overlapped || row->in_turn) && (grid->cells[c].flags & CELL_ALONE)))
		end_cell(ordering, c, r, row->overlapped);
	if (i == GRID_NONE || ++ordering->arrived[i] < grid->instances[i].member_count)
		return;
	const struct grid_instance *instance = &grid->instances[i];
	const struct grid_member *members = &grid->member_parts[instance->first_member];

	grid->order[grid->order_count++] = i;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		if (!(members[m].flags & CELL_ALONE))
			end_cell(ordering, grid->members[instance->first_member + m],
				members[m].row, members[m].flags & MEMBER_OVERLAPPED);
		if (members[m].row != r)
			ordering->ready[ordering->ready_count++] = members[m].row;
	}
}

/*
 * Orders the instances as the ranks' programs do (Kahn's algorithm): a cell starts when all cells
 * of its row that ended before it came have ended; an instance is done when all its members have
 * started. An inconsistent join leaves some out: they are not in the order, and their steps
 * count as incomplete.
 */
void grid_order_instances(struct step_grid *grid)
{
	struct ordering ordering = {.grid = grid, .started = grid->making.scratch};

	ordering.ended = ordering.started + grid->row_count;
	ordering.arrived = ordering.ended + grid->row_count;
	ordering.ready = ordering.arrived + grid->instance_count;
	ordering.cell_ended = (uint8_t *)(ordering.ready + grid->row_count + grid->cell_count);
	memset(grid->making.scratch, 0,
		(2 * grid->row_count + grid->instance_count) * sizeof(uint32_t));
	if (grid->traits.overlapped)
		memset(ordering.cell_ended, 0, grid->cell_count);
	for (size_t r = 0; r < grid->row_count; r++)
		ordering.ready[ordering.ready_count++] = (uint32_t)r;
	grid->order_count = 0;
	for (size_t head = 0; head < ordering.ready_count; head++) {
		uint32_t r = ordering.ready[head];
		const struct grid_row *row = &grid->rows[r];

		while (ordering.started[r] < row->cell_count) {
			uint32_t c = row->first_cell + ordering.started[r];

			if (grid_ended_before(grid, row, c) > ordering.ended[r])
				break;
			ordering.started[r]++;
			start_cell(&ordering, row, c);
		}
	}
}
