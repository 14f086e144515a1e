/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives as what they are, in whatever order they show: those of a group are one kernel of the device,
 * and begin and end in any order.
 */
#include <errno.h>

#include "analysis/join/segments.h"
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

	if (one != other || grid->cells[a].instance == GRID_NONE ||
		grid->cells[b].instance == GRID_NONE)
		return one != other ? one < other : a < b;
	return grid->instances[grid->cells[a].instance].sequence <
	       grid->instances[grid->cells[b].instance].sequence;
}

static void swap_cells(struct step_grid *grid, uint32_t a, uint32_t b)
{
	struct grid_cell cell = grid->cells[a];
	struct cell_times times = grid->times[a];

	grid->cells[a] = grid->cells[b];
	grid->times[a] = grid->times[b];
	grid->cells[b] = cell;
	grid->times[b] = times;
}

/*
 * Before this nobody has received what a send sends. It has left the sender when its kernel ends, which all of a group are:
 * that is when some other message ended, unless these are with the same rank.
 */
static int64_t sent_at(const struct step_grid *grid, uint32_t c)
{
	const struct grid_row *row = &grid->rows[grid->cells[c].row];
	uint32_t end = row->first_cell + row->cell_count, peer = grid->cells[c].part->peer;

	if (!part_kind_is_device_message(grid->cells[c].part))
		return grid->times[c].arrival_ns;
	for (uint32_t b = c; b > row->first_cell && segments_one_group(grid, b - 1, c); b--) {
		if (grid->cells[b - 1].part->peer != peer)
			return grid->times[c].arrival_ns;
	}
	for (uint32_t a = c + 1; a < end && segments_one_group(grid, c, a); a++) {
		if (grid->cells[a].part->peer != peer)
			return grid->times[c].arrival_ns;
	}
	return grid->times[c].departure_ns;
}

/* When each message was sent, by its instance; long ago where that is not known. NULL without memory. */
static const int64_t *sent_times(struct step_grid *grid)
{
	int64_t *sent_ns =
		arena_take(&grid->making.passing, grid->instance_count, sizeof(*sent_ns));

	for (size_t i = 0; sent_ns && i < grid->instance_count; i++)
		sent_ns[i] = INT64_MIN / 2;
	for (size_t c = 0; sent_ns && c < grid->cell_count; c++) {
		if (grid->cells[c].instance != GRID_NONE &&
			grid->cells[c].part->operation == OPERATION_SEND)
			sent_ns[grid->cells[c].instance] = sent_at(grid, (uint32_t)c);
	}
	return sent_ns;
}

/* Of a stream: when the kernel at hand begins, and the one behind it. */
struct kernels {
	int64_t arrival_ns, next_ns;
};

/* From the row's last cell to its first. */
static void end_receives(const struct step_grid *grid, struct grid_row *row, const int64_t *sent_ns)
{
	struct kernels kernels[UINT8_MAX + 1];

	for (unsigned stream = 0; stream <= UINT8_MAX; stream++)
		kernels[stream] = (struct kernels){INT64_MAX, INT64_MAX};
	for (uint32_t c = row->first_cell + row->cell_count; c-- > row->first_cell;) {
		const struct part_kind *part = grid->cells[c].part;
		struct kernels *its = &kernels[part->stream];
		struct cell_times *times = &grid->times[c];
		uint32_t instance = grid->cells[c].instance;
		int64_t end_ns;

		if (times->departure_ns <= its->arrival_ns)
			its->next_ns = its->arrival_ns;
		its->arrival_ns = times->arrival_ns;
		if (instance == GRID_NONE || part->operation != OPERATION_RECEIVE ||
			!part_kind_is_device_message(part))
			continue;
		end_ns = sent_ns[instance] - grid->instances[instance].clock_error_ns;
		if (end_ns > its->next_ns)
			end_ns = its->next_ns;
		times->departure_ns = segments_later_ns(times->departure_ns, end_ns);
		row->end_ns = segments_later_ns(row->end_ns, times->departure_ns);
	}
}

int segments_end_receives(struct step_grid *grid)
{
	const int64_t *sent_ns = NULL;

	for (size_t r = 0; r < grid->row_count; r++) {
		struct grid_row *row = &grid->rows[r];

		/* It is in turn, so far, if there is a message. */
		if (!row->in_turn || !row->overlapped || row->works)
			continue;
		if (!sent_ns)
			sent_ns = sent_times(grid);
		if (!sent_ns)
			return -ENOMEM;
		end_receives(grid, row, sent_ns);
	}
	return 0;
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

uint64_t segments_received_bytes(const struct step_grid *grid, uint32_t c)
{
	const struct grid_row *row = &grid->rows[grid->cells[c].row];
	const uint32_t *ended = &grid->by_departure[row->first_cell];
	uint32_t end = grid->streams[c].needs;
	uint64_t bytes = 0;

	for (uint32_t i = end; i > 0; i--) {
		const struct part_kind *part = grid->cells[ended[i - 1]].part;

		if (!part_kind_is_device_message(part) ||
			(i < end && !segments_one_group(grid, ended[i - 1], ended[end - 1])))
			break;
		bytes += part->operation == OPERATION_RECEIVE ? part->length_bytes : 0;
	}
	return bytes;
}
