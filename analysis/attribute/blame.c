/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/attribute/blame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/attribute/blame_internal.h"

void blame_init(struct blame *blame)
{
	memset(blame, 0, sizeof(*blame));
}

void blame_fini(struct blame *blame)
{
	free(blame->rows);
	free(blame->cells);
	free(blame->meetings);
	free(blame->leads);
	free(blame->mixed);
	free(blame->opaque_ns);
	free(blame->shares);
	free(blame->holds);
	free(blame->lags);
	free(blame->held);
	free(blame->transfers);
	free(blame->carries);
	free(blame->peers);
	free(blame->tallies);
	free(blame->column_meetings);
	free(blame->columns);
	free(blame->controls);
	free(blame->row_controls);
	free(blame->scratch);
	free(blame->groups);
	free(blame->cursors);
	blame_init(blame);
}

int blame_reserve(void **array, size_t *capacity, size_t count, size_t size)
{
	size_t grown_capacity = count + count / 4;

	if (count <= *capacity)
		return 0;
	void *grown = realloc(*array, grown_capacity * size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = grown_capacity;
	return 0;
}

/* What is kept from step to step: of ranks that are new, it is 0. */
static int reserve_carries(struct blame *blame, const struct step_grid *grid)
{
	size_t count = grid->row_count ? grid->rows[grid->row_count - 1].rank + (size_t)1 : 0;
	size_t before = blame->carry_capacity;
	int error = blame_reserve(
		(void **)&blame->carries, &blame->carry_capacity, count, sizeof(*blame->carries));

	if (error == 0 && blame->carry_capacity > before)
		memset(blame->carries + before, 0,
			(blame->carry_capacity - before) * sizeof(*blame->carries));
	before = blame->peers_capacity;
	if (error == 0)
		error = blame_reserve((void **)&blame->peers, &blame->peers_capacity, count,
			sizeof(*blame->peers));
	if (error == 0 && blame->peers_capacity > before)
		memset(blame->peers + before, 0,
			(blame->peers_capacity - before) * sizeof(*blame->peers));
	return error;
}

static int reserve_rows(struct blame *blame, size_t rows)
{
	size_t groups = blame->row_capacity, cursors = groups, tallies = groups;
	size_t controls = groups;
	int error = blame_reserve((void **)&blame->groups, &groups, rows, sizeof(uint32_t));

	if (error == 0)
		error = blame_reserve(
			(void **)&blame->row_controls, &controls, rows, sizeof(uint32_t));
	if (error == 0)
		error = blame_reserve((void **)&blame->cursors, &cursors, rows, sizeof(uint32_t));
	if (error == 0)
		error = blame_reserve(
			(void **)&blame->tallies, &tallies, rows, sizeof(*blame->tallies));
	if (error == 0)
		error = blame_reserve(
			(void **)&blame->rows, &blame->row_capacity, rows, sizeof(*blame->rows));
	if (error == 0)
		error = blame_reserve((void **)&blame->scratch, &blame->scratch_capacity,
			rows > 2 ? 2 * rows : 4, sizeof(int64_t));
	return error;
}

static int reserve_all(struct blame *blame, const struct step_grid *grid)
{
	int error = reserve_rows(blame, grid->row_count);

	if (error == 0)
		error = blame_reserve((void **)&blame->cells, &blame->cell_capacity,
			grid->overlapped && !grid->in_turn ? grid->cell_count : 0,
			sizeof(*blame->cells));
	if (error == 0)
		error = blame_reserve((void **)&blame->shares, &blame->share_capacity,
			grid->member_end, sizeof(*blame->shares));
	if (error == 0)
		error = blame_reserve((void **)&blame->leads, &blame->lead_capacity,
			grid->member_end, sizeof(*blame->leads));
	if (error == 0)
		error = blame_reserve((void **)&blame->meetings, &blame->meeting_capacity,
			grid->instance_count, sizeof(*blame->meetings));
	if (error == 0)
		error = blame_reserve((void **)&blame->column_meetings,
			&blame->column_meeting_capacity, grid->alike ? grid->instance_count : 0,
			sizeof(*blame->column_meetings));
	if (error == 0)
		error = blame_reserve((void **)&blame->held, &blame->held_capacity,
			grid->instance_count, sizeof(*blame->held));
	if (error == 0)
		error = blame_reserve((void **)&blame->holds, &blame->hold_capacity,
			grid->member_end, sizeof(*blame->holds));
	if (error == 0)
		error = blame_reserve((void **)&blame->lags, &blame->lag_capacity, grid->member_end,
			sizeof(*blame->lags));
	if (error == 0)
		error = blame_reserve((void **)&blame->opaque_ns, &blame->opaque_capacity,
			grid->member_end, sizeof(*blame->opaque_ns));
	if (error == 0)
		error = blame_reserve((void **)&blame->mixed, &blame->mixed_capacity,
			grid->member_end, sizeof(*blame->mixed));
	if (error == 0)
		error = blame_reserve((void **)&blame->transfers, &blame->transfer_capacity,
			grid->instance_count, sizeof(*blame->transfers));
	if (error == 0)
		error = reserve_carries(blame, grid);
	return error;
}

int blame_step(struct blame *blame, const struct step_grid *grid)
{
	int error = reserve_all(blame, grid);

	if (error < 0)
		return error;
	memset(blame->rows, 0, grid->row_count * sizeof(*blame->rows));
	memset(blame->cursors, 0, grid->row_count * sizeof(*blame->cursors));
	blame->transfer_count = 0;
	blame->in_order = grid->order_count == grid->instance_count;
	blame->incomplete = !blame->in_order;
	blame->several_groups = false;
	blame->opaque = grid->overlapped || !blame->in_order;
	if (grid->instance_count)
		memset(blame->held, 0, grid->instance_count);
	error = blame_controls(blame, grid);
	if (error < 0)
		return error;
	for (size_t r = 0; r < grid->row_count; r++) {
		blame->tallies[r] =
			(struct blame_tally){.carry = blame->carries[grid->rows[r].rank]};
		blame->opaque |= blame->tallies[r].carry.opaque_ns != 0;
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
