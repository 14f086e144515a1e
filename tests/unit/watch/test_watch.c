/* SPDX-License-Identifier: Apache-2.0 */
/* What `slowrank watch` makes of a report: tables, what a reader wants of them, screens and lines. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "coordinator/watch/lines.h"
#include "coordinator/watch/screen.h"
#include "tests/golden/models.h"

enum { RANKS = 131072, RANKS_OF_NODE = 8, CULPRIT = 70001, NAME_LENGTH = 24 };

/* A job whose ranks are all alike but one, that others wait for. */
struct made {
	struct report_model model;
	struct report_rank *ranks;
	char (*hosts)[NAME_LENGTH];
	struct verdict verdict;
};

static const struct job_ns nowhen = {0};

static void make(struct made *made, uint32_t rank_count, uint64_t steps)
{
	*made = (struct made){.ranks = calloc(rank_count, sizeof(*made->ranks)),
		.hosts = calloc(rank_count / RANKS_OF_NODE + 1, NAME_LENGTH),
		.verdict = {.id = 1,
			.verdict_class = VERDICT_HOST_SLOW,
			.cause = CAUSE_CGROUP_THROTTLE,
			.rank_count = 1,
			.victim_count = 1,
			.slowdown = 1.2,
			.last_step = steps}};
	assert_true(made->ranks && made->hosts);
	made->verdict.ranks[0] = CULPRIT < rank_count ? CULPRIT : 1;
	made->verdict.victims[0] = made->verdict.ranks[0] + 1;
	for (uint32_t r = 0; r < rank_count; r++) {
		struct report_rank *rank = &made->ranks[r];
		char *host = made->hosts[r / RANKS_OF_NODE];

		snprintf(host, NAME_LENGTH, "node%05u", r / RANKS_OF_NODE);
		rank->host = host;
		rank->totals.rank = r;
		rank->totals.steps = steps;
		rank->totals.phase_ns[PHASE_COMPUTE] = (int64_t)steps * 80000000;
		rank->totals.phase_ns[PHASE_COMM_WAIT] = (int64_t)steps * 20000000;
		rank->totals.own_excess_ns = (int64_t)steps * (r % 1000);
	}
	made->ranks[made->verdict.ranks[0]].totals.own_excess_ns = (int64_t)steps * 20000000;
	made->ranks[made->verdict.ranks[0]].totals.phase_ns[PHASE_COMM_WAIT] = 0;
	made->model = (struct report_model){.job_id = "job-1",
		.rank_count = rank_count,
		.world_size = rank_count,
		.node_count = rank_count / RANKS_OF_NODE,
		.ranks = made->ranks,
		.verdicts = &made->verdict,
		.verdict_count = 1,
		.totals = {.steps = steps,
			.time_ns = 1e8 * (double)steps,
			.ideal_ns = 8e7 * (double)steps,
			.last_end = {(int64_t)steps * 100000000}}};
}

static void free_made(struct made *made)
{
	free(made->ranks);
	free(made->hosts);
}

static struct watch_view *view_of(const struct report_model *model, const struct watch_wish *wish)
{
	struct watch_view *view = calloc(1, sizeof(*view));
	struct watch_table *table;

	assert_non_null(view);
	assert_int_equal(watch_table_create(model, NULL, nowhen, &table), 0);
	assert_int_equal(watch_view_take(view, table, wish, 7), 0);
	watch_table_destroy(table);
	return view;
}

static struct screen *screen_of(const struct watch_view *view, const struct watch_wish *wish,
	size_t rows, size_t columns, bool by_node)
{
	struct screen *screen = calloc(1, sizeof(*screen));

	assert_non_null(screen);
	screen_draw(screen, rows, columns, view, wish,
		&(struct screen_state){.source = "here", .note = "", .by_node = by_node});
	assert_int_equal(screen->line_count, rows);
	return screen;
}

/* The line that has the text, or NULL. */
static const struct screen_line *find(const struct screen *screen, const char *text)
{
	for (size_t i = 0; i < screen->line_count; i++) {
		if (strstr(screen->lines[i].text, text))
			return &screen->lines[i];
	}
	return NULL;
}

