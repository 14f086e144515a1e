/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analysis/join/segments_beside.h"

#define US INT64_C(1000)

enum { PLACE = 4711 };

/* work_us: of the one that waits least; the other waits and then takes gap_us to its next call. */
static void learn(struct beside_places *places, int64_t wait_us, int64_t gap_us, int64_t work_us)
{
	beside_learn(places, PLACE,
		&(struct beside_gap){.wait_ns = wait_us * US,
			.most_wait_ns = wait_us * US,
			.gap_ns = gap_us * US,
			.least_next = true,
			.others = 1,
			.least_stay_ns = 100 * US,
			.least_gap_ns = (work_us - 100) * US});
}

/* Small waits, both ways round: the gap shrinks by the wait where the work goes on. */
static void learn_healthy(struct beside_places *places, int steps, int64_t work_us, bool beside)
{
	for (int i = 0; i < steps; i++) {
		int64_t wait_us = 20 + 13 * (i % 5), jitter_us = 7 * (i % 4);

		learn(places, wait_us, work_us - 100 - (beside ? wait_us : 0) + jitter_us,
			work_us + jitter_us);
	}
}

/* A wait that is longer than the work takes: the next call comes at once, and no sooner. */
static void long_waits_show_work_beside(void **state)
{
	struct beside_places *places = beside_places_create();

	(void)state;
	assert_non_null(places);
	learn_healthy(places, 40, 1000, true);
	assert_int_not_equal(beside_known(places, PLACE, false),
		BESIDE_WORK); /* waits of 50 us and more are few so far */
	for (int i = 0; i < 10; i++)
		learn(places, 30000, 8, 1000);
	assert_int_equal(beside_known(places, PLACE, false), BESIDE_WORK);
	beside_places_destroy(places);
}

/* A rank that is slow once, in a program that stops for its collectives: the others' gaps stay. */
static void waits_alone_are_no_work_beside(void **state)
{
	struct beside_places *places = beside_places_create();

	(void)state;
	assert_non_null(places);
	learn_healthy(places, 40, 1000, false);
	for (int i = 0; i < 500; i++)
		learn(places, 30000, 900, 1000);
	assert_int_not_equal(beside_known(places, PLACE, false), BESIDE_WORK);
	beside_places_destroy(places);
}

/*
 * A rank whose every segment takes twice as long, in a program that stops for its collectives: the
 * others wait 1 ms, and their gaps are 1 ms shorter than its own, which is no sign of work beside.
 */
static void a_slow_rank_is_no_work_beside(void **state)
{
	struct beside_places *places = beside_places_create();

	(void)state;
	assert_non_null(places);
	learn_healthy(places, 40, 1000, false);
	for (int i = 0; i < 500; i++)
		learn(places, 1000, 900, 2000);
	assert_int_not_equal(beside_known(places, PLACE, false), BESIDE_WORK);
	beside_places_destroy(places);
}

static void usual_work_is_that_of_the_healthy(void **state)
{
	struct beside_places *places = beside_places_create();

	(void)state;
	assert_non_null(places);
	assert_true(beside_work_ns(places, PLACE) < 0);
	learn(places, 20, 900, 9000); /* a start that takes longer is forgotten */
	learn_healthy(places, 40, 1000, true);
	assert_in_range(beside_work_ns(places, PLACE), 950 * US, 1070 * US);
	for (int i = 0; i < 50; i++)
		learn(places, 2000, 8, 3000);
	assert_in_range(beside_work_ns(places, PLACE), 950 * US, 1150 * US);
	assert_true(beside_work_ns(places, PLACE + 2) < 0);
	beside_places_destroy(places);
}

/* Where one waited for long from the first step on, nobody knows what is usual. */
static void slow_from_the_start_is_not_usual(void **state)
{
	struct beside_places *places = beside_places_create();

	(void)state;
	assert_non_null(places);
	for (int i = 0; i < 100; i++)
		learn(places, 2000, 8, 3000);
	assert_true(beside_work_ns(places, PLACE) < 0);
	beside_places_destroy(places);
}

enum { BUCKETS = 8, STEPS = 60 };

