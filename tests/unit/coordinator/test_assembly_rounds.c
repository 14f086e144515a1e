/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that are made of rounds are cut into them, and counted as one step all the same; others stay whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/join/assembly_internal.h"
#include "coordinator/rank_table.h"
#include "coordinator/step_packer.h"
#include "tests/unit/coordinator/made_steps.h"

enum { RANKS = 4, GROUP = 2, CALLS_MAX = 128, ENTRIES = 6, WORLD = 1000, GROUPS = 2000 };

#define MS INT64_C(1000000)

/* What each rank does in a step: calls of its group, the last one of a round of the world where there is one. */
struct shape {
	unsigned rounds, calls;	   /* a round */
	int64_t call_ns, pause_ns; /* from call to call; in the first round, beside that */
	bool world;
	bool lengths_differ; /* from round to round */
};

struct job {
	struct rank_table table;
	struct assembly assembly;
	struct step_packer packer;
	struct step_grid grid;
	uint64_t world_sequence, group_sequence;
	int64_t now_ns;
};

static void announce(struct job *job, uint32_t rank, uint64_t id, uint32_t size, uint32_t own)
{
	const struct communicator communicator = {id, size, own};
	bool first;

	assert_int_equal(rank_table_communicator(&job->table, rank, &communicator, &first), 0);
	assert_int_equal(assembly_note_communicator(&job->assembly, id, rank), 0);
}

static void set_up(struct job *job, bool world)
{
	uint32_t host;

	*job = (struct job){.now_ns = 1000 * MS};
	rank_table_init(&job->table);
	assembly_init(&job->assembly, &job->table.streams);
	grid_init(&job->grid);
	for (uint32_t r = 0; r < RANKS; r++) {
		const struct message_rank message = {.rank = r, .world_size = RANKS, .host = "h"};

		assert_int_equal(rank_table_host(&job->table, 1, &host), 0);
		assert_int_equal(rank_table_announce(&job->table, &message, host), 0);
		if (world)
			announce(job, r, WORLD, RANKS, r);
		announce(job, r, GROUPS + r / GROUP, GROUP, r % GROUP);
	}
}

static void tear_down(struct job *job)
{
	grid_fini(&job->grid);
	assembly_fini(&job->assembly);
	rank_table_fini(&job->table);
	step_packer_fini(&job->packer);
}

/* Returns when it ended. */
static int64_t queue(struct job *job, uint32_t rank, const struct shape *shape, uint64_t index)
{
	struct collective_part parts[CALLS_MAX] = {{0}};
	struct step_entry step = {.rank = rank,
		.start.value = job->now_ns,
		.index = index,
		.part_count = (size_t)shape->rounds * shape->calls,
		.parts = parts};
	uint64_t world = job->world_sequence, group = job->group_sequence;
	int64_t at_ns = job->now_ns;

	for (size_t p = 0; p < step.part_count; p++) {
		bool of_world = shape->world && (p + 1) % shape->calls == 0;

		at_ns += shape->call_ns - MS / 10 + (p == 0 ? shape->pause_ns : 0);
		parts[p] = (struct collective_part){
			.communicator_id = of_world ? WORLD : GROUPS + rank / GROUP,
			.sequence = of_world ? world++ : group++,
			.length_bytes = 4096 + (shape->lengths_differ ? p / shape->calls : 0),
			.arrival.value = at_ns,
			.departure.value = at_ns + MS / 10,
			.operation = OPERATION_ALL_REDUCE,
			.root = STEP_ROOT_NONE};
		at_ns = parts[p].departure.value;
	}
	step.end.value = at_ns;
	made_step_queue(&job->table, &job->assembly, &job->packer, &step);
	return at_ns;
}

/* An entry of each rank. */
static void queue_all(struct job *job, const struct shape *shape, uint64_t index)
{
	int64_t end_ns = 0;

	for (uint32_t r = 0; r < RANKS; r++)
		end_ns = queue(job, r, shape, index);
	job->world_sequence += shape->world ? shape->rounds : 0;
	job->group_sequence += (uint64_t)shape->rounds * (shape->calls - shape->world);
	job->now_ns = end_ns;
}

/* Takes all of the job; from the second entry on, each is so many job steps. */
static void check(const struct shape *shape, unsigned job_steps)
{
	size_t cells = (size_t)shape->rounds * shape->calls * RANKS;
	uint64_t number = 0;
	struct job job;

	set_up(&job, shape->world);
	for (uint64_t e = 0; e < ENTRIES; e++)
		queue_all(&job, shape, e);
	for (uint64_t e = 0; e < ENTRIES; e++) {
		unsigned count = e == 0 ? 1 : job_steps;

		for (unsigned round = 0; round < count; round++) {
			assert_int_equal(assembly_next(&job.assembly, true, &job.grid), 1);
			assert_int_equal(job.grid.step.number, number++);
			assert_int_equal(job.grid.step.of_program, e);
			assert_int_equal(job.grid.step.round_count, count);
			assert_int_equal(job.grid.step.ends_program, round + 1 == count);
			assert_int_equal(job.grid.row_count, RANKS);
			assert_int_equal(job.grid.cell_count, cells / count);
			assert_int_equal(job.grid.instance_count, job.grid.order_count);
			assert_true(round + 1 < count
					    ? job.grid.step.known_ns > job.grid.step.end_ns
					    : job.grid.step.known_ns == job.grid.step.end_ns);
			assembly_advance(&job.assembly);
		}
	}
	assert_int_equal(assembly_next(&job.assembly, true, &job.grid), 0);
	tear_down(&job);
}

static void rounds_are_job_steps(void **state)
{
	(void)state;
	check(&(struct shape){.rounds = 8, .calls = 3, .call_ns = 12 * MS, .world = true}, 8);
	check(&(struct shape){.rounds = 2, .calls = 40, .call_ns = MS, .world = true}, 2);
}

/* Ranks that are no members of the leader's group are cut where its rule cuts their own entries. */
static void other_groups_are_cut_at_the_same_place(void **state)
{
	(void)state;
	check(&(struct shape){.rounds = 4, .calls = 1, .call_ns = 30 * MS}, 4);
}

/* So many together that a round is long enough. */
static void short_rounds_are_taken_together(void **state)
{
	(void)state;
	check(&(struct shape){.rounds = 12, .calls = 2, .call_ns = 3 * MS, .world = true}, 3);
	check(&(struct shape){.rounds = 12, .calls = 2, .call_ns = 3 * MS / 2, .world = true}, 1);
}

/* A loop inside of a step, as layers are, is no round: something comes once a step. */
static void a_pause_binds_the_rounds(void **state)
{
	(void)state;
	check(&(struct shape){.rounds = 8,
		      .calls = 3,
		      .call_ns = 12 * MS,
		      .pause_ns = 60 * MS,
		      .world = true},
		1);
}

static void rounds_that_differ_are_a_step(void **state)
{
	(void)state;
	check(&(struct shape){.rounds = 8,
		      .calls = 3,
		      .call_ns = 12 * MS,
		      .world = true,
		      .lengths_differ = true},
		1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_are_job_steps),
		cmocka_unit_test(other_groups_are_cut_at_the_same_place),
		cmocka_unit_test(short_rounds_are_taken_together),
		cmocka_unit_test(a_pause_binds_the_rounds),
		cmocka_unit_test(rounds_that_differ_are_a_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
