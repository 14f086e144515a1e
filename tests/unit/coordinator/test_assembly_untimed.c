/* SPDX-License-Identifier: Apache-2.0 */
/* A rank whose device tells nothing any more is followed by what the others' devices and its host tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/join/assembly_internal.h"
#include "coordinator/rank_table.h"
#include "coordinator/step_packer.h"
#include "tests/unit/coordinator/made_steps.h"

#define MS INT64_C(1000000)

enum { RANKS = 2, CALLS = 3, WORLD = 1000, TOLD_STEPS = 4 };

struct job {
	struct rank_table table;
	struct assembly assembly;
	struct step_packer packer;
	struct step_grid grid;
	uint64_t steps;
	int64_t now_ns;
};

static void set_up(struct job *job)
{
	*job = (struct job){.now_ns = 1000 * MS};
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

/* The rank's step of these parts, CALLS of them. */
static void queue(struct job *job, uint32_t rank, struct collective_part *parts)
{
	struct step_entry step = {.rank = rank,
		.index = job->steps,
		.start.value = job->now_ns,
		.end = parts[CALLS - 1].departure,
		.part_count = CALLS,
		.parts = parts};

	made_step_queue(&job->table, &job->assembly, &job->packer, &step);
}

/* A broadcast and all-reduces, 10 ms apart, all begun so late by a rank, or called by its host if its device does not tell. */
static void queue_step(struct job *job, uint32_t rank, bool told, int64_t late_ns, int64_t last_ns)
{
	struct collective_part parts[CALLS] = {{0}};

	for (int64_t p = 0; p < CALLS; p++) {
		int64_t at_ns = job->now_ns + (p + 1) * 10 * MS;
		int64_t end_ns = at_ns + (p ? last_ns : 0) + MS;

		parts[p] = (struct collective_part){.communicator_id = WORLD,
			.sequence = job->steps * CALLS + (uint64_t)p,
			.length_bytes = 4096,
			.arrival.value = at_ns + late_ns,
			.departure.value = told ? end_ns : at_ns + late_ns,
			.operation = p ? OPERATION_ALL_REDUCE : OPERATION_BROADCAST,
			.root = p ? STEP_ROOT_NONE : 0,
			.stream = 1,
			.flags = told ? PART_DEVICE_TIME : PART_ENQUEUE_ONLY};
	}
	queue(job, rank, parts);
}

/* Rank 0's host calls so late; the next step's grid is whole, and rank 0 comes with its last call so late there. */
static void check_silent(struct job *job, int64_t late_ns, int64_t comes_late_ns)
{
	queue_step(job, 0, false, late_ns, 0);
	queue_step(job, 1, true, 0, late_ns > 0 ? late_ns : 0);
	job->now_ns += 50 * MS;
	job->steps++;
	assert_int_equal(assembly_next(&job->assembly, true, &job->grid), 1);
	assert_false(job->grid.traits.untimed);
	assert_int_equal(job->grid.row_count, RANKS);
	assert_int_equal(job->grid.cell_count, RANKS * CALLS);
	assert_int_equal(job->grid.order_count, CALLS);
	assert_int_equal(job->grid.rows[0].layout, job->grid.rows[1].layout);
	for (size_t i = 0; i < CALLS; i++) {
		const struct grid_instance *instance = &job->grid.instances[job->grid.order[i]];
		const int64_t *arrival_ns = &job->grid.arrival_ns[instance->first_member];
		const int64_t *departure_ns = &job->grid.departure_ns[instance->first_member];

		assert_true(instance->complete && instance->reckoned);
		assert_int_equal(arrival_ns[0] - arrival_ns[1], comes_late_ns);
		if (i > 0)
			assert_int_equal(departure_ns[0], departure_ns[1]);
	}
	assembly_advance(&job->assembly);
}

