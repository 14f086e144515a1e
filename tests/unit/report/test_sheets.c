/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the judge's sheets are kept, on signals made by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/report/sheets_internal.h"

static const struct sheets_wish all = {.all = true};

static void a_gate_decides_and_notes_the_nearest_way(void **state)
{
	struct gate_sheet sheet = {0};

	(void)state;
	assert_true(gate_passed(NULL, GATE_LEVEL, 2, 2));
	assert_false(gate_passed(NULL, GATE_LEVEL, 1.9, 2));
	assert_false(gate_passed(NULL, GATE_LEVEL, NAN, 2));
	assert_false(gate_passed(&sheet, GATE_HITS, 6, 14));
	assert_false(gate_passed(&sheet, GATE_HITS, 12, 16));
	assert_false(gate_passed(&sheet, GATE_HITS, 1, 14));
	assert_true(sheet.gates[GATE_HITS].asked && !sheet.gates[GATE_HITS].passed);
	assert_true(fabs(sheet.gates[GATE_HITS].value - 12) < 1e-9);
	assert_int_equal(gate_sheet_reach(&sheet), GATE_HITS);
	assert_true(fabs(gate_sheet_nearness(&sheet) - 0.75) < 1e-9);
	/* One way through is enough. */
	assert_true(gate_passed(&sheet, GATE_HITS, 16, 16));
	assert_false(gate_passed(&sheet, GATE_HITS, 2, 16));
	assert_int_equal(gate_sheet_reach(&sheet), GATE_NR);
	assert_true(gate_passed_in(&sheet, GATE_DELAY, 3e6, 5e4, 1e6));
	assert_true(fabs(sheet.gates[GATE_DELAY].limit - 0.05) < 1e-9);
	assert_false(gate_passed(&sheet, GATE_EVIDENCE, 50, INFINITY));
	assert_true(fabs(gate_sheet_nearness(&sheet)) < 1e-9);
}

static void every_gate_has_a_name_and_a_sentence(void **state)
{
	(void)state;
	for (enum gate gate = 0; gate < GATE_NR; gate++) {
		assert_true(strlen(gate_rule(gate)->name) > 0);
		assert_true(strlen(gate_rule(gate)->why) > 0);
		assert_string_not_equal(gate_unit_name(gate_rule(gate)->unit), "unknown");
	}
}

static void what_is_asked_for_is_read(void **state)
{
	static const char *const bad[] = {
		"", "a", "all:3", "3:", ":3", "-1", "3:4x", "99999999999", "transfer", "3 "};
	struct sheets_wish wish;

	(void)state;
	assert_true(report_sheets_parse("all", &wish) && wish.all);
	assert_true(report_sheets_parse("12", &wish));
	assert_true(!wish.all && wish.rank == 12 && !wish.at_step);
	assert_true(report_sheets_parse("0:480", &wish));
	assert_true(wish.rank == 0 && wish.at_step && wish.step == 480);
	assert_true(report_sheets_parse("transfers:7", &wish));
	assert_true(wish.rank == GATE_OF_TRANSFERS && wish.step == 7);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(report_sheets_parse(bad[i], &wish));
}

/* Block of ten steps; its change reached so much of 6. */
static void take(struct report_sheets *sheets, uint32_t rank, uint64_t block, double change)
{
	struct gate_sheet sheet = {.rank = rank,
		.first_step = block * 10,
		.last_step = block * 10 + 9,
		.level = (double)block / 100};

	(void)gate_is(&sheet, GATE_PRESENT, true);
	if (gate_passed(&sheet, GATE_CHANGE, change, 6))
		(void)gate_passed(&sheet, GATE_LASTS, 2, 3);
	report_sheets_take(sheets, &sheet, NULL);
}

