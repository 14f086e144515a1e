/* SPDX-License-Identifier: Apache-2.0 */
/* Which flows between ranks are slow, and whose they are. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/locate/link_flows.h"

#define S INT64_C(1000000000)
enum { QUIET_S = 10, UNTIL_S = 14 };

/* One second of a flow: so many requests with that mean time, in us. */
static void requests(struct link_flows *flows, uint32_t from, uint32_t to, int64_t at_s,
	uint64_t count, double us)
{
	struct link_sample sample = {.from = from,
		.to = to,
		.latency_count = count,
		.latency_sum_ns = (uint64_t)(us * 1000 * (double)count)};

	assert_int_equal(link_flows_add(flows, &sample, at_s * S), 0);
}

static void second(struct link_flows *flows, uint32_t from, uint32_t to, int64_t at_s, double us)
{
	requests(flows, from, to, at_s, 100, us);
}

/* matrix: us of each flow while it is bad; 0: no such flow. Healthy ones take 100 us. */
static bool find(size_t ranks, const double matrix[][4], struct link_finding *finding)
{
	struct link_flows flows = {0};
	bool found;

	for (int64_t s = 1; s <= UNTIL_S; s++) {
		link_flows_set_state(&flows, s <= QUIET_S, false);
		for (uint32_t from = 0; from < ranks; from++) {
			for (uint32_t to = 0; to < ranks; to++) {
				double bad = matrix[from][to];

				if (bad > 0)
					second(&flows, from, to, s, s <= QUIET_S ? 100 : bad);
			}
		}
	}
	found = link_flows_find(&flows, QUIET_S * S, UNTIL_S * S, 0.1, finding);
	link_flows_fini(&flows);
	return found;
}

static void healthy_is_nobody(void **state)
{
	const double ring[4][4] = {[0][1] = 100, [1][2] = 150, [2][3] = 90, [3][0] = 110};
	struct link_finding finding;

	(void)state;
	assert_false(find(4, ring, &finding));
}

/* Its data is late, and the acknowledgements it sends are, a little. */
static void common_rank_of_a_ring(void **state)
{
	const double ring[4][4] = {[0][1] = 100, [1][2] = 9000, [2][3] = 90, [3][0] = 110};
	const double acknowledged[4][4] = {[0][1] = 3000, [1][2] = 9000, [2][3] = 90, [3][0] = 110};
	struct link_finding finding;

	(void)state;
	assert_true(find(4, ring, &finding));
	assert_true(finding.named);
	assert_int_equal(finding.rank, 1);
	assert_int_equal(finding.pair_count, 1);
	assert_true(finding.all_of_rank);
	assert_true(find(4, acknowledged, &finding));
	assert_true(finding.named);
	assert_int_equal(finding.rank, 1);
	assert_int_equal(finding.pairs[0].from, 1);
	assert_int_equal(finding.pairs[0].to, 2);
	assert_int_equal(finding.pair_count, 2);
}

/* All that comes to a rank is late: the rank is named, not those who send. */
static void slow_receiver(void **state)
{
	const double all[4][4] = {
		{0, 100, 9000, 100}, {100, 0, 9000, 100}, {100, 100, 0, 100}, {100, 100, 9000, 0}};
	struct link_finding finding;

	(void)state;
	assert_true(find(4, all, &finding));
	assert_true(finding.named);
	assert_int_equal(finding.rank, 2);
	assert_true(finding.all_of_rank);
}

/* One path of many is slow: that pair, and no NIC. */
static void one_path(void **state)
{
	const double all[4][4] = {
		{0, 100, 9000, 100}, {100, 0, 100, 100}, {100, 100, 0, 100}, {100, 100, 100, 0}};
	struct link_finding finding;

	(void)state;
	assert_true(find(4, all, &finding));
	assert_int_equal(finding.pairs[0].from, 0);
	assert_int_equal(finding.pairs[0].to, 2);
	assert_false(finding.all_of_rank);
}

/* Everything is slow: nobody is named. */
static void all_alike(void **state)
{
	const double ring[4][4] = {[0][1] = 9000, [1][2] = 9100, [2][3] = 9000, [3][0] = 8900};
	const double two[2][4] = {{0, 9000}, {9100, 0}};
	struct link_finding finding;

	(void)state;
	assert_true(find(4, ring, &finding));
	assert_false(finding.named);
	assert_true(find(2, two, &finding));
	assert_false(finding.named); /* either one's link, as far as can be seen */
}

static void nothing_usual_nothing_slow(void **state)
{
	struct link_flows flows = {0};
	struct link_finding finding;

	(void)state;
	for (int64_t s = 1; s <= 3; s++)
		second(&flows, 0, 1, s, 9000);
	assert_false(link_flows_find(&flows, 0, 3 * S, 0.1, &finding));
	link_flows_fini(&flows);
}

