/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/align.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/hash.h"
#include "analysis/join/segments.h"
#include "analysis/join/segments_beside.h"

void grid_init(struct step_grid *grid)
{
	memset(grid, 0, sizeof(*grid));
}

const struct activity *grid_sum_activities(
	struct step_grid *grid, const struct activity *one, const struct activity *other)
{
	struct activity *sum;

	if (one == &activity_none || other == &activity_none)
		return one == &activity_none ? other : one;
	sum = arena_take(&grid->making.activities, 1, sizeof(*sum));
	if (!sum)
		return NULL;
	*sum = *one;
	activity_add(sum, other);
	return sum;
}

void grid_fini(struct step_grid *grid)
{
	free(grid->cells);
	free(grid->times);
	free(grid->rows);
	free(grid->instances);
	free(grid->making.table);
	arena_fini(&grid->making.arena);
	arena_fini(&grid->making.activities);
	arena_fini(&grid->making.passing);
	beside_places_destroy(grid->making.beside);
	grid_init(grid);
}

void grid_clear(struct step_grid *grid)
{
	grid->cell_count = grid->row_count = grid->instance_count = grid->order_count = 0;
	grid->step.clock_error_ns = 0;
	grid->traits = (struct grid_traits){0};
	grid->making.repeats = 0;
	arena_reset(&grid->making.arena);
	arena_reset(&grid->making.activities);
	if (grid->making.table)
		memset(grid->making.table, 0,
			grid->making.table_capacity * sizeof(*grid->making.table));
}

int grid_add_row(struct step_grid *grid, uint32_t rank, uint32_t host, int64_t start_ns,
	int64_t clock_error_ns)
{
	int error = array_grow((void **)&grid->rows, &grid->making.row_capacity,
		grid->row_count + 1, sizeof(*grid->rows));

	if (error < 0)
		return error;
	assert(grid->row_count == 0 || grid->rows[grid->row_count - 1].rank < rank);
	grid->rows[grid->row_count++] = (struct grid_row){
		.rank = rank,
		.host = host,
		.first_cell = (uint32_t)grid->cell_count,
		.start_ns = start_ns,
		.end_ns = start_ns,
		.clock_error_ns = clock_error_ns,
		.plain = true,
	};
	if (clock_error_ns > grid->step.clock_error_ns)
		grid->step.clock_error_ns = clock_error_ns;
	return 0;
}

/* The hash table holds at most half of its slots. */
static int grow_table(struct step_grid *grid)
{
	if (grid->instance_count * 2 < grid->making.table_capacity)
		return 0;
	size_t capacity = grid->making.table_capacity ? grid->making.table_capacity * 2 : 128;
	uint32_t *table = calloc(capacity, sizeof(*table));

	if (!table)
		return -ENOMEM;
	free(grid->making.table);
	grid->making.table = table;
	grid->making.table_capacity = capacity;
	for (size_t i = 0; i < grid->instance_count; i++) {
		const struct grid_instance *instance = &grid->instances[i];
		size_t at =
			hash_mix(instance->communicator_id, instance->sequence) & (capacity - 1);

		while (table[at])
			at = (at + 1) & (capacity - 1);
		table[at] = (uint32_t)i + 1;
	}
	return 0;
}

uint64_t grid_pair_key(const struct part_kind *part, uint32_t own_index)
{
	bool sends = part->operation == OPERATION_SEND;
	uint64_t sender = sends ? own_index : part->peer - 1;
	uint64_t receiver = sends ? part->peer - 1 : own_index;

	return hash_mix(hash_mix(part->communicator_id, sender << 32 | receiver), part->purpose);
}

