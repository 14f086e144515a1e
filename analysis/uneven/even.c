/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What uneven sequences cost: the step against one in which the same work is spread evenly, over ranks
 * and microbatches. Looked at only while sequences are uneven. docs/analysis.md, What-if.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/uneven/internal.h"

void judge_even_fini(struct even_state *state)
{
	for (uint32_t i = 0; i < state->layout_count; i++)
		free(state->layouts[i].work_ns);
	whatif_line_fini(&state->line);
}

/*
 * The layout of a row; a new one takes the place of the one that was not seen for longest. NULL when there are
 * too many in one step, or no memory: such rows stay as they are.
 */
static struct even_layout *find_layout(
	struct even_state *state, const struct step_grid *grid, const struct grid_row *row)
{
	struct even_layout *oldest = &state->layouts[0];

	for (uint32_t i = 0; i < state->layout_count; i++) {
		struct even_layout *layout = &state->layouts[i];

		if (layout->key == row->layout && layout->cell_count == row->cell_count) {
			layout->seen = grid->step.number;
			return layout;
		}
		if (layout->seen < oldest->seen)
			oldest = layout;
	}
	if (state->layout_count < EVEN_LAYOUTS_MAX)
		oldest = &state->layouts[state->layout_count++];
	else if (oldest->seen == grid->step.number)
		return NULL;
	free(oldest->work_ns);
	*oldest = (struct even_layout){.key = row->layout,
		.cell_count = row->cell_count,
		.seen = grid->step.number,
		.work_ns = calloc((size_t)row->cell_count + 1, sizeof(float))};
	if (oldest->work_ns)
		return oldest;
	oldest->cell_count = 0;
	return NULL;
}

/* A row whose work tells something. */
static bool whole(const struct judge *judge, const struct step_grid *grid, size_t r)
{
	return !grid->rows[r].hole && judge->blame.rows[r].judged;
}

/* What of a cell's own time no sequence makes longer: interruptions, collections of garbage. */
static int64_t interrupted_ns(const struct step_grid *grid, uint32_t c)
{
	const struct grid_cell *cell = &grid->cells[c];
	const struct activity *own = cell->own;
	int64_t own_ns = grid_own_ns(grid, c), sum_ns;

	if (own == &activity_none || (cell->part->flags & PART_DEVICE_TIME))
		return 0;
	sum_ns = own->preempted_ns + own->throttled_ns + own->block_io_ns + own->major_fault_ns +
		 own->collector_ns;
	return sum_ns < own_ns ? sum_ns : own_ns;
}

static int64_t work_ns(const struct step_grid *grid, uint32_t c)
{
	return grid_own_ns(grid, c) - interrupted_ns(grid, c);
}

/* Means of what is done at each place, over peers and steps: no microbatch is longer than others there. */
static void learn(struct judge *judge, const struct step_grid *grid)
{
	struct even_state *state = &judge->imbalance->work->even;

	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];
		struct even_layout *layout;

		if (!whole(judge, grid, r))
			continue;
		layout = find_layout(state, grid, row);
		if (!layout)
			continue;
		layout->samples = fminf(layout->samples + 1, EVEN_SAMPLES_MAX);
		for (uint32_t i = 0; i < row->cell_count; i++) {
			float work = (float)work_ns(grid, grid_cell_at(grid, row, i));

			layout->work_ns[i] += (work - layout->work_ns[i]) / layout->samples;
		}
	}
}

/* Each cell's own time with even sequences: the mean of its place, and in all what the step had to do. */
static void spread(struct judge *judge, const struct step_grid *grid)
{
	struct even_state *state = &judge->imbalance->work->even;
	double had_ns = 0, mean_ns = 0, scale;

	for (size_t c = 0; c < grid->cell_count; c++)
		state->own_ns[c] = grid_own_ns(grid, (uint32_t)c);
	for (int pass = 0; pass < 2; pass++) {
		scale = mean_ns > 0 ? had_ns / mean_ns : 1;
		for (size_t r = 0; r < grid->row_count; r++) {
			const struct grid_row *row = &grid->rows[r];
			const struct even_layout *layout;

			if (!whole(judge, grid, r))
				continue;
			layout = find_layout(state, grid, row);
			for (uint32_t i = 0; layout && i < row->cell_count; i++) {
				uint32_t c = grid_cell_at(grid, row, i);
				double work = (double)layout->work_ns[i];

				had_ns += (double)work_ns(grid, c);
				mean_ns += work;
				state->own_ns[c] =
					interrupted_ns(grid, c) + (int64_t)(scale * work);
			}
		}
	}
}

/* Of a row that lacks parts it is not known what is where: it would be as late as it was. */
static bool any_hole(const struct step_grid *grid)
{
	for (size_t r = 0; r < grid->row_count; r++) {
		if (grid->rows[r].hole)
			return true;
	}
	return false;
}

static int replay(struct judge *judge, const struct step_grid *grid, int64_t *gain_ns)
{
	struct even_state *state = &judge->imbalance->work->even;

	state->own_ns = arena_take(&judge->arena, grid->cell_count, sizeof(*state->own_ns));
	if (!state->own_ns)
		return -ENOMEM;
	learn(judge, grid);
	spread(judge, grid);
	return whatif_replay(&judge->replays.whatif, grid, &judge->blame,
		&(struct whatif_change){.own_ns = state->own_ns}, &state->line, gain_ns);
}

int judge_even_step(
	struct judge *judge, const struct step_grid *grid, bool sampled, int64_t *gain_ns)
{
	struct even_state *state = &judge->imbalance->work->even;
	double share = 1 - 1.0 / UNEVEN_MEMORY,
	       length_ns = (double)(grid->step.end_ns - grid->step.start_ns);
	int64_t gained_ns;
	int error;

	if (state->time_ns > 0 && (!sampled || (grid->traits.overlapped && any_hole(grid)))) {
		*gain_ns = (int64_t)(length_ns * state->gain_ns / state->time_ns);
		return 0;
	}
	error = replay(judge, grid, &gained_ns);
	if (error < 0)
		return error;
	*gain_ns = gained_ns > 0 ? gained_ns : 0;
	state->gain_ns = state->gain_ns * share + (double)*gain_ns;
	state->time_ns = state->time_ns * share + length_ns;
	return 0;
}
