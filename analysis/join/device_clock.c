/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/device_clock.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/policy.h"

/* Instances of one step that are looked at, per rank. */
enum { INSTANCES_MAX = 64 };

struct device_correction {
	bool known;
	int64_t value_ns; /* departures of this rank, beyond the usual of their instances */
	uint32_t count;	  /* in this step */
	int64_t excess_ns[INSTANCES_MAX]; /* departures beyond the usual, of this step */
};

void device_clocks_init(struct device_clocks *clocks)
{
	memset(clocks, 0, sizeof(*clocks));
}

void device_clocks_fini(struct device_clocks *clocks)
{
	free(clocks->ranks);
	free(clocks->scratch);
	device_clocks_init(clocks);
}

static int reserve(struct device_clocks *clocks, const struct step_grid *grid)
{
	size_t ranks = grid->row_count ? grid->rows[grid->row_count - 1].rank + (size_t)1 : 0;

	int error = array_grow(
		(void **)&clocks->ranks, &clocks->rank_capacity, ranks, sizeof(*clocks->ranks));

	return error < 0 ? error
			 : array_grow((void **)&clocks->scratch, &clocks->scratch_capacity,
				   grid->row_count, sizeof(*clocks->scratch));
}

static bool is_timed(const struct step_grid *grid, uint32_t cell)
{
	return grid->cells[cell].part->flags & PART_DEVICE_TIME;
}

/* What each member's departure is beyond the usual one. */
static void take_instance(struct device_clocks *clocks, const struct step_grid *grid,
	const struct grid_instance *instance)
{
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	const int64_t *departure_ns = &grid->departure_ns[instance->first_member];
	size_t count = 0;

	if (!instance->usable || instance->waits_for != WAITS_FOR_ALL ||
		instance->member_count > clocks->scratch_capacity)
		return;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		const struct device_correction *rank =
			&clocks->ranks[grid->rows[members[m].row].rank];

		if (!(members[m].flags & MEMBER_DEVICE_TIME))
			return;
		clocks->scratch[count++] = departure_ns[m] - rank->value_ns;
	}
	if (count < 2)
		return;
	int64_t usual_ns = lower_median_int64(clocks->scratch, count);

	for (uint32_t m = 0; m < instance->member_count; m++) {
		struct device_correction *rank = &clocks->ranks[grid->rows[members[m].row].rank];

		if (rank->count < INSTANCES_MAX)
			rank->excess_ns[rank->count++] = departure_ns[m] - usual_ns;
	}
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

static void update(struct device_correction *rank, int64_t move_max_ns, int64_t *error_ns)
{
	uint32_t count = rank->count;

	rank->count = 0;
	if (count == 0)
		return;
	if (select_int64(rank->excess_ns, count, 3 * count / 4) -
			select_int64(rank->excess_ns, count, count / 4) >
		CONTRADICTION_NS)
		return;
	int64_t shown_ns = lower_median_int64(rank->excess_ns, count);

	if (!rank->known)
		rank->value_ns = shown_ns;
	else
		rank->value_ns += clamp(shown_ns - rank->value_ns, -move_max_ns, move_max_ns);
	rank->known = true;
	int64_t left_ns = llabs(shown_ns - rank->value_ns);

	if (left_ns > *error_ns)
		*error_ns = left_ns;
}

static void move_row(struct step_grid *grid, struct grid_row *row, int64_t by_ns)
{
	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
		if (!is_timed(grid, c))
			continue;
		grid->times[c].arrival_ns -= by_ns;
		grid->times[c].departure_ns -= by_ns;
	}
	row->start_ns -= by_ns;
	row->end_ns -= by_ns;
}

int device_clocks_align(struct device_clocks *clocks, struct step_grid *grid)
{
	int64_t move_max_ns = (int64_t)(DEVICE_DRIFT_PER_STEP *
					(double)(grid->step.end_ns - grid->step.start_ns));
	bool moved = false;
	int error;

	if (!grid->traits.device_time)
		return 0;
	error = reserve(clocks, grid);
	if (error < 0)
		return error;
	if (move_max_ns < DEVICE_MOVE_MIN_NS)
		move_max_ns = DEVICE_MOVE_MIN_NS;
	for (size_t o = 0; o < grid->order_count; o++)
		take_instance(clocks, grid, &grid->instances[grid->order[o]]);
	for (size_t r = 0; r < grid->row_count; r++) {
		struct device_correction *rank = &clocks->ranks[grid->rows[r].rank];

		update(rank, move_max_ns, &grid->step.clock_error_ns);
		if (rank->known && rank->value_ns) {
			move_row(grid, &grid->rows[r], rank->value_ns);
			moved = true;
		}
	}
	if (moved)
		grid_refresh_members(grid);
	return 0;
}
