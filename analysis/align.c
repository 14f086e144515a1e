/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/align.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void grid_init(struct step_grid *grid)
{
	memset(grid, 0, sizeof(*grid));
}

void grid_fini(struct step_grid *grid)
{
	free(grid->cells);
	free(grid->rows);
	free(grid->instances);
	free(grid->members);
	free(grid->order);
	free(grid->table);
	free(grid->scratch);
	grid_init(grid);
}

void grid_clear(struct step_grid *grid)
{
	grid->cell_count = grid->row_count = grid->instance_count = grid->order_count = 0;
	grid->clock_error_ns = 0;
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

static uint64_t mix(uint64_t hash, uint64_t value) /* splitmix64's finaliser */
{
	hash += value * UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
	return hash ^ (hash >> 31);
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
	};
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
		size_t at = mix(instance->communicator_id, instance->sequence) & (capacity - 1);

		while (table[at])
			at = (at + 1) & (capacity - 1);
		table[at] = (uint32_t)i + 1;
	}
	return 0;
}

static int find_instance(struct step_grid *grid, const struct collective_part *part,
	uint64_t sequence, uint32_t size, uint32_t *index)
{
	int error = grow_table(grid);

	if (error == 0)
		error = reserve((void **)&grid->instances, &grid->instance_capacity,
			grid->instance_count, sizeof(*grid->instances));
	if (error < 0)
		return error;
	size_t mask = grid->table_capacity - 1;
	size_t at = mix(part->communicator_id, sequence) & mask;

	for (; grid->table[at]; at = (at + 1) & mask) {
		const struct grid_instance *instance = &grid->instances[grid->table[at] - 1];

		if (instance->communicator_id == part->communicator_id &&
			instance->sequence == sequence) {
			*index = grid->table[at] - 1;
			return 0;
		}
	}
	grid->instances[grid->instance_count] = (struct grid_instance){
		.communicator_id = part->communicator_id,
		.sequence = sequence,
		.length_bytes = part->length_bytes,
		.size = size,
		.root = part->root,
		.operation = part->operation,
		.waits_for = (uint8_t)operation_waits_for(part->operation),
	};
	*index = (uint32_t)grid->instance_count++;
	grid->table[at] = *index + 1;
	return 0;
}

int grid_add_part(struct step_grid *grid, const struct collective_part *part, bool joined,
	uint64_t sequence, uint32_t size, uint32_t own_index, int64_t arrival_ns, int64_t length_ns,
	const struct activity *before)
{
	struct grid_row *row = &grid->rows[grid->row_count - 1];
	uint32_t instance = GRID_NONE;
	int error = reserve((void **)&grid->cells, &grid->cell_capacity, grid->cell_count,
		sizeof(*grid->cells));

	if (error < 0)
		return error;
	if (joined) {
		error = find_instance(grid, part, sequence, size, &instance);
		if (error < 0)
			return error;
		grid->instances[instance].member_count++;
	}
	int64_t opaque_ns = before->comm_call_ns < length_ns ? before->comm_call_ns : length_ns;

	grid->cells[grid->cell_count++] = (struct grid_cell){
		.part = part,
		.arrival_ns = arrival_ns,
		.departure_ns = arrival_ns + (part->departure.value - part->arrival.value),
		.own_ns = length_ns - opaque_ns,
		.opaque_ns = opaque_ns,
		.own = *before,
		.row = (uint32_t)grid->row_count - 1,
		.instance = instance,
		.own_index = own_index,
	};
	row->cell_count++;
	row->end_ns = grid->cells[grid->cell_count - 1].departure_ns;
	row->layout = mix(row->layout, part->operation + 1u + (instance == GRID_NONE ? 64u : 0u));
	return 0;
}

