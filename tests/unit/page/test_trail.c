/* SPDX-License-Identifier: Apache-2.0 */
/* What the page keeps of a job's course: the worst of what becomes one is never lost, and memory has a bound. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "analysis/attribute/blame.h"
#include "coordinator/page/packed.h"
#include "coordinator/page/parts.h"
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
	uint32_t *row_controls;
	struct judge *judge;
	struct step_grid grid;
	struct blame blame;
	struct judged_step step;
};

static void make(struct made *made, uint32_t rank_count)
{
	*made = (struct made){.rows = calloc(rank_count, sizeof(*made->rows)),
		.blame_rows = calloc(rank_count, sizeof(*made->blame_rows)),
		.row_controls = calloc(rank_count, sizeof(*made->row_controls))};
	assert_int_equal(judge_create(&(struct judge_options){0}, &made->judge), 0);
	assert_non_null(made->row_controls);
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
	made->blame.row_controls = made->row_controls; /* all are peers */
	made->step = (struct judged_step){
		.grid = &made->grid, .blame = &made->blame, .judge = made->judge};
}

static void drop(struct made *made)
{
	judge_destroy(made->judge);
	free(made->row_controls);
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
	copy = trail_news(trail, 0, (bool[TRACKS_MAX]){true});
	assert_non_null(copy);
	assert_int_equal(copy->tracks.count, 1);
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

/* Whoever has an earlier copy is brought up to date by what is new, and has then what a whole copy has. */
static void test_news_complete_a_copy(void **state)
{
	static const bool all[TRACKS_MAX] = {true, true, true, true};
	struct trail *trail, *copy, *news, *whole;
	struct made made;
	size_t rows, columns;

	(void)state;
	assert_int_equal(trail_create(&trail), 0);
	make(&made, 4);
	for (uint64_t s = 0; s < 10; s++)
		take(trail, &made, s, 1, (int64_t)s * MS);
	copy = trail_news(trail, 0, all);
	assert_non_null(copy);
	/* Another round of the newest step changes its column; more come. */
	take(trail, &made, 9, 3, 50 * MS);
	for (uint64_t s = 10; s < 25; s++)
		take(trail, &made, s, 2, (int64_t)s * MS);
	assert_int_equal(copy->heat.generation, trail->heat.generation);
	news = trail_news(trail, copy->column_count - 1, all);
	whole = trail_news(trail, 0, all);
	assert_non_null(news);
	assert_non_null(whole);
	trail_complete(news, copy);
	rows = trail->heat.row_capacity;
	columns = trail->column_count;
	assert_memory_equal(
		news->heat.cells, trail->heat.cells, columns * rows * sizeof(struct heat_cell));
	assert_memory_equal(
		news->heat.cells, whole->heat.cells, columns * rows * sizeof(struct heat_cell));
	assert_int_equal(heat_at(&news->heat, 3, 9)->own, heat_value(50 * MS));
	assert_int_equal(news->tracks.count, 4);
	/* Columns that become longer, and ranks that come, are another generation. */
	uint32_t generation = trail->heat.generation;
	for (uint64_t s = 25; s <= HEAT_COLUMNS_MAX; s++)
		take(trail, &made, s, 2, MS);
	assert_true(trail->heat.generation != generation);
	generation = trail->heat.generation;
	drop(&made);
	make(&made, 5);
	take(trail, &made, HEAT_COLUMNS_MAX + 1, 2, MS);
	assert_true(trail->heat.generation != generation);
	trail_destroy(whole);
	trail_destroy(news);
	drop(&made);
	trail_destroy(trail);
}

static void sample(
	struct made *made, uint32_t rank, unsigned metric, int64_t time_ms, int64_t value)
{
	const struct metric_sample sample = {
		.rank = rank, .metric = (uint16_t)metric, .time = {time_ms * MS}, .value = value};

	assert_int_equal(judge_sample(made->judge, &sample, (struct job_ns){time_ms * MS}), 0);
}

static size_t kind_of(const char *name)
{
	size_t kind = 0;

	while (kind < SAMPLED_NR && strcmp(sampled_kinds[kind].name, name) != 0)
		kind++;
	assert_in_range(kind, 0, SAMPLED_NR - 1);
	return kind;
}

/* What was sampled of a rank lies in its steps' columns, beside what its peers had; what was not sampled stays unknown. */
static void test_samples_lie_beside_the_control(void **state)
{
	enum { RANKS = 6, STEPS = 3 * HEAT_COLUMNS_MAX / 2 };
	size_t throttled = kind_of("throttled by its cgroup"), clock = kind_of("CPU clock"),
	       stalled = kind_of("stalled for memory");
	struct trail *trail;
	struct made made;

	(void)state;
	assert_int_equal(trail_create(&trail), 0);
	make(&made, RANKS);
	made.row_controls[5] = 1; /* does something else: its samples are nobody's control */
	for (uint64_t s = 0; s < STEPS; s++) {
		int64_t time_ms = (int64_t)(s + 1) * STEP_MS;

		for (uint32_t r = 0; r < RANKS && time_ms % 1000 == 0; r++) {
			/* From 5 s on rank 2 is throttled for 300 ms a second; clocks are at 2 and 3 GHz. */
			sample(&made, r, METRIC_CGROUP_THROTTLED_NS, time_ms,
				r == 2 && time_ms > 5000 ? 3 * (time_ms - 5000) * MS / 10
				: r == 5		 ? time_ms * MS
							 : 0);
			sample(&made, r, METRIC_CPU_CYCLES, time_ms,
				(r == 2 ? 2 : 3) * time_ms * MS);
			sample(&made, r, METRIC_CPU_COUNTED_NS, time_ms, time_ms * MS);
		}
		take(trail, &made, s, 2, 0);
	}
	assert_int_equal(trail->steps_in_column, 2);
	const struct track *track = tracks_find(&trail->tracks, 2);
	assert_non_null(track);
	size_t seen = 0;
	for (size_t column = 0; column < trail->column_count; column++) {
		const float *values = &track->sampled[column * 2 * SAMPLED_NR];
		int64_t begin_ms = (int64_t)column * 2 * STEP_MS;

		if (!track->times[column] || begin_ms < 2000)
			continue;
		seen++;
		assert_true(isnan(values[stalled]) && isnan(values[SAMPLED_NR + stalled]));
		assert_float_equal(values[clock], 2, 0.01);
		assert_float_equal(values[SAMPLED_NR + clock], 3, 0.01);
		assert_float_equal(values[SAMPLED_NR + throttled], 0, 0.01);
		if (begin_ms < 4800 || begin_ms > 7200)
			assert_float_equal(values[throttled], begin_ms < 5000 ? 0 : 300, 1);
	}
	assert_in_range(seen, (STEPS * STEP_MS - 2000) / 600, (STEPS * STEP_MS - 2000) / 400);
	drop(&made);
	trail_destroy(trail);
}

/* A part's bytes; the caller frees them. */
static uint8_t *part_bytes(
	const struct parts *parts, const char *name, size_t expected, bool *finished)
{
	uLongf length = expected;
	uint8_t *bytes = malloc(expected + 1);
	struct part part;

	assert_non_null(bytes);
	if (parts_make(parts, name, &part))
		fail_msg("no part %s", name);
	assert_int_equal(uncompress(bytes, &length, part.bytes, part.length), Z_OK);
	assert_int_equal(length, expected);
	*finished = part.finished;
	free(part.bytes);
	return bytes;
}

enum { MANY_RANKS = 3000, COLUMNS = 600, NAMED = 1234 };

/* A job with so many cells that values are coarse, but for the rank that an incident names. */
static void make_many(struct trail **trail, struct parts *parts, struct report_model *model)
{
	static struct verdict verdict = {.id = 1, .rank_count = 1, .ranks = {NAMED}};
	static struct report_rank ranks[MANY_RANKS];
	struct made made;

	for (uint32_t r = 0; r < MANY_RANKS; r++)
		ranks[r] = (struct report_rank){.totals.rank = r, .host = "node"};
	*model = (struct report_model){
		.verdicts = &verdict, .verdict_count = 1, .ranks = ranks, .rank_count = MANY_RANKS};
	assert_int_equal(trail_create(trail), 0);
	make(&made, MANY_RANKS);
	for (uint64_t s = 0; s < COLUMNS; s++) {
		for (uint32_t r = 0; r < MANY_RANKS; r++)
			made.blame_rows[r].charged_ns = (int64_t)(r * 7 + s * 13) % 1000 * 1000;
		take(*trail, &made, s, NAMED, 2345678);
	}
	drop(&made);
	parts_begin(parts, *trail, model, "run");
	assert_int_equal(parts_take_rows(parts, model), 0);
}

static uint8_t largest_of(
	const struct trail *trail, size_t first, size_t count, size_t column, bool *exact)
{
	uint8_t most = 0;

	for (size_t row = first; row < first + count && row < trail->heat.row_count; row++) {
		uint8_t own = heat_at(&trail->heat, row, column)->own;

		*exact = own > most ? row == NAMED : *exact;
		most = own > most ? own : most;
	}
	return most;
}

/* Each level has the largest of what it stands for, to half an octave; a rank that an incident names as it is. */
static void test_tiles_have_the_largest(void **state)
{
	struct report_model model;
	struct trail *trail;
	struct parts parts;
	bool finished;

	(void)state;
	make_many(&trail, &parts, &model);
	for (size_t level = 0; level <= PARTS_LEVEL_MAX; level++) {
		size_t fold = (size_t)1 << 2 * level, first = NAMED / fold / 2,
		       rows = MANY_RANKS / fold - first, wide = COLUMNS - 500;
		char name[80];
		uint8_t *bytes;

		rows = rows < PARTS_TILE ? rows : (size_t)PARTS_TILE;
		first = NAMED / fold > first + rows ? NAMED / fold - rows / 2 : first;
		snprintf(name, sizeof(name), "heat/%zu/%zu-%zu/500-599", level, first,
			first + rows - 1);
		bytes = part_bytes(&parts, name, rows * wide * 2, &finished);
		assert_false(finished);
		for (size_t y = 0; y < rows; y++) {
			for (size_t x = 0; x < wide; x++) {
				bool exact = false;
				uint8_t most = largest_of(
						trail, (first + y) * fold, fold, 500 + x, &exact),
					got = bytes[y * wide + x];

				if (exact)
					assert_int_equal(got, most);
				else if (most > 1)
					assert_true(got == 1 || (got <= most && most < got + 4));
			}
		}
		free(bytes);
	}
	free(part_bytes(&parts, "heat/3/0-46/0-255", (size_t)47 * 256 * 2, &finished));
	assert_true(finished);
	parts_fini(&parts);
	trail_destroy(trail);
}

static void test_other_parts(void **state)
{
	struct report_model model;
	struct trail *trail;
	struct parts parts;
	bool finished;
	float *track;

	(void)state;
	make_many(&trail, &parts, &model);
	track = (float *)part_bytes(&parts, "track/1234/10-19",
		(1 + TRACK_NR + 2 * SAMPLED_NR) * 10 * sizeof(float), &finished);
	assert_false(finished);
	assert_true(track[0] == 1);
	assert_true(
		track[(1 + TRACK_DELAY) * 10] > 2.3456F && track[(1 + TRACK_DELAY) * 10] < 2.3458F);
	free(track);
	assert_memory_equal(parts.rows.json, "[[1, \"node\"], [1], [1], ", 24);
	/* Another incident, another layout: its rank is exact from now on. */
	struct parts other;
	model.verdict_count = 0;
	parts_begin(&other, trail, &model, "run");
	assert_string_not_equal(other.layout, parts.layout);
	assert_false(other.shown[0]);
	parts_fini(&parts);
	trail_destroy(trail);
}

/* What strangers may ask for. */
static void test_names_of_no_part(void **state)
{
	static const char *const malformed[] = {"", "rows/", "row", "heat", "heat/", "heat/0",
		"heat/0/0-1", "heat/0/0-1/", "heat/0/0-1/0-1/", "heat/0/0-1/0-1 ", "heat/0/1-0/0-1",
		"heat/0/0-256/0-1", "heat/0/0-1/0-256", "heat/-1/0-1/0-1", "heat/0x1/0-1/0-1",
		"heat/0/+0-1/0-1", "heat/0/0-1/0-18446744073709551616",
		"heat/0/0-99999999999999999999/0-1", "columns/", "columns/5", "columns/5-4",
		"columns/0-1/2", "track/1234", "track/x/0-1", "track/1234/0-1x", "walk/", "walk/1x",
		"walk/-1", "../page.json", "heat/0/0-1/0-1\n"};
	static const char *const missing[] = {"heat/4/0-1/0-1", "heat/999999999999999999/0-1/0-1",
		"heat/0/2999-3000/0-1", "heat/3/0-47/0-1", "heat/0/0-1/599-600", "columns/0-600",
		"columns/600-600", "track/7/0-1", "track/4294968530/0-1", "track/1234/0-600",
		"walk/100000"};
	struct report_model model;
	struct trail *trail;
	struct parts parts;
	struct part part;

	(void)state;
	make_many(&trail, &parts, &model);
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		if (parts_make(&parts, malformed[i], &part) != -EINVAL)
			fail_msg("'%s' is a name", malformed[i]);
	}
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
		if (parts_make(&parts, missing[i], &part) != -ENOENT)
			fail_msg("there is a '%s'", missing[i]);
	}
	parts_fini(&parts);
	trail_destroy(trail);
}

static void test_packed_bytes_are_base64(void **state)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	struct json_writer writer;
	unsigned char *packed;
	size_t packed_length;

	(void)state;
	json_writer_init(&writer, out, 0);
	assert_int_equal(packed_make("abc", 3, &packed, &packed_length), 0);
	assert_int_equal(packed_json(&writer, NULL, packed, packed_length), 0);
	fclose(out);
	free(packed);
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
		cmocka_unit_test(test_news_complete_a_copy),
		cmocka_unit_test(test_samples_lie_beside_the_control),
		cmocka_unit_test(test_tiles_have_the_largest),
		cmocka_unit_test(test_other_parts),
		cmocka_unit_test(test_names_of_no_part),
		cmocka_unit_test(test_packed_bytes_are_base64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