static double cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void test_large_job_is_bounded(void **state)
{
	const struct watch_wish all = {0};
	double begun, tabled, taken, drawn;
	struct watch_table *table;
	struct watch_view *view = calloc(1, sizeof(*view));
	struct watch_lately lately = {{{0}, NULL, 0}, {{0}, NULL, 0}};
	struct screen *screen;
	struct made made;

	(void)state;
	assert_non_null(view);
	make(&made, RANKS, 100);
	begun = cpu_ms();
	assert_int_equal(watch_table_create(&made.model, &lately, nowhen, &table), 0);
	tabled = cpu_ms();
	assert_int_equal(watch_view_take(view, table, &all, 7), 0);
	taken = cpu_ms();
	screen = screen_of(view, &all, 50, 120, false);
	drawn = cpu_ms();
	print_message("131,072 ranks: a table %.1f ms, a view of it %.1f ms, a screen %.2f ms\n",
		tabled - begun, taken - tabled, drawn - taken);
	assert_int_equal(view->rank_total, RANKS);
	assert_int_equal(view->rank_count, WATCH_ROWS_MAX);
	assert_int_equal(view->ranks[0].rank.rank, CULPRIT);
	assert_int_equal(view->ranks[0].rank.part, WATCH_NAMED);
	assert_int_equal(view->ranks[1].rank.rank % 1000, 999); /* then the latest */
	assert_int_equal(view->node_total, RANKS / RANKS_OF_NODE);
	assert_int_equal(view->nodes[0].worst_rank, CULPRIT);
	assert_int_equal(view->nodes[0].rank_count, RANKS_OF_NODE);
	assert_string_equal(view->nodes[0].host, "node08750");
	assert_int_equal(find(screen, "*  70001 node08750 named")->style, SCREEN_BOLD_RED);
	assert_non_null(find(screen, "* node08750"));
	assert_non_null(find(screen, "rank 70001 on node08750 is host-slow: cgroup-throttle"));
	assert_non_null(find(screen, "raise or remove the CPU quota"));
	assert_non_null(find(screen, "more, not as late"));
	free(screen);
	free(view);
	watch_table_destroy(table);
	watch_lately_fini(&lately);
	free_made(&made);
}

static void test_lately(void **state)
{
	const struct watch_wish all = {0};
	struct watch_lately lately = {{{0}, NULL, 0}, {{0}, NULL, 0}};
	struct watch_view *view = calloc(1, sizeof(*view));
	struct watch_table *table;
	struct made made;

	(void)state;
	assert_non_null(view);
	for (uint64_t steps = 100; steps <= 400; steps += 100) { /* 10 s each */
		make(&made, 8, steps);
		if (steps > 200) /* as fast as the others, since */
			made.ranks[1].totals.own_excess_ns = 200 * INT64_C(20000000);
		assert_int_equal(watch_table_create(&made.model, &lately, nowhen, &table), 0);
		assert_int_equal(watch_view_take(view, table, &all, steps), 0);
		watch_table_destroy(table);
		free_made(&made);
	}
	assert_int_equal(view->job.steps, 400);
	assert_int_equal(view->job.lately_steps, 100);
	assert_int_equal(view->ranks[1].rank.steps, 100);
	assert_float_equal(view->ranks[1].rank.own_ms, 0, 1e-6);
	assert_float_equal(view->ranks[2].rank.phase_ms[PHASE_COMPUTE], 80, 1e-3);
	assert_float_equal(view->job.step_ms, 100, 1e-6);
	watch_lately_fini(&lately);
	free(view);
}

static void test_wishes(void **state)
{
	struct watch_wish wish = {0};
	struct watch_view *view;
	struct screen *screen;
	struct made made;

	(void)state;
	make(&made, 64, 100);
	assert_false(watch_wish_set(&wish, "0-", NULL));
	assert_false(watch_wish_set(&wish, "rank 3", NULL));
	assert_int_equal(wish.selection.range_count, 0);
	assert_true(watch_wish_set(&wish, "8-15,40", NULL));
	view = view_of(&made.model, &wish);
	assert_int_equal(view->rank_total, 9);
	assert_int_equal(view->incident_total, 0);
	assert_int_equal(view->incidents_elsewhere, 1);
	assert_int_equal(view->node_total, 2);
	screen = screen_of(view, &wish, 30, 100, false);
	assert_non_null(find(screen, "only ranks 8-15,40"));
	assert_non_null(
		find(screen, "1 incident of other ranks")); /* never hidden without a word */
	free(screen);
	free(view);
	assert_true(watch_wish_set(&wish, "", "node0000[01]"));
	view = view_of(&made.model, &wish);
	assert_int_equal(view->rank_total, 16);
	assert_int_equal(view->incident_total, 1);
	free(view);
	wish.named = true;
	view = view_of(&made.model, &wish);
	assert_int_equal(view->rank_total, 1);
	assert_int_equal(view->ranks[0].rank.rank, 1);
	free(view);
	free_made(&made);
}

