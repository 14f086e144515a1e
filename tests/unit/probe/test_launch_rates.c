/* SPDX-License-Identifier: Apache-2.0 */
/* What a process launches a second in its usual steps, from windows and steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/launch_rates.h"

enum { PID = 4711, MS = 1000000 };

static struct launch_rates *rates;
static int64_t now_ns;

static int set_up(void **unused)
{
	(void)unused;
	now_ns = INT64_C(7000000000000);
	rates = launch_rates_create();
	assert_non_null(rates);
	launch_rates_add(rates, PID);
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	launch_rates_destroy(rates);
	return 0;
}

static void step_with(uint32_t flags, int64_t length_ns)
{
	struct step_entry step = {.flags = flags, .start = {now_ns}};

	now_ns += length_ns;
	step.end.value = now_ns;
	launch_rates_step(rates, PID, &step);
}

static void run_steps(unsigned count, int64_t length_ns)
{
	for (unsigned i = 0; i < count; i++)
		step_with(0, length_ns);
}

/* A window over what lies length_ns back. */
static void count_back(uint64_t launches, int64_t length_ns)
{
	launch_rates_counted(rates, PID,
		&(struct launch_count){
			.launches = launches, .from = {now_ns - length_ns}, .until = {now_ns}});
}

static enum launch_rate get(uint32_t *a_second)
{
	return launch_rates_get(rates, PID, (struct host_ns){now_ns}, a_second);
}

static bool needs_count(void)
{
	return launch_rates_needs_count(rates, PID, (struct host_ns){now_ns});
}

static void below_and_above(void **unused)
{
	uint32_t a_second = 1;

	(void)unused;
	assert_int_equal(get(&a_second), LAUNCH_RATE_UNKNOWN);
	assert_int_equal(a_second, 1);
	assert_true(needs_count());
	run_steps(30, 20 * MS);
	count_back(4800, 200 * MS);
	assert_int_equal(get(&a_second), LAUNCH_RATE_UNKNOWN); /* until its last step is there */
	assert_false(needs_count());
	run_steps(1, 20 * MS);
	assert_int_equal(get(&a_second), LAUNCH_RATE_LOW);
	assert_int_equal(a_second, 24000);
	count_back(5200, 200 * MS);
	run_steps(1, 20 * MS);
	assert_int_equal(get(&a_second), LAUNCH_RATE_HIGH);
	assert_int_equal(a_second, 26000);
	now_ns += LAUNCH_RATE_HOLDS_NS;
	assert_int_equal(get(&a_second), LAUNCH_RATE_UNKNOWN);
	assert_true(needs_count());
	launch_rates_ended(rates, PID);
	assert_false(needs_count()); /* nothing is known of others */
}

/* While a straggler holds the job up it launches half as often; that will not stay so. */
static void the_rate_is_that_of_usual_steps(void **unused)
{
	uint32_t a_second;

	(void)unused;
	run_steps(100, 20 * MS);
	run_steps(50, 40 * MS);
	count_back(3000, 200 * MS); /* 600 a step */
	run_steps(1, 40 * MS);
	assert_int_equal(get(&a_second), LAUNCH_RATE_HIGH);
	assert_int_equal(a_second, 30000);
}

/* The process paused while it was counted. */
static void a_pause_in_the_window(void **unused)
{
	uint32_t a_second;

	(void)unused;
	run_steps(100, 20 * MS);
	run_steps(1, 170 * MS);
	run_steps(2, 20 * MS);
	count_back(
		1740, 200 * MS); /* 600 a step; of the first one, its last 160 ms hold nearly all */
	run_steps(1, 20 * MS);
	assert_int_equal(get(&a_second), LAUNCH_RATE_HIGH);
	assert_in_range(a_second, 28000, 32000);
}

/* Stretches without a period tell of no steps, nor do unusual ones of usual steps. */
static void without_steps_nothing_is_known(void **unused)
{
	uint32_t a_second;

	(void)unused;
	for (int i = 0; i < 20; i++)
		step_with(STEP_WINDOW, 100 * MS);
	count_back(100, 200 * MS);
	step_with(STEP_WINDOW, 100 * MS);
	step_with(STEP_IRREGULAR, 100 * MS);
	run_steps(1, 20 * MS); /* they cover none of the window */
	assert_int_equal(get(&a_second), LAUNCH_RATE_UNKNOWN);
	assert_true(needs_count());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(below_and_above, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_rate_is_that_of_usual_steps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_pause_in_the_window, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_steps_nothing_is_known, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
