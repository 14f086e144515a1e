/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/export/steps.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/attribute/blame.h"
#include "coordinator/report/look.h"

void export_steps_fini(struct export_steps *steps)
{
	free(steps->by_rank);
	free(steps->rows);
	free(steps->sums);
}

static int64_t unix_ns(int64_t job_time_ns, int64_t unix_offset_ns)
{
	return look_unix_ns((struct job_ns){job_time_ns}, unix_offset_ns);
}

static int reserve(struct export_steps *steps, size_t rank_end, size_t row_count)
{
	int error = array_grow((void **)&steps->by_rank, &steps->by_rank_capacity, rank_end,
		sizeof(*steps->by_rank));

	if (!error)
		error = array_grow((void **)&steps->rows, &steps->row_capacity,
			steps->step.row_count + row_count, sizeof(*steps->rows));
	if (!error)
		error = array_grow((void **)&steps->sums, &steps->sum_capacity, rank_end,
			sizeof(*steps->sums));
	return error;
}

static void begin_step(
	struct export_steps *steps, const struct grid_step *step, int64_t unix_offset_ns)
{
	steps->open = true;
	steps->rank_end = 0;
	steps->step = (struct export_step){.stretch = steps->step.stretch,
		.number = step->of_program,
		.start_ns = unix_ns(step->start_ns, unix_offset_ns),
		.judged = true};
}

static void add_phases(struct row_phases *sum, const struct row_phases *more)
{
	sum->input_ns += more->input_ns;
	sum->compute_ns += more->compute_ns;
	sum->host_ns += more->host_ns;
	sum->comm_ns += more->comm_ns;
}

/*
 * What is known of a row's time: of one without peers, or with a hole, nobody can say what it made others wait for; by
 * the hosts' times alone, being late need not cost anything.
 */
static uint32_t known_of(const struct grid_row *row, const struct blame_row *blame)
{
	uint32_t known = 0;

	if (blame && row->cell_count)
		known |= EXPORT_KNOWS_CALLS;
	if (known && (blame->judged || blame->alone) && !blame->host_times)
		known |= EXPORT_KNOWS_DELAY;
	if (blame && blame->charged_ns)
		known |= EXPORT_KNOWS_DELAY;
	return known;
}

static void add_row(struct export_steps *steps, const struct grid_row *row,
	const struct blame_row *blame, int64_t unix_offset_ns)
{
	struct export_rank_step *sum = &steps->by_rank[row->rank];
	struct export_rank_sum *all = &steps->sums[row->rank];

	if (sum->rounds++ == 0) {
		sum->rank = row->rank;
		sum->start_ns = unix_ns(row->start_ns, unix_offset_ns);
		steps->step.row_count++;
	}
	sum->known |= known_of(row, blame);
	sum->end_ns = unix_ns(row->end_ns, unix_offset_ns);
	add_phases(&sum->phases, &row->phases);
	add_phases(&all->phases, &row->phases);
	if (row->rank >= steps->rank_end)
		steps->rank_end = row->rank + 1;
	if (!blame)
		return;
	sum->wait_ns += blame->wait_ns;
	sum->transfer_ns += blame->transfer_ns;
	sum->own_delay_ns += blame->charged_ns;
	sum->inherited_ns += blame->inherited_ns;
	all->own_delay_ns += blame->charged_ns;
	all->inherited_ns += blame->inherited_ns;
}

static int end_step(struct export_steps *steps)
{
	size_t count = 0;

	for (uint32_t r = 0; r < steps->rank_end; r++) {
		if (steps->by_rank[r].rounds)
			steps->rows[count++] = steps->by_rank[r];
	}
	if (steps->rank_end)
		memset(steps->by_rank, 0, steps->rank_end * sizeof(*steps->by_rank));
	steps->step.rows = steps->rows;
	steps->step.row_count = count;
	steps->open = false;
	return steps->on_step(steps->context, &steps->step);
}

int export_steps_add(
	struct export_steps *steps, const struct judged_step *judged, int64_t unix_offset_ns)
{
	const struct step_grid *grid = judged->grid;
	int error = 0;

	if (steps->open && steps->step.number != grid->step.of_program)
		error = end_step(steps);
	if (!error && !steps->open)
		begin_step(steps, &grid->step, unix_offset_ns);
	if (!error && grid->row_count)
		error = reserve(
			steps, grid->rows[grid->row_count - 1].rank + (size_t)1, grid->row_count);
	if (error)
		return error;
	steps->step.end_ns = unix_ns(grid->step.end_ns, unix_offset_ns);
	steps->step.judged &= judged->blame != NULL;
	steps->step.irregular |= (grid->step.flags & (STEP_IRREGULAR | STEP_WINDOW)) != 0;
	for (size_t r = 0; r < grid->row_count; r++)
		add_row(steps, &grid->rows[r], judged->blame ? &judged->blame->rows[r] : NULL,
			unix_offset_ns);
	return grid->step.ends_program ? end_step(steps) : 0;
}

int export_steps_end(struct export_steps *steps)
{
	int error = steps->open ? end_step(steps) : 0;

	steps->step = (struct export_step){.stretch = steps->step.stretch + 1};
	return error;
}

struct export_rank_sum export_steps_sum(const struct export_steps *steps, uint32_t rank)
{
	return rank < steps->sum_capacity ? steps->sums[rank] : (struct export_rank_sum){0};
}