static void a_rank_that_falls_silent_is_followed(void **state)
{
	struct job job;

	(void)state;
	set_up(&job);
	for (int step = 0; step < TOLD_STEPS; step++) {
		for (uint32_t r = 0; r < RANKS; r++)
			queue_step(&job, r, true, 0, 0);
		job.now_ns += 50 * MS;
		job.steps++;
		assert_int_equal(assembly_next(&job.assembly, true, &job.grid), 1);
		assert_false(job.grid.instances[0].reckoned);
		assembly_advance(&job.assembly);
	}
	for (int step = 0; step < 3; step++)
		check_silent(&job, -7 * MS, 0); /* its host runs ahead */
	for (int step = 0; step < 3; step++)
		check_silent(&job, 5 * MS, 5 * MS);
	check_silent(&job, -7 * MS, 0);
	assert_int_equal(assembly_next(&job.assembly, true, &job.grid), 0);
	tear_down(&job);
}

/* Where no device tells, nothing is known. */
static void ranks_that_fall_silent_together_are_not_timed(void **state)
{
	struct job job;

	(void)state;
	set_up(&job);
	for (int step = 0; step < 2 * TOLD_STEPS; step++) {
		for (uint32_t r = 0; r < RANKS; r++)
			queue_step(&job, r, step < TOLD_STEPS, 0, 0);
		job.now_ns += 50 * MS;
		job.steps++;
		assert_int_equal(assembly_next(&job.assembly, true, &job.grid), 1);
		assert_int_equal(job.grid.traits.untimed, step >= TOLD_STEPS);
		assert_int_equal(job.grid.cell_count, step < TOLD_STEPS ? RANKS * CALLS : 0);
		assembly_advance(&job.assembly);
	}
	tear_down(&job);
}

/* A send and a receive in one group, each with the other rank, then an all-reduce, of which all devices tell. */
static void queue_exchange(struct job *job, uint32_t rank, bool told, int64_t late_ns)
{
	static const uint8_t operations[] = {
		OPERATION_SEND, OPERATION_RECEIVE, OPERATION_ALL_REDUCE};
	struct collective_part parts[CALLS] = {{0}};

	for (int64_t p = 0; p < CALLS; p++) {
		bool message = operations[p] != OPERATION_ALL_REDUCE, timed = told || !message;
		int64_t at_ns = job->now_ns + (message ? 10 : 30) * MS;

		parts[p] = (struct collective_part){.communicator_id = WORLD,
			.sequence = job->steps,
			.length_bytes = 4096,
			.arrival.value = at_ns + (message ? late_ns : 0),
			.departure.value = timed ? at_ns + 6 * MS : at_ns + late_ns,
			.operation = operations[p],
			.root = STEP_ROOT_NONE,
			.peer = message ? 2 - rank : 0,
			.stream = 1,
			.flags = timed ? PART_DEVICE_TIME : PART_ENQUEUE_ONLY};
	}
	queue(job, rank, parts);
}

/* Of a message the device of the one end tells when the other's ended, and its host when that began at the earliest. */
static void a_message_is_told_by_its_other_end(void **state)
{
	struct job job;

	(void)state;
	set_up(&job);
	for (int step = 0; step < 2 * TOLD_STEPS; step++) {
		bool told = step < TOLD_STEPS;
		int64_t late_ns = step % 2 ? 5 * MS : 0;

		queue_exchange(&job, 0, told, late_ns);
		queue_exchange(&job, 1, true, 0);
		job.now_ns += 50 * MS;
		job.steps++;
		assert_int_equal(assembly_next(&job.assembly, true, &job.grid), 1);
		assert_int_equal(job.grid.cell_count, RANKS * CALLS);
		assert_int_equal(job.grid.rows[0].layout, job.grid.rows[1].layout);
		for (uint32_t c = 0; c < 2; c++) {
			const struct cell_times *times = job.grid.times;

			assert_int_equal(
				times[c].arrival_ns - times[CALLS + c].arrival_ns, late_ns);
			assert_int_equal(times[c].departure_ns, times[CALLS + c].departure_ns);
			assert_int_equal(
				job.grid.instances[job.grid.cells[c].instance].reckoned, !told);
		}
		assembly_advance(&job.assembly);
	}
	tear_down(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_that_falls_silent_is_followed),
		cmocka_unit_test(ranks_that_fall_silent_together_are_not_timed),
		cmocka_unit_test(a_message_is_told_by_its_other_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
