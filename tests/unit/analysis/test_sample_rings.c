/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics that share their times, and part, tell what a ring of each would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/base/sample_rings.h"

/* The same, kept in the plainest way: each metric's samples, the oldest first. */
struct plain_samples {
	struct sample samples[SAMPLE_RING_MAX];
	size_t count;
};

static void plain_add(struct plain_samples *plain, struct sample sample)
{
	if (plain->count == SAMPLE_RING_MAX)
		memmove(plain->samples, plain->samples + 1,
			--plain->count * sizeof(*plain->samples));
	plain->samples[plain->count++] = sample;
}

static bool plain_find(
	const struct plain_samples *plain, int64_t time_ns, bool after, struct sample *found)
{
	bool any = false;

	for (size_t i = 0; i < plain->count; i++) {
		const struct sample *sample = &plain->samples[i];
		bool nearer = !any || (after ? sample->time_ns < found->time_ns
					     : sample->time_ns > found->time_ns);

		if ((sample->time_ns > time_ns) == after && nearer) {
			*found = *sample;
			any = true;
		}
	}
	return any;
}

/* At each time that a sample has, and beside it. */
static void compare(const struct sample_rings *rings, const struct plain_samples *plain)
{
	for (unsigned m = 0; m < METRIC_NR; m++) {
		for (size_t i = 0; i <= 2 * plain[m].count; i++) {
			size_t of = i / 2 < plain[m].count ? i / 2 : 0;
			int64_t time_ns = plain[m].samples[of].time_ns - (int64_t)(i % 2);
			struct sample expected = {0}, found = {0};

			assert_int_equal(plain_find(&plain[m], time_ns, false, &expected),
				sample_rings_latest(rings, m, time_ns, &found));
			assert_int_equal(expected.time_ns, found.time_ns);
			assert_int_equal(expected.value, found.value);
			expected = found = (struct sample){0};
			assert_int_equal(plain_find(&plain[m], time_ns, true, &expected),
				sample_rings_first_after(rings, m, time_ns, &found));
			assert_int_equal(expected.time_ns, found.time_ns);
			assert_int_equal(expected.value, found.value);
		}
	}
}

static void add(struct sample_rings *rings, struct plain_samples *plain, unsigned metric,
	struct sample sample)
{
	plain_add(&plain[metric], sample);
	assert_int_equal(sample_rings_add(rings, metric, sample), 0);
}

/*
 * Metrics that come and go: in each round some are missing, and rarely one comes late, when others
 * were there again.
 */
static void tell_what_rings_of_each_would(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 60; seed++) {
		struct plain_samples plain[METRIC_NR] = {0};
		struct sample_rings rings = {0};
		int64_t time_ns = 1000;

		srand(seed);
		for (int round = 0; round < 90; round++) {
			time_ns += 2 + rand() % 10; /* no two samples of a metric at one time */
			for (unsigned m = 1; m < METRIC_NR; m += 1 + seed % 5) {
				int64_t value = rand();
				bool missing = rand() % 40 == 0 || (m % 7 == 0 && round < (int)m) ||
					       (m % 5 == 0 && round % 4);
				int64_t late_ns = rand() % 300 == 0 ? 1 : 0;

				if (!missing)
					add(&rings, plain, m,
						(struct sample){time_ns + late_ns, value});
			}
			if (round % 10 == 9 || seed % 10 == 0)
				compare(&rings, plain);
		}
		compare(&rings, plain);
		sample_rings_fini(&rings);
	}
}

/* One sample is given up for one that is new, also while other metrics of that time are still to come. */
static void old_samples_stay_until_new_ones_come(void **state)
{
	struct sample_rings rings = {0};
	struct sample found;

	(void)state;
	for (int64_t i = 0; i <= SAMPLE_RING_MAX; i++) {
		for (unsigned m = 1; m < 4 && (i < SAMPLE_RING_MAX || m == 1); m++)
			assert_int_equal(
				sample_rings_add(&rings, m, (struct sample){100 + i, i}), 0);
	}
	assert_false(sample_rings_latest(&rings, 1, 100, &found));
	assert_true(sample_rings_latest(&rings, 2, 100, &found));
	assert_int_equal(found.value, 0);
	assert_true(sample_rings_first_after(&rings, 2, 0, &found));
	assert_int_equal(found.time_ns, 100);
	assert_int_equal(sample_rings_add(&rings, 2,
				 (struct sample){100 + SAMPLE_RING_MAX, SAMPLE_RING_MAX}),
		0);
	assert_false(sample_rings_latest(&rings, 2, 100, &found));
	assert_int_equal(rings.group_count, 1);
	assert_int_equal(sample_rings_add(&rings, 1, (struct sample){200, 1}), 0);
	assert_int_equal(rings.group_count, 2); /* metric 3 missed a turn */
	assert_true(sample_rings_latest(&rings, 3, 100, &found));
	assert_int_equal(found.value, 0);
	sample_rings_fini(&rings);
}

static void unknown_metrics_have_none(void **state)
{
	struct sample_rings rings = {0};
	struct sample found;

	(void)state;
	assert_false(sample_rings_latest(&rings, 3, INT64_MAX, &found));
	assert_false(sample_rings_first_after(&rings, 3, INT64_MIN, &found));
	sample_rings_fini(&rings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tell_what_rings_of_each_would),
		cmocka_unit_test(old_samples_stay_until_new_ones_come),
		cmocka_unit_test(unknown_metrics_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
