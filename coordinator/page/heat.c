/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/heat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MIN = 16, MANTISSA_BITS = 3 };

void heat_fini(struct heat *heat)
{
	free(heat->cells);
	free(heat->rows);
	free(heat->hosts);
	memset(heat, 0, sizeof(*heat));
}

int heat_copy(struct heat *into, const struct heat *from, size_t first_column, size_t column_count)
{
	size_t cells = (column_count - first_column) * from->row_capacity,
	       room = first_column ? cells : from->column_capacity * from->row_capacity;

	*into = *from;
	into->hosts = NULL;
	into->cells = calloc(room ? room : 1, sizeof(*into->cells));
	into->rows = calloc(from->row_capacity ? from->row_capacity : 1, sizeof(*into->rows));
	if (!into->cells || !into->rows) {
		heat_fini(into);
		return -ENOMEM;
	}
	if (cells)
		memcpy(into->cells, heat_at(from, 0, first_column), cells * sizeof(*into->cells));
	if (from->row_capacity)
		memcpy(into->rows, from->rows, from->row_capacity * sizeof(*into->rows));
	return 0;
}

uint8_t heat_value(int64_t ns)
{
	uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0, value;
	unsigned exponent;

	if (us == 0)
		return 1;
	exponent = 63u - (unsigned)__builtin_clzll(us);
	value = exponent >= MANTISSA_BITS ? us >> (exponent - MANTISSA_BITS)
					  : us << (MANTISSA_BITS - exponent);
	value = 2 + ((uint64_t)exponent << MANTISSA_BITS) + (value & ((1u << MANTISSA_BITS) - 1));
	return value < UINT8_MAX ? (uint8_t)value : UINT8_MAX;
}

/* by: so many ranks the row of `from` begins behind that of `into`. */
static void join_cells(struct heat_cell *into, const struct heat_cell *from, uint32_t by)
{
	if (from->own > into->own) {
		into->own = from->own;
		into->who = from->who + by < HEAT_WHO_UNKNOWN ? (uint8_t)(from->who + by)
							      : (uint8_t)HEAT_WHO_UNKNOWN;
	}
	if (from->held > into->held)
		into->held = from->held;
}

void heat_fold(struct heat *heat, size_t column_count)
{
	size_t rows = heat->row_capacity, left = (column_count + 1) / 2;

	heat->generation++;
	for (size_t column = 0; column < column_count; column++) {
		struct heat_cell *into = &heat->cells[column / 2 * rows],
				 *from = &heat->cells[column * rows];

		if (column % 2 == 0 && column)
			memcpy(into, from, rows * sizeof(*into));
		for (size_t row = 0; column % 2 && row < heat->row_count; row++)
			join_cells(&into[row], &from[row], 0);
	}
	if (heat->cells)
		memset(&heat->cells[left * rows], 0,
			(heat->column_capacity - left) * rows * sizeof(struct heat_cell));
}

/* How rows are made of ranks and hosts below some numbers. */
struct shape {
	bool by_node;
	unsigned shift;
	size_t rows;
};

static struct shape shape_of(const struct heat *heat, uint32_t rank_end, uint32_t host_end)
{
	struct shape shape = {
		heat->by_node || rank_end > HEAT_ROWS_MAX, heat->node_shift, ROWS_MIN};
	uint32_t count = shape.by_node ? host_end : rank_end;

	while (count && (count - 1) >> shape.shift >= HEAT_ROWS_MAX)
		shape.shift++;
	while (count && shape.rows <= (count - 1) >> shape.shift)
		shape.rows *= 2;
	if (shape.rows < heat->row_capacity && shape.by_node == heat->by_node)
		shape.rows = heat->row_capacity;
	return shape;
}

static size_t columns_of(const struct shape *shape)
{
	size_t columns = HEAT_CELLS_MAX / shape->rows;

	return columns < HEAT_COLUMNS_MAX ? columns : (size_t)HEAT_COLUMNS_MAX;
}

