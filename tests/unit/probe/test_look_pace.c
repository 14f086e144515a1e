/* SPDX-License-Identifier: Apache-2.0 */
/* When kernels are shown: what it costs, how soon a change is looked at, and where it must not be. */
#include "probe/look_pace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#define MS INT64_C(1000000)
#define UNIX_NS INT64_C(1795000000000000000)

/* A job that is asked every 10 ms; steps inside are told 400 ms late, as their kernels are. */
struct played {
	struct look_pace pace;
	int64_t now_ns, step_start_ns;
	double cost; /* of a step inside */
	bool on, uneven;
	int64_t on_ns, all_ns; /* since counting began */
	uint64_t windows, steps;
	struct {
		int64_t start_ns, end_ns;
	} late[512];
	size_t late_first, late_count;
};

static void tell(struct played *played, bool all)
{
	while (played->late_first < played->late_count &&
		(all || played->late[played->late_first % 512].end_ns <=
				played->now_ns - 400 * MS)) {
		size_t at = played->late_first++ % 512;

		look_pace_step(&played->pace, (struct host_ns){played->late[at].start_ns},
			(struct host_ns){played->late[at].end_ns});
	}
}

static void ask(struct played *played)
{
	bool on = look_pace_want(
		&played->pace, (struct host_ns){played->now_ns}, UNIX_NS + played->now_ns);

	played->windows += on && !played->on;
	played->on = on;
}

/* Lets the job run for a while with steps of this length. */
static void play(struct played *played, int64_t length_ns, int64_t step_ns)
{
	int64_t until_ns = played->now_ns + length_ns;

	while (played->now_ns < until_ns) {
		int64_t noise_ns = (int64_t)(played->steps * 2654435761U % 1000) * step_ns / 100000;
		int64_t long_ns = played->uneven ? (int64_t)(played->steps % 3) * step_ns : 0;
		double factor = played->on ? 1 + played->cost : 1;
		int64_t end_ns = played->step_start_ns +
				 (int64_t)((double)(step_ns + noise_ns + long_ns) * factor);
		bool was_on = played->on;

		for (; played->now_ns < end_ns; played->now_ns += 10 * MS) {
			tell(played, false);
			ask(played);
			played->all_ns += 10 * MS;
			played->on_ns += played->on ? 10 * MS : 0;
		}
		played->steps++;
		if (!was_on)
			tell(played, true);
		played->late[played->late_count % 512].start_ns = played->step_start_ns;
		played->late[played->late_count++ % 512].end_ns = end_ns;
		if (!was_on)
			tell(played, true);
		played->step_start_ns = end_ns;
	}
}

static struct played begin(double cost)
{
	struct played played = {.now_ns = 1000 * MS, .step_start_ns = 1000 * MS, .cost = cost};

	look_pace_init(&played.pace);
	return played;
}

static double share(struct played *played)
{
	return (double)played->on_ns / (double)played->all_ns;
}

static void first_window_is_at_once(void **state)
{
	struct played played = begin(0.15);

	(void)state;
	play(&played, 1800 * MS, 24 * MS);
	assert_true(played.on);
	play(&played, 400 * MS, 24 * MS);
	assert_false(played.on);
	assert_int_equal(played.windows, 1);
}

static void job_loses_what_was_agreed(void **state)
{
	static const double costs[] = {0.03, 0.1, 0.3, 0.8};

	(void)state;
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
		struct played played = begin(costs[i]);

		play(&played, 200000 * MS, 24 * MS);
		played.on_ns = played.all_ns = 0;
		play(&played, 600000 * MS, 24 * MS);
		assert_true(fabs(look_pace_cost(&played.pace) - costs[i]) < 0.01);
		assert_true(share(&played) * costs[i] <= LOOK_PACE_COST * 1.1);
		/* Not rarer by more than the periods' steps and the longest one say. */
		assert_true(share(&played) * costs[i] >= LOOK_PACE_COST * 0.45);
	}
}