/* The instance of a key and sequence number; made when it is new. */
static int find_instance(struct step_grid *grid, const struct grid_part *part, uint64_t key,
	uint32_t size, uint32_t *index)
{
	int error = grow_table(grid);

	if (error == 0)
		error = array_grow((void **)&grid->instances, &grid->making.instance_capacity,
			grid->instance_count + 1, sizeof(*grid->instances));
	if (error < 0)
		return error;
	size_t mask = grid->making.table_capacity - 1;
	size_t at = hash_mix(key, part->sequence) & mask;

	for (; grid->making.table[at]; at = (at + 1) & mask) {
		const struct grid_instance *instance = &grid->instances[grid->making.table[at] - 1];

		if (instance->communicator_id == key && instance->sequence == part->sequence) {
			*index = grid->making.table[at] - 1;
			return 0;
		}
	}
	grid->instances[grid->instance_count] = (struct grid_instance){
		.communicator_id = key,
		.sequence = part->sequence,
		.length_bytes = part->kind->length_bytes,
		.size = size,
		.root = part->kind->root,
		.operation = part->kind->operation,
		.waits_for = (uint8_t)operation_waits_for(part->kind->operation),
	};
	*index = (uint32_t)grid->instance_count++;
	grid->making.table[at] = *index + 1;
	return 0;
}

/*
 * Ranks of one communicator mostly call in the same order: where the row before has its cell of
 * this place, this one most likely belongs. Only a guess, which is checked.
 */
static bool guess_instance(const struct step_grid *grid, const struct grid_row *row, uint64_t key,
	uint64_t sequence, uint32_t *index)
{
	if (grid->row_count < 2 || row->cell_count >= row[-1].cell_count)
		return false;
	uint32_t guess = grid->cells[row[-1].first_cell + row->cell_count].instance;

	if (guess == GRID_NONE || grid->instances[guess].communicator_id != key ||
		grid->instances[guess].sequence != sequence)
		return false;
	*index = guess;
	return true;
}

/* A copy of what a call is, which stays until the grid is cleared; NULL without memory. */
static const struct part_kind *keep_kind(struct step_grid *grid, const struct part_kind *kind)
{
	struct part_kind *kept = arena_take(&grid->making.arena, 1, sizeof(*kept));

	if (kept)
		*kept = *kind;
	return kept;
}

/* Which instance a part belongs to: GRID_NONE when that is not known. */
static int join(struct step_grid *grid, const struct grid_row *row, const struct grid_part *part,
	bool pair, uint32_t *index)
{
	const struct part_kind *kind = part->kind;
	uint64_t key = pair ? grid_pair_key(kind, part->own_index) : kind->communicator_id;
	int error = 0;

	if (!guess_instance(grid, row, key, part->sequence, index))
		error = find_instance(grid, part, key, pair ? 2 : part->size, index);
	if (error < 0)
		return error;
	struct grid_instance *instance = &grid->instances[*index];

	if (instance->member_count++ == 0) {
		instance->host = row->host;
		instance->same_host = true;
		instance->first_member = (uint32_t)grid->cell_count; /* until they are placed */
	}
	instance->same_host &= instance->host == row->host;
	instance->reckoned |= part->reckoned;
	instance->mixed |= kind->operation != instance->operation;
	if (row->clock_error_ns > instance->clock_error_ns)
		instance->clock_error_ns = row->clock_error_ns;
	if (pair) {
		instance->waits_for = WAITS_FOR_PARTNER;
		instance->root = (int32_t)(kind->operation == OPERATION_SEND ? part->own_index
									     : kind->peer - 1);
	}
	return 0;
}

