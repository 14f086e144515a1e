/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay of grids whose rows have several streams. A cell starts when its stream is free and
 * the rank's work has come to it; the work goes on from the ends of what it waited for.
 */
#include "analysis/segments.h"
#include "analysis/whatif.h"

/* times: where the work of each row may go on from; the last end in the end. */
struct stream_replay {
	struct whatif *whatif;
	const struct step_grid *grid;
	const struct blame *blame;
};

static void raise(int64_t *value, int64_t least)
{
	if (*value < least)
		*value = least;
}

/* Starts the row's cells up to and including `until`; ends[] holds starts until they end. */
static void start_cells(struct stream_replay *replay, uint32_t r, uint32_t until)
{
	struct whatif *whatif = replay->whatif;
	const struct step_grid *grid = replay->grid;
	const struct grid_row *row = &grid->rows[r];

	while (whatif->cursors[r] < row->cell_count &&
		row->first_cell + whatif->cursors[r] <= until) {
		uint32_t c = row->first_cell + whatif->cursors[r]++;
		const struct grid_cell *cell = &grid->cells[c];
		int64_t inside_ns = cell->departure_ns - cell->arrival_ns;
		const struct blame_cell compared = blame_cell_of(replay->blame, replay->grid, c);
		int64_t own_ns = cell->own_ns, start_ns;

		if (whatif->change.own_ns)
			own_ns = whatif->change.own_ns[c];
		else if (whatif->change.healed[r])
			own_ns = whatif_healed_ns(whatif, grid, replay->blame, c);
		else if ((cell->flags & CELL_QUEUED) && compared.control_ns < own_ns)
			own_ns = compared.control_ns;

		if (compared.most_ns < own_ns)
			own_ns = compared.most_ns;
		if (whatif->change.scales)
			own_ns = (int64_t)((double)own_ns * whatif->change.scales[r]);
		for (; whatif->ended[r] < cell->needs; whatif->ended[r]++) {
			uint32_t before =
				row->overlapped
					? grid->by_departure[row->first_cell + whatif->ended[r]]
					: row->first_cell + whatif->ended[r];

			if (segments_holds(row, &grid->cells[before], cell))
				raise(&whatif->times[r], whatif->ends[before]);
		}
		if (row->works && (cell->flags & CELL_LOCAL) && cell->before != GRID_NONE)
			raise(&whatif->times[r], whatif->ends[cell->before]);
		start_ns = whatif->times[r] + own_ns +
			   whatif_opaque_ns(whatif, grid, replay->blame, c);
		if (cell->flags & CELL_LOCAL) {
			whatif->ends[c] = start_ns;
			continue;
		}
		if (row->overlapped && cell->before != GRID_NONE &&
			whatif->ends[cell->before] > start_ns &&
			grid->cells[cell->before].departure_ns <= cell->arrival_ns)
			start_ns = whatif->ends[cell->before];
		if (!row->works)
			raise(&whatif->times[r], whatif->times[r] + own_ns);
		whatif->ends[c] = start_ns;
		if (cell->instance == GRID_NONE || (cell->flags & CELL_ALONE))
			whatif->ends[c] += inside_ns;
	}
}

/* Whose start a member waits for; its own when for nobody's. */
static int64_t needed_start(const struct stream_replay *replay,
	const struct grid_instance *instance, uint32_t m, int64_t last_ns, int64_t root_ns)
{
	uint32_t c = replay->grid->members[instance->first_member + m];
	const struct grid_cell *cell = &replay->grid->cells[c];
	bool is_root = instance->root >= 0 && cell->own_index == (uint32_t)instance->root;
	int64_t own_ns = replay->whatif->ends[c];

	switch (instance->waits_for) {
	case WAITS_FOR_ALL:
	case WAITS_FOR_PARTNER:
		return last_ns;
	case WAITS_FOR_ROOT:
		return root_ns;
	case WAITS_FOR_ALL_AT_ROOT:
		return is_root ? last_ns : own_ns;
	case WAITS_FOR_PREFIX:
		return own_ns + replay->blame->shares[instance->first_member + m].wait_ns;
	default:
		return own_ns;
	}
}

/* The receiver's side of a message whose sender did not wait for it. */
static bool is_message(
	const struct step_grid *grid, const struct grid_instance *instance, uint32_t c)
{
	if (instance->waits_for != WAITS_FOR_PARTNER || instance->member_count != 2 ||
		grid->cells[c].part->operation != OPERATION_RECEIVE ||
		grid->rows[grid->cells[c].row].works)
		return false;
	for (uint32_t m = 0; m < 2; m++) {
		if (grid->cells[grid->members[instance->first_member + m]].flags & CELL_ALONE)
			return true;
	}
	return false;
}

/*
 * A message is there so long after it was sent, whether its receiver is or not. Where the receiver
 * came so late that it did not wait, that is not known: it was there by then.
 */
static void end_message(
	struct stream_replay *replay, uint32_t index, uint32_t c, int64_t last_ns, int64_t sent_ns)
{
	const struct step_grid *grid = replay->grid;
	const struct grid_instance *instance = &grid->instances[index];
	const struct grid_cell *cell = &grid->cells[c];
	int64_t *end_ns = &replay->whatif->ends[c];
	int64_t call_ns = cell->departure_ns - cell->arrival_ns, way_ns = 0;

