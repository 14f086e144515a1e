/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late each rank was, step by step, in bounded memory: a grid of cells, with a column for some steps and a row for a
 * rank; in jobs with too many ranks, for a node or some nodes. Cells that become one keep the largest of each value. Which
 * steps a column is of, the caller knows. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PAGE_HEAT_H
#define SLOWRANK_COORDINATOR_PAGE_HEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HEAT_ROWS_MAX = 16384,
	HEAT_COLUMNS_MAX = 2048,
	HEAT_CELLS_MAX = HEAT_ROWS_MAX * 1024, /* 48 MiB */
	HEAT_WHO_UNKNOWN = 255,
};

/* Values are heat_value()'s; 0: the rank was not judged there. */
struct heat_cell {
	uint8_t own;  /* so late by itself that others waited */
	uint8_t held; /* so long it waited for others, or was late because of them */
	uint8_t who;  /* of a row of several ranks, whose `own` is: its rank less the row's first */
};

struct heat_row {
	uint32_t first_rank, last_rank; /* first > last: none was seen */
};

struct heat {
	struct heat_cell *cells; /* column by column */
	struct heat_row *rows;
	uint32_t *hosts; /* of rows that are ranks */
	size_t row_count, row_capacity;
	size_t column_capacity;
	bool by_node;
	unsigned node_shift; /* so many halvings of a node's number make its row's */
	uint32_t
		generation; /* another one where rows, or columns before the last one, are not what they were */
};

/* Zero-initialised: nothing was seen. */
void heat_fini(struct heat *heat);

/*
 * The same rows in another one, with the cells of some columns as its first ones; with all of them where first_column is 0, and
 * room for those that may come. Returns 0 or -ENOMEM.
 */
int heat_copy(struct heat *into, const struct heat *from, size_t first_column, size_t column_count)
	__attribute__((warn_unused_result));

/* So many columns there can be, once ranks and hosts below these numbers have come. */
size_t heat_columns_max(const struct heat *heat, uint32_t rank_end, uint32_t host_end);

/* Makes room for them. So many columns are kept, at most heat_columns_max(). Returns 0 or -ENOMEM. */
int heat_make_room(struct heat *heat, uint32_t rank_end, uint32_t host_end, size_t column_count)
	__attribute__((warn_unused_result));

/* Two columns each become one; the number of columns is halved, and rounded up. */
void heat_fold(struct heat *heat, size_t column_count);

/* What a rank on a host, for which there is room, did in a step of the column. */
void heat_take(struct heat *heat, size_t column, uint32_t rank, uint32_t host, int64_t own_ns,
	int64_t held_ns);

/*
 * A time as a byte, to an eighth: 1 is less than a microsecond; otherwise 2 + 8 times the binary exponent of its
 * microseconds + three bits of their mantissa, at most 255.
 */
uint8_t heat_value(int64_t ns);

static inline const struct heat_cell *heat_at(const struct heat *heat, size_t row, size_t column)
{
	return &heat->cells[column * heat->row_capacity + row];
}

#endif
