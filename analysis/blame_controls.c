/* SPDX-License-Identifier: Apache-2.0 */
/* Which segments are compared with which: peers by layout, controls by lower median. */
#include <stdlib.h>
#include <string.h>

#include "analysis/blame_internal.h"
#include "analysis/robust_stats.h"

/*
 * A minor fault of one page, when no source timed any: entry, allocation, zeroing, return. About
 * 0.5 to 1 us on current x86-64 (measured by lmbench's lat_pagefault and others).
 */
#define MINOR_FAULT_TYPICAL_NS 700
/*
 * What a timed fault costs beside its handler: entry to the exception and return from it, filling
 * the caches anew, and giving the page back in the end. Seen: 1.1 us of a thread's time a fault
 * whose handler took 0.24 us (2 x H200, kernel 6.18).
 */
#define MINOR_FAULT_AROUND_NS 400

/*
 * A segment before a part with device time lasts as long as the slower of two takes: the host that
 * enqueues (host_ns, less its waits for the device) and the device that works. What the segment
 * lasts beyond the host's time is the device's; it may be negative, where the device idled less
 * than the host took. Compared with a control, own - host tells a longer device from a later host.
 */
void blame_components(const struct grid_cell *cell, int64_t kinds[EXCESS_NR])
{
	const struct activity *activity = cell->own;
	bool device = cell->part->flags & PART_DEVICE_TIME;
	int64_t own_ns = device ? activity->host_ns : cell->own_ns;
	int64_t fault_ns = activity->minor_fault_ns ? MINOR_FAULT_AROUND_NS : MINOR_FAULT_TYPICAL_NS;
	int64_t minor_ns = activity->minor_fault_ns + (int64_t)activity->minor_faults * fault_ns;
	int64_t rest_ns;

	if (device)
		kinds[EXCESS_COMPUTE] += cell->own_ns - own_ns;
	rest_ns = own_ns - activity->preempted_ns - activity->throttled_ns - activity->block_io_ns -
		  activity->asleep_ns - activity->major_fault_ns;
	if (rest_ns < 0)
		rest_ns = 0;
	if (minor_ns > rest_ns)
		minor_ns = rest_ns;
	rest_ns -= minor_ns;
	int64_t collector_ns = activity->collector_ns < rest_ns ? activity->collector_ns : rest_ns;

	kinds[EXCESS_COLLECTOR] += collector_ns;
	kinds[device ? EXCESS_HOST_CPU : EXCESS_COMPUTE] += rest_ns - collector_ns;
	kinds[EXCESS_PREEMPTED] += activity->preempted_ns;
	kinds[EXCESS_THROTTLED] += activity->throttled_ns;
	kinds[EXCESS_BLOCK_IO] += activity->block_io_ns;
	kinds[EXCESS_ASLEEP] += activity->asleep_ns;
	kinds[EXCESS_MAJOR_FAULT] += activity->major_fault_ns;
	kinds[EXCESS_MINOR_FAULT] += minor_ns;
}

/* Heap sort of row indices by (layout, row): no memory, the same order every time. */
static int compare_rows(const struct step_grid *grid, uint32_t a, uint32_t b)
{
	uint64_t layout_a = grid->rows[a].layout, layout_b = grid->rows[b].layout;

	if (layout_a != layout_b)
		return layout_a < layout_b ? -1 : 1;
	return a < b ? -1 : a > b;
}

static void sift(const struct step_grid *grid, uint32_t *rows, size_t root, size_t count)
{
	for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
		uint32_t swap = rows[root];

		if (child + 1 < count && compare_rows(grid, rows[child + 1], rows[child]) > 0)
			child++;
		if (compare_rows(grid, rows[root], rows[child]) >= 0)
			return;
		rows[root] = rows[child];
		rows[child] = swap;
		root = child;
	}
}

