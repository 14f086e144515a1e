/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/attribute/blame.h"

/* Rows of the grid that are shown, by their numbers. */
struct shown {
	uint32_t rows[WALK_ROWS_MAX];
	size_t count;
};

int64_t walk_worst_ns(const struct judged_step *judged, uint32_t *row)
{
	int64_t worst_ns = -1;

	*row = 0;
	for (size_t r = 0; r < judged->grid->row_count; r++) {
		int64_t delay_ns = judged->blame->rows[r].charged_ns;

		if (delay_ns > worst_ns) {
			worst_ns = delay_ns;
			*row = (uint32_t)r;
		}
	}
	return worst_ns;
}

static void show(struct shown *shown, uint32_t row)
{
	for (size_t i = 0; i < shown->count; i++) {
		if (shown->rows[i] == row)
			return;
	}
	if (shown->count < WALK_ROWS_MAX)
		shown->rows[shown->count++] = row;
}

/* The cell that the row left last, among its first so many in that order; GRID_NONE: there is none. */
static uint32_t cell_left(const struct step_grid *grid, const struct grid_row *row, uint32_t count)
{
	if (!count)
		return GRID_NONE;
	return row->overlapped ? grid->by_departure[row->first_cell + count - 1]
			       : row->first_cell + count - 1;
}

/* The call in which the step ended. */
static uint32_t last_instance(const struct step_grid *grid)
{
	int64_t last_ns = INT64_MIN;
	uint32_t last = GRID_NONE;

	for (size_t r = 0; r < grid->row_count; r++) {
		uint32_t c = cell_left(grid, &grid->rows[r], grid->rows[r].cell_count);

		if (c != GRID_NONE && grid->cells[c].instance != GRID_NONE &&
			grid->departure_ns[grid->places[c]] > last_ns) {
			last_ns = grid->departure_ns[grid->places[c]];
			last = grid->cells[c].instance;
		}
	}
	return last;
}

/* The member that came last. */
static uint32_t last_member(const struct step_grid *grid, const struct grid_instance *instance)
{
	uint32_t first = instance->first_member, last = first;

	for (uint32_t m = first; m < first + instance->member_count; m++) {
		if (grid->arrival_ns[m] > grid->arrival_ns[last])
			last = m;
	}
	return last;
}

/* The cell that the row left last before it came to this one. */
static uint32_t cell_before(const struct step_grid *grid, uint32_t c)
{
	const struct grid_row *row = &grid->rows[grid->cells[c].row];

	return cell_left(grid, row, grid_ended_before(grid, row, c));
}

static int64_t held_ns(const struct blame *blame, uint32_t instance, uint32_t member)
{
	return instance != GRID_NONE && blame->held[instance] ? larger(blame->holds[member], 0) : 0;
}

/* The member that kept others in the call longest, when all had come; GRID_NONE: none did for most of that time. */
static uint32_t holding_member(
	const struct judged_step *judged, uint32_t i, int64_t last_arrival_ns)
{
	const struct grid_instance *instance = &judged->grid->instances[i];
	uint32_t first = instance->first_member, most = first;

	if (!judged->blame->held[i])
		return GRID_NONE;
	for (uint32_t m = first; m < first + instance->member_count; m++) {
		if (judged->blame->holds[m] > judged->blame->holds[most])
			most = m;
	}
	return judged->blame->holds[most] * 2 > judged->grid->departure_ns[most] - last_arrival_ns
		       ? most
		       : GRID_NONE;
}

static void add_hop(struct walk_step *step, struct walk_hop hop)
{
	hop.from_ns -= step->start_ns;
	hop.to_ns -= step->start_ns;
	if (step->hop_count < WALK_HOPS_MAX)
		step->hops[step->hop_count++] = hop;
}