/* Groups cell indices by instance; within one, rows ascend, so ranks do. */
static void fill_members(struct step_grid *grid)
{
	uint32_t next = 0;

	for (size_t i = 0; i < grid->instance_count; i++) {
		grid->instances[i].first_member = next;
		next += grid->instances[i].member_count;
		grid->instances[i].member_count = 0;
	}
	for (size_t c = 0; c < grid->cell_count; c++) {
		struct grid_instance *instance;

		if (grid->cells[c].instance == GRID_NONE)
			continue;
		instance = &grid->instances[grid->cells[c].instance];
		grid->members[instance->first_member + instance->member_count++] = (uint32_t)c;
	}
}

static void judge_completeness(const struct step_grid *grid, struct grid_instance *instance)
{
	const struct grid_row *first =
		&grid->rows[grid->cells[grid->members[instance->first_member]].row];

	instance->complete = instance->member_count > 1 && instance->member_count >= instance->size;
	instance->usable =
		instance->member_count > 1 && 2 * (uint64_t)instance->member_count > instance->size;
	instance->same_host = true;
	for (uint32_t m = 1; m < instance->member_count; m++) {
		const struct grid_cell *cell =
			&grid->cells[grid->members[instance->first_member + m]];

		if (grid->rows[cell->row].host != first->host)
			instance->same_host = false;
		if (cell->part->operation != instance->operation)
			instance->usable = false; /* joined wrongly: judge nothing by it */
	}
	instance->complete &= instance->usable;
}

/*
 * Orders the instances as the ranks' programs do (Kahn's algorithm on the rows): one is ready
 * when it is the next of each of its members. An inconsistent join leaves some out: they are
 * not in the order, and their steps count as incomplete.
 */
static void order_instances(struct step_grid *grid)
{
	uint32_t *cursor = grid->scratch;		  /* per row: cells passed */
	uint32_t *arrived = cursor + grid->row_count;	  /* per instance */
	uint32_t *ready = arrived + grid->instance_count; /* queue of rows */
	size_t ready_head = 0, ready_count = 0;

	memset(grid->scratch, 0, (grid->row_count + grid->instance_count) * sizeof(uint32_t));
	for (size_t r = 0; r < grid->row_count; r++)
		ready[ready_count++] = (uint32_t)r;
	grid->order_count = 0;
	while (ready_head < ready_count) {
		const struct grid_row *row = &grid->rows[ready[ready_head]];
		uint32_t r = ready[ready_head++];

		while (cursor[r] < row->cell_count &&
			grid->cells[row->first_cell + cursor[r]].instance == GRID_NONE)
			cursor[r]++;
		if (cursor[r] == row->cell_count)
			continue;
		uint32_t i = grid->cells[row->first_cell + cursor[r]].instance;
		const struct grid_instance *instance = &grid->instances[i];

		if (++arrived[i] < instance->member_count)
			continue;
		grid->order[grid->order_count++] = i;
		for (uint32_t m = 0; m < instance->member_count; m++) {
			uint32_t member =
				grid->cells[grid->members[instance->first_member + m]].row;

			cursor[member]++;
			ready[ready_count++] = member;
		}
	}
}

int grid_link(struct step_grid *grid)
{
	size_t scratch = 2 * grid->row_count + grid->instance_count + grid->cell_count;

	if (scratch + grid->cell_count + grid->instance_count > grid->scratch_capacity) {
		size_t capacity = 2 * (scratch + grid->cell_count + grid->instance_count);

		free(grid->scratch);
		free(grid->members);
		free(grid->order);
		grid->scratch = calloc(capacity, sizeof(uint32_t));
		grid->members = calloc(capacity, sizeof(uint32_t));
		grid->order = calloc(capacity, sizeof(uint32_t));
		grid->scratch_capacity = capacity;
		if (!grid->scratch || !grid->members || !grid->order) {
			grid->scratch_capacity = 0;
			return -ENOMEM;
		}
	}
	fill_members(grid);
	for (size_t i = 0; i < grid->instance_count; i++)
		judge_completeness(grid, &grid->instances[i]);
	order_instances(grid);
	return 0;
}
