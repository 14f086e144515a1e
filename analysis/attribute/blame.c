/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/attribute/blame.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/attribute/blame_internal.h"

void blame_init(struct blame *blame)
{
	memset(blame, 0, sizeof(*blame));
}

void blame_fini(struct blame *blame)
{
	arena_fini(&blame->arena);
	free(blame->carries);
	free(blame->peers);
	blame_past_destroy(blame->past);
	blame_init(blame);
}

/* What a step needs, but for what its controls are found with. */
static int take_room(struct blame *blame, const struct step_grid *grid)
{
	struct arena *arena = &blame->arena;
	size_t rows = grid->row_count, instances = grid->instance_count, members = grid->member_end;
	size_t ranks = rows ? grid->rows[rows - 1].rank + (size_t)1 : 0;

	arena_reset(arena);
	blame->rows = arena_take_zeroed(arena, rows, sizeof(*blame->rows));
	blame->tallies = arena_take(arena, rows, sizeof(*blame->tallies));
	blame->row_controls = arena_take(arena, rows, sizeof(*blame->row_controls));
	blame->cursors = arena_take_zeroed(arena, rows, sizeof(*blame->cursors));
	blame->scratch = arena_take(arena, 2 * rows + 2, sizeof(*blame->scratch));
	blame->meetings = arena_take(arena, instances, sizeof(*blame->meetings));
	blame->held = arena_take_zeroed(arena, instances, sizeof(*blame->held));
	blame->transfers = arena_take(arena, instances, sizeof(*blame->transfers));
	blame->mixed = arena_take_zeroed(arena, members, sizeof(*blame->mixed));
	blame->opaque_ns = arena_take(arena, members, sizeof(*blame->opaque_ns));
	blame->shares = arena_take(arena, members, sizeof(*blame->shares));
	blame->holds = arena_take(arena, members, sizeof(*blame->holds));
	blame->lags = arena_take(arena, members, sizeof(*blame->lags));
	if (grid->traits.overlapped && !grid->traits.in_turn)
		blame->cells = arena_take(arena, grid->cell_count, sizeof(*blame->cells));
	if (arena_error(arena) < 0)
		return arena_error(arena);

	int error = array_grow(
		(void **)&blame->carries, &blame->carry_capacity, ranks, sizeof(*blame->carries));

	return error < 0 ? error
			 : array_grow((void **)&blame->peers, &blame->peers_capacity, ranks,
				   sizeof(*blame->peers));
}

/* Ranks communicated, and no call of theirs could be held against another rank's. */
static bool nothing_joined(const struct step_grid *grid)
{
	for (size_t i = 0; i < grid->cell_count && !grid->instance_count; i++) {
		if (!(grid->cells[i].flags & CELL_LOCAL))
			return true;
	}
	return false;
}

int blame_step(struct blame *blame, const struct step_grid *grid)
{
	int error = take_room(blame, grid);

	if (error < 0)
		return error;
	blame->transfer_count = 0;
	blame->traits.in_order = grid->order_count == grid->instance_count;
	blame->traits.incomplete = !blame->traits.in_order || nothing_joined(grid);
	blame->traits.several_groups = false;
	blame->traits.opaque = grid->traits.overlapped || !blame->traits.in_order;
	error = blame_controls(blame, grid);
	if (error < 0)
		return error;
	for (size_t r = 0; r < grid->row_count; r++) {
		blame->tallies[r] =
			(struct blame_tally){.carry = blame->carries[grid->rows[r].rank]};
		blame->traits.opaque |= blame->tallies[r].carry.opaque_ns != 0;
	}
	for (size_t o = 0; o < grid->order_count;) {
		blame_fetch_ahead(blame, grid, o);
		if (blame_in_columns(blame, &grid->instances[grid->order[o]]))
			o = blame_meet_columns(blame, grid, o);
		else
			blame_meet(blame, grid, grid->order[o++]);
	}
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct blame_tally *tally = &blame->tallies[r];
		struct blame_row *row = &blame->rows[r];

		blame->carries[grid->rows[r].rank] = tally->carry;
		row->delay_ns = tally->delay_ns;
		row->comm_delay_ns = tally->comm_delay_ns;
		row->inherited_ns = tally->inherited_ns;
		row->wait_ns = tally->wait_ns;
		row->transfer_ns = tally->transfer_ns;
	}
	return 0;
}
