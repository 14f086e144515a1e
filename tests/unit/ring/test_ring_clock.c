/* SPDX-License-Identifier: Apache-2.0 */
/* The device's clock: the true offset lies within offset +- error, whatever comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "probe/ring/ring_clock.h"

#define SECOND INT64_C(1000000000)
#define OFFSET (-1700 * SECOND * 1000000 + 12345)

static void check(const struct ring_clock *clock, int64_t offset, int64_t error_max)
{
	int64_t gpu = 1000 * SECOND - offset;
	int64_t wrong =
		llabs(ring_clock_to_host(clock, (struct gpu_ns){gpu}).value - 1000 * SECOND);

	assert_true(wrong <= ring_clock_error_ns(clock));
	assert_true(ring_clock_error_ns(clock) <= error_max);
}

static void nothing_is_unknown(void **state)
{
	struct ring_clock clock = {0};

	(void)state;
	assert_int_equal(ring_clock_error_ns(&clock), CLOCK_ERROR_UNKNOWN_NS);
	assert_int_equal(ring_clock_to_host(&clock, (struct gpu_ns){5}).value, 0);
	ring_clock_bound(&clock, (struct host_ns){SECOND}, 5, INT64_MAX);
	assert_false(clock.valid);
	ring_clock_pair(&clock, (struct host_ns){SECOND}, (struct gpu_ns){INT64_MAX}, 1);
	assert_false(clock.valid);
}

static void a_pair_then_drift_then_bounds(void **state)
{
	struct ring_clock clock = {0};
	int64_t offset = OFFSET;

	(void)state;
	ring_clock_pair(
		&clock, (struct host_ns){SECOND}, (struct gpu_ns){SECOND - OFFSET + 900}, 2000);
	check(&clock, offset, 2000);
	/* An hour at 0.5 ppm; bounds of 8 us a second on either side. */
	for (int64_t i = 1; i <= 3600; i++) {
		offset = OFFSET + i * 500;
		ring_clock_bound(
			&clock, (struct host_ns){(i + 1) * SECOND}, offset - 8000, offset + 8000);
		check(&clock, offset, 16000);
	}
	assert_int_equal(clock.restarts, 0);
	/* A new measurement is narrower than what is left. */
	ring_clock_pair(&clock, (struct host_ns){3602 * SECOND},
		(struct gpu_ns){3602 * SECOND - offset}, 1500);
	check(&clock, offset, 1500);
}

static void bounds_alone_do(void **state)
{
	struct ring_clock clock = {0};

	(void)state;
	ring_clock_bound(&clock, (struct host_ns){SECOND}, OFFSET - 30000, OFFSET + 9000);
	check(&clock, OFFSET, 20000);
	ring_clock_bound(&clock, (struct host_ns){2 * SECOND}, OFFSET - 4000, INT64_MAX);
	check(&clock, OFFSET, 8000);
}

static void a_wrong_bound_is_outvoted_a_new_clock_is_not(void **state)
{
	struct ring_clock clock = {0};

	(void)state;
	ring_clock_pair(&clock, (struct host_ns){SECOND}, (struct gpu_ns){SECOND - OFFSET}, 2000);
	ring_clock_bound(&clock, (struct host_ns){2 * SECOND}, OFFSET + SECOND, INT64_MAX);
	check(&clock, OFFSET, 4000);
	for (int64_t i = 3; i < 10; i++)
		ring_clock_bound(&clock, (struct host_ns){i * SECOND}, OFFSET + SECOND - 5000,
			OFFSET + SECOND + 5000);
	check(&clock, OFFSET + SECOND, 6000);
	assert_int_equal(clock.restarts, 0);
	assert_int_equal(clock.shifts, 1);
}

/* 20 us a second, and a busy device: starts are milliseconds behind their launch, so one side of
 * every bound says nothing. The other side leads the clock along. */
static void a_fast_drift_is_followed(void **state)
{
	struct ring_clock clock = {0};

	(void)state;
	ring_clock_pair(&clock, (struct host_ns){SECOND}, (struct gpu_ns){SECOND - OFFSET}, 2000);
	for (int64_t i = 2; i < 100; i++) {
		int64_t offset = OFFSET - 20000 * (i - 1);

		ring_clock_bound(
			&clock, (struct host_ns){i * SECOND}, offset - 15000000, offset + 20000);
		assert_true(llabs(ring_clock_to_host(&clock, (struct gpu_ns){i * SECOND - offset})
					    .value -
				    i * SECOND) < 150000);
	}
	assert_true(clock.shifts > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_unknown),
		cmocka_unit_test(a_pair_then_drift_then_bounds),
		cmocka_unit_test(bounds_alone_do),
		cmocka_unit_test(a_wrong_bound_is_outvoted_a_new_clock_is_not),
		cmocka_unit_test(a_fast_drift_is_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
