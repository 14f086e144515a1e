/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks run the same part of the program. The same operations make a layout; stages in the
 * middle of a pipeline all have one, so they are told apart by the collectives of their own: ranks of
 * one layout that meet in a collective of that layout alone (tensor, data parallel) are one stage.
 */
#include <errno.h>

#include "analysis/uneven/internal.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 1099511628211u; /* FNV-1a, by words */
}

static uint32_t root_of(uint32_t *parents, uint32_t row)
{
	while (parents[row] != row) {
		parents[row] = parents[parents[row]];
		row = parents[row];
	}
	return row;
}

/* The lower row is the root, whatever the order of the joins. */
static void join(uint32_t *parents, uint32_t a, uint32_t b)
{
	a = root_of(parents, a);
	b = root_of(parents, b);
	if (a < b)
		parents[b] = a;
	else
		parents[a] = b;
}

/* A row that lacks parts does what its rank did before. */
static uint64_t layout_of(const struct judge *judge, const struct grid_row *row)
{
	uint64_t before = judge->ranks[row->rank].layout;

	return row->hole && before ? before : row->layout;
}

/* A collective that waits for all, of members of one layout. */
static bool joins(const struct judge *judge, const struct step_grid *grid,
	const struct grid_instance *instance)
{
	const struct grid_member *members = &grid->member_parts[instance->first_member];

	if (!instance->usable || instance->waits_for != WAITS_FOR_ALL || instance->member_count < 2)
		return false;
	for (uint32_t m = 1; m < instance->member_count; m++) {
		if (layout_of(judge, &grid->rows[members[m].row]) !=
			layout_of(judge, &grid->rows[members[0].row]))
			return false;
	}
	return true;
}

/* True when stages could be told apart. */
static bool group_rows(const struct judge *judge, const struct step_grid *grid, uint32_t *parents)
{
	uint32_t roots = 0, joined = 0;

	for (uint32_t r = 0; r < grid->row_count; r++)
		parents[r] = r;
	for (size_t i = 0; i < grid->instance_count; i++) {
		const struct grid_instance *instance = &grid->instances[i];
		const struct grid_member *members = &grid->member_parts[instance->first_member];

		if (!joins(judge, grid, instance))
			continue;
		for (uint32_t m = 1; m < instance->member_count; m++)
			join(parents, members[0].row, members[m].row);
	}
	for (uint32_t r = 0; r < grid->row_count; r++) {
		if (root_of(parents, r) == r)
			roots++;
		else
			joined++;
	}
	/* One rank alone has no peer that would tell a slow machine from much work. */
	return roots >= 2 && roots <= ROLES_STAGES_MAX && joined >= roots;
}

int judge_roles_key(struct judge *judge, const struct step_grid *grid)
{
	struct imbalance_state *state = judge->imbalance;
	uint64_t hash = 14695981039346656037u;
	bool works = false;
	int error = array_grow((void **)&state->work->rows.keys, &state->work->rows.capacity,
		grid->row_count, sizeof(*state->work->rows.keys));
	uint32_t *parents;

	if (error < 0)
		return error;
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		if (!row->hole)
			judge->ranks[row->rank].layout = row->layout;
		hash = mix(mix(hash, layout_of(judge, row)), row->rank);
		works |= row->works;
	}
	if (hash == state->work->rows.grouped)
		return 0;
	parents = arena_take(&judge->arena, grid->row_count, sizeof(*parents));
	if (!parents)
		return -ENOMEM;
	state->work->rows.grouped = hash;
	/* Where the work is shown, controls are exact, and layouts tell enough. */
	state->by_stage = grid->traits.overlapped && !works && group_rows(judge, grid, parents);
	for (uint32_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		state->work->rows.keys[r] = layout_of(judge, row);
		if (state->by_stage)
			state->work->rows.keys[r] = mix(state->work->rows.keys[r],
				grid->rows[root_of(parents, r)].rank + 1u);
	}
	return 0;
}
