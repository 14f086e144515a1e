/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grid that is filled again, since the step repeats the one before, is the one that would have been
 * made anew; of jobs that mostly repeat, and now and then do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/join/assembly_internal.h"
#include "coordinator/rank_table.h"
#include "coordinator/step_packer.h"
#include "tests/unit/coordinator/made_steps.h"

enum { RANKS = 12, GROUP = 4, STEPS = 60, WORLD = 1000, GROUPS = 2000 };
enum { PARTS = GRID_TIMES_MAX + 6, STEP_NS = 200000 };

struct job {
	struct rank_table table;
	struct assembly assembly;
	struct step_packer packer;
	uint64_t random;
	uint64_t world_sequence[RANKS], group_sequence[RANKS];
	int64_t now_ns;
};

static uint64_t draw(struct job *job, uint64_t below)
{
	job->random = job->random * 6364136223846793005u + 1442695040888963407u;
	return (job->random >> 33) % below;
}

static void announce(struct job *job, uint32_t rank, uint64_t id, uint32_t size, uint32_t own)
{
	const struct communicator communicator = {id, size, own};
	bool first;

	assert_int_equal(rank_table_communicator(&job->table, rank, &communicator, &first), 0);
	assert_int_equal(rank_table_communicator(&job->table, rank, &communicator, &first), 0);
	assert_false(first); /* told again */
	assert_int_equal(assembly_note_communicator(&job->assembly, id, rank), 0);
}

static void set_up(struct job *job, uint64_t seed)
{
	*job = (struct job){.random = seed, .now_ns = 1000000000};
	rank_table_init(&job->table);
	assembly_init(&job->assembly, &job->table.streams);
	for (uint32_t r = 0; r < RANKS; r++) {
		uint32_t host;
		const struct message_rank message = {.rank = r, .world_size = RANKS, .host = "h"};

		assert_int_equal(
			rank_table_host(&job->table, 1 + (seed % 2 ? 0 : r / GROUP), &host), 0);
		assert_int_equal(rank_table_announce(&job->table, &message, host), 0);
		announce(job, r, WORLD, RANKS, r);
		announce(job, r, GROUPS + r / GROUP, GROUP, r % GROUP);
	}
}

/* One step of a rank: calls in its group, then one of all. */
static void queue(struct job *job, uint32_t rank, size_t count, uint64_t odd, bool active)
{
	struct collective_part parts[PARTS] = {{0}};
	struct step_entry step = {.rank = rank,
		.start.value = job->now_ns,
		.flags = draw(job, 40) == 0 ? STEP_INCOMPLETE : 0,
		.part_count = count,
		.parts = parts};
	int64_t at_ns = job->now_ns;

	for (size_t p = 0; p < count; p++) {
		bool last = p + 1 == count;
		uint64_t *next = last ? &job->world_sequence[rank] : &job->group_sequence[rank];

		at_ns += 1000 + (int64_t)draw(job, 500);
		parts[p] = (struct collective_part){
			.communicator_id = last ? WORLD : GROUPS + rank / GROUP,
			.sequence = (*next)++,
			.length_bytes = 64 * (p + 1) + (p == 1 ? odd : 0),
			.arrival.value = at_ns,
			.departure.value = at_ns + 900 + (int64_t)draw(job, 100),
			.operation = OPERATION_ALL_REDUCE,
			.root = STEP_ROOT_NONE};
		if (active && draw(job, 3) == 0)
			parts[p].before.comm_call_ns = (int64_t)draw(job, 3000);
		if (active && draw(job, 3) == 0)
			parts[p].inside.preempted_ns = 50;
		at_ns = parts[p].departure.value;
	}
	step.end.value = job->now_ns + STEP_NS;
	step.index = job->world_sequence[rank];
	made_step_queue(&job->table, &job->assembly, &job->packer, &step);
}

static void assert_same_cells(const struct step_grid *a, const struct step_grid *b)
{
	for (size_t c = 0; c < a->cell_count; c++) {
		const struct grid_cell *x = &a->cells[c], *y = &b->cells[c];

		assert_true(part_kind_same(x->part, y->part));
		assert_int_equal(a->places[c], b->places[c]);
		assert_int_equal(grid_own_ns(a, (uint32_t)c), grid_own_ns(b, (uint32_t)c));
		assert_int_equal(grid_call_ns(a, (uint32_t)c), grid_call_ns(b, (uint32_t)c));
		assert_int_equal(a->arrival_ns[a->places[c]], b->arrival_ns[b->places[c]]);
		assert_int_equal(x->opaque_ns, y->opaque_ns);
		assert_ptr_equal(x->own, y->own);
		assert_ptr_equal(x->inside, y->inside);
		assert_int_equal(x->instance, y->instance);
		assert_int_equal(x->own_index, y->own_index);
		assert_int_equal(x->row, y->row);
		assert_int_equal(x->flags, y->flags);
	}
}