/* From the instance that ended the step back: who held it up, or came last to it, and what that one did before. */
static void walk_back(struct walk_step *step, const struct judged_step *judged, struct shown *shown)
{
	const struct step_grid *grid = judged->grid;
	uint32_t instance = last_instance(grid);

	while (instance != GRID_NONE && step->hop_count < WALK_HOPS_MAX) {
		uint32_t member = last_member(grid, &grid->instances[instance]);
		uint32_t c = grid->members[member], before = cell_before(grid, c);
		uint32_t holding = holding_member(judged, instance, grid->arrival_ns[member]);
		const struct grid_row *row = &grid->rows[grid->cells[c].row];
		int64_t from_ns = before == GRID_NONE ? row->start_ns
						      : grid->departure_ns[grid->places[before]];

		if (holding != GRID_NONE) {
			uint32_t held_row = grid->cells[grid->members[holding]].row;

			show(shown, held_row);
			add_hop(step,
				(struct walk_hop){grid->rows[held_row].rank, instance, true,
					grid->departure_ns[holding] - judged->blame->holds[holding],
					grid->departure_ns[holding]});
		}
		show(shown, grid->cells[c].row);
		add_hop(step, (struct walk_hop){row->rank, instance, false, from_ns,
				      grid->arrival_ns[member]});
		instance = before == GRID_NONE ? GRID_NONE : grid->cells[before].instance;
	}
}

static int compare_rows(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return (a > b) - (a < b);
}

/* The worst one and those of the walk come first, then as many as there is room for, evenly spread. */
static void choose_rows(const struct step_grid *grid, struct shown *shown)
{
	size_t most = 0, count;

	for (size_t r = 0; r < grid->row_count; r++)
		most = most > grid->rows[r].cell_count ? most : grid->rows[r].cell_count;
	count = most ? WALK_CELLS_MAX / most : WALK_ROWS_MAX;
	count = count < 4 ? 4 : count < WALK_ROWS_MAX ? count : (size_t)WALK_ROWS_MAX;
	if (shown->count > count)
		shown->count = count;
	for (size_t i = 0; i < count && shown->count < count; i++)
		show(shown, (uint32_t)(i * grid->row_count / count));
	qsort(shown->rows, shown->count, sizeof(shown->rows[0]), compare_rows);
}

static void take_cells(struct walk_step *step, const struct judged_step *judged, uint32_t r,
	struct walk_row *into, uint32_t most)
{
	const struct step_grid *grid = judged->grid;
	const struct grid_row *row = &grid->rows[r];
	uint32_t count = row->cell_count < most ? row->cell_count : most;

	into->cell_count = count;
	into->cut = count < row->cell_count;
	for (uint32_t k = 0; k < count; k++) {
		uint32_t c = row->first_cell + row->cell_count - count + k, place = grid->places[c];
		const struct grid_cell *cell = &grid->cells[c];

		step->cells[into->first_cell + k] = (struct walk_cell){
			.arrival_ns = grid->arrival_ns[place] - step->start_ns,
			.departure_ns = grid->departure_ns[place] - step->start_ns,
			.instance = cell->instance,
			.held_ns = held_ns(judged->blame, cell->instance, place),
			.operation = cell->part->operation,
			.lane = row->overlapped ? cell->lane : 0,
		};
	}
}

int walk_take(struct walk_step *step, const struct judged_step *judged)
{
	const struct step_grid *grid = judged->grid;
	struct shown shown = {.count = 1};
	uint32_t next = 0;

	*step = (struct walk_step){
		.number = grid->step.of_program,
		.start_ns = grid->step.start_ns,
		.length_ns = grid->step.end_ns - grid->step.start_ns,
		.rank_count = (uint32_t)grid->row_count,
	};
	step->cells = calloc(WALK_CELLS_MAX, sizeof(*step->cells));
	if (!step->cells)
		return -ENOMEM;
	step->worst_ns = walk_worst_ns(judged, &shown.rows[0]);
	walk_back(step, judged, &shown);
	choose_rows(grid, &shown);
	for (size_t i = 0; i < shown.count; i++) {
		uint32_t r = shown.rows[i];
		const struct blame_row *row = &judged->blame->rows[r];

		step->rows[i] = (struct walk_row){.rank = grid->rows[r].rank,
			.first_cell = next,
			.delay_ns = row->charged_ns,
			.wait_ns = row->wait_ns};
		take_cells(step, judged, r, &step->rows[i], WALK_CELLS_MAX / (uint32_t)shown.count);
		next += step->rows[i].cell_count;
	}
	step->row_count = shown.count;
	return 0;
}

int walk_copy(struct walk_step *into, const struct walk_step *from)
{
	*into = *from;
	into->cells = calloc(WALK_CELLS_MAX, sizeof(*into->cells));
	if (!into->cells)
		return -ENOMEM;
	memcpy(into->cells, from->cells, WALK_CELLS_MAX * sizeof(*into->cells));
	return 0;
}

void walk_fini(struct walk_step *step)
{
	free(step->cells);
	*step = (struct walk_step){0};
}