static void the_block_that_came_furthest_is_kept(void **state)
{
	struct report_sheets *sheets = report_sheets_create(&all);
	const struct kept_sheet *kept;
	size_t next = 0;

	(void)state;
	for (uint64_t block = 0; block < 40; block++)
		take(sheets, 5, block, block == 20 ? 7 : block == 30 ? 5.9 : 1);
	kept = report_sheets_next(sheets, &next);
	assert_int_equal(kept->sheet.first_step, 200);
	assert_int_equal(gate_sheet_reach(&kept->sheet), GATE_LASTS);
	/* With what was before and after. */
	assert_int_equal(kept->signal_count, SHEET_SIGNAL);
	assert_int_equal(kept->at, SHEET_BEFORE - 1);
	for (unsigned i = 0; i < SHEET_SIGNAL; i++)
		assert_true(fabs((double)kept->signal[i] - (13 + i) / 100.0) < 1e-6);
	assert_null(report_sheets_next(sheets, &next));
	assert_non_null(report_sheets_of(sheets, 5));
	assert_null(report_sheets_of(sheets, 4));
	report_sheets_destroy(sheets);
}

static void the_block_of_a_step_is_kept(void **state)
{
	struct sheets_wish wish;
	struct report_sheets *sheets;
	const struct gate_sheet *sheet;

	(void)state;
	assert_true(report_sheets_parse("5:123", &wish));
	sheets = report_sheets_create(&wish);
	for (uint64_t block = 0; block < 40; block++) {
		take(sheets, 4, block, 7);
		take(sheets, 5, block, block == 20 ? 7 : 1);
		take(sheets, 5, block, 2); /* another look at the same block, which came further */
	}
	sheet = report_sheets_of(sheets, 5);
	assert_int_equal(sheet->first_step, 120);
	assert_true(fabs(sheet->gates[GATE_CHANGE].value - 2) < 1e-9);
	assert_null(report_sheets_of(sheets, 4));
	assert_int_equal(sheets->kept[0]->signal_count, SHEET_SIGNAL);
	report_sheets_destroy(sheets);
}

/* Who is named is kept as it was at the alert. */
static void an_alert_is_kept(void **state)
{
	struct report_sheets *sheets = report_sheets_create(&all);

	(void)state;
	for (uint64_t block = 0; block < 9; block++) {
		struct gate_sheet sheet = {.rank = 1, .first_step = block, .last_step = block};

		(void)gate_is(&sheet, GATE_FREE, block < 4);
		(void)gate_is(&sheet, GATE_ROOM, block >= 3);
		sheet.verdict = block >= 3 ? 2 : 0;
		report_sheets_take(sheets, &sheet, NULL);
	}
	assert_int_equal(report_sheets_of(sheets, 1)->first_step, 3);
	report_sheets_destroy(sheets);
}

static void of_too_many_ranks_those_are_kept_that_came_furthest(void **state)
{
	struct report_sheets *sheets = report_sheets_create(&all);
	const struct kept_sheet *kept;
	uint32_t before = 0;
	size_t count = 0;

	(void)state;
	take(sheets, GATE_OF_TRANSFERS, 0, 5);
	for (uint32_t rank = 0; rank < 3 * SHEETS_MAX; rank++)
		take(sheets, rank, 0, rank % 3 == 1 ? 4 : 3);
	for (size_t next = 0; (kept = report_sheets_next(sheets, &next)); count++) {
		assert_true(count == 0 || kept->sheet.rank > before); /* transfers last */
		before = kept->sheet.rank;
		assert_true(count + 1 >= SHEETS_MAX || kept->sheet.rank % 3 == 1);
	}
	assert_int_equal(count, SHEETS_MAX);
	assert_int_equal(before, GATE_OF_TRANSFERS);
	assert_int_equal(sheets->seen, 3 * SHEETS_MAX + 1);
	report_sheets_destroy(sheets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gate_decides_and_notes_the_nearest_way),
		cmocka_unit_test(every_gate_has_a_name_and_a_sentence),
		cmocka_unit_test(what_is_asked_for_is_read),
		cmocka_unit_test(the_block_that_came_furthest_is_kept),
		cmocka_unit_test(the_block_of_a_step_is_kept),
		cmocka_unit_test(an_alert_is_kept),
		cmocka_unit_test(of_too_many_ranks_those_are_kept_that_came_furthest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
