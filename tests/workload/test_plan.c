/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's reader, and what the schedules promise about their true steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/workload/plan.h"
#include "tests/workload/schedule.h"

static void plan_reads_a_line(void **state)
{
	struct fault_plan plan = {0};
	char why[128] = "";

	(void)state;
	assert_int_equal(fault_plan_parse_line(&plan,
				 "rank=2 kind=throttle first=120 last=480 size=40 # comment", why,
				 sizeof(why)),
		0);
	assert_int_equal(fault_plan_parse_line(&plan, "# only a comment\n", why, sizeof(why)), 0);
	assert_int_equal(plan.fault_count, 1);
	assert_int_equal(plan.faults[0].rank, 2);
	assert_int_equal(plan.faults[0].kind, FAULT_THROTTLE);
	assert_int_equal(plan.faults[0].first_step, 120);
	assert_int_equal(plan.faults[0].last_step, 480);
	assert_true(plan.faults[0].size_percent == 40);
	assert_true(plan.faults[0].period_ms == 100);
}

static void plan_refuses_nonsense(void **state)
{
	static const char *const lines[] = {"rank=2", "kind=throttle", "kind=warp size=3",
		"rank=-1 kind=minor size=3", "kind=minor size=3 first=9 last=8",
		"kind=minor size=3 colour=7", "kind=minor size=3x", "kind=minor size=nan",
		"kind=throttle size=3 period_ms=0", "rank kind=minor size=3"};
	struct fault_plan plan = {0};
	char line[400];
	char why[128];

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		why[0] = '\0';
		assert_true(fault_plan_parse_line(&plan, lines[i], why, sizeof(why)) < 0);
		assert_true(why[0] != '\0');
	}
	memset(line, ' ', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	assert_true(fault_plan_parse_line(&plan, line, why, sizeof(why)) < 0);
	assert_int_equal(plan.fault_count, 0);
}

static void plan_is_bounded(void **state)
{
	struct fault_plan plan = {0};
	char why[128];

	(void)state;
	for (int i = 0; i < FAULT_PLAN_CAPACITY; i++)
		assert_int_equal(
			fault_plan_parse_line(&plan, "kind=minor size=3", why, sizeof(why)), 0);
	assert_true(fault_plan_parse_line(&plan, "kind=minor size=3", why, sizeof(why)) < 0);
	assert_int_equal(plan.fault_count, FAULT_PLAN_CAPACITY);
}

static void schedules_hand_out_all_steps(void **state)
{
	struct schedule_item *items = calloc(SCHEDULE_ITEMS_MAX, sizeof(*items));

	(void)state;
	assert_non_null(items);
	for (int kind = 0; kind < SCHEDULE_KIND_NR; kind++) {
		struct schedule_options options = {.kind = (enum schedule_kind)kind,
			.step_count = 300,
			.collectives = 6,
			.length_bytes = 65536,
			.seed = 7};
		size_t buffer_bytes = schedule_buffer_bytes(&options, 16);
		uint64_t trained = 0;
		uint64_t others = 0;
		struct schedule schedule;
		enum pass_kind pass;
		size_t count;
		uint64_t step;

		schedule_init(&schedule, &options);
		while ((pass = schedule_next(&schedule, items, &count, &step)) != PASS_END) {
			double share = 0;

			assert_int_equal(step, trained);
			assert_true(count > 0);
			for (size_t i = 0; i < count; i++) {
				share += items[i].share;
				assert_true(items[i].element_count * 4 <= buffer_bytes);
			}
			if (pass == PASS_TRAIN) {
				trained++;
				assert_true(share > 0.99 && share < 1.01);
			} else {
				others++;
			}
		}
		assert_int_equal(trained, 300);
		assert_int_equal(others, schedule.other_count);
		assert_int_equal(others > 0, kind == SCHEDULE_EVAL || kind == SCHEDULE_IRREGULAR);
	}
	free(items);
}

static void schedule_holds_many_collectives(void **state)
{
	struct schedule_options options = {
		.step_count = 2, .collectives = 1500, .length_bytes = 1 << 20};
	struct schedule_item *items = calloc(SCHEDULE_ITEMS_MAX, sizeof(*items));
	struct schedule schedule;
	size_t count;
	uint64_t step;

	(void)state;
	assert_non_null(items);
	schedule_init(&schedule, &options);
	assert_int_equal(schedule_next(&schedule, items, &count, &step), PASS_TRAIN);
	assert_int_equal(count, 1500);
	free(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plan_reads_a_line),
		cmocka_unit_test(plan_refuses_nonsense),
		cmocka_unit_test(plan_is_bounded),
		cmocka_unit_test(schedules_hand_out_all_steps),
		cmocka_unit_test(schedule_holds_many_collectives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
