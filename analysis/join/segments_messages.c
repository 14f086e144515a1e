/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives as what they are, in whatever order they show: those of a group are one kernel of the device,
 * and begin and end in any order.
 */
#include "analysis/join/segments_internal.h"

bool segments_one_group(const struct step_grid *grid, uint32_t before, uint32_t c)
{
	return grid->cells[before].part->stream == grid->cells[c].part->stream &&
	       grid->times[before].departure_ns > grid->times[c].arrival_ns &&
	       part_kind_is_device_message(grid->cells[before].part) &&
	       part_kind_is_device_message(grid->cells[c].part);
}

/*
 * With whom a message is, and in which direction: alike on all peers, so by how far away the other rank is, not by
 * which it is. Sends are first: others wait for these, whatever the rank itself waits for.
 */
static uint64_t kind_of(const struct grid_cell *cell)
{
	uint32_t own_index = cell->own_index == STEP_RANK_UNKNOWN ? 0 : cell->own_index;

	return (uint64_t)cell->part->operation << 40 | (uint64_t)cell->part->purpose << 32 |
	       (uint32_t)(cell->part->peer - own_index);
}

static bool comes_before(const struct step_grid *grid, uint32_t a, uint32_t b)
{
	uint64_t one = kind_of(&grid->cells[a]), other = kind_of(&grid->cells[b]);

	if (one != other || grid->joins[a] == GRID_NONE || grid->joins[b] == GRID_NONE)
		return one != other ? one < other : a < b;
	return grid->instances[grid->joins[a]].sequence < grid->instances[grid->joins[b]].sequence;
}

static void swap_cells(struct step_grid *grid, uint32_t a, uint32_t b)
{
	struct grid_cell cell = grid->cells[a];
	struct cell_times times = grid->times[a];
	uint32_t instance = grid->joins[a];

	grid->cells[a] = grid->cells[b];
	grid->times[a] = grid->times[b];
	grid->joins[a] = grid->joins[b];
	grid->cells[b] = cell;
	grid->times[b] = times;
	grid->joins[b] = instance;
}

/* Swaps two places of a list, or what the cells there are. */
static void swap(struct step_grid *grid, uint32_t *a, uint32_t *b, bool cells)
{
	uint32_t c = *a;

	if (cells) {
		swap_cells(grid, *a, *b);
		return;
	}
	*a = *b;
	*b = c;
}

/* Heap sort: an exchange of all with all has thousands of messages. */
static void sort(struct step_grid *grid, uint32_t *list, uint32_t count, bool cells)
{
	uint32_t root = count / 2, end = count;

	while (end > 1) {
		if (root > 0)
			root--;
		else
			swap(grid, &list[0], &list[--end], cells);
		for (uint32_t at = root, child; (child = 2 * at + 1) < end; at = child) {
			if (child + 1 < end && comes_before(grid, list[child], list[child + 1]))
				child++;
			if (!comes_before(grid, list[at], list[child]))
				break;
			swap(grid, &list[at], &list[child], cells);
		}
	}
}

void segments_sort_messages(struct step_grid *grid, uint32_t *list, uint32_t count)
{
	sort(grid, list, count, false);
}

void segments_settle_groups(struct step_grid *grid, const struct grid_row *row)
{
	uint32_t *group = &grid->by_stream[row->first_cell]; /* not used yet */
	uint32_t left = row->cell_count;

	for (uint32_t stream = 0; left > 0; stream++) {
		int64_t end_ns = INT64_MIN;
		uint32_t count = 0;

		for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
			const struct grid_cell *cell = &grid->cells[c];

			if (cell->part->stream != stream)
				continue;
			left--;
			if (!part_kind_is_device_message(cell->part) ||
				grid->times[c].arrival_ns >= end_ns) {
				sort(grid, group, count, true);
				count = 0;
				end_ns = INT64_MIN;
			}
			if (!part_kind_is_device_message(cell->part))
				continue;
			group[count++] = c;
			end_ns = segments_later_ns(end_ns, grid->times[c].departure_ns);
		}
		sort(grid, group, count, true);
	}
}
