/* SPDX-License-Identifier: Apache-2.0 */
/* When counters are sampled: once a second, and more often where they say why steps became longer. */
#include "probe/samplers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "probe/options.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define TURN (50 * MS)

static struct samplers *samplers;

static int create(void **state)
{
	(void)state;
	return samplers_create(0, &samplers);
}

static int destroy(void **state)
{
	(void)state;
	samplers_destroy(samplers);
	return 0;
}

struct counts {
	unsigned all, stand_ins;
};

/* Turns from one time until before another, slower in a second of every two; each sample takes cost_ns. */
static struct counts turns(
	bool slower, bool unseen, int64_t from_ns, int64_t until_ns, int64_t cost_ns)
{
	struct counts counts = {0};

	for (int64_t now = from_ns; now < until_ns; now += TURN) {
		const struct samplers_turn turn = {.now = {now},
			.due = now % SECOND == 0,
			.slower = slower && now / SECOND % 2 == 0,
			.unseen = unseen};
		unsigned sources = samplers_due(samplers, &turn);

		if (!sources)
			continue;
		assert_int_equal(sources & PROBE_SOURCE_TCP, 0);
		assert_true(sources & PROBE_SOURCE_CGROUP);
		counts.all += (sources & PROBE_SOURCE_PSI) != 0;
		counts.stand_ins += !(sources & PROBE_SOURCE_PSI);
		samplers_done(samplers, cost_ns);
	}
	return counts;
}

static void once_a_second(void **state)
{
	struct counts counts = turns(false, true, 100 * SECOND, 160 * SECOND, MS);

	(void)state;
	assert_int_equal(counts.all, 60);
	assert_int_equal(counts.stand_ins, 0);
}

/* At once, and five times a second for a second. */
static void hurries_when_steps_become_longer(void **state)
{
	struct counts counts;

	(void)state;
	turns(false, true, 100 * SECOND, 110 * SECOND, 100000);
	counts = turns(true, true, 110 * SECOND + 300 * MS, 110 * SECOND + 350 * MS, 100000);
	assert_int_equal(counts.stand_ins, 1);
	counts = turns(false, true, 110 * SECOND + 350 * MS, 112 * SECOND, 100000);
	assert_int_equal(counts.all, 1);
	assert_in_range(counts.stand_ins, 3, 4);
}

/* The kernel side says it itself. */
static void not_beside_the_kernel_side(void **state)
{
	struct counts counts = turns(true, false, 100 * SECOND, 110 * SECOND, 100000);

	(void)state;
	assert_int_equal(counts.all, 10);
	assert_int_equal(counts.stand_ins, 0);
}

/* Cheap ones come once in five seconds on average; dear ones, of many ranks, take 0.1 % of a core, and four hurries in advance. */
static void hurries_are_bounded(void **state)
{
	struct counts counts = turns(true, true, 100 * SECOND, 200 * SECOND, 4 * MS);

	(void)state;
	assert_int_equal(counts.all, 100);
	assert_in_range(counts.stand_ins, 30, 50);
	counts = turns(true, true, 1000 * SECOND, 1100 * SECOND, 10000);
	assert_in_range(counts.stand_ins, 85, 125);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(once_a_second, create, destroy),
		cmocka_unit_test_setup_teardown(hurries_when_steps_become_longer, create, destroy),
		cmocka_unit_test_setup_teardown(not_beside_the_kernel_side, create, destroy),
		cmocka_unit_test_setup_teardown(hurries_are_bounded, create, destroy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