/* Programs that ask for one completion in 64 requests have one or two times in a second. */
static void few_times(void **state)
{
	struct link_flows flows = {0};
	struct link_finding finding;

	(void)state;
	for (int64_t s = 1; s <= 36; s++) {
		link_flows_set_state(&flows, s <= 24, false);
		for (uint32_t r = 0; r < 4; r++)
			requests(&flows, r, (r + 1) % 4, s, 1, s > 24 && r == 1 ? 900000 : 2000);
	}
	assert_true(link_flows_find(&flows, 24 * S, 36 * S, 0.1, &finding));
	assert_true(finding.named);
	assert_int_equal(finding.rank, 1);
	assert_int_equal(finding.pair_count, 1);
	assert_int_equal(finding.pairs[0].to, 2);
	link_flows_fini(&flows);
}

/* What is usual is known of one flow only: it must not be named for being the only one known. */
static void few_known(void **state)
{
	struct link_flows flows = {0};
	struct link_finding finding;

	(void)state;
	for (int64_t s = 1; s <= 24; s++) {
		link_flows_set_state(&flows, s <= 12, false);
		for (uint32_t r = 0; r < 4; r++) {
			if (r == 3 || s > 12)
				second(&flows, r, (r + 1) % 4, s, s > 12 ? 9000 : 1000);
		}
		if (s == 16)
			assert_false(link_flows_find(&flows, 12 * S, 16 * S, 0.1, &finding));
	}
	/* Nor for having been faster than the others ever were. */
	assert_true(link_flows_find(&flows, 12 * S, 24 * S, 0.1, &finding));
	assert_false(finding.named);
	link_flows_fini(&flows);
}

/* Like a machine that is busy: times vary by a hundred, and most flows are slower for a while. */
static bool find_in_noise(uint64_t seed, double bad_us, struct link_finding *finding)
{
	struct link_flows flows = {0};
	bool found;

	for (int64_t s = 1; s <= 80; s++) {
		link_flows_set_state(&flows, s <= 30, false);
		for (uint32_t r = 0; r < 4; r++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			double wild = exp(4.6 * (double)(seed >> 40) / (double)(1 << 24));
			double us = 1000 * wild * (s > 30 ? 4 : 1);

			requests(&flows, r, (r + 1) % 4, s, 2, s > 60 && r == 1 ? us + bad_us : us);
		}
	}
	found = link_flows_find(&flows, 60 * S, 80 * S, 0.1, finding);
	link_flows_fini(&flows);
	return found && finding->named;
}

static void busy_machine(void **state)
{
	unsigned blamed = 0, right = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct link_finding finding;

		blamed += find_in_noise(seed, 0, &finding);
		right += find_in_noise(seed, 3e6, &finding) && finding.rank == 1;
	}
	/* One look in a hundred, and only where transfers are slow at all. */
	assert_in_range(blamed, 0, 3);
	assert_in_range(right, 185, 200);
}

/* A burst that is over is no slow link, though the mean since then tells of it. */
static void burst(void **state)
{
	struct link_flows flows = {0};
	struct link_finding finding;

	(void)state;
	for (int64_t s = 1; s <= 24; s++) {
		link_flows_set_state(&flows, s <= 10, false);
		for (uint32_t r = 0; r < 4; r++)
			second(&flows, r, (r + 1) % 4, s,
				r == 1 && s > 10 && s <= 14 ? 90000 : 1000);
		if (s == 14)
			assert_true(link_flows_find(&flows, 10 * S, 14 * S, 0.1, &finding));
	}
	assert_false(link_flows_find(&flows, 10 * S, 24 * S, 0.1, &finding));
	link_flows_fini(&flows);
}

/* How things are for longer than can be told at once becomes usual, unless it was told of. */
static void usual_moves(void **state)
{
	(void)state;
	for (int told = 0; told < 2; told++) {
		struct link_flows flows = {0};
		struct link_finding finding;

		for (int64_t s = 1; s <= 60; s++) {
			link_flows_set_state(&flows, s <= 10, told && s > 10);
			for (uint32_t r = 0; r < 4; r++)
				second(&flows, r, (r + 1) % 4, s, s > 10 && r == 1 ? 9000 : 1000);
		}
		assert_int_equal(link_flows_find(&flows, 50 * S, 60 * S, 0.1, &finding), told);
		link_flows_fini(&flows);
	}
}

static void flows_are_bounded(void **state)
{
	struct link_flows flows = {0};
	struct link_finding finding;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		for (uint32_t j = 0; j < 300; j++)
			second(&flows, i, 2000 + j, 1, 100);
	}
	assert_int_equal(flows.count, LINK_FLOWS_MAX);
	assert_int_equal(flows.unseen, 300000 - LINK_FLOWS_MAX);
	assert_false(link_flows_find(&flows, 0, 3 * S, 0.1, &finding));
	link_flows_fini(&flows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_is_nobody),
		cmocka_unit_test(common_rank_of_a_ring),
		cmocka_unit_test(slow_receiver),
		cmocka_unit_test(one_path),
		cmocka_unit_test(all_alike),
		cmocka_unit_test(nothing_usual_nothing_slow),
		cmocka_unit_test(few_times),
		cmocka_unit_test(few_known),
		cmocka_unit_test(busy_machine),
		cmocka_unit_test(burst),
		cmocka_unit_test(usual_moves),
		cmocka_unit_test(flows_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