/* One rank's step of data-parallel training: its own times. */
struct made_rank {
	int64_t forward_us, bucket_us; /* work before the first reduction, between two */
	bool in_pairs;		       /* every second one follows with no work before it */
};

/* Two ranks that do the same; now the one, now the other is a little late. */
static void make_alike(struct made_rank ranks[2], uint64_t step)
{
	for (int r = 0; r < 2; r++)
		ranks[r] = (struct made_rank){.forward_us = 20000, .bucket_us = 2000};
	ranks[step % 2].forward_us += 40 + 30 * (int64_t)(step % 7);
}

/* closing_us: work between the last gradients, which it needs, and the loss. */
static void add_step(
	struct step_grid *grid, struct made_rank ranks[2], uint64_t step, int64_t closing_us)
{
	static const struct part_kind kind = {
		.communicator_id = 1, .operation = OPERATION_ALL_REDUCE, .flags = PART_DEVICE_TIME};
	static const struct part_kind loss = {.communicator_id = 1,
		.operation = OPERATION_ALL_REDUCE,
		.length_bytes = 4,
		.flags = PART_DEVICE_TIME};
	int64_t free_us[2] = {0, 0}, end_us = 0, departures[BUCKETS], arrivals[2][BUCKETS];

	for (int k = 0; k < BUCKETS; k++) {
		for (int r = 0; r < 2; r++) {
			bool second = ranks[r].in_pairs && k % 2;
			/* seven for the launch: what was queued begins a little later */
			int64_t queued_us = k ? departures[k - 1] + (second ? 2 : 7) : 0;

			free_us[r] += second ? 0 : k ? ranks[r].bucket_us : ranks[r].forward_us;
			arrivals[r][k] = free_us[r] > queued_us ? free_us[r] : queued_us;
		}
		departures[k] =
			(arrivals[0][k] > arrivals[1][k] ? arrivals[0][k] : arrivals[1][k]) + 150;
	}
	end_us = departures[BUCKETS - 1] + closing_us;
	for (uint32_t r = 0; r < 2; r++) {
		int64_t before_us = 0;

		assert_int_equal(grid_add_row(grid, r, 0, 0, 0), 0);
		for (int k = 0; k <= BUCKETS; k++) {
			int64_t arrival_us = k < BUCKETS ? arrivals[r][k] : end_us;
			int64_t departure_us = k < BUCKETS ? departures[k] : end_us + 10;
			const struct grid_part part = {
				.kind = k < BUCKETS ? &kind : &loss,
				.before = &activity_none,
				.inside = &activity_none,
				.joined = true,
				.sequence = step * (BUCKETS + 1) + (uint64_t)k,
				.size = 2,
				.own_index = r,
				.arrival_ns = arrival_us * US,
				.call_ns = (departure_us - arrival_us) * US,
				.segment_ns = (arrival_us - before_us) * US,
			};

			assert_int_equal(grid_add_part(grid, &part), 0);
			before_us = departure_us;
		}
	}
	assert_int_equal(grid_link(grid), 0);
}

/*
 * Gradients are reduced beside the backward pass, and one rank's forward pass becomes longer. The
 * other waits in the first reduction, and all its further work is hidden behind the rest of them:
 * its own times stay what they were.
 */
static void hidden_work_stays_what_it_was(void **state)
{
	struct step_grid grid;

	(void)state;
	grid_init(&grid);
	for (uint64_t step = 0; step < STEPS; step++) {
		struct made_rank ranks[2];
		int64_t own_ns = 0;

		make_alike(ranks, step);
		if (step >= STEPS - 10)
			ranks[0].forward_us += 30000;
		grid_clear(&grid);
		add_step(&grid, ranks, step, 1000);
		for (uint32_t i = 1; i < BUCKETS && step >= STEPS - 5; i++) {
			const struct grid_cell *cell = &grid.cells[grid.rows[1].first_cell + i];

			assert_true(cell->flags & CELL_QUEUED);
			assert_true(cell->flags & CELL_RECKONED);
			own_ns += grid_times_of(&grid, cell)->own_ns;
		}
		if (step >= STEPS - 5)
			assert_in_range(
				own_ns, 1900 * US * (BUCKETS - 1), 2100 * US * (BUCKETS - 1));
	}
	grid_fini(&grid);
}

