/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that send and receive, but do one thing at a time: what came before a cell has ended. */
#include "analysis/join/segments_internal.h"

void segments_settle_turn(const struct step_grid *grid, struct grid_row *row)
{
	for (uint32_t i = 0; i < row->cell_count && !row->overlapped; i++) {
		uint32_t c = row->first_cell + i;

		row->overlapped = grid->cells[c].instance == GRID_NONE ||
				  (i > 0 && grid->times[c - 1].departure_ns >
						    grid->times[c].arrival_ns + ORDER_SLACK_NS);
	}
	row->in_turn = !row->overlapped;
	row->plain &= row->in_turn;
}

void segments_find_turn(struct step_grid *grid, struct grid_row *row)
{
	struct grid_cell *cells = &grid->cells[row->first_cell];
	struct cell_times *times = &grid->times[row->first_cell];
	int64_t free_ns = row->start_ns; /* the rank's work could go on from here */
	uint64_t layout = 0;

	row->own_ns = 0;
	for (uint32_t i = 0; i < row->cell_count; i++) {
		struct grid_cell *cell = &cells[i];
		int64_t lead_ns = segments_later_ns(times[i].arrival_ns - free_ns, 0);
		int64_t comm_ns = cell->own->comm_call_ns;

		layout = hash_mix(
			layout, (uint64_t)cell->part->purpose << 16 | cell->part->operation);
		cell->opaque_ns = comm_ns < lead_ns ? comm_ns : lead_ns;
		times[i].own_ns = lead_ns - cell->opaque_ns;
		row->own_ns += times[i].own_ns;
		free_ns = segments_later_ns(
			free_ns, segments_later_ns(times[i].arrival_ns, times[i].departure_ns));
		if (i > 0 && times[i].arrival_ns - times[i - 1].arrival_ns <= ORDER_SLACK_NS &&
			times[i - 1].arrival_ns - times[i].arrival_ns <= ORDER_SLACK_NS) {
			cell->flags |= CELL_TOGETHER;
			cells[i - 1].flags |= CELL_TOGETHER;
		}
	}
	row->layout = layout;
}