static void sort_rows(const struct step_grid *grid, uint32_t *rows)
{
	size_t count = grid->row_count;
	bool sorted = true;

	for (size_t i = 0; i < count; i++) {
		rows[i] = (uint32_t)i;
		sorted &= i == 0 || compare_rows(grid, rows[i - 1], rows[i]) < 0;
	}
	if (sorted)
		return;
	for (size_t i = count / 2; i-- > 0;)
		sift(grid, rows, i, count);
	for (size_t end = count; end-- > 1;) {
		uint32_t swap = rows[0];

		rows[0] = rows[end];
		rows[end] = swap;
		sift(grid, rows, 0, end);
	}
}

/* The control of one position: the lower median of the peers' own times, and whose it is. */
static void control_position(struct blame *blame, const struct step_grid *grid,
	const uint32_t *rows, size_t row_count, uint32_t position)
{
	size_t count = 0;
	uint32_t control_cell = GRID_NONE;
	int64_t control_ns;

	for (size_t i = 0; i < row_count; i++) {
		const struct grid_row *row = &grid->rows[rows[i]];

		if (!row->hole)
			blame->scratch[count++] =
				grid->cells[grid_cell_at(grid, row, position)].own_ns;
	}
	if (count < 2)
		return;
	control_ns = lower_median_int64(blame->scratch, count);
	for (size_t i = 0; i < row_count && control_cell == GRID_NONE; i++) {
		const struct grid_row *row = &grid->rows[rows[i]];

		uint32_t cell = grid_cell_at(grid, row, position);

		if (!row->hole && grid->cells[cell].own_ns == control_ns)
			control_cell = cell;
	}
	for (size_t i = 0; i < row_count; i++) {
		const struct grid_row *row = &grid->rows[rows[i]];
		uint32_t c = grid_cell_at(grid, row, position);
		struct blame_cell *cell = &blame->cells[c];

		if (row->hole)
			continue;
		cell->control_ns = control_ns;
		/* Of queued cells only a bound is known: they neither exceed nor show others to be early. */
		if (grid->cells[c].flags & CELL_QUEUED
				? grid->cells[c].own_ns > control_ns
				: (grid->cells[control_cell].flags & CELL_QUEUED) &&
					  grid->cells[c].own_ns < control_ns)
			cell->control_ns = grid->cells[c].own_ns;
		cell->control_cell = control_cell;
		blame->rows[rows[i]].judged = true;
	}
}

static void sum_components(struct blame *blame, const struct step_grid *grid)
{
	for (size_t c = 0; c < grid->cell_count; c++) {
		const struct grid_cell *cell = &grid->cells[c];
		struct blame_row *row = &blame->rows[cell->row];
		const struct grid_cell *control;

		if (blame->cells[c].control_cell == GRID_NONE)
			continue;
		control = &grid->cells[blame->cells[c].control_cell];
		blame_components(cell, row->own);
		blame_components(control, row->control);
		row->on_device |= (cell->part->flags & PART_DEVICE_TIME) != 0;
		row->minor_faults += cell->own->minor_faults;
		row->control_minor_faults += control->own->minor_faults;
		row->own_excess_ns += cell->own_ns - control->own_ns;
	}
}

void blame_controls(struct blame *blame, const struct step_grid *grid)
{
	for (size_t c = 0; c < grid->cell_count; c++)
		blame->cells[c] = (struct blame_cell){
			.control_ns = grid->cells[c].own_ns, .control_cell = GRID_NONE};
	sort_rows(grid, blame->groups);
	for (size_t first = 0, next; first < grid->row_count; first = next) {
		const struct grid_row *row = &grid->rows[blame->groups[first]];

		for (next = first + 1; next < grid->row_count &&
				       grid->rows[blame->groups[next]].layout == row->layout;
			next++)
			;
		for (uint32_t p = 0; p < row->cell_count; p++)
			control_position(blame, grid, &blame->groups[first], next - first, p);
	}
	sum_components(blame, grid);
}