int grid_add_part(struct step_grid *grid, const struct grid_part *part)
{
	struct grid_row *row = &grid->rows[grid->row_count - 1];
	const struct part_kind *kind = part->kind;
	bool pair = part_kind_is_message(kind);
	bool local = kind->operation == OPERATION_COMPUTE;
	bool joined = part->joined && !local &&
		      (!pair || (kind->peer && part->own_index != STEP_RANK_UNKNOWN));
	int64_t comm_ns = part->before->comm_call_ns;
	int64_t opaque_ns = comm_ns < part->segment_ns ? comm_ns : part->segment_ns;
	uint32_t instance = GRID_NONE;
	bool overlapped = local || kind->stream != 0 || (kind->flags & PART_DEVICE_TIME);
	int error = array_grow((void **)&grid->cells, &grid->making.cell_capacity,
		grid->cell_count + 1, sizeof(*grid->cells));

	if (error == 0)
		error = array_grow((void **)&grid->times, &grid->making.time_capacity,
			grid->cell_count + 1, sizeof(*grid->times));
	if (error == 0 && joined)
		error = join(grid, row, part, pair, &instance);
	if (error < 0)
		return error;
	if (instance != GRID_NONE && !overlapped && !pair) {
		uint32_t first = grid->instances[instance].first_member;

		if (first < grid->cell_count && part_kind_same(grid->cells[first].part, kind))
			kind = grid->cells[first].part;
		else
			kind = keep_kind(grid, kind);
		if (!kind)
			return -ENOMEM;
	}
	grid->times[grid->cell_count] = (struct cell_times){
		.arrival_ns = part->arrival_ns,
		.departure_ns = part->arrival_ns + part->call_ns,
		.own_ns = part->segment_ns - opaque_ns,
	};
	grid->cells[grid->cell_count++] = (struct grid_cell){
		.part = kind,
		.opaque_ns = opaque_ns,
		.own = part->before,
		.inside = part->inside,
		.row = (uint32_t)grid->row_count - 1,
		.instance = instance,
		.own_index = part->own_index,
		.flags = local ? CELL_LOCAL : 0,
	};
	row->overlapped |= overlapped;
	row->in_turn |= pair;
	row->own_ns += part->segment_ns - opaque_ns;
	row->works |= local;
	row->plain &= !row->overlapped && joined && part->before == &activity_none &&
		      !(kind->flags & PART_HOST_TIME);
	grid->traits.device_time |= (kind->flags & PART_DEVICE_TIME) != 0;
	grid->traits.host_time |= (kind->flags & PART_HOST_TIME) != 0;
	row->cell_count++;
	if (part->arrival_ns + part->call_ns > row->end_ns)
		row->end_ns = part->arrival_ns + part->call_ns;
	row->layout =
		hash_mix(row->layout, kind->operation + 1u + (instance == GRID_NONE ? 64u : 0u));
	return 0;
}

static void judge_completeness(struct grid_instance *instance)
{
	instance->complete = instance->member_count > 1 && instance->member_count >= instance->size;
	/* Joined wrongly (other operations, more members than there are): judge nothing by it. */
	instance->usable = instance->member_count > 1 &&
			   2 * (uint64_t)instance->member_count > instance->size &&
			   (instance->size == 0 || instance->member_count <= instance->size) &&
			   (!instance->mixed || instance->waits_for == WAITS_FOR_PARTNER);
	instance->complete &= instance->usable;
}

static int reserve_links(struct step_grid *grid)
{
	struct arena *arena = &grid->making.arena, *passing = &grid->making.passing;
	size_t count = grid->cell_count + grid->cell_count / GRID_GAP_MEMBERS_MIN * GRID_MEMBER_GAP;

	grid->members = arena_take(arena, count, sizeof(*grid->members));
	grid->member_parts = arena_take(arena, count, sizeof(*grid->member_parts));
	grid->arrival_ns = arena_take(arena, count, sizeof(*grid->arrival_ns));
	grid->departure_ns = arena_take(arena, count, sizeof(*grid->departure_ns));
	grid->own_ns = arena_take(arena, count, sizeof(*grid->own_ns));
	grid->places = arena_take(arena, count, sizeof(*grid->places));
	grid->order = arena_take(arena, count, sizeof(*grid->order));
	grid->by_departure = arena_take(arena, count, sizeof(*grid->by_departure));
	grid->by_stream = arena_take(arena, count, sizeof(*grid->by_stream));
	grid->by_place = arena_take(arena, count, sizeof(*grid->by_place));
	grid->streams = arena_take(arena, grid->cell_count, sizeof(*grid->streams));
	arena_reset(passing);
	grid->making.scratch = arena_take(passing,
		3 * grid->row_count + grid->instance_count + 2 * grid->cell_count + 1,
		sizeof(*grid->making.scratch));
	return grid->making.scratch ? arena_error(arena) : -ENOMEM;
}