static void test_layout(void **state)
{
	const struct watch_wish all = {0};
	struct watch_view *view;
	struct screen *screen;
	struct made made;

	(void)state;
	make(&made, 16, 100);
	view = view_of(&made.model, &all);
	for (size_t rows = 1; rows <= 60; rows++) {
		for (size_t columns = 1; columns <= 200; columns += 13) {
			screen = screen_of(view, &all, rows, columns, columns % 2);
			for (size_t i = 0; i < rows; i++) /* all of it is ASCII here, but "…" */
				assert_true(strlen(screen->lines[i].text) <= columns + 2);
			free(screen);
		}
	}
	screen = screen_of(view, &all, 30, 60, false);
	assert_non_null(find(screen, "1   rank 1 on node00000 is host-slow: cgroup-throttle;"));
	assert_int_equal(find(screen, "node00000 named")->style, SCREEN_BOLD_RED);
	assert_int_equal(find(screen, "      2 node00000 waits")->style, SCREEN_BLUE);
	assert_non_null(find(screen, "     15 node00001 waits"));
	free(screen);
	screen = screen_of(view, &all, 12, 100, false); /* incidents keep their half */
	assert_non_null(find(screen, "rank 1 on node00000 is host-slow"));
	assert_non_null(find(screen, "raise or remove"));
	assert_non_null(find(screen, "more"));
	free(screen);
	free(view);
	free_made(&made);
}

static char *update(const struct screen *before, const struct screen *now, bool colour)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_int_equal(screen_update(before, now, colour, out), 0);
	fclose(out);
	return text;
}

static void test_only_what_differs_is_written(void **state)
{
	const struct watch_wish all = {0};
	struct watch_view *view;
	struct screen *before, *now;
	struct made made;
	char *text;

	(void)state;
	make(&made, 16, 100);
	view = view_of(&made.model, &all);
	before = screen_of(view, &all, 30, 100, false);
	text = update(NULL, before, true);
	print_message("a whole screen: %zu bytes\n", strlen(text));
	assert_non_null(strstr(text, "\033[1;31m"));
	free(text);
	text = update(NULL, before, false); /* NO_COLOR */
	assert_null(strstr(text, "m*"));
	assert_null(strstr(text, "\033[1;31m"));
	free(text);
	text = update(before, before, true);
	assert_string_equal(text, "");
	free(text);
	view->ranks[5].rank.own_ms = 1.25F;
	now = screen_of(view, &all, 30, 100, false);
	text = update(before, now, true);
	assert_int_equal(strlen(text) < 150, 1);
	assert_non_null(strstr(text, "1.25"));
	free(text);
	free(before);
	free(now);
	free(view);
	free_made(&made);
}

/* Nothing but what is printed as it is, whatever ranks, hosts and jobs are called. */
static void assert_printable(const char *text)
{
	for (; *text; text++)
		assert_true((unsigned char)*text >= ' ' && *text != 0x7f);
}

/* All models: what is drawn and told is printable, and survives the way through a coordinator's answer. */
static void test_text_of_others(void **state)
{
	const struct watch_wish all = {0};
	struct watch_lines *lines;
	size_t length;

	(void)state;
	for (size_t i = 0; i < golden_case_count; i++) {
		struct golden_model *golden = calloc(1, sizeof(*golden));
		struct watch_view *view, *read = calloc(1, sizeof(*read));
		struct screen *screen;
		char *text = NULL, *told = NULL;
		FILE *out = open_memstream(&text, &length);

		assert_true(golden && read && out);
		golden_cases[i].make(golden);
		view = view_of(&golden->model, &all);
		watch_view_write(view, out);
		fclose(out);
		assert_int_equal(watch_view_read(read, text), 0);
		assert_int_equal(read->version, 7);
		assert_int_equal(read->incident_count, view->incident_count);
		assert_int_equal(read->rank_count, view->rank_count);
		assert_int_equal(read->node_count, view->node_count);
		assert_string_equal(read->job.id, view->job.id);
		for (size_t k = 0; k < read->incident_count; k++) {
			assert_string_equal(
				read->incidents[k].sentence, view->incidents[k].sentence);
			assert_int_equal(
				read->incidents[k].rank_count, view->incidents[k].rank_count);
		}
		screen = screen_of(read, &all, 40, 120, false);
		for (size_t k = 0; k < screen->line_count; k++)
			assert_printable(screen->lines[k].text);
		lines = calloc(1, sizeof(*lines));
		assert_non_null(lines);
		out = open_memstream(&told, &length);
		assert_non_null(out);
		watch_lines_write(lines, read, true, out);
		fclose(out);
		for (char *line = strtok(told, "\n"); line; line = strtok(NULL, "\n"))
			assert_printable(line);
		free(told);
		free(text);
		free(lines);
		free(screen);
		free(read);
		free(view);
		golden_model_fini(golden);
		free(golden);
	}
}

