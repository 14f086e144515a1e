/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "analysis/base/robust_stats.h"

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Against sorting, for every k of many small arrays with many equal values. */
static void select_is_the_kth_of_the_sorted(void **state)
{
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		double values[24], sorted[24];
		int64_t integers[24];
		size_t count, k;

		random = random * 1664525 + 1013904223;
		count = 1 + (random >> 8) % 24;
		k = (random >> 16) % count;
		for (size_t i = 0; i < count; i++) {
			random = random * 1664525 + 1013904223;
			values[i] = sorted[i] = (random >> 12) % (round % 2 ? 4 : 1000);
			integers[i] = (int64_t)values[i];
		}
		qsort(sorted, count, sizeof(double), compare);
		assert_true(select_double(values, count, k) == sorted[k]);
		for (size_t i = 0; i < count; i++)
			assert_true(i < k ? values[i] <= sorted[k] : values[i] >= sorted[k]);
		assert_int_equal(select_int64(integers, count, k), (int64_t)sorted[k]);
	}
}

/*
 * Against selecting from a copy: random, few values, sorted, all at one end, most close together; of every
 * size class.
 */
static void median_of_many_is_the_median(void **state)
{
	static int64_t values[40000], copy[40000], scratch[40000];
	static const size_t counts[] = {1, 2, 255, 256, 257, 512, 1024, 4095, 16384, 40000};
	uint64_t random = 1;

	(void)state;
	for (size_t round = 0; round < 8 * sizeof(counts) / sizeof(counts[0]); round++) {
		size_t count = counts[round / 8];

		for (size_t i = 0; i < count; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			int64_t value = (int64_t)(random >> 20);

			values[i] = round % 8 == 0   ? value
				    : round % 8 == 1 ? value % 3
				    : round % 8 == 2 ? (int64_t)i
				    : round % 8 == 3 ? -(int64_t)i
				    : round % 8 == 4
					    ? (i % (count / 64 + 1) == 0 ? INT64_MAX : value)
				    : round % 8 == 5 ? (i < count / 2 ? INT64_MIN : value)
				    : round % 8 == 6 ? (i % 9 ? value % 300 : value)
						     : value - (INT64_C(1) << 43);
			copy[i] = values[i];
		}
		int64_t median = lower_median_of_int64(values, count, scratch);

		assert_memory_equal(values, copy, count * sizeof(*values));
		assert_int_equal(median, lower_median_int64(copy, count));
	}
	assert_int_equal(lower_median_of_int64(values, 0, scratch), 0);
}

static void medians(void **state)
{
	double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, again[] = {4, 1, 3, 2};
	int64_t integers[] = {40, 10, 30, 20};

	(void)state;
	assert_true(median_double(odd, 3) == 3);
	assert_true(median_double(even, 4) == 2.5);
	assert_true(lower_median_double(again, 4) == 2);
	assert_int_equal(lower_median_int64(integers, 4), 20);
	assert_true(median_double(odd, 0) == 0);
}

static void quantiles_interpolate(void **state)
{
	double values[] = {50, 10, 40, 20, 30};

	(void)state;
	assert_true(fabs(quantile_double(values, 5, 0) - 10) < 1e-9);
	assert_true(fabs(quantile_double(values, 5, 1) - 50) < 1e-9);
	assert_true(fabs(quantile_double(values, 5, 0.8) - 42) < 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(select_is_the_kth_of_the_sorted),
		cmocka_unit_test(medians),
		cmocka_unit_test(median_of_many_is_the_median),
		cmocka_unit_test(quantiles_interpolate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