enum { SLOW_STEPS = 400 };

/* Sum of a rank's own times between its first and its last reduction, as they are reckoned. */
static int64_t hidden_own_ns(const struct step_grid *grid, uint32_t rank, uint32_t *queued)
{
	int64_t own_ns = 0;

	for (uint32_t i = 1; i < BUCKETS; i++) {
		const struct grid_cell *cell = &grid->cells[grid->rows[rank].first_cell + i];

		own_ns += grid_times_of(grid, cell)->own_ns;
		*queued += (cell->flags & CELL_QUEUED) != 0;
	}
	return own_ns;
}

/*
 * All of one rank's work takes a little longer, for hundreds of steps: by less than a quarter, so that no
 * wait is long beside the work. What the other hides stays what it was.
 */
static void a_little_slower_for_long_is_not_usual(void **state)
{
	(void)state;
	for (int64_t percent = 10; percent <= 20; percent += 5) {
		struct step_grid grid;

		grid_init(&grid);
		for (uint64_t step = 0; step < STEPS + SLOW_STEPS; step++) {
			struct made_rank ranks[2];
			uint32_t queued = 0;

			make_alike(ranks, step);
			if (step >= STEPS) {
				ranks[0].forward_us += 200 * percent;
				ranks[0].bucket_us += 20 * percent;
			}
			grid_clear(&grid);
			add_step(&grid, ranks, step, 1000);
			if (step < STEPS + SLOW_STEPS - 5)
				continue;
			assert_in_range(hidden_own_ns(&grid, 1, &queued), 1920 * US * (BUCKETS - 1),
				2080 * US * (BUCKETS - 1));
			assert_int_equal(queued, BUCKETS - 1);
			assert_in_range(hidden_own_ns(&grid, 0, &queued),
				(2000 + 20 * percent) * US * (BUCKETS - 1) * 95 / 100,
				(2000 + 20 * percent) * US * (BUCKETS - 1) * 105 / 100);
		}
		grid_fini(&grid);
	}
}

/* All ranks have more to do from some step on, and wait as before: that is usual soon. */
static void more_work_for_all_becomes_usual(void **state)
{
	struct beside_places *places = beside_places_create();

	(void)state;
	assert_non_null(places);
	learn_healthy(places, 60, 1000, true);
	learn_healthy(places, 150, 1300, true);
	assert_in_range(beside_work_ns(places, PLACE), 1250 * US, 1370 * US);
	beside_places_destroy(places);
}

/*
 * Gradients come two by two, and one rank is always a little ahead. What it waits before the first of two, its
 * work behind the second one makes up for: no rank has more to do than the other.
 */
static void work_goes_on_beside_a_queue(void **state)
{
	struct step_grid grid;

	(void)state;
	grid_init(&grid);
	for (uint64_t step = 0; step < STEPS; step++) {
		struct made_rank ranks[2] = {
			{.forward_us = 20600, .bucket_us = 2000, .in_pairs = true},
			{.forward_us = 20000, .bucket_us = 2000, .in_pairs = true}};
		int64_t own_ns[2] = {0, 0};

		ranks[0].forward_us += 30 * (int64_t)(step % 7);
		grid_clear(&grid);
		add_step(&grid, ranks, step, 1000);
		for (uint32_t r = 0; r < 2 && step >= STEPS / 2; r++) {
			for (uint32_t i = 1; i < BUCKETS; i++)
				own_ns[r] += grid.times[grid.rows[r].first_cell + i].own_ns;
			assert_in_range(own_ns[r], 2000 * US * (BUCKETS / 2 - 1) - 400 * US,
				2000 * US * (BUCKETS / 2 - 1) + 400 * US);
		}
	}
	grid_fini(&grid);
}

/*
 * The loss follows its gradients at once on every rank: how long the work in between takes is only
 * known to be no more than that. What a rank waited for another before is not its own there either.
 */
