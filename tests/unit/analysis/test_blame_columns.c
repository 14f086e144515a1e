/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances in columns are processed as a batch, some members at a time, with the same result as
 * one after the other, as in a step that one rank of another kind is part of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/attribute/blame.h"

enum { RANKS = 600, CALLS = 7, STEPS = 3, HOST_RANKS = 8 };

/* What all calls of a job are, and what some of them had inside. */
struct job {
	struct part_kind kinds[CALLS], lone;
	struct activity inside[RANKS][CALLS];
	bool off[RANKS][CALLS];
};

static int64_t random_ns(int64_t below_ns)
{
	return rand() % below_ns;
}

static void add_call(struct step_grid *grid, const struct part_kind *kind,
	const struct activity *inside, uint64_t sequence, uint32_t size, int64_t arrival_ns,
	int64_t segment_ns, int64_t call_ns)
{
	const struct grid_part part = {
		.kind = kind,
		.before = &activity_none,
		.inside = inside,
		.joined = true,
		.sequence = sequence,
		.size = size,
		.own_index = (uint32_t)grid->row_count - 1,
		.arrival_ns = arrival_ns,
		.call_ns = call_ns,
		.segment_ns = segment_ns,
	};

	assert_int_equal(grid_add_part(grid, &part), 0);
}

/* A step in which each rank's times are its own noise; lone: with one more rank, which meets nobody. */
static void make_step(
	struct step_grid *grid, struct job *job, unsigned seed, int64_t error_ns, bool lone)
{
	int64_t time_ns[RANKS] = {0};

	srand(seed);
	grid_clear(grid);
	for (uint32_t r = 0; r < RANKS; r++) {
		assert_int_equal(
			grid_add_row(grid, r, r / HOST_RANKS, 0, error_ns * (r / HOST_RANKS)), 0);
		for (size_t c = 0; c < CALLS; c++) {
			int64_t segment_ns = 1000 + random_ns(300);
			int64_t lag_ns = rand() % 50 ? 0 : random_ns(400);

			if (rand() % 100 == 0)
				segment_ns += 800;
			time_ns[r] += segment_ns;
			add_call(grid, &job->kinds[c],
				job->off[r][c] ? &job->inside[r][c] : &activity_none,
				seed * CALLS + c, RANKS, time_ns[r], segment_ns,
				2200 * (int64_t)(c + 1) - time_ns[r] + random_ns(20) + lag_ns);
			time_ns[r] = grid->times[grid->cell_count - 1].departure_ns;
		}
	}
	if (lone) {
		assert_int_equal(grid_add_row(grid, RANKS, RANKS, 0, 0), 0);
		add_call(grid, &job->lone, &activity_none, seed, 1, 1000, 1000, 10);
	}
	assert_int_equal(grid_link(grid), 0);
	assert_int_equal(grid->order_count, CALLS + lone);
}

static void compare(const struct step_grid *grid, const struct blame *columns,
	const struct step_grid *other_grid, const struct blame *other)
{
	assert_memory_equal(columns->rows, other->rows, RANKS * sizeof(*other->rows));
	assert_int_equal(columns->transfer_count, other->transfer_count);
	assert_int_equal(columns->transfer_count, CALLS);
	for (uint32_t i = 0; i < CALLS; i++) {
		const struct blame_meeting *a = &columns->meetings[i], *b = &other->meetings[i];
		uint32_t first = grid->instances[i].first_member;
		uint32_t other_first = other_grid->instances[i].first_member;

		assert_int_equal(
			columns->transfers[i].transfer_ns, other->transfers[i].transfer_ns);
		assert_int_equal(a->last_arrival_ns, b->last_arrival_ns);
		assert_int_equal(a->last_departure_ns, b->last_departure_ns);
		assert_int_equal(a->by_duration, b->by_duration);
		assert_int_equal(columns->held[i], other->held[i]);
		assert_int_equal(a->lagged, b->lagged);
		if (a->lagged)
			assert_memory_equal(&columns->lags[first], &other->lags[other_first],
				RANKS * sizeof(*columns->lags));
	}
}

/* Several steps in a row, for what ranks carry goes on from one to the next. */
static void meet(unsigned seed, int64_t error_ns, unsigned off_share)
{
	static struct job job;
	struct step_grid grid, other_grid;
	struct blame columns, other;
	int64_t delay_ns = 0, comm_ns = 0;

	memset(&job, 0, sizeof(job));
	grid_init(&grid);
	grid_init(&other_grid);
	blame_init(&columns);
	blame_init(&other);
	srand(seed);
	for (size_t c = 0; c < CALLS; c++)
		job.kinds[c] = (struct part_kind){.communicator_id = 1,
			.length_bytes = 1000 + c,
			.root = -1,
			.operation = OPERATION_ALL_REDUCE};
	job.lone = (struct part_kind){
		.communicator_id = 2, .root = -1, .operation = OPERATION_ALL_REDUCE};
	for (size_t r = 0; r < RANKS && off_share; r++) {
		for (size_t c = 0; c < CALLS; c += 1 + off_share % 3) {
			job.off[r][c] = (unsigned)rand() % off_share == 0;
			job.inside[r][c].preempted_ns = random_ns(3000);
		}
	}
	for (unsigned step = 0; step < STEPS; step++) {
		make_step(&grid, &job, seed + step, error_ns, false);
		make_step(&other_grid, &job, seed + step, error_ns, true);
		assert_int_equal(blame_step(&columns, &grid), 0);
		assert_int_equal(blame_step(&other, &other_grid), 0);
		assert_true(columns.traits.alike);
		assert_false(other.traits.alike);
		compare(&grid, &columns, &other_grid, &other);
		for (size_t r = 0; r < RANKS; r++) {
			delay_ns += columns.rows[r].delay_ns;
			comm_ns += columns.rows[r].comm_delay_ns;
		}
	}
	assert_true(delay_ns > 0);
	assert_int_equal(comm_ns > 0, error_ns == 0); /* by duration nobody leaves late */
	assert_int_equal(columns.meetings[0].by_duration, error_ns > 0);
	grid_fini(&grid);
	grid_fini(&other_grid);
	blame_fini(&columns);
	blame_fini(&other);
}

static void together_is_as_one_after_the_other(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 5; seed++)
		meet(100 * seed, 0, 0);
}

static void also_by_duration(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 5; seed++)
		meet(100 * seed, 1000, 0);
}

static void also_where_members_were_off_their_cpus(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 5; seed++)
		meet(100 * seed, 0, 20 + seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(together_is_as_one_after_the_other),
		cmocka_unit_test(also_by_duration),
		cmocka_unit_test(also_where_members_were_off_their_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
