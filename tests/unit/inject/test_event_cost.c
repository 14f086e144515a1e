/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings that wait for room in a full queue cost what others do. */
#include "probe/inject/event_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

static void waits_cost_what_others_take(void **state)
{
	struct event_cost cost = {0};
	uint64_t spent_ns = 0;

	(void)state;
	assert_int_equal(
		event_cost_of(&cost, 900000, 2), 2 * EVENT_COST_NS_MAX); /* none is known */
	for (int i = 0; i < 10; i++)
		spent_ns += event_cost_of(&cost, 4000, 2);
	assert_int_equal(spent_ns, 40000);
	/* A queue that is full from here on. */
	for (int i = 0; i < 1000; i++)
		spent_ns += event_cost_of(&cost, 300000, 1);
	assert_int_equal(spent_ns, 40000 + 1000 * 2000);
	assert_int_equal(event_cost_of(&cost, -5, 1), 0); /* a clock that was set */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(waits_cost_what_others_take)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
