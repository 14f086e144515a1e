/* SPDX-License-Identifier: Apache-2.0 */
/* When sockets are looked at: seldom, unless steps became longer. */
#include "probe/socket_looks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define TURN (50 * MS)

/* Turns from one time until before another; returns how many looks there were, each at such a cost. */
static unsigned turns(struct socket_looks *looks, struct job_news news, int64_t from_ns,
	int64_t until_ns, int64_t cost_ns)
{
	unsigned count = 0;

	for (int64_t now = from_ns; now < until_ns; now += TURN) {
		if (!socket_looks_due(looks, &news, (struct host_ns){now}))
			continue;
		socket_looks_done(looks, cost_ns);
		count++;
	}
	return count;
}

static void once_a_second(void **state)
{
	struct socket_looks looks;

	(void)state;
	socket_looks_init(&looks);
	assert_int_equal(turns(&looks, (struct job_news){.step_ns = 60 * MS}, 100 * SECOND,
				 160 * SECOND, MS),
		60);
}

/* At once, ten times a second for a second, and not again at once. */
static void hurries_when_steps_become_longer(void **state)
{
	struct socket_looks looks;
	const struct job_news usual = {.step_ns = 60 * MS};
	const struct job_news slower = {.step_ns = 80 * MS, .slower = true};

	(void)state;
	socket_looks_init(&looks);
	turns(&looks, usual, 100 * SECOND, 110 * SECOND + 200 * MS, MS);
	assert_true(socket_looks_due(&looks, &slower, (struct host_ns){110 * SECOND + 200 * MS}));
	socket_looks_done(&looks, MS);
	assert_in_range(
		turns(&looks, usual, 110 * SECOND + 250 * MS, 111 * SECOND + 250 * MS, MS), 8, 10);
	assert_in_range(
		turns(&looks, usual, 111 * SECOND + 250 * MS, 121 * SECOND + 250 * MS, MS), 9, 11);
}

/* What goes on is looked at once; what begins soon after it, or in a hurry without need, is as well. */
static void hurries_once_for_each_beginning(void **state)
{
	struct socket_looks looks;
	const struct job_news usual = {.step_ns = 60 * MS};
	const struct job_news slower = {.step_ns = 80 * MS, .slower = true};

	(void)state;
	socket_looks_init(&looks);
	turns(&looks, usual, 100 * SECOND, 110 * SECOND, MS);
	assert_in_range(turns(&looks, slower, 110 * SECOND, 113 * SECOND, MS), 11, 13);
	turns(&looks, usual, 113 * SECOND, 114 * SECOND, MS);
	assert_in_range(turns(&looks, slower, 114 * SECOND, 114 * SECOND + 100 * MS, MS), 1, 2);
	turns(&looks, usual, 114 * SECOND + 100 * MS, 114 * SECOND + 800 * MS, MS);
	assert_in_range(
		turns(&looks, slower, 114 * SECOND + 800 * MS, 115 * SECOND + 800 * MS, MS), 8, 11);
	assert_in_range(turns(&looks, slower, 116 * SECOND, 120 * SECOND, MS), 3, 5);
}

/* For 100 s, in a second of every two. */
static void slower_now_and_then(struct socket_looks *looks, int64_t cost_ns)
{
	const struct job_news usual = {.step_ns = 60 * MS};
	const struct job_news slower = {.step_ns = 60 * MS, .slower = true};

	socket_looks_init(looks);
	for (int64_t at = 100 * SECOND; at < 200 * SECOND; at += 2 * SECOND) {
		turns(looks, slower, at, at + SECOND, cost_ns);
		turns(looks, usual, at + SECOND, at + 2 * SECOND, cost_ns);
	}
}

/* Whoever is slower again and again is not always looked at; and never for more than the share of a core. */
static void hurries_are_bounded(void **state)
{
	struct socket_looks looks;

	(void)state;
	/* Cheap: one second in five, and four in advance. */
	slower_now_and_then(&looks, 10000);
	assert_in_range(looks.hurry.duty.windows, 21, 25);
	/* Dear, 5 ms a look: 0.1 % of 100 s are 100 ms, and four hurries in advance. */
	slower_now_and_then(&looks, 5 * MS);
	assert_in_range(looks.hurry.duty.cost_ns, 200 * MS, 310 * MS);
}

static void long_steps_are_looked_at_where_they_end(void **state)
{
	struct socket_looks looks;
	const struct job_news within = {.step_ns = 6 * SECOND};
	const struct job_news ended = {.step_ns = 6 * SECOND, .long_step_ended = true};

	(void)state;
	socket_looks_init(&looks);
	assert_int_equal(turns(&looks, within, 100 * SECOND, 106 * SECOND, MS), 1);
	assert_true(socket_looks_due(&looks, &ended, (struct host_ns){106 * SECOND}));
	/* Another rank of the host ends its step a turn later. */
	assert_false(socket_looks_due(&looks, &ended, (struct host_ns){106 * SECOND + 50 * MS}));
	assert_int_equal(
		turns(&looks, within, 106 * SECOND + 100 * MS, 107 * SECOND + 400 * MS, MS), 0);
	/* One that does not end, or took minutes, does not keep it from looking. */
	assert_int_equal(turns(&looks, within, 107 * SECOND, 122 * SECOND, MS), 2);
	assert_int_equal(turns(&looks, (struct job_news){.step_ns = 600 * SECOND}, 122 * SECOND,
				 302 * SECOND, MS),
		3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(once_a_second),
		cmocka_unit_test(hurries_when_steps_become_longer),
		cmocka_unit_test(hurries_once_for_each_beginning),
		cmocka_unit_test(hurries_are_bounded),
		cmocka_unit_test(long_steps_are_looked_at_where_they_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
