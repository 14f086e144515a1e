/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/trail.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SAMPLES_EVERY_MS = 500,
	SAMPLES_OVER_MS = 1000,
	PEERS_TRIED = 64, /* rows, for some that do the same */
};

int trail_create(struct trail **result)
{
	struct trail *trail = calloc(1, sizeof(*trail));

	if (!trail)
		return -ENOMEM;
	trail->steps_in_column = 1;
	trail->steps_in_walk = 1;
	*result = trail;
	return 0;
}

void trail_destroy(struct trail *trail)
{
	if (!trail)
		return;
	for (size_t i = 0; i < trail->walk_count; i++)
		walk_fini(&trail->walks[i]);
	tracks_fini(&trail->tracks);
	heat_fini(&trail->heat);
	free(trail);
}

struct trail *trail_news(
	const struct trail *from, size_t first_column, const bool chosen[TRACKS_MAX])
{
	struct trail *into = malloc(sizeof(*into));

	if (!into)
		return NULL;
	*into = *from;
	into->walk_count = 0;
	into->heat = (struct heat){0};
	into->tracks = (struct tracks){0};
	into->first_column = first_column;
	if (heat_copy(&into->heat, &from->heat, first_column, from->column_count) ||
		tracks_copy(&into->tracks, &from->tracks, from->column_count, chosen))
		goto error;
	for (size_t i = 0; i < from->walk_count; i++) {
		if (walk_copy(&into->walks[i], &from->walks[i]))
			goto error;
		into->walk_count++;
	}
	return into;
error:
	trail_destroy(into);
	return NULL;
}

void trail_complete(struct trail *news, struct trail *copy)
{
	struct heat *heat = &news->heat;
	struct heat_cell *cells = heat->cells;

	if (news->first_column) {
		assert(copy && copy->heat.generation == heat->generation);
		memcpy(&copy->heat.cells[news->first_column * heat->row_capacity], cells,
			(news->column_count - news->first_column) * heat->row_capacity *
				sizeof(*cells));
		heat->cells = copy->heat.cells;
		copy->heat.cells = cells;
		news->first_column = 0;
	}
	trail_destroy(copy);
}

static void fold_columns(struct trail *trail)
{
	heat_fold(&trail->heat, trail->column_count);
	tracks_fold(&trail->tracks, trail->column_count);
	for (size_t i = 0; i < trail->column_count; i++) {
		struct trail_column *into = &trail->columns[i / 2], from = trail->columns[i];

		if (i % 2 == 0) {
			*into = from;
			continue;
		}
		into->steps += from.steps;
		into->judged += from.judged;
		into->length_ns += from.length_ns;
		into->longest_ns = larger(into->longest_ns, from.longest_ns);
	}
	trail->column_count = (trail->column_count + 1) / 2;
	trail->steps_in_column *= 2;
}

/* The ranks and hosts have room, and there is a column; another one, perhaps, where a step begins. Returns 0 or -ENOMEM. */
static int begin_column(struct trail *trail, const struct step_grid *grid, bool begins)
{
	uint32_t rank_end = 0, host_end = 0;
	struct trail_column *last;
	size_t most;
	int error;

	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		rank_end = rank_end > row->rank ? rank_end : row->rank + 1;
		host_end = host_end > row->host ? host_end : row->host + 1;
	}
	most = heat_columns_max(&trail->heat, rank_end, host_end);
	while (trail->column_count > most)
		fold_columns(trail);
	error = heat_make_room(&trail->heat, rank_end, host_end, trail->column_count);
	if (error < 0)
		return error;
	last = trail->column_count ? &trail->columns[trail->column_count - 1] : NULL;
	if (last && (last->steps < trail->steps_in_column || !begins))
		return 0;
	if (trail->column_count == most)
		fold_columns(trail);
	last = trail->column_count ? &trail->columns[trail->column_count - 1] : NULL;
	if (!last || last->steps >= trail->steps_in_column)
		trail->columns[trail->column_count++] =
			(struct trail_column){.first_step = trail->before + grid->step.of_program,
				.start_ns = grid->step.start_ns};
	return 0;
}

/* Of two stretches the worse step is kept. */
static void fold_walks(struct trail *trail)
{
	for (size_t i = 0; i < trail->walk_count; i++) {
		struct walk_step *into = &trail->walks[i / 2], from = trail->walks[i];

		if (i % 2 == 0) {
			*into = from;
		} else if (from.worst_ns > into->worst_ns) {
			walk_fini(into);
			*into = from;
		} else {
			walk_fini(&from);
		}
	}
	trail->walk_count = (trail->walk_count + 1) / 2;
	trail->steps_in_walk *= 2;
}