static void what_costs_nothing_is_on_nearly_all_the_time(void **state)
{
	struct played played = begin(0.004);

	(void)state;
	play(&played, 60000 * MS, 60 * MS);
	played.on_ns = played.all_ns = 0;
	play(&played, 300000 * MS, 60 * MS);
	assert_true(share(&played) > 0.9);
	assert_true(share(&played) < 1); /* it rests, and is measured again */
}

static void growing_cost_is_noticed(void **state)
{
	struct played played = begin(0.004);

	(void)state;
	play(&played, 120000 * MS, 60 * MS);
	played.cost = 0.5;
	play(&played, 300000 * MS, 60 * MS);
	played.on_ns = played.all_ns = 0;
	play(&played, 300000 * MS, 60 * MS);
	assert_true(share(&played) < 0.03);
}

static void change_is_looked_at_at_once(void **state)
{
	static const int64_t lengths[] = {27 * MS, 40 * MS, 100 * MS};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct played played = begin(0.3);
		uint64_t windows;

		/* To just after a window, so that the next is far. */
		play(&played, 100000 * MS, 24 * MS);
		while (!played.on)
			play(&played, 24 * MS, 24 * MS);
		while (played.on)
			play(&played, 24 * MS, 24 * MS);
		play(&played, 1500 * MS, 24 * MS);
		windows = played.windows;
		play(&played, 4 * lengths[i] + 20 * MS, lengths[i]);
		assert_int_equal(played.windows, windows + 1);
		assert_true(played.on);
		/* And its end is. */
		play(&played, 6000 * MS, lengths[i]);
		windows = played.windows;
		play(&played, 4 * 24 * MS + 20 * MS, 24 * MS);
		assert_int_equal(played.windows, windows + 1);
	}
}

static void uneven_steps_are_no_change(void **state)
{
	struct played played = begin(0.3);
	uint64_t windows;

	(void)state;
	played.uneven = true;
	play(&played, 100000 * MS, 24 * MS);
	windows = played.windows;
	played.on_ns = played.all_ns = 0;
	play(&played, 300000 * MS, 24 * MS);
	assert_true(played.windows - windows <= 20);
}

static void budget_bounds_a_restless_job(void **state)
{
	struct played played = begin(0.3);

	(void)state;
	play(&played, 20000 * MS, 24 * MS);
	played.on_ns = played.all_ns = 0;
	for (int i = 0; i < 300; i++)
		play(&played, 2000 * MS, i % 2 ? 24 * MS : 40 * MS);
	assert_true(share(&played) < 0.2 + 0.1);
}

static void hosts_meet(void **state)
{
	struct played cheap = begin(0.1), dear = begin(0.3);
	uint64_t met = 0, dear_windows = 0;
	bool dear_was_on = false;

	(void)state;
	play(&cheap, 100000 * MS, 24 * MS);
	play(&dear, 100000 * MS, 24 * MS);
	for (int64_t until_ns = 101000 * MS; until_ns < 700000 * MS; until_ns += 10 * MS) {
		if (cheap.now_ns < until_ns)
			play(&cheap, until_ns - cheap.now_ns, 24 * MS);
		if (dear.now_ns < until_ns)
			play(&dear, until_ns - dear.now_ns, 24 * MS);
		dear_windows += dear.on && !dear_was_on;
		met += dear.on && cheap.on;
		dear_was_on = dear.on;
	}
	assert_true(dear_windows >= 5);
	assert_true(met >= dear_windows * 45); /* most of each window, in units of 10 ms */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_window_is_at_once),
		cmocka_unit_test(job_loses_what_was_agreed),
		cmocka_unit_test(what_costs_nothing_is_on_nearly_all_the_time),
		cmocka_unit_test(growing_cost_is_noticed),
		cmocka_unit_test(change_is_looked_at_at_once),
		cmocka_unit_test(uneven_steps_are_no_change),
		cmocka_unit_test(budget_bounds_a_restless_job),
		cmocka_unit_test(hosts_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
