/* SPDX-License-Identifier: Apache-2.0 */
/* Who shares a part of a grid, beside what MPI libraries made of the same grids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/rank_grid.h"

static void two_by_three(void **state)
{
	/* MPI_Cart_sub of a 2 x 3 grid under Open MPI 4.1.4: rows {0,1,2},{3,4,5}; columns {0,3},... */
	struct rank_grid grid, part;
	uint32_t number, place;

	(void)state;
	assert_true(rank_grid_make(&grid, (int32_t[]){2, 3}, 2));
	assert_int_equal(rank_grid_size(&grid), 6);
	for (uint32_t rank = 0; rank < 6; rank++) {
		rank_grid_part(&grid, (int32_t[]){0, 1}, rank, &number, &part, &place);
		assert_int_equal(number, rank / 3);
		assert_int_equal(place, rank % 3);
		assert_int_equal(part.dimension_count, 1);
		assert_int_equal(part.lengths[0], 3);
		rank_grid_part(&grid, (int32_t[]){1, 0}, rank, &number, &part, &place);
		assert_int_equal(number, rank % 3);
		assert_int_equal(place, rank / 3);
		assert_int_equal(part.lengths[0], 2);
	}
}

/* Each rank has one place in one part, and parts of parts are parts again. */
static void every_rank_has_its_place(void **state)
{
	static const int32_t keep[] = {1, 0, 1, 0};
	struct rank_grid grid, part, rest;
	uint8_t seen[4][6] = {{0}};
	uint32_t number, place, inner, inner_place;

	(void)state;
	assert_true(rank_grid_make(&grid, (int32_t[]){3, 2, 2, 2}, 4));
	for (uint32_t rank = 0; rank < 24; rank++) {
		rank_grid_part(&grid, keep, rank, &number, &part, &place);
		assert_in_range(number, 0, 3);
		assert_in_range(place, 0, 5);
		assert_int_equal(seen[number][place]++, 0);
		rank_grid_part(&part, (int32_t[]){0, 1}, place, &inner, &rest, &inner_place);
		assert_int_equal(inner, place / 2);
		assert_int_equal(inner_place, place % 2);
		assert_int_equal(rest.dimension_count, 1);
	}
	rank_grid_part(&grid, (int32_t[]){0, 0, 0, 0}, 17, &number, &part, &place);
	assert_int_equal(number, 17);
	assert_int_equal(rank_grid_size(&part), 1);
}

static void what_is_no_grid(void **state)
{
	struct rank_grid grid = {.dimension_count = 7};
	int32_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

	(void)state;
	assert_false(rank_grid_make(&grid, many, 0));
	assert_false(rank_grid_make(&grid, many, 9));
	assert_false(rank_grid_make(&grid, (int32_t[]){2, 0}, 2));
	assert_false(rank_grid_make(&grid, (int32_t[]){2, -1}, 2));
	assert_false(rank_grid_make(&grid, (int32_t[]){65536, 65536}, 2));
	assert_int_equal(grid.dimension_count, 7);
	assert_true(rank_grid_make(&grid, many, 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_by_three),
		cmocka_unit_test(every_rank_has_its_place),
		cmocka_unit_test(what_is_no_grid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
