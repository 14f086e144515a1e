/* SPDX-License-Identifier: Apache-2.0 */
/* What a step says of which collectives go on beside the work, and of how long that takes (segments_beside.h). */
#include "analysis/base/clamp.h"
#include "analysis/join/segments_beside.h"
#include "analysis/join/segments_internal.h"

enum { BESIDE_QUEUE_MAX = 8 };

/* From a cell's end to the next one on its stream; false when that is not in this step. */
static bool gap_after(const struct step_grid *grid, uint32_t c, int64_t *gap_ns)
{
	const struct grid_row *row = &grid->rows[grid->cells[c].row];

	for (uint32_t next = c + 1; next < row->first_cell + row->cell_count; next++) {
		if (grid->cells[next].lane != grid->cells[c].lane)
			continue;
		*gap_ns = grid->times[next].arrival_ns - grid->times[c].departure_ns;
		return true;
	}
	return false;
}

/* From the cell before on its stream, or the row's start. */
static int64_t way_to(const struct step_grid *grid, const struct grid_cell *cell)
{
	uint32_t before = grid_stream_of(grid, cell)->before;

	return grid_times_of(grid, cell)->arrival_ns -
	       (before == GRID_NONE ? grid->rows[cell->row].start_ns
				    : grid->times[before].departure_ns);
}

/* How many asynchronous ones before it on its stream were queued up to it: it did not wait by itself. */
static uint32_t queue_before(const struct step_grid *grid, uint32_t c)
{
	uint32_t count = 0;

	while (count < BESIDE_QUEUE_MAX && (grid->cells[c].flags & CELL_QUEUED) &&
		grid->streams[c].before != GRID_NONE &&
		(grid->cells[grid->streams[c].before].flags & CELL_ASYNC)) {
		c = grid->streams[c].before;
		count++;
	}
	return count;
}

/* The first of so many before it. */
static uint32_t queue_head(const struct step_grid *grid, uint32_t c, uint32_t count)
{
	while (count-- > 0)
		c = grid->streams[c].before;
	return c;
}

/* From the arrival of the first one of its queue. */
static int64_t stay_in_queue(const struct step_grid *grid, uint32_t c, uint32_t queue)
{
	return grid->times[c].departure_ns - grid->times[queue_head(grid, c, queue)].arrival_ns;
}

/*
 * The member that waited least: the last to come. Of many, some will do: it is late enough. Where the last
 * one was queued as well as the member asked for, who waited in a queue as long as the member's decides.
 * *longest_ns: how long the one of these stayed that waited most.
 */
static uint32_t shortest_member(const struct step_grid *grid, const struct grid_instance *instance,
	uint32_t queue, int64_t *longest_ns)
{
	const uint32_t *members = &grid->members[instance->first_member];
	uint32_t shortest = GRID_NONE;
	int64_t shortest_ns = INT64_MAX;

	*longest_ns = 0;
	for (uint32_t m = 0; m < instance->member_count && m < BESIDE_MEMBERS_MAX; m++) {
		/* Where a part was lost, the one that seems to be the next is not. */
		if (grid->rows[grid->cells[members[m]].row].hole ||
			(queue > 0 && queue_before(grid, members[m]) != queue))
			continue;
		int64_t stay_ns = stay_in_queue(grid, members[m], queue);

		if (stay_ns < shortest_ns) {
			shortest_ns = stay_ns;
			shortest = members[m];
		}
		*longest_ns = segments_later_ns(*longest_ns, stay_ns);
	}
	return shortest;
}

void segments_learn(struct step_grid *grid, const struct grid_row *row)
{
	const uint32_t *list = &grid->by_stream[row->first_cell];

	for (uint32_t i = 0; i < row->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[list[i]];
		struct beside_gap gap = {.rank = row->rank};

		if (cell->instance == GRID_NONE || !(cell->part->flags & PART_DEVICE_TIME))
			continue;
		const struct grid_instance *instance = &grid->instances[cell->instance];

		if (!instance->usable || instance->waits_for != WAITS_FOR_ALL)
			continue;
		uint32_t queue = queue_before(grid, list[i]), shortest;
		int64_t longest_ns, least_ns;

		shortest = shortest_member(grid, instance, 0, &longest_ns);
		if (queue > 0 && shortest != GRID_NONE && queue_before(grid, shortest) > 0)
			shortest = shortest_member(grid, instance, queue, &longest_ns);
		else
			queue = 0;
		if (shortest == GRID_NONE || !gap_after(grid, list[i], &gap.gap_ns) ||
			!gap_after(grid, shortest, &gap.least_gap_ns))
			continue;
		gap.least_rank = grid->rows[grid->cells[shortest].row].rank;
		gap.least_stay_ns = segments_length_ns(grid, &grid->cells[shortest]);
		if (grid->cells[list[i]].flags & CELL_ASYNC)
			beside_bound(grid->making.beside, hash_mix(row->layout, i),
				gap.least_gap_ns + gap.least_stay_ns);
		if (shortest == list[i])
			continue;
		gap.least_next = grid->streams[shortest + 1].before == shortest;
		gap.least_way_ns = way_to(grid, &grid->cells[queue_head(grid, shortest, queue)]);
		least_ns = stay_in_queue(grid, shortest, queue);
		gap.wait_ns = stay_in_queue(grid, list[i], queue) - least_ns;
		gap.most_wait_ns = longest_ns - least_ns;
		gap.others = instance->member_count - 1;
		beside_learn(grid->making.beside, hash_mix(row->layout, i), &gap);
	}
}

/* For how long a cell's host was on its CPU. */
static int64_t cpu_of(const struct grid_cell *cell)
{
	const struct activity *own = cell->own;

	return segments_later_ns(own->host_ns - own->preempted_ns - own->throttled_ns -
					 own->block_io_ns - own->asleep_ns - own->major_fault_ns,
		0);
}

/* The least of that among the members of a cell's instance; of many, of some. */
static int64_t least_cpu_of(const struct step_grid *grid, const struct grid_cell *cell)
{
	const struct grid_instance *instance = &grid->instances[cell->instance];
	int64_t least_ns = cpu_of(cell);

	for (uint32_t m = 0; m < instance->member_count && m < BESIDE_MEMBERS_MAX; m++)
		least_ns = smaller(
			least_ns, cpu_of(&grid->cells[grid->members[instance->first_member + m]]));
	return least_ns;
}

void segments_learn_hosts(struct step_grid *grid, const struct grid_row *row)
{
	struct segments_waits waits = {.until_ns = INT64_MIN};

	waits.left_ns = *beside_queue_left_ns(grid->making.beside, row->rank);
	for (uint32_t i = 0; i < row->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[row->first_cell + i];

		if (!(cell->part->flags & PART_DEVICE_TIME))
			continue;
		if (cell->instance != GRID_NONE)
			beside_learn_host(grid->making.beside, segments_host_place(row, i),
				waits.left_ns, cpu_of(cell), least_cpu_of(grid, cell));
		waits.left_ns -= smaller(waits.left_ns, cell->own->host_ns);
		segments_add_wait(&waits, grid_times_of(grid, cell));
	}
}
