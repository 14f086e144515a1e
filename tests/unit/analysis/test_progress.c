/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on made jobs: two ranks that reduce gradients in each step, slow for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "analysis/detect/progress.h"

enum { CALLS = 4, RANKS = 2, MS = 1000000, STEP_MS = 40, STEPS_A_SLOT = 5 };

struct made {
	struct progress *progress;
	struct step_grid grid;
	int64_t now_ns;
	uint64_t sequence;
	uint32_t steps; /* in the open slot */
	uint32_t random;
	bool aside;
};

static void assert_near(double value, double wanted, double tolerance)
{
	if (fabs(value - wanted) > tolerance)
		fail_msg("%f, not %f", value, wanted);
}

static int set_up(void **state)
{
	static struct made made;

	made = (struct made){.now_ns = 1000 * MS, .random = 1};
	grid_init(&made.grid);
	assert_int_equal(progress_create(&made.progress), 0);
	*state = &made;
	return 0;
}

static int tear_down(void **state)
{
	struct made *made = *state;

	progress_destroy(made->progress);
	grid_fini(&made->grid);
	return 0;
}

static void add_call(struct made *made, const struct part_kind *kind, uint32_t rank,
	int64_t *time_ns, int64_t took_ns)
{
	const struct grid_part part = {
		.kind = kind,
		.before = &activity_none,
		.inside = &activity_none,
		.joined = true,
		.sequence = made->sequence,
		.size = RANKS,
		.own_index = rank,
		.arrival_ns = *time_ns + took_ns / 2,
		.call_ns = took_ns - took_ns / 2,
		.segment_ns = took_ns / 2,
	};

	assert_int_equal(grid_add_part(&made->grid, &part), 0);
	*time_ns += took_ns;
}

/* A step of so many calls of a length, each of which takes so long. */
static void run_step(struct made *made, uint32_t calls, uint64_t length_bytes, int64_t took_ns)
{
	const struct part_kind kind = {.communicator_id = 1,
		.operation = OPERATION_ALL_REDUCE,
		.length_bytes = length_bytes};
	uint64_t sequence = made->sequence;
	int64_t end_ns = made->now_ns;

	grid_clear(&made->grid);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		made->sequence = sequence;
		end_ns = made->now_ns;
		assert_int_equal(grid_add_row(&made->grid, rank, 0, made->now_ns, 0), 0);
		for (uint32_t i = 0; i < calls; i++, made->sequence++)
			add_call(made, &kind, rank, &end_ns, took_ns);
	}
	made->grid.step.start_ns = made->now_ns;
	made->grid.step.end_ns = made->now_ns = end_ns;
	assert_int_equal(grid_link(&made->grid), 0);
	progress_step(made->progress, &made->grid);
	if (++made->steps < STEPS_A_SLOT)
		return;
	progress_end_slot(made->progress, made->aside);
	made->steps = 0;
}

/* Steps of the usual calls, so many times as long as usual, and by up to a tenth longer or shorter. */
static void run(struct made *made, uint32_t steps, double times)
{
	while (steps--) {
		made->random = made->random * 1664525 + 1013904223;

		double noise = 0.9 + 0.2 * (double)(made->random >> 8) / (1 << 24);

		run_step(made, CALLS, 1 << 20, (int64_t)(STEP_MS * MS / CALLS * times * noise));
	}
}

static double growth_since(struct made *made, int64_t from_ns)
{
	struct progress_rate usual = progress_before(made->progress, from_ns, made->now_ns);
	struct progress_rate now = progress_between(made->progress, from_ns, made->now_ns);
	struct progress_loss lost = progress_lost(&usual, &now);

	assert_true(lost.known);
	return 1 / (1 - lost.share);
}

static void growth_is_that_of_the_steps(void **state)
{
	static const double grown[] = {1.1, 1.7, 4, 12};
	struct made *made = *state;

	run(made, 200, 1);
	for (size_t i = 0; i < sizeof(grown) / sizeof(grown[0]); i++) {
		int64_t from_ns = made->now_ns;

		made->aside = true;
		run(made, 50, grown[i]);
		assert_near(growth_since(made, from_ns), grown[i], 0.2 * (grown[i] - 1));
		made->aside = false;
		run(made, 50, 1);
	}
}

static void a_healthy_job_loses_nothing(void **state)
{
	struct made *made = *state;

	run(made, 200, 1);
	for (int i = 0; i < 20; i++) {
		int64_t from_ns = made->now_ns;

		run(made, 50, 1);

		struct progress_rate usual = progress_before(made->progress, from_ns, made->now_ns);
		struct progress_rate now = progress_between(made->progress, from_ns, made->now_ns);
		struct progress_loss lost = progress_lost(&usual, &now);

		assert_true(fabs(lost.share) < 4 * lost.error);
		assert_true(fabs(lost.share) < 0.03);
	}
}

/* Where steps are cut does not matter: of the same calls, now and then two steps are taken for one. */
static void steps_may_be_cut_anywhere(void **state)
{
	struct made *made = *state;
	int64_t from_ns;

	run(made, 200, 1);
	from_ns = made->now_ns;
	for (int i = 0; i < 60; i++)
		run_step(made, CALLS * (1 + (uint32_t)i % 3), 1 << 20, STEP_MS * MS / CALLS);
	assert_near(growth_since(made, from_ns), 1, 0.03);
}