static void assert_same_instances(const struct step_grid *a, const struct step_grid *b)
{
	for (size_t i = 0; i < a->instance_count; i++) {
		const struct grid_instance *x = &a->instances[i], *y = &b->instances[i];

		if (i < a->order_count)
			assert_int_equal(a->order[i], b->order[i]);
		assert_true(x->communicator_id == y->communicator_id && x->sequence == y->sequence);
		assert_int_equal(x->length_bytes, y->length_bytes);
		assert_int_equal(x->clock_error_ns, y->clock_error_ns);
		assert_int_equal(x->member_count, y->member_count);
		assert_int_equal(x->size, y->size);
		assert_true(x->complete == y->complete && x->usable == y->usable &&
			    x->mixed == y->mixed && x->same_host == y->same_host);
		for (uint32_t m = 0; m < x->member_count; m++) {
			const struct grid_member *p = &a->member_parts[x->first_member + m];
			const struct grid_member *q = &b->member_parts[y->first_member + m];

			assert_int_equal(
				a->members[x->first_member + m], b->members[y->first_member + m]);
			assert_true(p->row == q->row && p->flags == q->flags);
		}
	}
}

static void assert_same_grid(const struct step_grid *a, const struct step_grid *b)
{
	assert_int_equal(a->row_count, b->row_count);
	assert_int_equal(a->cell_count, b->cell_count);
	assert_int_equal(a->instance_count, b->instance_count);
	assert_int_equal(a->order_count, b->order_count);
	assert_int_equal(a->step.clock_error_ns, b->step.clock_error_ns);
	for (size_t r = 0; r < a->row_count; r++) {
		const struct grid_row *x = &a->rows[r], *y = &b->rows[r];

		assert_true(x->rank == y->rank && x->first_cell == y->first_cell &&
			    x->cell_count == y->cell_count && x->layout == y->layout &&
			    x->start_ns == y->start_ns && x->end_ns == y->end_ns &&
			    x->clock_error_ns == y->clock_error_ns && x->hole == y->hole &&
			    x->host_to_job_ns == y->host_to_job_ns && x->host == y->host &&
			    x->own_ns == y->own_ns && x->plain == y->plain);
	}
	assert_same_cells(a, b);
	assert_same_instances(a, b);
}

/* What this step has that the one before had not. */
static void queue_step(struct job *job)
{
	uint64_t event = draw(job, 24), rank = draw(job, RANKS);
	size_t count = event == 0 ? PARTS - 1 : PARTS;

	if (event == 2) /* everyone called once more, unseen */
		for (uint32_t r = 0; r < RANKS; r++)
			job->group_sequence[r]++;
	if (event == 3)
		announce(job, (uint32_t)rank, WORLD, RANKS, (uint32_t)rank);
	for (uint32_t r = 0; r < RANKS; r++) {
		if (event == 4 && r == rank) { /* nothing of it came */
			job->world_sequence[r]++;
			job->group_sequence[r] += PARTS - 1;
			continue;
		}
		/* its first call was lost; it counts one too many for this step */
		if ((event == 1 || event == 6) && r == rank)
			job->group_sequence[r]++;
		queue(job, r, event == 1 && r == rank ? count - 1 : count, event == 5 && r == rank,
			draw(job, 4) == 0);
		if (event == 6 && r == rank)
			job->group_sequence[r]--;
	}
	job->now_ns += STEP_NS;
}

static void repeated_is_as_made_anew(void **state)
{
	size_t steps = 0, repeats = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct step_grid grid;
		struct job job;

		set_up(&job, seed);
		grid_init(&grid);
		for (int s = 0; s < STEPS; s++) {
			struct step_grid anew;
			int result;

			queue_step(&job);
			while ((result = assembly_next(&job.assembly, s + 1 == STEPS, &grid)) ==
				1) {
				repeats += grid.making.repeats > 0;
				if (seed % 2 == 0) /* the clocks were fitted since */
					assert_int_equal(
						assembly_build_grid(&job.assembly, &grid), 0);
				grid_init(&anew);
				assert_int_equal(assembly_build_grid(&job.assembly, &anew), 0);
				assert_same_grid(&grid, &anew);
				grid_fini(&anew);
				steps++;
				assembly_advance(&job.assembly);
			}
			assert_int_equal(result, 0);
		}
		grid_fini(&grid);
		assembly_fini(&job.assembly);
		rank_table_fini(&job.table);
		step_packer_fini(&job.packer);
	}
	assert_true(steps > 20 * STEPS / 2);
	assert_true(repeats > steps / 4 && repeats < steps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repeated_is_as_made_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
