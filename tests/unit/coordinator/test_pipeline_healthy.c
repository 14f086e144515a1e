/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody is blamed in healthy jobs, however noisy, as long as the noise strikes all alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tests/unit/coordinator/job_simulator.h"

static struct sim sim;
static struct sim_result result;

#ifdef __SANITIZE_ADDRESS__
enum { SEEDS = 4 }; /* they are for memory, and take ten times as long */
#else
enum { SEEDS = 12 };
#endif

static void assert_all_silent(double jitter, double preempt_rate, double preempt_ms)
{
	for (unsigned ranks = 2; ranks <= 16; ranks *= 2) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct sim_options options = sim_defaults(ranks, seed);

			options.step_ms = (double)(5u << seed % 4);
			options.steps = (unsigned)(20000 / options.step_ms);
			options.jitter = jitter;
			options.preempt_rate = preempt_rate;
			options.preempt_ms = preempt_ms;
			options.tcp = seed % 2;
			sim_job(&sim, &options, &result);
			assert_int_equal(result.error, 0);
			assert_int_equal(result.totals.steps, options.steps);
			assert_int_equal(sim.alert_count, 0);
			sim_free(&sim, true);
		}
	}
}

static void quiet(void **state)
{
	(void)state;
	assert_all_silent(0.005, 0, 0);
}

static void preempted_now_and_then(void **state)
{
	(void)state;
	assert_all_silent(0.02, 1, 8);
}

static void preempted_often(void **state)
{
	(void)state;
	assert_all_silent(0.05, 3, 10);
}

static void wild_transfers(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_options options = sim_defaults(8, seed);

		options.transfer_us = 1500;
		options.transfer_jitter = 0.6;
		options.preempt_rate = 1;
		options.preempt_ms = 8;
		options.tcp = seed % 2;
		options.steps = 800;
		sim_job(&sim, &options, &result);
		assert_int_equal(sim.alert_count, 0);
		sim_free(&sim, true);
	}
}

/* Phases of a rank sum to its time; and the totals are those of the simulated job. */
static void totals_are_right(void **state)
{
	struct sim_options options = sim_defaults(4, 1);

	(void)state;
	sim_job(&sim, &options, &result);
	double step_ms = (sim.step_start[399] - sim.step_start[0]) / 399 / 1e6;

	assert_true(fabs(result.totals.step_ms_median / step_ms - 1) < 0.01);
	assert_true(result.totals.slowdown >= 1 && result.totals.slowdown < 1.05);
	assert_int_equal(result.rank_count, 4);
	assert_int_equal(result.totals.steps_incomplete, 0);
	sim_free(&sim, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quiet),
		cmocka_unit_test(preempted_now_and_then),
		cmocka_unit_test(preempted_often),
		cmocka_unit_test(wild_transfers),
		cmocka_unit_test(totals_are_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
