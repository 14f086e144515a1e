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

static int64_t wrong_by(const struct ring_clock *clock, int64_t host_ns, int64_t offset)
{
	return llabs(ring_clock_to_host(clock, (struct gpu_ns){host_ns - offset}).value - host_ns);
}

/* At the time of its newest fact. */
static void check(const struct ring_clock *clock, int64_t offset, int64_t error_max)
{
	int64_t wrong = wrong_by(clock, clock->time_ns, offset);

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
	check(&clock, OFFSET, 8000 + RING_CLOCK_DRIFT_PPB / 2);
}

static void a_wrong_bound_is_outvoted_a_new_clock_is_not(void **state)
{
	struct ring_clock clock = {0};

	(void)state;
	ring_clock_pair(&clock, (struct host_ns){SECOND}, (struct gpu_ns){SECOND - OFFSET}, 2000);
	ring_clock_bound(&clock, (struct host_ns){2 * SECOND}, OFFSET + SECOND, INT64_MAX);
	check(&clock, OFFSET, 4000 + RING_CLOCK_DRIFT_PPB);
	for (int64_t i = 3; i < 10; i++)
		ring_clock_bound(&clock, (struct host_ns){i * SECOND}, OFFSET + SECOND - 5000,
			OFFSET + SECOND + 5000);
	check(&clock, OFFSET + SECOND, 6000);
	assert_int_equal(clock.restarts, 0);
	assert_int_equal(clock.shifts, 1);
}

/*
 * How far an hour of bounds, one a second, leaves a clock wrong that drifts by so much a second, once the drift is known. The bounds
 * lie so far below and above the truth; every so many seconds the upper one is 50 ms late.
 */
static int64_t most_wrong(
	int64_t drift_ns, int64_t below_ns, int64_t above_ns, int64_t starved_every)
{
	struct ring_clock clock = {0};
	int64_t most = 0;

	ring_clock_pair(&clock, (struct host_ns){SECOND}, (struct gpu_ns){SECOND - OFFSET}, 2000);
	for (int64_t i = 2; i < 3600; i++) {
		int64_t offset = OFFSET + drift_ns * (i - 1), wrong;
		int64_t late_ns = i % starved_every ? 0 : 50000000;

		ring_clock_bound(&clock, (struct host_ns){i * SECOND}, offset - below_ns,
			offset + above_ns + late_ns);
		wrong = wrong_by(&clock, i * SECOND, offset);
		if (i > 10 && wrong > most)
			most = wrong;
	}
	return most;
}

/* A host that is always ahead of its device says nothing of the other side: ends alone lead the clock, up as well as down. */
static void a_drift_is_followed_up_and_down(void **state)
{
	(void)state;
	for (int64_t drift_ns = -40000; drift_ns <= 40000; drift_ns += 5000) {
		assert_true(most_wrong(drift_ns, 60000000, 4000, 1000000) <= 60000);
		assert_true(most_wrong(drift_ns, 8000, 4000, 1000000) <= 60000);
		assert_true(most_wrong(drift_ns, 60000000, 4000, 3) <= 60000);
	}
}

/* In each second some launch is noted when its kernel runs already: ends are believed. */
static void launches_that_are_noted_late_hold_nothing_back(void **state)
{
	(void)state;
	for (int64_t drift_ns = -40000; drift_ns <= 40000; drift_ns += 5000) {
		assert_true(most_wrong(drift_ns, -30000, 4000, 1000000) <= 60000);
		assert_true(most_wrong(drift_ns, -70000000, 4000, 1000000) <= 60000);
	}
}

/* One pair a second, as events tell them. */
static void pairs_alone_tell_the_drift(void **state)
{
	struct ring_clock clock = {0};

	(void)state;
	for (int64_t i = 1; i < 600; i++) {
		int64_t offset = OFFSET + 10000 * i, error_ns = 9000 + 1000 * (i % 8);

		ring_clock_pair(&clock, (struct host_ns){i * SECOND},
			(struct gpu_ns){i * SECOND - offset + (i % 5) * 1000}, error_ns);
		check(&clock, offset, 17000);
		if (i > 10) /* half a second later */
			assert_true(
				wrong_by(&clock, i * SECOND + SECOND / 2, offset + 5000) <= 17000);
	}
	assert_int_equal(clock.restarts, 0);
	assert_int_equal(clock.shifts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_unknown),
		cmocka_unit_test(a_pair_then_drift_then_bounds),
		cmocka_unit_test(bounds_alone_do),
		cmocka_unit_test(a_wrong_bound_is_outvoted_a_new_clock_is_not),
		cmocka_unit_test(a_drift_is_followed_up_and_down),
		cmocka_unit_test(launches_that_are_noted_late_hold_nothing_back),
		cmocka_unit_test(pairs_alone_tell_the_drift),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
