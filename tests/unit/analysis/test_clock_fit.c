/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "analysis/base/clock_fit.h"

static double uniform(uint32_t *random)
{
	*random = *random * 1664525 + 1013904223;
	return (double)(*random >> 8) / 16777216.0;
}

/* offset(t) of a host whose clock is 3 s behind and drifts. */
static int64_t true_offset(int64_t host_ns, double ppm)
{
	return 3000000000 + (int64_t)(ppm * 1e-6 * (double)host_ns);
}

static int64_t fit_error(double ppm, int seconds, int64_t *claimed_ns)
{
	struct clock_fit fit;
	uint32_t random = 7;
	int64_t end = 0;

	clock_fit_init(&fit);
	for (int64_t t = 0; t < seconds * INT64_C(1000000000); t += 20000000) {
		int64_t offset = true_offset(t, ppm);

		int64_t low = offset - 20000 - (int64_t)(2e6 * uniform(&random));
		int64_t high = offset + 20000 + (int64_t)(2e6 * uniform(&random));

		clock_fit_meet(&fit, (struct host_ns){t}, low, high, low + (high - low) / 2);
		end = t;
	}
	*claimed_ns = clock_fit_error_ns(&fit);
	return llabs(
		clock_fit_to_job(&fit, (struct host_ns){end}).value - end - true_offset(end, ppm));
}

static void bounds_converge(void **state)
{
	int64_t claimed_ns;

	(void)state;
	assert_true(fit_error(0, 10, &claimed_ns) < 60000);
	assert_true(claimed_ns < 150000);
}

static void drift_is_followed(void **state)
{
	static const double drifts[] = {-80, -20, 20, 80};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		int64_t claimed_ns, error_ns = fit_error(drifts[i], 20, &claimed_ns);

		assert_true(error_ns <= claimed_ns);
		assert_true(error_ns < 100000);
	}
}

static void stamps_bound_from_outside(void **state)
{
	struct clock_fit fit;

	(void)state;
	clock_fit_init(&fit);
	assert_true(clock_fit_error_ns(&fit) == CLOCK_ERROR_UNKNOWN_NS);
	clock_fit_request(&fit, (struct host_ns){1000000}, (struct job_ns){6200000});
	clock_fit_reply(&fit, (struct job_ns){6300000}, (struct host_ns){1500000});
	assert_int_equal(clock_fit_error_ns(&fit), 200000);
	assert_int_equal(clock_fit_to_job(&fit, (struct host_ns){2000000}).value, 7000000);
	/* a slower exchange says nothing new */
	clock_fit_request(&fit, (struct host_ns){2000000}, (struct job_ns){9000000});
	assert_int_equal(clock_fit_error_ns(&fit), 200000);
}

static void a_fixed_clock_stays(void **state)
{
	struct clock_fit fit;

	(void)state;
	clock_fit_init(&fit);
	clock_fit_fix(&fit, 5, 0);
	clock_fit_meet(&fit, (struct host_ns){0}, 100, 200, 150);
	clock_fit_request(&fit, (struct host_ns){0}, (struct job_ns){100});
	assert_int_equal(clock_fit_to_job(&fit, (struct host_ns){1}).value, 6);
	assert_int_equal(clock_fit_error_ns(&fit), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_converge),
		cmocka_unit_test(drift_is_followed),
		cmocka_unit_test(stamps_bound_from_outside),
		cmocka_unit_test(a_fixed_clock_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
