/* SPDX-License-Identifier: Apache-2.0 */
/* For which coordinator the end is held: one that runs, of whom it was asked and not refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/end_hold.h"

static pid_t coordinator;

static int start(void **state)
{
	(void)state;
	coordinator = fork();
	while (coordinator == 0)
		(void)!poll(NULL, 0, 1);
	return coordinator < 0;
}

static int end(void **state)
{
	(void)state;
	kill(coordinator, SIGKILL);
	return waitpid(coordinator, NULL, 0) != coordinator;
}

static void test_one_that_runs_until_it_stands_still(void **state)
{
	struct end_hold *hold = end_hold_create();
	int64_t seen_ns = 0;
	int status;

	(void)state;
	assert_non_null(hold);
	assert_false(end_hold_goes_on(hold, &seen_ns, 1000));
	assert_true(end_hold_ask(hold, coordinator));
	for (int until_ms = 1; until_ms <= 3; until_ms++) {
		(void)!poll(NULL, 0, 100);
		assert_true(end_hold_goes_on(hold, &seen_ns, until_ms));
		assert_int_equal(end_hold_until_ms(hold), until_ms);
	}
	kill(coordinator, SIGSTOP);
	assert_int_equal(waitpid(coordinator, &status, WUNTRACED), coordinator);
	(void)end_hold_goes_on(hold, &seen_ns, 4); /* it ran until then */
	assert_false(end_hold_goes_on(hold, &seen_ns, 1000));
	assert_int_not_equal(end_hold_until_ms(hold), 1000);
}

static void test_one_that_has_ended(void **state)
{
	struct end_hold *hold = end_hold_create();
	int64_t seen_ns = 0;

	(void)state;
	assert_true(end_hold_ask(hold, coordinator));
	assert_int_equal(end(NULL), 0);
	assert_false(end_hold_goes_on(hold, &seen_ns, 1000));
	assert_int_equal(start(NULL), 0); /* for the end of the test */
}

static void test_a_refusal_stays(void **state)
{
	struct end_hold *asked = end_hold_create(), *refused = end_hold_create();
	int64_t seen_ns = 0;

	(void)state;
	assert_true(end_hold_ask(asked, coordinator));
	end_hold_refuse(asked);
	assert_false(end_hold_goes_on(asked, &seen_ns, 1000));
	end_hold_refuse(refused);
	assert_false(end_hold_ask(refused, coordinator));
	assert_false(end_hold_goes_on(refused, &seen_ns, 1000));
}

static void test_without_one_nothing_is_held(void **state)
{
	int64_t seen_ns = 0;

	(void)state;
	assert_false(end_hold_ask(NULL, coordinator));
	end_hold_refuse(NULL);
	assert_false(end_hold_goes_on(NULL, &seen_ns, 1000));
	assert_int_equal(end_hold_until_ms(NULL), 0);
	assert_false(end_hold_ask(end_hold_create(), 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_one_that_runs_until_it_stands_still, start, end),
		cmocka_unit_test_setup_teardown(test_one_that_has_ended, start, end),
		cmocka_unit_test_setup_teardown(test_a_refusal_stays, start, end),
		cmocka_unit_test_setup_teardown(test_without_one_nothing_is_held, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
