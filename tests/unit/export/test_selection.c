/* SPDX-License-Identifier: Apache-2.0 */
/* Which words are steps, times and lists of ranks, and what they select. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coordinator/export/selection.h"

#define SECOND_NS INT64_C(1000000000)

static void steps_and_times(void **state)
{
	/* 2026-11-23 10:42:00 UTC */
	static const int64_t then_ns = INT64_C(1795430520) * SECOND_NS;
	static const char *const times[] = {"2026-11-23T10:42:00Z", "2026-11-23T10:42:00",
		"2026-11-23 10:42:00 UTC", "2026-11-23T10:42", "2026-11-23 10:42Z"};
	static const char *const wrong[] = {"", "-1", "1.5", "12x", "99999999999999999999",
		"yesterday", "2026-13-23T10:42:00Z", "2026-11-23T10:42:00+01:00",
		"1969-01-01T00:00:00Z", "9999-01-01T00:00:00Z"};
	struct export_bound bound;

	(void)state;
	assert_true(export_bound_parse("120", &bound));
	assert_true(bound.set && !bound.is_time && bound.step == 120);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		assert_true(export_bound_parse(times[i], &bound));
		assert_true(bound.set && bound.is_time && bound.unix_ns == then_ns);
	}
	assert_true(export_bound_parse("2026-11-23T10:42:00.0250000001Z", &bound));
	assert_true(bound.unix_ns == then_ns + 25000000);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(export_bound_parse(wrong[i], &bound));
}

static void lists_of_ranks(void **state)
{
	static const char *const wrong[] = {
		"", ",", "1,", "-3", "3-1", "a", "1-", "1 2", "131072", "1,,2"};
	struct export_selection selection = {0};

	(void)state;
	assert_true(export_selects_rank(&selection, 7));
	assert_true(export_selects_all(&selection));
	assert_true(export_ranks_parse("0-2,7,131071", &selection));
	assert_false(export_selects_all(&selection));
	assert_true(export_selects_rank(&selection, 0) && export_selects_rank(&selection, 2));
	assert_true(export_selects_rank(&selection, 7) && export_selects_rank(&selection, 131071));
	assert_false(export_selects_rank(&selection, 3) || export_selects_rank(&selection, 8));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(export_ranks_parse(wrong[i], &selection));
}

static void ends_are_included(void **state)
{
	struct export_selection steps = {
		.from = {.set = true, .step = 3}, .until = {.set = true, .step = 5}};
	struct export_selection times = {.from = {.set = true, .is_time = true, .unix_ns = 300},
		.until = {.set = true, .is_time = true, .unix_ns = 500}};

	(void)state;
	for (uint64_t number = 0; number < 8; number++) {
		int64_t start_ns = (int64_t)number * 100;

		assert_int_equal(
			export_selects_span(&steps, number, number, start_ns, start_ns + 99),
			number >= 3 && number <= 5);
		assert_int_equal(
			export_selects_span(&times, number, number, start_ns, start_ns + 99),
			number >= 3 && number <= 5);
	}
	assert_true(export_selects_span(&times, 0, 0, 0, 1000)); /* some of it lies between */
	assert_true(export_selects_span(&steps, 0, 9, 0, 1000));
	assert_false(export_selects_span(&steps, 0, 2, 0, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_and_times),
		cmocka_unit_test(lists_of_ranks),
		cmocka_unit_test(ends_are_included),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
