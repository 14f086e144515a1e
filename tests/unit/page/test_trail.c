/* SPDX-License-Identifier: Apache-2.0 */
/* What the page keeps of a job's course: the worst of what becomes one is never lost, and memory has a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/attribute/blame.h"
#include "coordinator/page/packed.h"
#include "coordinator/page/trail.h"

enum { MS = 1000000, STEP_MS = 10, HOST_RANKS = 8 };

static void test_values_are_right_to_an_eighth(void **state)
{
	(void)state;
	assert_int_equal(heat_value(-5), 1);
	assert_int_equal(heat_value(999), 1);
	assert_int_equal(heat_value(1000), 2);
	assert_int_equal(heat_value(INT64_MAX), 255);
	for (int64_t us = 1; us < INT64_C(1) << 31; us += 1 + us / 7) {
		unsigned value = heat_value(us * 1000) - 2u;
		double low = (double)(UINT64_C(1) << (value >> 3)) * (1 + (value & 7) / 8.0);

		assert_true(low <= (double)us && (double)us < low * 1.125 + 1e-9);
	}
}

/* A step of ranks that call nothing, of which one is late. */
struct made {
	struct grid_row *rows;
	struct blame_row *blame_rows;
	struct step_grid grid;
	struct blame blame;
	struct judged_step step;
};

static void make(struct made *made, uint32_t rank_count)
{
	*made = (struct made){.rows = calloc(rank_count, sizeof(*made->rows)),
		.blame_rows = calloc(rank_count, sizeof(*made->blame_rows))};
	assert_non_null(made->rows);
	assert_non_null(made->blame_rows);
	for (uint32_t r = 0; r < rank_count; r++) {
		made->rows[r].rank = r;
		made->rows[r].host = r / HOST_RANKS;
		made->blame_rows[r].judged = true;
	}
	made->grid.rows = made->rows;
	made->grid.row_count = rank_count;
	made->blame.rows = made->blame_rows;
	made->step = (struct judged_step){.grid = &made->grid, .blame = &made->blame};
}

static void drop(struct made *made)
{
	free(made->rows);
	free(made->blame_rows);
}

static void take(
	struct trail *trail, struct made *made, uint64_t number, uint32_t late, int64_t late_ns)
{
	made->grid.step = (struct grid_step){.number = number,
		.of_program = number,
		.start_ns = (int64_t)number * STEP_MS * MS,
		.end_ns = (int64_t)(number + 1) * STEP_MS * MS};
	made->blame_rows[late].charged_ns = late_ns;
	trail_take(trail, &made->step);
	made->blame_rows[late].charged_ns = 0;
}

static void test_each_step_has_a_column_while_they_are_few(void **state)
{
	struct trail *trail;
	struct made made;

	(void)state;
	assert_int_equal(trail_create(&trail), 0);
	make(&made, 4);
	for (uint64_t s = 0; s < 100; s++)
		take(trail, &made, s, 2, s == 40 ? 5 * MS : 0);
	assert_int_equal(trail->column_count, 100);
	assert_int_equal(trail->steps_in_column, 1);
	for (size_t column = 0; column < 100; column++) {
		for (size_t row = 0; row < 4; row++)
			assert_int_equal(heat_at(&trail->heat, row, column)->own,
				row == 2 && column == 40 ? heat_value(5 * MS) : 1);
		assert_int_equal(trail->columns[column].first_step, column);
		assert_true(trail->columns[column].length_ns == (double)STEP_MS * MS);
	}
	/* The worst step of its stretch is kept whole. */
	assert_true(trail->walk_count <= TRAIL_WALKS_MAX);
	size_t worst = 0;
	for (size_t i = 0; i < trail->walk_count; i++)
		worst = trail->walks[i].worst_ns > trail->walks[worst].worst_ns ? i : worst;
	assert_int_equal(trail->walks[worst].number, 40);
	drop(&made);
	trail_destroy(trail);
}

