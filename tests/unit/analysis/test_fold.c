/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/detect/fold.h"

/* splitmix64: numbers in 0..1 that are the same everywhere. */
static double uniform(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
	double radius = sqrt(-2 * log(uniform(state)));

	return radius * cos(6.283185307179586 * uniform(state));
}

/* As the delays of healthy ranks: mostly small, now and then a pause of any length. */
static double heavy(uint64_t *state)
{
	double pause = uniform(state) < 0.02 ? pow(uniform(state), -1 / 1.3) : 0;

	return fmax(normal(state), 0) * 0.01 + 0.1 * pause;
}

static void fill(double *values, size_t count, uint64_t seed)
{
	for (size_t i = 0; i < count; i++)
		values[i] = heavy(&seed);
}

static void test_each_period_is_found(void **state)
{
	double values[FOLD_VALUES_MAX];
	struct fold_finding finding;

	(void)state;
	for (uint32_t every = 2; every <= 40; every++) {
		size_t phase = every * 3 / 5;

		fill(values, FOLD_VALUES_MAX, every);
		for (size_t i = phase; i < FOLD_VALUES_MAX; i += every)
			values[i] += 0.08;
		assert_true(fold_find(values, FOLD_VALUES_MAX, &finding));
		assert_int_equal(finding.period_steps, every);
		assert_int_equal(finding.phase, phase);
		assert_true(finding.surprise > 5);
		assert_true(fabs(finding.height - 0.08) < 0.01);
		assert_true(finding.base < 0.01);
	}
}

/* Less than half as high as what else the series does, all the time. */
static void test_what_drowns_in_sums_is_found_by_counts(void **state)
{
	double values[FOLD_VALUES_MAX];
	struct fold_finding finding;

	(void)state;
	fill(values, FOLD_VALUES_MAX, 77);
	for (size_t i = 4; i < FOLD_VALUES_MAX; i += 7)
		values[i] += 0.03;
	for (size_t i = 10; i < FOLD_VALUES_MAX; i += 31)
		values[i] += 50;
	assert_true(fold_find(values, FOLD_VALUES_MAX, &finding));
	assert_int_equal(finding.period_steps, 7);
	assert_int_equal(finding.phase, 4);
	assert_true(finding.surprise > 30);
	assert_true(fabs(finding.height - 0.03) < 0.01);
}

static void test_what_began_lately(void **state)
{
	double values[120];
	struct fold_finding finding;

	(void)state;
	fill(values, 120, 5);
	for (size_t i = 56; i < 120; i += 7)
		values[i] += 0.1;
	assert_true(fold_find(values, 120, &finding));
	assert_int_equal(finding.period_steps, 7);
	assert_int_equal(finding.phase, 0);
	assert_true(finding.from >= 49 && finding.from <= 72);
	assert_true(finding.surprise > 12);
	assert_true(finding.share > 0.5);
}

/* The bound is one: no more series without a period stand out than it says. */
static void test_chance(void **state)
{
	enum { SERIES = 20000 };
	static const double levels[] = {1, 3, 5};
	size_t above[] = {0, 0, 0};
	double values[FOLD_VALUES_MAX];
	struct fold_finding finding;
	uint64_t seed = 9;

	(void)state;
	for (size_t s = 0; s < SERIES; s++) {
		size_t count = 100 + s % 157;

		fill(values, count, seed++);
		if (!fold_find(values, count, &finding))
			continue;
		for (size_t k = 0; k < 3; k++)
			above[k] += finding.surprise > levels[k];
	}
	for (size_t k = 0; k < 3; k++)
		assert_true((double)above[k] <= SERIES * exp(-levels[k]));
}

static void test_no_period(void **state)
{
	double values[FOLD_VALUES_MAX];
	struct fold_finding finding;

	(void)state;
	for (uint64_t seed = 100; seed < 200; seed++) {
		uint64_t random = seed;

		/* a step, a drift, bursts at any time, one stall */
		fill(values, FOLD_VALUES_MAX, seed);
		for (size_t i = 100; i < FOLD_VALUES_MAX; i++)
			values[i] += 0.3;
		assert_false(fold_find(values, FOLD_VALUES_MAX, &finding) && finding.surprise > 9);
		for (size_t i = 0; i < FOLD_VALUES_MAX; i++)
			values[i] = (double)i + normal(&random);
		assert_false(fold_find(values, FOLD_VALUES_MAX, &finding) && finding.surprise > 9);
		for (size_t i = 0; i < FOLD_VALUES_MAX; i++)
			values[i] = uniform(&random) < 1.0 / 7 ? 1 : 0;
		assert_false(fold_find(values, FOLD_VALUES_MAX, &finding) && finding.surprise > 9);
	}
	for (size_t i = 0; i < FOLD_VALUES_MAX; i++)
		values[i] = 0;
	assert_false(fold_find(values, FOLD_VALUES_MAX, &finding));
	values[17] = 1;
	assert_false(fold_find(values, FOLD_VALUES_MAX, &finding));
	assert_false(fold_find(values, 0, &finding));
}

/* Only the order of values counts. */
static void test_scale(void **state)
{
	double values[FOLD_VALUES_MAX];
	struct fold_finding finding, other;

	(void)state;
	fill(values, FOLD_VALUES_MAX, 3);
	for (size_t i = 1; i < FOLD_VALUES_MAX; i += 11)
		values[i] += 0.2;
	assert_true(fold_find(values, FOLD_VALUES_MAX, &finding));
	for (size_t i = 0; i < FOLD_VALUES_MAX; i++)
		values[i] = 1000 * values[i] - 5;
	assert_true(fold_find(values, FOLD_VALUES_MAX, &other));
	assert_int_equal(finding.period_steps, other.period_steps);
	assert_int_equal(finding.phase, other.phase);
	assert_true(fabs(finding.surprise - other.surprise) < 1e-9);
	assert_true(fabs(1000 * finding.height - other.height) < 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_period_is_found),
		cmocka_unit_test(test_what_drowns_in_sums_is_found_by_counts),
		cmocka_unit_test(test_what_began_lately),
		cmocka_unit_test(test_chance),
		cmocka_unit_test(test_no_period),
		cmocka_unit_test(test_scale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
