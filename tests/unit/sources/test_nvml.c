/* SPDX-License-Identifier: Apache-2.0 */
/* What the nvml sampler asks the driver, and how often: here one that counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/sources/nvml.h"
#include "tests/unit/sources/samples.h"
#include "tests/unit/sources/stand_in_nvml.h"

#define SECOND INT64_C(1000000000)

enum { OWN = 4711, OTHER = 815 };

static struct hurry hurry;
static struct sampler *sampler;

static int set_up(void **state)
{
	(void)state;
	stand_in_nvml = (struct stand_in_nvml){.own = OWN};
	hurry_init(&hurry, 4 * SECOND, 0.002, 10 * SECOND);
	return nvml_sampler_create(OWN, TEST_RANK, &hurry, &sampler);
}

static int tear_down(void **state)
{
	(void)state;
	sampler_destroy(sampler);
	return 0;
}

/* So many seconds later; -1: the metric is not told. */
static int64_t sample_after(int seconds, enum metric metric)
{
	clock_ahead_ns += seconds * SECOND;
	(void)hurry_follow(&hurry, false, clock_now());
	return sample_of(sampler, metric);
}

static int64_t next_sample(enum metric metric)
{
	return sample_after(1, metric);
}

static void alone_on_its_gpu(void **state)
{
	(void)state;
	assert_int_equal(sampler_state(sampler)->state, SOURCE_ON);
	stand_in_nvml.asked_processes = 0;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(next_sample(METRIC_GPU_OTHER_PROCESSES), 0);
		assert_int_equal(next_sample(METRIC_GPU_CLOCK_MHZ), 1980);
	}
	assert_int_equal(stand_in_nvml.asked_processes, 5);
	assert_int_equal(stand_in_nvml.asked_utilization, 0);
}

/* Others that hold the GPU and do nothing are asked for every six seconds. */
static void beside_an_idle_process(void **state)
{
	(void)state;
	stand_in_nvml.other_count = 1;
	stand_in_nvml.others[0] = OTHER;
	assert_int_equal(next_sample(METRIC_GPU_OTHER_PROCESSES), 0);
	assert_int_equal(stand_in_nvml.asked_utilization, 1);
	for (int i = 0; i < 20; i++)
		(void)next_sample(METRIC_GPU_OTHER_PROCESSES);
	assert_int_equal(stand_in_nvml.asked_utilization, 4);
	/* What it does then is known six seconds later at most. */
	stand_in_nvml.used_percent[0] = 60;
	int late = 1;
	while (next_sample(METRIC_GPU_OTHER_PROCESSES) != 1)
		assert_true(++late <= 6);
}

/* At once, and again each second. */
static void asks_at_once_in_a_hurry(void **state)
{
	(void)state;
	stand_in_nvml.other_count = 1;
	stand_in_nvml.others[0] = OTHER;
	assert_int_equal(next_sample(METRIC_GPU_OTHER_PROCESSES), 0);
	assert_int_equal(next_sample(METRIC_GPU_OTHER_PROCESSES), -1);
	stand_in_nvml.used_percent[0] = 60;
	assert_true(hurry_follow(&hurry, true, clock_now()));
	for (int i = 0; i < 3; i++)
		assert_int_equal(next_sample(METRIC_GPU_OTHER_PROCESSES), 1);
	assert_int_equal(stand_in_nvml.asked_utilization, 4);
	assert_true(hurry.cost_ns > 0);
}

static void asks_for_a_new_process(void **state)
{
	(void)state;
	stand_in_nvml.other_count = 1;
	stand_in_nvml.others[0] = OTHER;
	assert_int_equal(next_sample(METRIC_GPU_OTHER_PROCESSES), 0);
	assert_int_equal(next_sample(METRIC_GPU_OTHER_PROCESSES), -1);
	stand_in_nvml.others[0] = OTHER + 1; /* in the other's place */
	stand_in_nvml.used_percent[0] = 60;
	assert_int_equal(next_sample(METRIC_GPU_OTHER_PROCESSES), 1);
	stand_in_nvml.other_count = 0;
	assert_int_equal(sample_after(2, METRIC_GPU_OTHER_PROCESSES), 0);
}

/* A share stands for the time since the last look, whenever that was. */
static void counts_how_long_its_gpu_is_busy(void **state)
{
	int64_t before_ns;

	(void)state;
	stand_in_nvml.busy_percent = 40;
	before_ns = next_sample(METRIC_GPU_BUSY_NS);
	assert_true(before_ns >= 0);
	assert_in_range(next_sample(METRIC_GPU_BUSY_NS) - before_ns, 4 * SECOND / 10, SECOND);
	stand_in_nvml.busy_percent = 101;
	assert_int_equal(next_sample(METRIC_GPU_BUSY_NS), -1);
	assert_int_equal(sampler_state(sampler)->state, SOURCE_DEGRADED);
	stand_in_nvml.busy_percent = 100;
	assert_in_range(next_sample(METRIC_GPU_BUSY_NS) - before_ns, 24 * SECOND / 10, 4 * SECOND);
	assert_int_equal(sampler_state(sampler)->state, SOURCE_ON);
}

static void leaves_its_gpu(void **state)
{
	(void)state;
	assert_int_equal(next_sample(METRIC_GPU_CLOCK_MHZ), 1980);
	stand_in_nvml.own = 0;
	assert_int_equal(sample_after(2, METRIC_GPU_CLOCK_MHZ), -1);
	for (int i = 0; i < 12; i++)
		assert_int_equal(next_sample(METRIC_GPU_CLOCK_MHZ), -1);
	assert_int_equal(sampler_state(sampler)->state, SOURCE_MISSING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(alone_on_its_gpu, set_up, tear_down),
		cmocka_unit_test_setup_teardown(beside_an_idle_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(asks_at_once_in_a_hurry, set_up, tear_down),
		cmocka_unit_test_setup_teardown(asks_for_a_new_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(counts_how_long_its_gpu_is_busy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(leaves_its_gpu, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