/* All have it at the same place of the same layout: they are compared with the same controls. */
static bool members_alike(const struct step_grid *grid, const struct grid_instance *instance)
{
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	const uint32_t *cells = &grid->members[instance->first_member];
	const struct grid_row *first = &grid->rows[members[0].row];

	for (uint32_t m = 1; m < instance->member_count; m++) {
		const struct grid_row *row = &grid->rows[members[m].row];

		if (row->layout != first->layout || row->cell_count != first->cell_count ||
			cells[m] - row->first_cell != cells[0] - first->first_cell)
			return false;
	}
	return true;
}

static bool same_rows(const struct step_grid *grid, const struct grid_instance *one,
	const struct grid_instance *other)
{
	const struct grid_member *a = &grid->member_parts[one->first_member];
	const struct grid_member *b = &grid->member_parts[other->first_member];

	for (uint32_t m = 0; m < one->member_count && one->member_count == other->member_count;
		m++) {
		if (a[m].row != b[m].row)
			return false;
	}
	return one->member_count == other->member_count;
}

static bool all_join(const struct step_grid *grid)
{
	for (size_t c = 0; c < grid->cell_count; c++) {
		if (grid->cells[c].instance == GRID_NONE)
			return false;
	}
	return true;
}

/* Some row meets itself: a message to itself, or a part that came twice. */
static bool any_meets_itself(const struct step_grid *grid)
{
	for (size_t i = 0; i < grid->instance_count; i++) {
		const struct grid_instance *instance = &grid->instances[i];
		const struct grid_member *members = &grid->member_parts[instance->first_member];

		for (uint32_t m = 1; m < instance->member_count; m++) {
			if (members[m].row == members[m - 1].row)
				return true;
		}
	}
	return false;
}

/*
 * Where rows are overlapped or in turn. Passes over instances go from one end of the columns to the other
 * once their members lie in order.
 */
static int link_overlapped(struct step_grid *grid)
{
	int error = segments_find(grid);

	if (error < 0)
		return error;
	for (size_t c = 0; c < grid->cell_count; c++)
		grid->member_parts[grid->places[c]] = grid_member_of(grid, &grid->cells[c]);
	grid_order_instances(grid);
	grid_place_members(grid);
	grid_refresh_members(grid);
	grid->traits.in_turn = grid->traits.in_turn && all_join(grid) && !any_meets_itself(grid);
	grid->traits.alike = false;
	return 0;
}

/* Where all rows are one call after the other, and each call joins. */
static void find_alike(struct step_grid *grid)
{
	grid->traits.alike = all_join(grid);
	for (size_t i = 0; i < grid->instance_count; i++) {
		grid->rows[grid->member_parts[grid->instances[i].first_member].row].first = true;
		grid->traits.alike &= members_alike(grid, &grid->instances[i]);
	}
}

int grid_link(struct step_grid *grid)
{
	int error = reserve_links(grid);

	if (error < 0)
		return error;
	for (size_t r = 0; r < grid->row_count; r++)
		grid->traits.overlapped |= grid->rows[r].overlapped || grid->rows[r].in_turn;
	grid->traits.in_turn = grid->traits.overlapped;
	if (grid->traits.overlapped) {
		error = segments_end_receives(grid);
		if (error < 0)
			return error;
		segments_settle(grid);
	}
	for (size_t r = 0; r < grid->row_count; r++)
		grid->traits.in_turn &= !grid->rows[r].overlapped;
	grid->order_count = 0;
	grid_place_members(grid);
	for (size_t i = 0; i < grid->instance_count; i++)
		judge_completeness(&grid->instances[i]);
	if (grid->traits.overlapped) {
		error = link_overlapped(grid);
		if (error < 0)
			return error;
	} else {
		grid_refresh_members(grid);
		grid_order_instances(grid);
		find_alike(grid);
	}
	for (size_t o = 1; o < grid->order_count; o++) {
		struct grid_instance *instance = &grid->instances[grid->order[o]];

		instance->again = same_rows(grid, &grid->instances[grid->order[o - 1]], instance);
	}
	grid->traits.linked = true;
	return 0;
}