static void test_of_many_steps_the_worst_stays(void **state)
{
	enum { STEPS = 3 * HEAT_COLUMNS_MAX + 17, LATE = 2 * HEAT_COLUMNS_MAX + 5 };
	struct trail *trail;
	struct made made;
	uint64_t steps = 0;

	(void)state;
	assert_int_equal(trail_create(&trail), 0);
	make(&made, 3);
	for (uint64_t s = 0; s < STEPS; s++)
		take(trail, &made, s, 1, s == LATE ? 7 * MS : 0);
	assert_int_equal(trail->steps, STEPS);
	assert_int_equal(trail->steps_in_column, 4);
	assert_int_equal(trail->column_count, (STEPS + 3) / 4);
	for (size_t column = 0; column < trail->column_count; column++) {
		steps += trail->columns[column].steps;
		assert_int_equal(trail->columns[column].first_step, 4 * column);
		assert_int_equal(heat_at(&trail->heat, 1, column)->own,
			column == LATE / 4 ? heat_value(7 * MS) : 1);
	}
	assert_int_equal(steps, STEPS);
	const struct track *track = tracks_find(&trail->tracks, 1);
	assert_non_null(track);
	assert_int_equal(track->steps[LATE / 4], 4);
	assert_true(track->sum_ns[LATE / 4 * TRACK_NR + TRACK_DELAY] > 6.9F * MS);
	drop(&made);
	trail_destroy(trail);
}

/* Ranks beyond what has a row each: nodes, and the worst rank of each is known; what was seen before stays. */
static void test_many_ranks_become_nodes(void **state)
{
	enum { RANKS = HEAT_ROWS_MAX + 64, LATE = 12345 };
	struct trail *trail, *copy;
	struct made few, made;

	(void)state;
	assert_int_equal(trail_create(&trail), 0);
	make(&few, 64);
	take(trail, &few, 0, 42, 3 * MS);
	assert_false(trail->heat.by_node);
	make(&made, RANKS);
	for (uint64_t s = 1; s < 1200; s += s < 4 ? 1 : 400)
		take(trail, &made, s, LATE, 4 * MS);
	assert_true(trail->heat.by_node);
	assert_int_equal(trail->heat.row_count, RANKS / HOST_RANKS);
	const struct heat_cell *before = heat_at(&trail->heat, 42 / HOST_RANKS, 0),
			       *after = heat_at(&trail->heat, LATE / HOST_RANKS, 1);
	assert_int_equal(before->own, heat_value(3 * MS));
	assert_int_equal(before->who, 42 % HOST_RANKS);
	assert_int_equal(after->own, heat_value(4 * MS));
	assert_int_equal(after->who, LATE % HOST_RANKS);
	assert_int_equal(trail->heat.rows[2].first_rank, 2 * HOST_RANKS);
	assert_int_equal(trail->heat.rows[2].last_rank, 3 * HOST_RANKS - 1);
	/* A rank that costs much is followed, though others were there first. */
	assert_non_null(tracks_find(&trail->tracks, LATE));
	assert_int_equal(trail->tracks.count, TRACKS_MAX);
	copy = trail_copy(trail);
	assert_non_null(copy);
	assert_memory_equal(heat_at(&copy->heat, LATE / HOST_RANKS, 1), after, sizeof(*after));
	assert_true(copy->tracks.list[0].sum_ns != trail->tracks.list[0].sum_ns);
	trail_destroy(copy);
	drop(&few);
	drop(&made);
	trail_destroy(trail);
}