size_t heat_columns_max(const struct heat *heat, uint32_t rank_end, uint32_t host_end)
{
	struct shape shape = shape_of(heat, rank_end, host_end);

	return columns_of(&shape);
}

/* Where a row of the old shape is in the new one. */
static size_t moved_row(const struct heat *heat, const struct shape *shape, size_t row)
{
	if (shape->by_node && !heat->by_node)
		return heat->hosts[row] >> shape->shift;
	return row >> (shape->shift - heat->node_shift);
}

static void move_rows(
	const struct heat *heat, const struct shape *shape, struct heat *into, size_t column_count)
{
	for (size_t row = 0; row < heat->row_count; row++) {
		const struct heat_row *from = &heat->rows[row];
		size_t place = moved_row(heat, shape, row);
		struct heat_row *to = &into->rows[place];

		if (from->first_rank > from->last_rank || place >= into->row_capacity)
			continue;
		to->first_rank =
			to->first_rank < from->first_rank ? to->first_rank : from->first_rank;
		to->last_rank = to->last_rank > from->last_rank ? to->last_rank : from->last_rank;
		into->row_count = into->row_count > place ? into->row_count : place + 1;
		if (into->hosts)
			into->hosts[place] = heat->hosts[row];
		for (size_t column = 0; column < column_count; column++)
			join_cells(&into->cells[column * into->row_capacity + place],
				heat_at(heat, row, column), from->first_rank - to->first_rank);
	}
}

int heat_make_room(struct heat *heat, uint32_t rank_end, uint32_t host_end, size_t column_count)
{
	struct shape shape = shape_of(heat, rank_end, host_end);
	struct heat grown = {.row_capacity = shape.rows,
		.column_capacity = columns_of(&shape),
		.by_node = shape.by_node,
		.node_shift = shape.shift,
		.generation = heat->generation + 1};

	if (shape.rows == heat->row_capacity && shape.by_node == heat->by_node &&
		shape.shift == heat->node_shift)
		return 0;
	grown.cells = calloc(grown.column_capacity * grown.row_capacity, sizeof(*grown.cells));
	grown.rows = calloc(grown.row_capacity, sizeof(*grown.rows));
	grown.hosts = shape.by_node ? NULL : calloc(grown.row_capacity, sizeof(*grown.hosts));
	if (!grown.cells || !grown.rows || (!shape.by_node && !grown.hosts)) {
		heat_fini(&grown);
		return -ENOMEM;
	}
	for (size_t row = 0; row < grown.row_capacity; row++)
		grown.rows[row].first_rank = UINT32_MAX;
	move_rows(heat, &shape, &grown, column_count);
	heat_fini(heat);
	*heat = grown;
	return 0;
}

/* Its first rank was none: whose the values are is counted from there. */
static void forget_who(struct heat *heat, size_t place)
{
	for (size_t column = 0; column < heat->column_capacity; column++)
		heat->cells[column * heat->row_capacity + place].who = HEAT_WHO_UNKNOWN;
}

void heat_take(struct heat *heat, size_t column, uint32_t rank, uint32_t host, int64_t own_ns,
	int64_t held_ns)
{
	size_t place = heat->by_node ? host >> heat->node_shift : rank;
	struct heat_row *row = &heat->rows[place];
	uint32_t first = row->first_rank < rank ? row->first_rank : rank,
		 last = row->last_rank > rank ? row->last_rank : rank;
	struct heat_cell *cell = &heat->cells[column * heat->row_capacity + place],
			 now = {heat_value(own_ns), heat_value(held_ns), 0};

	if (row->first_rank != first && row->first_rank <= row->last_rank)
		forget_who(heat, place);
	heat->generation += row->first_rank != first || row->last_rank != last;
	row->first_rank = first;
	row->last_rank = last;
	heat->row_count = heat->row_count > place ? heat->row_count : place + 1;
	if (heat->hosts)
		heat->hosts[place] = host;
	join_cells(cell, &now, rank - first);
}
