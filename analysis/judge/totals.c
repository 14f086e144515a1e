/* SPDX-License-Identifier: Apache-2.0 */
/* How long the job's steps took, in all and at the median. */
#include <math.h>

#include "analysis/judge/internal.h"

/* A sketch of lengths with relative width 0.5 %: from 1 us up, in logarithmic buckets. */
static void sketch_add(uint32_t *sketch, double ns)
{
	double position = log(fmax(ns, 1000) / 1000) / log(1.005);

	sketch[position < SKETCH_BUCKETS - 1 ? (size_t)position : SKETCH_BUCKETS - 1]++;
}

static double sketch_median_ms(const uint32_t *sketch)
{
	uint64_t total = 0, reached = 0;

	for (size_t i = 0; i < SKETCH_BUCKETS; i++)
		total += sketch[i];
	for (size_t i = 0; i < SKETCH_BUCKETS && total; i++) {
		reached += sketch[i];
		if (reached * 2 >= total)
			return pow(1.005, (double)i + 0.5) * 1e-3;
	}
	return 0;
}

void judge_take_length(
	struct judge *judge, const struct step_grid *grid, int64_t length_ns, double ideal_ns)
{
	if (judge->lengths.job.steps == 0)
		judge->lengths.job.first_start.value = grid->step.start_ns;
	judge->lengths.job.last_end.value = grid->step.end_ns;
	judge->lengths.job.steps = grid->step.of_program + 1;
	judge->lengths.time_sum_ns += (double)length_ns;
	judge->lengths.ideal_sum_ns += ideal_ns;
	judge->lengths.wasted_rank_ns += ((double)length_ns - ideal_ns) * (double)grid->row_count;
}

struct open_step *judge_open_step(struct judge *judge, const struct step_grid *grid)
{
	struct open_step *open = &judge->lengths.open;

	if (open->number != grid->step.of_program)
		*open = (struct open_step){.number = grid->step.of_program};
	return open;
}

void judge_sketch(
	struct judge *judge, const struct step_grid *grid, double length_ns, double ideal_ns)
{
	struct open_step *open = judge_open_step(judge, grid);

	open->length_ns += length_ns;
	open->ideal_ns += ideal_ns;
	open->incomplete |= judge->blame.traits.incomplete;
	if (grid->step.ends_program) {
		judge->lengths.job.steps_incomplete += open->incomplete;
		sketch_add(judge->lengths.sketch, open->length_ns);
		sketch_add(judge->lengths.ideal_sketch, open->ideal_ns);
	}
	judge->lengths.job.clock_error_us = (double)grid->step.clock_error_ns / 1e3;
}

double judge_usual_step_ns(const struct judge *judge)
{
	return sketch_median_ms(judge->lengths.sketch) * 1e6;
}

void judge_job_totals(const struct judge *judge, struct job_totals *totals)
{
	*totals = judge->lengths.job;
	totals->step_ms_median = sketch_median_ms(judge->lengths.sketch);
	totals->step_ms_ideal = sketch_median_ms(judge->lengths.ideal_sketch);
	totals->slowdown = judge->lengths.ideal_sum_ns > 0
				   ? judge->lengths.time_sum_ns / judge->lengths.ideal_sum_ns
				   : 1;
	totals->time_ns = judge->lengths.time_sum_ns;
	totals->ideal_ns = judge->lengths.ideal_sum_ns;
	totals->wasted_rank_seconds = judge->lengths.wasted_rank_ns / 1e9;
}
