/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/attribute/blame_waits.h"

#include <stdlib.h>

#include "analysis/base/robust_stats.h"

void blame_waits_begin(struct blame_waits *waits, const struct step_grid *grid, struct arena *arena)
{
	int64_t *last_ns = arena_take(arena, grid->instance_count, sizeof(*last_ns));
	size_t most = 0;

	for (size_t r = 0; r < grid->row_count; r++) {
		if (grid->rows[r].cell_count > most)
			most = grid->rows[r].cell_count;
	}
	*waits = (struct blame_waits){.last_arrival_ns = last_ns,
		.waits = arena_take(arena, most, sizeof(*waits->waits))};
	for (size_t i = 0; i < grid->instance_count && last_ns; i++) {
		const struct grid_instance *instance = &grid->instances[i];
		bool known = instance->usable && instance->waits_for == WAITS_FOR_ALL &&
			     instance->member_count > 1;

		last_ns[i] = known ? largest_int64(&grid->arrival_ns[instance->first_member],
					     instance->member_count)
				   : INT64_MIN;
	}
}

static int compare_waits(const void *one, const void *other)
{
	const struct blame_wait *a = one, *b = other;

	if (a->lane != b->lane)
		return a->lane < b->lane ? -1 : 1;
	return a->from_ns < b->from_ns ? -1 : a->from_ns > b->from_ns;
}

void blame_waits_of_row(
	struct blame_waits *waits, const struct step_grid *grid, const struct grid_row *row)
{
	waits->count = 0;
	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
		const struct grid_cell *cell = &grid->cells[c];
		const struct cell_times *times = grid_times_of(grid, cell);
		int64_t until_ns;

		if (cell->instance == GRID_NONE || !(cell->part->flags & PART_DEVICE_TIME))
			continue;
		until_ns = waits->last_arrival_ns[cell->instance];
		if (until_ns > times->departure_ns)
			until_ns = times->departure_ns;
		if (until_ns > times->arrival_ns)
			waits->waits[waits->count++] =
				(struct blame_wait){times->arrival_ns, until_ns, 0, cell->lane};
	}
	qsort(waits->waits, waits->count, sizeof(*waits->waits), compare_waits);
	for (size_t i = 1; i < waits->count; i++) {
		const struct blame_wait *before = &waits->waits[i - 1];
		struct blame_wait *wait = &waits->waits[i];

		if (wait->lane != before->lane)
			continue;
		/* Kernels of one stream follow each other; what clocks make of that must not count twice. */
		if (wait->from_ns < before->until_ns)
			wait->from_ns = before->until_ns;
		if (wait->until_ns < wait->from_ns)
			wait->until_ns = wait->from_ns;
		wait->before_ns = before->before_ns + before->until_ns - before->from_ns;
	}
}

/* All that one lane had waited up to a time. */
static int64_t waited_until(const struct blame_wait *waits, size_t count, int64_t time_ns)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (waits[middle].from_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	const struct blame_wait *wait = &waits[low - 1];

	return wait->before_ns + (time_ns < wait->until_ns ? time_ns : wait->until_ns) -
	       wait->from_ns;
}

int64_t blame_waits_beside(
	const struct blame_waits *waits, uint8_t lane, int64_t begin_ns, int64_t end_ns)
{
	int64_t most_ns = 0;

	for (size_t first = 0, next; first < waits->count; first = next) {
		const struct blame_wait *of_lane = &waits->waits[first];
		int64_t waited_ns;

		for (next = first; next < waits->count && waits->waits[next].lane == of_lane->lane;
			next++)
			;
		if (of_lane->lane == lane)
			continue;
		waited_ns = waited_until(of_lane, next - first, end_ns) -
			    waited_until(of_lane, next - first, begin_ns);
		most_ns = waited_ns > most_ns ? waited_ns : most_ns;
	}
	return most_ns;
}
