/* SPDX-License-Identifier: Apache-2.0 */
/* Windows stay within their share of the job's time, whatever they cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/sources/duty_cycle.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define SHARE 0.003

/* Cheap windows come as often as they may. */
static void cheap_windows(void **state)
{
	struct duty_cycle duty;

	(void)state;
	duty_cycle_init(&duty, SHARE, SECOND);
	assert_true(duty_cycle_is_due(&duty, (struct host_ns){0}));
	duty_cycle_close(&duty, (struct host_ns){5 * SECOND}, 300 * MS, 100, 50000);
	assert_false(duty_cycle_is_due(&duty, (struct host_ns){6 * SECOND - 1}));
	assert_true(duty_cycle_is_due(&duty, (struct host_ns){6 * SECOND}));
	assert_int_equal(duty.windows, 1);
	assert_int_equal(duty.hits, 100);
	assert_int_equal(duty.open_ns, 300 * MS);
}

/* Dear ones back off, and come back when the job calls less. Over time the share is kept. */
static void dear_windows(void **state)
{
	struct duty_cycle duty;
	int64_t now = 0;

	(void)state;
	duty_cycle_init(&duty, SHARE, SECOND);
	for (int i = 0; i < 200; i++) {
		int64_t cost_ns = (i % 7) * (i % 5) * MS;

		while (!duty_cycle_is_due(&duty, (struct host_ns){now}))
			now += 50 * MS;
		duty_cycle_close(&duty, (struct host_ns){now}, 400 * MS, 1, cost_ns);
		now += 400 * MS;
		if (now >= duty.next_ns)
			now = duty.next_ns;
		/* What the last one cost is paid for by the time until the next. */
		assert_true((double)duty.cost_ns <= SHARE * (double)duty.next_ns);
	}
	now = duty.next_ns;
	duty_cycle_close(&duty, (struct host_ns){now}, 400 * MS, 1, 3 * MS);
	assert_int_equal(duty.next_ns, now + SECOND);
	now = duty.next_ns;
	duty_cycle_close(&duty, (struct host_ns){now}, 400 * MS, 1, 30 * MS);
	assert_int_equal(duty.next_ns, now + 10 * SECOND);
}

/* One may come before its time. However often one is asked for, no more than that is unpaid. */
static void one_in_advance(void **state)
{
	struct duty_cycle duty;

	(void)state;
	duty_cycle_init(&duty, SHARE, SECOND);
	duty_cycle_close(&duty, (struct host_ns){5 * SECOND}, 300 * MS, 1, 12 * MS);
	assert_int_equal(duty.next_ns, 9 * SECOND);
	assert_true(duty_cycle_may_hurry(&duty, 1, (struct host_ns){6 * SECOND}));
	duty_cycle_close(&duty, (struct host_ns){6 * SECOND}, 300 * MS, 1, 12 * MS);
	assert_int_equal(duty.next_ns, 13 * SECOND);
	assert_false(duty_cycle_may_hurry(&duty, 1, (struct host_ns){9 * SECOND - 1}));
	assert_true(duty_cycle_may_hurry(&duty, 1, (struct host_ns){9 * SECOND}));
	for (int64_t now = 9 * SECOND; now < 100 * SECOND; now += 50 * MS) {
		if (!duty_cycle_may_hurry(&duty, 1, (struct host_ns){now}))
			continue;
		duty_cycle_close(&duty, (struct host_ns){now}, 300 * MS, 1, 12 * MS);
		assert_true(duty.cost_ns <= (now - 5 * SECOND) / 1000 * 3 + 2 * 12 * MS);
	}
}

/* No thread can lose more than the time in which it could be hit. */
static void at_most_the_window(void **state)
{
	struct duty_cycle duty;

	(void)state;
	duty_cycle_init(&duty, 0.01, SECOND);
	duty_cycle_close(&duty, (struct host_ns){0}, 20 * MS, 1000000, 12 * SECOND);
	assert_int_equal(duty.cost_ns, 20 * MS);
	assert_int_equal(duty.next_ns, 2 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cheap_windows),
		cmocka_unit_test(dear_windows),
		cmocka_unit_test(one_in_advance),
		cmocka_unit_test(at_most_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