static void test_more_nodes_than_rows_share_them(void **state)
{
	struct heat heat = {0};
	uint32_t hosts = 3 * HEAT_ROWS_MAX, ranks = STEP_RANK_COUNT_MAX;

	(void)state;
	assert_int_equal(heat_columns_max(&heat, ranks, hosts), HEAT_CELLS_MAX / HEAT_ROWS_MAX);
	assert_int_equal(heat_make_room(&heat, ranks, hosts, 0), 0);
	assert_int_equal(heat.node_shift, 2);
	heat_take(&heat, 0, 100000, hosts - 1, MS, 2 * MS);
	heat_take(&heat, 0, 99999, hosts - 2, 3 * MS, MS);
	const struct heat_cell *cell = heat_at(&heat, (hosts - 1) >> 2, 0);
	assert_int_equal(cell->own, heat_value(3 * MS));
	assert_int_equal(cell->held, heat_value(2 * MS));
	assert_int_equal(heat.rows[(hosts - 1) >> 2].first_rank, 99999);
	heat_fini(&heat);
}

/* Nobody is charged for a step that was passed over: it is not measurable, which is not the same as healthy. */
static void test_a_step_passed_over_is_not_judged(void **state)
{
	struct trail *trail;
	struct made made;

	(void)state;
	assert_int_equal(trail_create(&trail), 0);
	make(&made, 4);
	take(trail, &made, 0, 0, MS);
	made.step.blame = NULL;
	take(trail, &made, 1, 0, MS);
	made.step.blame = &made.blame;
	made.blame_rows[3].judged = false;
	take(trail, &made, 2, 0, MS);
	assert_int_equal(heat_at(&trail->heat, 0, 1)->own, 0);
	assert_int_equal(heat_at(&trail->heat, 3, 2)->own, 0);
	assert_int_equal(heat_at(&trail->heat, 2, 2)->own, 1);
	assert_int_equal(trail->columns[1].judged, 0);
	assert_int_equal(trail->columns[1].steps, 1);
	drop(&made);
	trail_destroy(trail);
}

/* Rounds of one step of the program are one column's. */
static void test_rounds_are_one_step(void **state)
{
	struct trail *trail;
	struct made made;

	(void)state;
	assert_int_equal(trail_create(&trail), 0);
	make(&made, 2);
	for (uint64_t s = 0; s < 6; s++) {
		made.grid.step = (struct grid_step){.number = s,
			.of_program = s / 3,
			.round_count = 3,
			.start_ns = (int64_t)s * MS,
			.end_ns = (int64_t)(s + 1) * MS};
		trail_take(trail, &made.step);
	}
	assert_int_equal(trail->steps, 2);
	assert_int_equal(trail->column_count, 2);
	assert_true(trail->columns[1].length_ns == 3.0 * MS);
	drop(&made);
	trail_destroy(trail);
}

/* A record that was thinned is judged by several pipelines, each of which counts from 0. */
static void test_steps_before_are_counted(void **state)
{
	struct trail *trail;
	struct made made;

	(void)state;
	assert_int_equal(trail_create(&trail), 0);
	make(&made, 2);
	take(trail, &made, 0, 0, MS);
	trail->before = 1000;
	take(trail, &made, 0, 0, 2 * MS);
	assert_int_equal(trail->steps, 2);
	assert_int_equal(trail->columns[1].first_step, 1000);
	assert_int_equal(trail->walks[1].number, 1000);
	drop(&made);
	trail_destroy(trail);
}

static void test_packed_bytes_are_base64(void **state)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	struct json_writer writer;

	(void)state;
	json_writer_init(&writer, out, 0);
	assert_int_equal(packed_json(&writer, NULL, "abc", 3), 0);
	fclose(out);
	/* zlib.compress(b"abc", 6) */
	assert_string_equal(text, "\"eJxLTEoGAAJNASc=\"");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_are_right_to_an_eighth),
		cmocka_unit_test(test_each_step_has_a_column_while_they_are_few),
		cmocka_unit_test(test_of_many_steps_the_worst_stays),
		cmocka_unit_test(test_many_ranks_become_nodes),
		cmocka_unit_test(test_more_nodes_than_rows_share_them),
		cmocka_unit_test(test_a_step_passed_over_is_not_judged),
		cmocka_unit_test(test_rounds_are_one_step),
		cmocka_unit_test(test_steps_before_are_counted),
		cmocka_unit_test(test_packed_bytes_are_base64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
