/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds are one step of the program; what is not known of a row is not zero. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/attribute/blame.h"
#include "coordinator/export/steps.h"

enum { RANKS = 3, SEEN_MAX = 8, OFFSET_NS = 1000000 };

struct seen {
	size_t count;
	struct export_step steps[SEEN_MAX];
	struct export_rank_step rows[SEEN_MAX][RANKS];
	int result;
};

static int take_step(void *context, const struct export_step *step)
{
	struct seen *seen = context;

	assert_true(seen->count < SEEN_MAX && step->row_count <= RANKS);
	seen->steps[seen->count] = *step;
	memcpy(seen->rows[seen->count++], step->rows, step->row_count * sizeof(*step->rows));
	return seen->result;
}

struct job {
	struct seen seen;
	struct export_steps steps;
	struct grid_row rows[RANKS];
	struct blame_row blame_rows[RANKS];
};

static void set_up(struct job *job)
{
	memset(job, 0, sizeof(*job));
	job->steps = (struct export_steps){.on_step = take_step, .context = &job->seen};
	for (uint32_t r = 0; r < RANKS; r++) {
		job->rows[r] = (struct grid_row){.rank = 2 * r,
			.cell_count = 4,
			.phases = {10 * r + 1, 10 * r + 2, 10 * r + 3, 10 * r + 4}};
		job->blame_rows[r] = (struct blame_row){.judged = true,
			.wait_ns = 5,
			.transfer_ns = 6,
			.charged_ns = 7,
			.inherited_ns = 8};
	}
}

/* A job step of the first ranks: which of the program's, and whether that ends with it. */
static int add(struct job *job, size_t ranks, uint64_t of_program, bool ends, bool judged)
{
	struct step_grid grid = {.step = {.of_program = of_program,
					 .ends_program = ends,
					 .start_ns = (int64_t)of_program * 100,
					 .end_ns = (int64_t)of_program * 100 + 50},
		.rows = job->rows,
		.row_count = ranks};
	struct blame blame = {.rows = job->blame_rows};
	const struct judged_step step = {.grid = &grid, .blame = judged ? &blame : NULL};

	return export_steps_add(&job->steps, &step, OFFSET_NS);
}

static void rounds_are_one_step(void **state)
{
	struct job job;
	const struct export_rank_step *row = &job.seen.rows[0][1];

	(void)state;
	set_up(&job);
	assert_int_equal(add(&job, RANKS, 0, false, true), 0);
	assert_int_equal(add(&job, 2, 0, false, true), 0);
	assert_int_equal(job.seen.count, 0);
	assert_int_equal(add(&job, RANKS, 0, true, true), 0);
	assert_int_equal(job.seen.count, 1);
	assert_int_equal(job.seen.steps[0].row_count, RANKS);
	assert_int_equal(job.seen.steps[0].start_ns, OFFSET_NS);
	assert_int_equal(job.seen.steps[0].end_ns, OFFSET_NS + 50);
	assert_int_equal(row->rank, 2);
	assert_int_equal(row->phases.compute_ns, 3 * 12);
	assert_int_equal(row->wait_ns, 15);
	assert_int_equal(row->own_delay_ns, 21);
	assert_int_equal(job.seen.rows[0][2].wait_ns, 10);
	assert_int_equal(export_steps_sum(&job.steps, 4).phases.comm_ns, 2 * 24);
	assert_int_equal(export_steps_sum(&job.steps, 999999).phases.comm_ns, 0);
	export_steps_fini(&job.steps);
}

static void steps_that_do_not_end(void **state)
{
	struct job job;

	(void)state;
	set_up(&job);
	assert_int_equal(add(&job, RANKS, 0, false, true), 0);
	assert_int_equal(add(&job, RANKS, 1, false, true), 0); /* another one begins */
	assert_int_equal(job.seen.count, 1);
	assert_int_equal(export_steps_end(&job.steps), 0); /* a gap */
	assert_int_equal(job.seen.count, 2);
	assert_int_equal(export_steps_end(&job.steps), 0);
	assert_int_equal(add(&job, 0, 0, true, true), 0); /* nobody was in it */
	assert_int_equal(job.seen.count, 3);
	assert_int_equal(job.seen.steps[2].stretch, 2);
	assert_int_equal(job.seen.steps[2].row_count, 0);
	job.seen.result = -ENOSPC;
	assert_int_equal(add(&job, RANKS, 1, true, true), -ENOSPC);
	export_steps_fini(&job.steps);
}

static void what_is_not_known(void **state)
{
	struct job job;

	(void)state;
	set_up(&job);
	assert_int_equal(add(&job, RANKS, 0, true, false), 0); /* passed over */
	assert_false(job.seen.steps[0].judged);
	assert_int_equal(job.seen.rows[0][0].known, 0);
	job.rows[0].cell_count = 0; /* its calls have no times */
	job.blame_rows[0] = (struct blame_row){.judged = true};
	job.blame_rows[1] = (struct blame_row){.wait_ns = 5}; /* no peers */
	job.blame_rows[2].host_times = true;
	job.blame_rows[2].charged_ns = 0;
	assert_int_equal(add(&job, RANKS, 1, true, true), 0);
	assert_true(job.seen.steps[1].judged);
	assert_int_equal(job.seen.rows[1][0].known, 0);
	assert_int_equal(job.seen.rows[1][1].known, EXPORT_KNOWS_CALLS);
	assert_int_equal(job.seen.rows[1][2].known, EXPORT_KNOWS_CALLS);
	job.blame_rows[2].charged_ns = 3; /* a verdict has shown that it costs */
	assert_int_equal(add(&job, RANKS, 2, true, true), 0);
	assert_int_equal(job.seen.rows[2][2].known, EXPORT_KNOWS_CALLS | EXPORT_KNOWS_DELAY);
	export_steps_fini(&job.steps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_are_one_step),
		cmocka_unit_test(steps_that_do_not_end),
		cmocka_unit_test(what_is_not_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
