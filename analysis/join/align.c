/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/align.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/hash.h"
#include "analysis/join/segments.h"
#include "analysis/join/segments_beside.h"

enum { ACTIVITY_BLOCK = 256, KIND_BLOCK = 256 };

/* Sums of activities; blocks, so that pointers into them stay. */
struct activity_block {
	struct activity_block *next;
	struct activity activities[ACTIVITY_BLOCK];
};

struct kind_block {
	struct kind_block *next;
	struct part_kind kinds[KIND_BLOCK];
};

void grid_init(struct step_grid *grid)
{
	memset(grid, 0, sizeof(*grid));
}

const struct activity *grid_sum_activities(
	struct step_grid *grid, const struct activity *one, const struct activity *other)
{
	struct activity_block **at;
	size_t count = grid->sum_count;
	struct activity *sum;

	if (one == &activity_none || other == &activity_none)
		return one == &activity_none ? other : one;
	if (count % ACTIVITY_BLOCK ==
		0) { /* the next block: one of an earlier step, or a new one */
		at = grid->last_sums ? &grid->last_sums->next : &grid->sums;
		if (!*at)
			*at = calloc(1, sizeof(**at));
		if (!*at)
			return NULL;
		grid->last_sums = *at;
	}
	grid->sum_count++;
	sum = &grid->last_sums->activities[count % ACTIVITY_BLOCK];
	*sum = *one;
	activity_add(sum, other);
	return sum;
}

void grid_fini(struct step_grid *grid)
{
	free(grid->cells);
	free(grid->times);
	free(grid->joins);
	free(grid->rows);
	free(grid->instances);
	free(grid->members);
	free(grid->member_parts);
	free(grid->arrival_ns);
	free(grid->departure_ns);
	free(grid->own_ns);
	free(grid->places);
	free(grid->order);
	free(grid->table);
	free(grid->scratch);
	free(grid->by_departure);
	free(grid->by_stream);
	free(grid->by_place);
	free(grid->asynchronous);
	beside_places_destroy(grid->beside);
	while (grid->sums) {
		struct activity_block *next = grid->sums->next;

		free(grid->sums);
		grid->sums = next;
	}
	while (grid->kinds) {
		struct kind_block *next = grid->kinds->next;

		free(grid->kinds);
		grid->kinds = next;
	}
	grid_init(grid);
}

void grid_clear(struct step_grid *grid)
{
	grid->cell_count = grid->row_count = grid->instance_count = grid->order_count = 0;
	grid->clock_error_ns = 0;
	grid->overlapped = grid->device_time = grid->untimed = grid->host_time = grid->linked =
		false;
	grid->repeats = 0;
	grid->sum_count = grid->kind_count = 0;
	grid->last_sums = NULL;
	grid->last_kinds = NULL;
	if (grid->table)
		memset(grid->table, 0, grid->table_capacity * sizeof(*grid->table));
}

/* Grows an array to hold count + 1 elements; doubles, so that steady state takes no memory. */
static int reserve(void **array, size_t *capacity, size_t count, size_t size)
{
	if (count < *capacity)
		return 0;
	size_t grown_capacity = *capacity ? *capacity * 2 : 64;
	void *grown = realloc(*array, grown_capacity * size);

	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = grown_capacity;
	return 0;
}

int grid_add_row(struct step_grid *grid, uint32_t rank, uint32_t host, int64_t start_ns,
	int64_t clock_error_ns)
{
	int error = reserve(
		(void **)&grid->rows, &grid->row_capacity, grid->row_count, sizeof(*grid->rows));

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
	if (clock_error_ns > grid->clock_error_ns)
		grid->clock_error_ns = clock_error_ns;
	return 0;
}