	for (uint32_t m = 0; m < 2; m++) {
		const struct grid_cell *other =
			&grid->cells[grid->members[instance->first_member + m]];

		if (other != cell)
			way_ns = cell->departure_ns - other->arrival_ns;
	}
	if (call_ns > way_ns / MESSAGE_SEEN) {
		raise(end_ns, sent_ns + whatif_transfer_ns(replay->whatif, index, way_ns));
	} else {
		raise(end_ns, last_ns);
		*end_ns += call_ns;
	}
}

static int64_t *cell_time(struct whatif *whatif, const struct step_grid *grid, uint32_t member)
{
	return &whatif->ends[grid->members[member]];
}

static void end_instance(struct stream_replay *replay, uint32_t index)
{
	const struct step_grid *grid = replay->grid;
	const struct grid_instance *instance = &grid->instances[index];
	const uint32_t *members = &grid->members[instance->first_member];
	int64_t *ends = replay->whatif->ends;
	int64_t last_ns = INT64_MIN, root_ns = INT64_MIN, seen_ns = INT64_MIN, sent_ns = 0;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		const struct grid_cell *cell = &grid->cells[members[m]];
		int64_t start_ns = ends[members[m]];

		start_cells(replay, cell->row, members[m]);
		ends[members[m]] -= whatif_sooner_ns(
			replay->whatif, grid, replay->blame, index, instance->first_member + m);
		start_ns = ends[members[m]];
		if (cell->flags & CELL_ALONE) { /* it has ended: back to its start */
			start_ns -= cell->departure_ns - cell->arrival_ns;
			sent_ns = start_ns;
		}
		raise(&last_ns, start_ns);
		raise(&seen_ns, cell->arrival_ns);
		if (instance->root >= 0 && cell->own_index == (uint32_t)instance->root)
			root_ns = start_ns;
	}
	if (replay->whatif->holes && instance->usable && instance->waits_for == WAITS_FOR_ALL)
		last_ns = whatif_catch_up(
			replay->whatif, grid, replay->blame, index, cell_time, last_ns);
	for (uint32_t m = 0; m < instance->member_count; m++) {
		const struct grid_cell *cell = &grid->cells[members[m]];
		int64_t transfer_ns = replay->blame->shares[instance->first_member + m].transfer_ns;
		int64_t inside_ns = cell->departure_ns - cell->arrival_ns;

		if (cell->flags & CELL_ALONE)
			continue;
		if (!instance->usable || instance->waits_for == WAITS_FOR_NOBODY) {
			ends[members[m]] += inside_ns;
			continue;
		}
		if (is_message(grid, instance, members[m])) {
			end_message(replay, index, members[m], last_ns, sent_ns);
			continue;
		}
		raise(&ends[members[m]], needed_start(replay, instance, m, last_ns, root_ns));
		/* What the member's own transfer was: it may have been shorter than its exposed stay. */
		if (instance->waits_for == WAITS_FOR_ALL ||
			instance->waits_for == WAITS_FOR_PARTNER)
			transfer_ns =
				cell->departure_ns > seen_ns ? cell->departure_ns - seen_ns : 0;
		ends[members[m]] += whatif_transfer_ns(replay->whatif, index, transfer_ns);
	}
}

/*
 * Cells of an instance lie far apart, those of the next one elsewhere: without a look ahead, a replay
 * of a large pipeline waits for memory most of the time. Inlined by force: compilers leave out calls of
 * functions that return nothing and only prefetch.
 */
static inline __attribute__((always_inline)) void fetch_ahead(
	const struct stream_replay *replay, size_t o)
{
	enum { CELLS_AHEAD = 8, INSTANCES_AHEAD = 24, MEMBERS_MAX = 8 };
	const struct step_grid *grid = replay->grid;
	const struct grid_instance *instance;

	if (o + INSTANCES_AHEAD >= grid->order_count)
		return;
	instance = &grid->instances[grid->order[o + INSTANCES_AHEAD]];
	__builtin_prefetch(instance);
	instance = &grid->instances[grid->order[o + 2 * CELLS_AHEAD]];
	__builtin_prefetch(&grid->members[instance->first_member]);
	__builtin_prefetch(&replay->blame->shares[instance->first_member]);
	instance = &grid->instances[grid->order[o + CELLS_AHEAD]];
	for (uint32_t m = 0; m < instance->member_count && m < MEMBERS_MAX; m++) {
		uint32_t c = grid->members[instance->first_member + m];

		__builtin_prefetch(&grid->cells[c]);
		__builtin_prefetch(&grid->cells[c].row);
		__builtin_prefetch(&replay->blame->cells[c]);
		__builtin_prefetch(&replay->whatif->ends[c]);
	}
}

void whatif_replay_streams(
	struct whatif *whatif, const struct step_grid *grid, const struct blame *blame)
{
	struct stream_replay replay = {whatif, grid, blame};

	for (size_t c = 0; c < grid->cell_count; c++)
		whatif->ends[c] = INT64_MIN / 2;
	for (size_t r = 0; r < grid->row_count; r++)
		whatif->ended[r] = 0;
	for (size_t o = 0; o < grid->order_count; o++) {
		fetch_ahead(&replay, o);
		end_instance(&replay, grid->order[o]);
	}
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		start_cells(&replay, (uint32_t)r, UINT32_MAX - 1);
		for (uint32_t i = 0; i < row->cell_count; i++)
			raise(&whatif->times[r], whatif->ends[row->first_cell + i]);
	}
}