static void take_walk(struct trail *trail, const struct judged_step *step)
{
	struct walk_step walk;
	size_t place = (size_t)((trail->steps - 1) / trail->steps_in_walk);
	uint32_t row;

	if (place >= TRAIL_WALKS_MAX) {
		fold_walks(trail);
		place = (size_t)((trail->steps - 1) / trail->steps_in_walk);
	}
	if (place < trail->walk_count && walk_worst_ns(step, &row) <= trail->walks[place].worst_ns)
		return;
	if (walk_take(&walk, step) < 0)
		return;
	walk.number += trail->before;
	if (place < trail->walk_count)
		walk_fini(&trail->walks[place]);
	else
		place = trail->walk_count++;
	trail->walks[place] = walk;
}

static int take_rows(struct trail *trail, const struct judged_step *step)
{
	const struct step_grid *grid = step->grid;
	size_t column = trail->column_count - 1;
	int error = 0;

	for (size_t r = 0; r < grid->row_count && error == 0; r++) {
		const struct blame_row *row = &step->blame->rows[r];
		uint32_t rank = grid->rows[r].rank;

		if (!row->judged)
			continue;
		heat_take(&trail->heat, column, rank, grid->rows[r].host, row->charged_ns,
			larger(row->wait_ns, row->inherited_ns));
		error = tracks_take(&trail->tracks, column, rank, row);
	}
	return error;
}

/* The row of a rank; the row count: it has none. */
static size_t row_of(const struct step_grid *grid, uint32_t rank)
{
	size_t low = 0, high = grid->row_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (grid->rows[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < grid->row_count && grid->rows[low].rank == rank ? low : grid->row_count;
}

/* What was sampled meanwhile of ranks that do the same as the row's, from all over the job. Returns of how many. */
static size_t sample_controls(const struct judged_step *step, size_t row, int64_t from_ns,
	float values[SAMPLED_CONTROLS_MAX][SAMPLED_NR])
{
	const struct step_grid *grid = step->grid;
	const uint32_t *peers = step->blame->row_controls; /* the same number: peers */
	size_t stride = (grid->row_count + PEERS_TRIED - 1) / PEERS_TRIED, count = 0;

	for (size_t i = 1; i < PEERS_TRIED && count < SAMPLED_CONTROLS_MAX; i++) {
		size_t other = (row + i * stride) % grid->row_count;

		if (i * stride >= grid->row_count)
			break;
		if (peers[other] == peers[row] && peers[row] != GRID_NONE)
			sampled_take(judge_evidence(step->judge, grid->rows[other].rank), from_ns,
				grid->step.end_ns, values[count++]);
	}
	return count;
}

/* Of the ranks that are tracked, twice a second: samplers look once a second mostly. */
static void take_samples(struct trail *trail, const struct judged_step *step)
{
	const struct step_grid *grid = step->grid;
	int64_t end_ns = grid->step.end_ns, from_ns = end_ns - SAMPLES_OVER_MS * INT64_C(1000000),
		passed_ns = end_ns - trail->sampled_ns;
	float own[SAMPLED_NR], control[SAMPLED_NR], values[SAMPLED_CONTROLS_MAX][SAMPLED_NR];
	size_t column = trail->column_count - 1;

	if (passed_ns >= 0 && passed_ns < SAMPLES_EVERY_MS * INT64_C(1000000))
		return;
	trail->sampled_ns = end_ns;
	from_ns = grid->step.start_ns < from_ns ? grid->step.start_ns : from_ns;
	for (size_t i = 0; i < trail->tracks.count; i++) {
		struct track *track = &trail->tracks.list[i];
		size_t row = row_of(grid, track->rank);

		if (row == grid->row_count || !step->blame->rows[row].judged)
			continue;
		sampled_take(judge_evidence(step->judge, track->rank), from_ns, end_ns, own);
		sampled_median(values, sample_controls(step, row, from_ns, values), control);
		tracks_take_samples(track, column, own, control);
	}
}

void trail_take(void *context, const struct judged_step *step)
{
	struct trail *trail = context;
	const struct grid_step *now = &step->grid->step;
	uint64_t number = trail->before + now->of_program;
	bool begins =
		!trail->steps || number != trail->latest; /* else it is another round of its step */
	struct trail_column *column;
	int error = begin_column(trail, step->grid, begins);

	trail->steps += begins;
	trail->latest = number;
	if (error == 0) {
		column = &trail->columns[trail->column_count - 1];
		column->steps += begins;
		column->length_ns += (double)larger(now->end_ns - now->start_ns, 0);
		column->longest_ns = larger(column->longest_ns, now->end_ns - now->start_ns);
		if (step->blame) {
			column->judged += begins;
			error = take_rows(trail, step);
			take_samples(trail, step);
			take_walk(trail, step);
		}
	}
	trail->left_out += error != 0;
}