/* An evaluation has calls of its own, which come more rarely: the job is not slow meanwhile. */
static void an_evaluation_is_no_loss(void **state)
{
	struct made *made = *state;
	int64_t from_ns;

	for (int i = 0; i < 6; i++) {
		run(made, 50, 1);
		for (int j = 0; j < STEPS_A_SLOT; j++)
			run_step(made, 1, 8, 300 * MS);
	}
	from_ns = made->now_ns;
	for (int j = 0; j < 2 * STEPS_A_SLOT; j++)
		run_step(made, 1, 8, 300 * MS);
	assert_near(growth_since(made, from_ns), 1, 0.05);
}

/* The first step takes a minute, and a checkpoint twenty seconds: neither is usual. */
static void what_stood_still_is_not_usual(void **state)
{
	struct made *made = *state;
	int64_t from_ns;

	run(made, 1, 1500);
	run(made, 99, 1);
	run(made, 1, 500);
	run(made, 49, 1);
	from_ns = made->now_ns;
	run(made, 50, 1.5);
	assert_near(growth_since(made, from_ns), 1.5, 0.05);
}

/* An onset that is found a second too late leaves slots of the fault before it. */
static void an_onset_may_be_found_late(void **state)
{
	struct made *made = *state;
	int64_t from_ns;

	run(made, 200, 1);
	run(made, 20, 1.8);
	from_ns = made->now_ns;
	run(made, 50, 1.8);
	assert_near(growth_since(made, from_ns), 1.8, 0.05);
}

static void what_is_aside_is_not_usual(void **state)
{
	struct made *made = *state;
	int64_t first_ns, second_ns;

	run(made, 100, 1);
	first_ns = made->now_ns;
	run(made, 200, 2);
	second_ns = made->now_ns;
	run(made, 50, 4);
	assert_near(growth_since(made, second_ns), 2, 0.1);
	progress_set_aside(made->progress, first_ns, second_ns, true);
	assert_near(growth_since(made, second_ns), 4, 0.2);
}

/* A job that wanders is faster after the fault than before it: the truth lies between. */
static void after_a_fault_both_sides_tell(void **state)
{
	struct made *made = *state;
	int64_t from_ns, until_ns;
	struct progress_rate around, now;

	run(made, 200, 1.2);
	from_ns = made->now_ns;
	made->aside = true;
	run(made, 50, 2);
	made->aside = false;
	until_ns = made->now_ns;
	run(made, 5, 1);
	assert_int_equal(progress_around(made->progress, from_ns, until_ns).slots, 0);
	run(made, 50, 1);
	around = progress_around(made->progress, from_ns, until_ns);
	now = progress_between(made->progress, from_ns, until_ns);
	assert_near(1 / (1 - progress_lost(&around, &now).share), 2 / 1.1, 0.06);
}

static double loss_beside(const struct made *made, int64_t from_ns)
{
	struct progress_rate usual = progress_before(made->progress, from_ns, made->now_ns);
	struct progress_rate now = progress_beside(made->progress, from_ns, made->now_ns);

	return progress_lost(&usual, &now).share;
}

/* What a verdict's fault costs is not what another rank costs, unless nothing else is known. */
static void what_is_aside_is_nobody_elses(void **state)
{
	struct made *made = *state;
	int64_t from_ns;

	run(made, 200, 1);
	from_ns = made->now_ns;
	run(made, 50, 1);
	made->aside = true;
	run(made, 50, 4);
	assert_near(loss_beside(made, from_ns), 0, 0.05);
	progress_set_aside(made->progress, from_ns, made->now_ns, true);
	assert_near(loss_beside(made, from_ns), 0.6, 0.05);
}

static void the_end_shows(void **state)
{
	static const double grown[] = {1.04, 1.15, 3};
	struct made *made = *state;

	run(made, 200, 1);
	for (size_t i = 0; i < sizeof(grown) / sizeof(grown[0]); i++) {
		int64_t from_ns = made->now_ns;
		struct progress_rate usual, now;
		struct progress_loss lost;

		made->aside = true;
		run(made, 50, grown[i]);
		usual = progress_before(made->progress, from_ns, made->now_ns);
		now = progress_between(made->progress, from_ns, made->now_ns);
		lost = progress_lost(&usual, &now);
		assert_false(progress_is_back(made->progress, from_ns, &usual, &lost));
		run(made, 20, 1);
		assert_true(progress_is_back(made->progress, from_ns, &usual, &lost));
		made->aside = false;
		run(made, 50, 1);
	}
}

static void without_a_past_nothing_is_known(void **state)
{
	struct made *made = *state;
	struct progress_rate usual, now;

	run(made, 200, 2);
	usual = progress_before(made->progress, 1000 * MS, made->now_ns);
	now = progress_between(made->progress, 1000 * MS, made->now_ns);
	assert_int_equal(usual.slots, 0);
	assert_true(now.slots > 0);
	assert_false(progress_lost(&usual, &now).known);
}

/* The scale of time changes nothing: steps of 4 s. */
static void long_steps_are_slots(void **state)
{
	struct made *made = *state;
	int64_t from_ns;

	made->aside = false;
	run(made, 200, 100);
	from_ns = made->now_ns;
	run(made, 50, 160);
	assert_near(growth_since(made, from_ns), 1.6, 0.05);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(growth_is_that_of_the_steps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_healthy_job_loses_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(steps_may_be_cut_anywhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_evaluation_is_no_loss, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_stood_still_is_not_usual, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_onset_may_be_found_late, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_aside_is_not_usual, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_aside_is_nobody_elses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(after_a_fault_both_sides_tell, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_end_shows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_a_past_nothing_is_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(long_steps_are_slots, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
