/* SPDX-License-Identifier: Apache-2.0 */
/* What a deep look sums up: whole steps only, by name, busy and idle time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/device_look.h"

enum { US = 1000, MS = 1000000 };

static void kernel(struct device_look *look, const char *name, uint32_t id, int64_t start_us,
	int64_t length_us, int64_t launched_us_before)
{
	device_look_kernel(look,
		&(struct ring_source_kernel){.name = name,
			.name_id = id,
			.start = {start_us * US},
			.stop = {(start_us + length_us) * US},
			.launch = {launched_us_before ? (start_us - launched_us_before) * US : 0}});
}

/* Five steps of 10 ms from 10 ms on: two kernels, a collective, a copy that overlaps with one. */
static void fill(struct device_look *look)
{
	for (int step = 0; step < 5; step++) {
		int64_t at_us = 10000 + step * 10000;

		kernel(look, "_Z4gemmPf", 7, at_us + 1000, 4000, 500);
		kernel(look, "_Z4gemmPd", 8, at_us + 5000, 1000, 0);
		kernel(look, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9, at_us + 7000, 3000, 0);
		device_look_copy(look, &(struct ring_source_memcpy){.length_bytes = 1000,
					       .start = {(at_us + 4000) * US},
					       .stop = {(at_us + 6500) * US}});
		device_look_synchronisation(
			look, &(struct ring_source_synchronisation){.start = {(at_us + 8000) * US},
				      .stop = {(at_us + 10000) * US}});
		device_look_step(
			look, (struct host_ns){at_us * US}, (struct host_ns){(at_us + 10000) * US});
	}
}

static void whole_steps_are_summed(void **state)
{
	struct device_look *look = device_look_create();
	struct kernel_profile profile;

	(void)state;
	fill(look);
	/* Seen from 12 ms on: the step at 20 ms is the first whole one, and is left out. */
	assert_int_equal(device_look_step_count(look, (struct host_ns){12 * MS}), 4);
	device_look_finish(
		look, (struct host_ns){12 * MS}, (struct host_ns){55 * MS}, 1, 0, &profile);
	assert_int_equal(profile.result, LOOK_DONE);
	assert_int_equal(profile.steps, 2); /* 30 to 50 ms; the last one is not whole */
	assert_int_equal(profile.start.value, 30 * MS);
	assert_int_equal(profile.stop.value, 50 * MS);
	assert_int_equal(profile.kernel_count, 4);
	assert_int_equal(profile.kernel_ns, 10 * MS);
	assert_int_equal(profile.busy_ns, 11 * MS); /* from 1 to 6.5 ms of each step */
	assert_int_equal(profile.idle_ns, 3 * MS);  /* 1 ms, and 0.5 ms before the collective */
	assert_int_equal(profile.copy_count, 2);
	assert_int_equal(profile.copy_ns, 5 * MS);
	assert_int_equal(profile.copy_bytes, 2000);
	assert_int_equal(profile.synchronise_ns, 4 * MS);
	assert_int_equal(profile.invalid, 1);
	assert_int_equal(profile.sum_count, 1); /* instances of one template */
	assert_string_equal(profile.sums[0].name, "gemm");
	assert_int_equal(profile.sums[0].count, 4);
	assert_int_equal(profile.launches[kernel_launch_bucket(500 * US)], 2);
	device_look_destroy(look);
}

static void a_hole_ends_a_stretch(void **state)
{
	struct device_look *look = device_look_create();
	struct kernel_profile profile;

	(void)state;
	for (int step = 0; step < 6; step++) { /* 0 1 . 3 4 5 */
		int64_t at_us = step * 1000 + (step >= 2 ? 1000 : 0);

		kernel(look, "k", 1, at_us + 100, 100, 0);
		device_look_step(
			look, (struct host_ns){at_us * US}, (struct host_ns){(at_us + 1000) * US});
	}
	device_look_finish(look, (struct host_ns){0}, (struct host_ns){7000 * US}, 0, 0, &profile);
	assert_int_equal(profile.steps, 3); /* of the four behind the hole */
	assert_int_equal(profile.start.value, 4000 * US);
	assert_int_equal(profile.kernel_count, 3);
	device_look_destroy(look);
}

static void nothing_to_say(void **state)
{
	struct device_look *look = device_look_create();
	struct kernel_profile profile;

	(void)state;
	kernel(look, "k", 1, 100, 100, 0);
	device_look_finish(look, (struct host_ns){0}, (struct host_ns){MS}, 0, 0, &profile);
	assert_int_equal(profile.result, LOOK_NO_STEPS);
	device_look_step(look, (struct host_ns){200 * US}, (struct host_ns){300 * US});
	device_look_finish(look, (struct host_ns){0}, (struct host_ns){MS}, 0, 0, &profile);
	assert_int_equal(profile.result, LOOK_NO_KERNELS);
	assert_int_equal(profile.steps, 1);
	device_look_destroy(look);
}

/* Names and records beyond the bounds are summed or counted, not lost in silence. */
static void bounds(void **state)
{
	struct device_look *look = device_look_create();
	struct kernel_profile profile;
	uint64_t count = 0;
	char name[32];

	(void)state;
	for (uint32_t i = 0; i < DEVICE_LOOK_RECORDS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "kernel_%u", i % 2000);
		kernel(look, name, 1 + i % 2000, 1 + (int64_t)i, 1, 0);
	}
	device_look_step(look, (struct host_ns){0}, (struct host_ns){INT64_C(1000) * MS});
	device_look_finish(
		look, (struct host_ns){0}, (struct host_ns){INT64_C(1000) * MS}, 0, 3, &profile);
	assert_int_equal(profile.kernel_count, DEVICE_LOOK_RECORDS_MAX);
	assert_int_equal(profile.dropped, 13);
	assert_int_equal(profile.sum_count, KERNEL_PROFILE_KERNELS_MAX);
	assert_string_equal(profile.sums[0].name, "(others)");
	count = profile.sums[0].count;
	assert_in_range(count, DEVICE_LOOK_RECORDS_MAX / 2, DEVICE_LOOK_RECORDS_MAX);
	device_look_destroy(look);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_steps_are_summed),
		cmocka_unit_test(a_hole_ends_a_stretch),
		cmocka_unit_test(nothing_to_say),
		cmocka_unit_test(bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