static void test_text_that_is_none(void **state)
{
	static const char *const texts[] = {
		"", "<html>", "slowrank.watch/2\t1\n", "slowrank.watch/1"};
	struct watch_view *view = calloc(1, sizeof(*view));
	char text[512];

	(void)state;
	assert_non_null(view);
	for (size_t i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "%s", texts[i]);
		assert_int_equal(watch_view_read(view, text), -EPROTO);
	}
	snprintf(text, sizeof(text),
		"slowrank.watch/"
		"1\t3\njob\nrank\nother\t1\nnode\tx\ntotals\t-1\nincident\t5\t0\t1\t9\t9"
		"\t0\t1,2,x\tevil "
		"\033[2J\xff\tdo\nrank\t4294967299999\th\033\t200\t1\tnan\t1e999\n");
	assert_int_equal(watch_view_read(view, text), 0);
	assert_int_equal(view->version, 3);
	assert_int_equal(view->incident_count, 1);
	assert_string_equal(view->incidents[0].sentence, "evil ?[2J?");
	assert_int_equal(view->rank_count, 2);
	assert_string_equal(view->ranks[1].host, "h?");
	assert_float_equal(view->ranks[1].rank.own_ms, 0, 0);
	free(view);
}

static char *tell(struct watch_lines *lines, const struct watch_view *view, bool ended)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	watch_lines_write(lines, view, ended, out);
	fclose(out);
	return text;
}

static void test_lines(void **state)
{
	const struct watch_wish all = {0};
	struct watch_lines *lines = calloc(1, sizeof(*lines));
	struct watch_view *view;
	struct made made;
	char *text;

	(void)state;
	assert_non_null(lines);
	make(&made, 16, 100);
	view = view_of(&made.model, &all);
	lines->every_ns = INT64_C(10000000000);
	view->job.newest_unix_ns = INT64_C(1795000000000000000);
	text = tell(lines, view, false);
	assert_non_null(strstr(text, "incident 1 begins: rank 1 on node00000 is host-slow"));
	assert_non_null(strstr(text, "; what to do: raise or remove"));
	assert_non_null(
		strstr(text, "16 ranks on 2 nodes, step 100, 100.0 ms a step, 1.25x slower"));
	free(text);
	view->job.newest_unix_ns += INT64_C(1000000000);
	text = tell(lines, view, false); /* nothing new, and no time for a line about the job */
	assert_string_equal(text, "");
	free(text);
	view->incidents[0].cause = CAUSE_CPU_CONTENTION;
	text = tell(lines, view, false);
	assert_non_null(strstr(text, "incident 1 changes: "));
	free(text);
	view->incidents[0].ended = 1;
	text = tell(lines, view, false);
	assert_non_null(strstr(text, "incident 1 ended: "));
	free(text);
	view->incidents[0].id = 2; /* began and ended between two views */
	text = tell(lines, view, true);
	assert_non_null(strstr(text, "incident 2 begins: "));
	assert_non_null(strstr(text, "incident 2 ended: "));
	assert_non_null(strstr(text, "; ended\n"));
	free(text);
	free(view);
	free(lines);
	free_made(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_job_is_bounded),
		cmocka_unit_test(test_lately),
		cmocka_unit_test(test_wishes),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_only_what_differs_is_written),
		cmocka_unit_test(test_text_of_others),
		cmocka_unit_test(test_text_that_is_none),
		cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
