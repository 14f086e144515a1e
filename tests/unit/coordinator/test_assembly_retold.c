/* SPDX-License-Identifier: Apache-2.0 */
/* Device times that are a later call's are given to the call that they are of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/join/assembly_internal.h"
#include "coordinator/rank_table.h"
#include "coordinator/step_packer.h"
#include "tests/unit/coordinator/made_steps.h"

#define MS INT64_C(1000000)

enum { RANKS = 2, CALLS = 10, LAP = 24, STEPS = 30, WORLD = 1000 };

struct job {
	struct rank_table table;
	struct assembly assembly;
	struct step_packer packer;
	struct step_grid grid;
	uint64_t steps;
	uint32_t lagging; /* whose times may be another call's */
};

static void set_up(struct job *job, uint32_t lagging)
{
	*job = (struct job){.lagging = lagging};
	rank_table_init(&job->table);
	assembly_init(&job->assembly, &job->table.streams);
	grid_init(&job->grid);
	made_ranks_announce(&job->table, &job->assembly, RANKS, WORLD);
}

static void tear_down(struct job *job)
{
	grid_fini(&job->grid);
	assembly_fini(&job->assembly);
	rank_table_fini(&job->table);
	step_packer_fini(&job->packer);
}

/* When all leave a call: work between two is of no two alike. */
static int64_t left_ns(uint64_t call)
{
	return (int64_t)(1000 + 10 * call + call * call % 7) * MS;
}

static int by_arrival(const void *a, const void *b)
{
	const struct collective_part *one = a, *other = b;

	return one->arrival.value < other->arrival.value
		       ? -1
		       : one->arrival.value > other->arrival.value;
}

/* The lagging rank comes 3 ms after the other; its times are those of so many laps later, from a call of the step on of one more. */
static void queue_step(struct job *job, uint32_t rank, uint64_t laps, uint64_t more_from)
{
	struct collective_part parts[CALLS] = {{0}};
	struct step_entry step = {
		.rank = rank, .index = job->steps, .part_count = CALLS, .parts = parts};

	for (uint64_t p = 0; p < CALLS; p++) {
		uint64_t call = job->steps * CALLS + p, of = call;

		if (rank == job->lagging)
			of += (laps + (p >= more_from)) * LAP;
		parts[p] = (struct collective_part){.communicator_id = WORLD,
			.sequence = call,
			.length_bytes = 4096 * (p + 1),
			.arrival.value = left_ns(of) - (rank == job->lagging ? 1 : 4) * MS,
			.departure.value = left_ns(of),
			.operation = OPERATION_ALL_REDUCE,
			.root = STEP_ROOT_NONE,
			.stream = 1,
			.flags = PART_DEVICE_TIME};
	}
	qsort(parts, CALLS, sizeof(*parts), by_arrival);
	step.start.value = parts[0].arrival.value;
	step.end = parts[CALLS - 1].departure;
	made_step_queue(&job->table, &job->assembly, &job->packer, &step);
}

static bool any_contradicts(const struct step_grid *grid)
{
	int64_t first_ns;

	for (size_t i = 0; i < grid->instance_count; i++) {
		if (grid_times_contradict(grid, &grid->instances[i], &first_ns))
			return true;
	}
	return false;
}

/* Both ranks' calls are there, each when it was; of one whose time nobody told, only when others left it is known. */
static void check_step(const struct job *job, bool all_told)
{
	assert_int_equal(job->grid.cell_count, RANKS * CALLS);
	for (size_t i = 0; i < job->grid.instance_count; i++) {
		const struct grid_instance *instance = &job->grid.instances[i];
		const int64_t *arrival_ns = &job->grid.arrival_ns[instance->first_member];
		const int64_t *departure_ns = &job->grid.departure_ns[instance->first_member];
		uint32_t other = 1 - job->lagging;

		assert_true(instance->complete);
		assert_true(!all_told || !instance->reckoned);
		assert_int_equal(departure_ns[job->lagging], departure_ns[other]);
		assert_int_equal(departure_ns[other], left_ns(instance->sequence));
		assert_int_equal(arrival_ns[job->lagging] - arrival_ns[other],
			instance->reckoned ? 0 : 3 * MS);
	}
	assert_int_equal(job->grid.step.end_ns, left_ns(job->steps * CALLS + CALLS - 1));
}

/*
 * From call 50 on a rank's times are those of a lap later, from call 144 on of two, in the middle of a step. So nobody tells the times
 * of calls 50 to 73 and 168 to 191: steps of which most are not told stay what they are.
 */
static void check_laps(uint32_t lagging)
{
	struct job job;

	set_up(&job, lagging);
	for (; job.steps < STEPS; job.steps++) {
		uint64_t s = job.steps, laps = s < 5 ? 0 : s < 15 ? 1 : 2;

		for (uint32_t r = 0; r < RANKS; r++)
			queue_step(&job, r, laps, s == 14 ? 4 : CALLS);
		assert_int_equal(assembly_next(&job.assembly, true, &job.grid), 1);
		if (s == 5 || s == 6 || s == 17 || s == 18) {
			assert_true(any_contradicts(&job.grid));
		} else {
			assert_false(any_contradicts(&job.grid));
			check_step(&job, s != 7 && s != 16 && s != 19);
		}
		assembly_advance(&job.assembly);
	}
	tear_down(&job);
}

static void times_go_to_their_calls(void **state)
{
	(void)state;
	check_laps(1);
	check_laps(0); /* who leads the steps */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_go_to_their_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
