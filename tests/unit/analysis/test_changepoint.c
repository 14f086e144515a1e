/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "analysis/detect/changepoint.h"

static const struct change_noise noise = {.reference = 0.034, .scale = 0.017};

static int blocks_to_alarm(double value, double weight)
{
	struct change_point change = {0};

	for (int i = 1; i <= 100; i++) {
		if (change_point_push(&change, &noise, value, weight))
			return i;
	}
	return -1;
}

static void large_changes_need_three_blocks(void **state)
{
	(void)state;
	assert_int_equal(blocks_to_alarm(0.1, 1), 3);
	assert_int_equal(blocks_to_alarm(100, 1), 3);
	assert_int_equal(blocks_to_alarm(0.1, 0.5), 5);
	assert_true(blocks_to_alarm(0.05, 1) > 3);
	assert_int_equal(blocks_to_alarm(0.03, 1), -1);
}

static void spikes_are_forgotten(void **state)
{
	struct change_point change = {0};

	(void)state;
	for (int i = 0; i < 300; i++)
		assert_false(change_point_push(&change, &noise, i % 3 == 0 ? 5.0 : 0.0, 1));
}

/* One block in seven is enough where little is forgotten; one in fifteen is not. */
static void rare_blocks_add_up_when_little_is_forgotten(void **state)
{
	const struct change_noise patient = {.reference = 0.01, .scale = 0.005, .forget = 0.3};
	struct change_point rare = {0}, rarer = {0};
	bool alarm = false;

	(void)state;
	for (int i = 0; i < 140; i++) {
		alarm |= change_point_push(&rare, &patient, i % 7 == 0 ? 0.4 : 0.0, 1);
		assert_false(change_point_push(&rarer, &patient, i % 15 == 0 ? 0.4 : 0.0, 1));
	}
	assert_true(alarm);
}

static void noise_raises_the_bar(void **state)
{
	double quiet[64] = {0}, loud[64];
	struct change_noise of_quiet, of_loud;

	(void)state;
	for (int i = 0; i < 64; i++)
		loud[i] = 0.01 * (i % 20);
	of_quiet = change_noise_of(quiet, 64, 0.034);
	of_loud = change_noise_of(loud, 64, 0.034);
	assert_true(of_quiet.reference == 0.034);
	assert_true(of_loud.reference > 0.1);
	assert_true(of_loud.scale > of_quiet.scale);
	of_quiet = change_noise_of(quiet, 0, 0.034);
	assert_true(of_quiet.scale > 0);
}

static void onset_is_where_the_level_begins(void **state)
{
	double values[100], lengths[100];

	(void)state;
	for (size_t i = 0; i < 100; i++) {
		lengths[i] = 20;
		values[i] = i >= 60 ? 6 : 0.1;
	}
	assert_int_equal(change_onset(values, lengths, 100, 20, 0.3), 60);
	values[40] = 500; /* one stall, long before */
	lengths[40] = 520;
	assert_int_equal(change_onset(values, lengths, 100, 20, 0.3), 60);
	for (size_t i = 60; i < 100; i++)
		values[i] = i % 5 ? 0 : 50; /* a quota: every fifth step */
	assert_int_equal(change_onset(values, lengths, 100, 20, 0.5), 60);
}

/* Who was a little late before is nearer to being on time than to the fault. */
static void onset_is_not_what_was_small_before(void **state)
{
	double values[100], lengths[100];

	(void)state;
	for (size_t i = 0; i < 100; i++) {
		lengths[i] = 20;
		values[i] = i >= 60 ? 9 : i >= 20 ? 0.45 * 9 : 0;
	}
	assert_int_equal(change_onset(values, lengths, 100, 20, 0.45), 60);
}

static void surprise_is_the_likelihood_ratio(void **state)
{
	(void)state;
	assert_true(hit_surprise(0, 10, 10, 100) == 0);
	assert_true(hit_surprise(1, 10, 10, 100) == 0);
	assert_true(hit_surprise(0, 0, 10, 100) == 0);
	assert_true(hit_surprise(5, 10, 0, 0) == 0);
	assert_true(hit_surprise(5, 10, 10, 100) > hit_surprise(4, 10, 10, 100));
	/* many peers: the Chernoff bound */
	assert_true(fabs(hit_surprise(10, 10, 1000000, 10000000) + 10 * log(0.1)) < 1e-3);
	/* all of 10 against none of 10: half is to be expected, 2^-20 */
	assert_true(fabs(hit_surprise(10, 10, 0, 10) - 20 * log(2)) < 1e-9);
	/* what few peers show is not certain either */
	assert_true(hit_surprise(50, 250, 20, 250) < hit_surprise(50, 250, 2000, 25000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_changes_need_three_blocks),
		cmocka_unit_test(spikes_are_forgotten),
		cmocka_unit_test(rare_blocks_add_up_when_little_is_forgotten),
		cmocka_unit_test(noise_raises_the_bar),
		cmocka_unit_test(onset_is_where_the_level_begins),
		cmocka_unit_test(onset_is_not_what_was_small_before),
		cmocka_unit_test(surprise_is_the_likelihood_ratio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