/* The hash table holds at most half of its slots. */
static int grow_table(struct step_grid *grid)
{
	if (grid->instance_count * 2 < grid->table_capacity)
		return 0;
	size_t capacity = grid->table_capacity ? grid->table_capacity * 2 : 128;
	uint32_t *table = calloc(capacity, sizeof(*table));

	if (!table)
		return -ENOMEM;
	free(grid->table);
	grid->table = table;
	grid->table_capacity = capacity;
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

/* A send and its receive have a communicator of their own: one direction between two ranks. */
static uint64_t pair_key(const struct part_kind *part, uint32_t own_index)
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
		error = reserve((void **)&grid->instances, &grid->instance_capacity,
			grid->instance_count, sizeof(*grid->instances));
	if (error < 0)
		return error;
	size_t mask = grid->table_capacity - 1;
	size_t at = hash_mix(key, part->sequence) & mask;

	for (; grid->table[at]; at = (at + 1) & mask) {
		const struct grid_instance *instance = &grid->instances[grid->table[at] - 1];

		if (instance->communicator_id == key && instance->sequence == part->sequence) {
			*index = grid->table[at] - 1;
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
	grid->table[at] = *index + 1;
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
	size_t at = grid->kind_count % KIND_BLOCK;

	if (at == 0) {
		struct kind_block **block =
			grid->last_kinds ? &grid->last_kinds->next : &grid->kinds;

		if (!*block)
			*block = calloc(1, sizeof(**block));
		if (!*block)
			return NULL;
		grid->last_kinds = *block;
	}
	grid->kind_count++;
	grid->last_kinds->kinds[at] = *kind;
	return &grid->last_kinds->kinds[at];
}

/* Which instance a part belongs to: GRID_NONE when that is not known. */
static int join(struct step_grid *grid, const struct grid_row *row, const struct grid_part *part,
	bool pair, uint32_t *index)
{
	const struct part_kind *kind = part->kind;
	uint64_t key = pair ? pair_key(kind, part->own_index) : kind->communicator_id;
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
	int error = reserve((void **)&grid->cells, &grid->cell_capacity, grid->cell_count,
		sizeof(*grid->cells));

	if (error == 0)
		error = reserve((void **)&grid->times, &grid->time_capacity, grid->cell_count,
			sizeof(*grid->times));
	if (error == 0)
		error = reserve((void **)&grid->joins, &grid->join_capacity, grid->cell_count,
			sizeof(*grid->joins));
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
	grid->joins[grid->cell_count] = instance;
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
		.needs = row->cell_count,
		.flags = local ? CELL_LOCAL : 0,
	};
	row->overlapped |= overlapped;
	row->in_turn |= pair;
	row->own_ns += part->segment_ns - opaque_ns;
	row->works |= local;
	row->plain &= !row->overlapped && joined && part->before == &activity_none &&
		      !(kind->flags & PART_HOST_TIME);
	grid->device_time |= (kind->flags & PART_DEVICE_TIME) != 0;
	grid->host_time |= (kind->flags & PART_HOST_TIME) != 0;
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
	size_t scratch = 3 * grid->row_count + grid->instance_count + 2 * grid->cell_count + 1;

	if (scratch > grid->scratch_capacity) {
		free(grid->scratch);
		grid->scratch = malloc((scratch + scratch / 4) * sizeof(*grid->scratch));
		grid->scratch_capacity = grid->scratch ? scratch + scratch / 4 : 0;
		if (!grid->scratch)
			return -ENOMEM;
	}
	size_t needed =
		grid->cell_count + grid->cell_count / GRID_GAP_MEMBERS_MIN * GRID_MEMBER_GAP;
	if (needed <= grid->link_capacity)
		return 0;
	size_t capacity = needed + needed / 4;

	free(grid->members);
	free(grid->member_parts);
	free(grid->arrival_ns);
	free(grid->departure_ns);
	free(grid->own_ns);
	free(grid->places);
	free(grid->order);
	free(grid->by_departure);
	free(grid->by_stream);
	free(grid->by_place);
	grid->members = malloc(capacity * sizeof(*grid->members));
	grid->member_parts = malloc(capacity * sizeof(*grid->member_parts));
	grid->arrival_ns = malloc(capacity * sizeof(*grid->arrival_ns));
	grid->departure_ns = malloc(capacity * sizeof(*grid->departure_ns));
	grid->own_ns = malloc(capacity * sizeof(*grid->own_ns));
	grid->places = malloc(capacity * sizeof(*grid->places));
	grid->order = malloc(capacity * sizeof(*grid->order));
	grid->by_departure = malloc(capacity * sizeof(*grid->by_departure));
	grid->by_stream = malloc(capacity * sizeof(*grid->by_stream));
	grid->by_place = malloc(capacity * sizeof(*grid->by_place));
	grid->link_capacity = capacity;
	if (grid->members && grid->member_parts && grid->arrival_ns && grid->departure_ns &&
		grid->own_ns && grid->places && grid->order && grid->by_departure &&
		grid->by_stream && grid->by_place)
		return 0;
	grid->link_capacity = 0;
	return -ENOMEM;
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
		if (grid->joins[c] == GRID_NONE)
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
	grid->in_turn = grid->in_turn && all_join(grid) && !any_meets_itself(grid);
	grid->alike = false;
	return 0;
}

/* Where all rows are one call after the other, and each call joins. */
static void find_alike(struct step_grid *grid)
{
	grid->alike = all_join(grid);
	for (size_t i = 0; i < grid->instance_count; i++) {
		grid->rows[grid->member_parts[grid->instances[i].first_member].row].first = true;
		grid->alike &= members_alike(grid, &grid->instances[i]);
	}
}

int grid_link(struct step_grid *grid)
{
	int error = reserve_links(grid);

	if (error < 0)
		return error;
	for (size_t r = 0; r < grid->row_count; r++)
		grid->overlapped |= grid->rows[r].overlapped || grid->rows[r].in_turn;
	grid->in_turn = grid->overlapped;
	if (grid->overlapped)
		segments_settle(grid);
	for (size_t r = 0; r < grid->row_count; r++)
		grid->in_turn &= !grid->rows[r].overlapped;
	grid->order_count = 0;
	grid_place_members(grid);
	for (size_t i = 0; i < grid->instance_count; i++)
		judge_completeness(&grid->instances[i]);
	if (grid->overlapped) {
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
	grid->linked = true;
	return 0;
}