static void what_needs_the_last_one_is_short(void **state)
{
	struct step_grid grid;

	(void)state;
	grid_init(&grid);
	for (uint64_t step = 0; step < STEPS; step++) {
		struct made_rank ranks[2];

		make_alike(ranks, step);
		if (step >= STEPS - 10)
			ranks[0].forward_us += 30000;
		grid_clear(&grid);
		add_step(&grid, ranks, step, 2);
		for (uint32_t r = 0; r < 2 && step >= STEPS - 10; r++)
			assert_in_range(grid.times[grid.rows[r].first_cell + BUCKETS].own_ns,
				2 * US, 400 * US);
	}
	grid_fini(&grid);
}

/* Bounds are the least that was seen, on a slow link too, and give way to what was seen of the work. */
static void what_was_queued_gives_a_bound(void **state)
{
	struct beside_places *places = beside_places_create();

	(void)state;
	assert_non_null(places);
	for (int i = 0; i < 20; i++)
		beside_bound(places, PLACE, (103 + i) * US);
	for (int i = 0; i < 1000; i++)
		beside_bound(places, PLACE, 3000 * US);
	assert_int_equal(beside_work_ns(places, PLACE), 103 * US);
	learn_healthy(places, 40, 1000, true);
	assert_in_range(beside_work_ns(places, PLACE), 950 * US, 1070 * US);
	beside_places_destroy(places);
}

/* Jitter, then `long_ones` steps in which a rank's device stays in calls; the other's host takes least_us. */
static void learn_hosts(struct beside_places *places, int long_ones, int64_t stays_us,
	int64_t cpu_us, int64_t least_us)
{
	for (int i = 0; i < 60; i++)
		beside_learn_host(places, PLACE, (1000 + 370 * (i % 4)) * US,
			(18000 + 410 * (i % 3)) * US, 18000 * US);
	for (int i = 0; i < long_ones; i++)
		beside_learn_host(places, PLACE, (stays_us + 900 * (i % 3)) * US,
			(cpu_us + 900 * (i % 3)) * US, least_us * US);
}

/* It is busy for as much longer than another as its device waits: it waits with it, in calls that nobody sees. */
static void a_host_that_waits_unseen_is_known_soon(void **state)
{
	struct beside_places *places = beside_places_create();

	(void)state;
	assert_non_null(places);
	learn_hosts(places, 0, 0, 0, 0);
	assert_false(beside_host_waits(places, PLACE));
	learn_hosts(places, 6, 85000, 100000, 18000);
	assert_true(beside_host_waits(places, PLACE));
	assert_false(beside_host_waits(places, PLACE + 1));
	beside_places_destroy(places);
}

/* It goes on as before while its device waits; or all hosts take longer, and one is ahead, so that its device waits. */
static void a_host_that_goes_on_does_not_wait(void **state)
{
	struct beside_places *places = beside_places_create();
	struct beside_places *alike = beside_places_create();

	(void)state;
	assert_non_null(places);
	assert_non_null(alike);
	learn_hosts(places, 100, 85000, 18000, 18000);
	assert_false(beside_host_waits(places, PLACE));
	learn_hosts(alike, 100, 85000, 101000, 100000);
	assert_false(beside_host_waits(alike, PLACE));
	/* What once was known is soon forgotten where it does not hold any more. */
	learn_hosts(places, 10, 85000, 100000, 18000);
	assert_true(beside_host_waits(places, PLACE));
	learn_hosts(places, 20, 85000, 18000, 18000);
	assert_false(beside_host_waits(places, PLACE));
	beside_places_destroy(alike);
	beside_places_destroy(places);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_waits_show_work_beside),
		cmocka_unit_test(waits_alone_are_no_work_beside),
		cmocka_unit_test(a_slow_rank_is_no_work_beside),
		cmocka_unit_test(usual_work_is_that_of_the_healthy),
		cmocka_unit_test(slow_from_the_start_is_not_usual),
		cmocka_unit_test(hidden_work_stays_what_it_was),
		cmocka_unit_test(a_little_slower_for_long_is_not_usual),
		cmocka_unit_test(more_work_for_all_becomes_usual),
		cmocka_unit_test(work_goes_on_beside_a_queue),
		cmocka_unit_test(what_needs_the_last_one_is_short),
		cmocka_unit_test(what_was_queued_gives_a_bound),
		cmocka_unit_test(a_host_that_waits_unseen_is_known_soon),
		cmocka_unit_test(a_host_that_goes_on_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
