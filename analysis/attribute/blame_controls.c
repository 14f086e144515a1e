/* SPDX-License-Identifier: Apache-2.0 */
/* Which segments are compared with which: peers by layout, controls by lower median. */
#include <stdlib.h>

#include "analysis/attribute/blame_internal.h"
#include "analysis/attribute/blame_waits.h"
#include "analysis/base/robust_stats.h"
#include "analysis/join/segments.h"

/* So many lie in one line of a cache, row by row. */
enum { COLUMNS_AT_ONCE = 8 };
enum { COLUMN_GAP = 8 }; /* columns of a power of two of rows would share the sets of a cache */

/*
 * A segment before a part with device time lasts as long as the slower of two takes: the host that
 * enqueues (host_ns, less its waits for the device and for room in its queue) and the device that works. What the segment
 * lasts beyond the host's time is the device's; it may be negative, where the device idled less
 * than the host took. Compared with a control, own - host tells a longer device from a later host.
 * Where only the host's times are known (PART_HOST_TIME), own - host is what it waited for its device
 * before it could call.
 */
void blame_components(const struct grid_cell *cell, int64_t cell_own_ns, int64_t kinds[EXCESS_NR])
{
	const struct activity *activity = cell->own;
	bool device = cell->part->flags & (PART_DEVICE_TIME | PART_HOST_TIME);
	bool host_waited = cell->host_queued && cell_own_ns < activity->host_ns;
	int64_t own_ns = device && !host_waited ? activity->host_ns : cell_own_ns;
	int64_t fault_ns =
		activity->minor_fault_ns ? MINOR_FAULT_AROUND_NS : MINOR_FAULT_TYPICAL_NS;
	int64_t minor_ns = activity->minor_fault_ns + (int64_t)activity->minor_faults * fault_ns;
	int64_t rest_ns;

	if (device)
		kinds[EXCESS_COMPUTE] += cell_own_ns - own_ns;
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

struct laid_row {
	uint64_t layout;
	uint32_t row;
};

static int compare_rows(const void *one, const void *other)
{
	const struct laid_row *a = one, *b = other;

	if (a->layout != b->layout)
		return a->layout < b->layout ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

/* The rows by layout, of one layout in their own order. NULL without memory. */
static const uint32_t *rows_by_layout(struct blame *blame, const struct step_grid *grid)
{
	size_t count = grid->row_count;
	uint32_t *rows = arena_take(&blame->arena, count, sizeof(*rows));
	struct laid_row *laid = arena_take(&blame->arena, count, sizeof(*laid));
	bool sorted = true;

	if (!rows || !laid)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		laid[i] = (struct laid_row){grid->rows[i].layout, (uint32_t)i};
		sorted &= i == 0 || laid[i - 1].layout <= laid[i].layout;
	}
	if (!sorted)
		qsort(laid, count, sizeof(*laid), compare_rows);
	for (size_t i = 0; i < count; i++)
		rows[i] = laid[i].row;
	return rows;
}

/* Rows of one layout: who is compared with whom. */
struct peers {
	struct blame *blame;
	const struct step_grid *grid;
	const uint32_t *rows;
	size_t row_count;
	size_t count;	  /* rows without a hole: those that are compared */
	int64_t *columns; /* their own times at some positions, position by position */
	size_t stride;	  /* of columns: not a power of two, as counts mostly are */
	uint32_t first_control;
	uint32_t position_count;
	bool in_columns;	/* their own times at each position lie in one piece in the grid */
	bool plain_controls;	/* all of them are */
	int64_t control_sum_ns; /* of these cells' own times */
	struct blame_waits waits; /* of overlapped grids */
};

/* The peers' own times at some positions, position by position, so that each lies in one piece. */
static void fill_columns(const struct peers *peers, uint32_t first, uint32_t end)
{
	const struct step_grid *grid = peers->grid;
	size_t place = 0;

	for (size_t i = 0; i < peers->row_count; i++) {
		const struct grid_row *row = &grid->rows[peers->rows[i]];

		if (row->hole)
			continue;
		for (uint32_t p = first; p < end; p++)
			peers->columns[p % COLUMNS_AT_ONCE * peers->stride + place] =
				grid_own_ns(grid, grid_cell_at(grid, row, p));
		place++;
	}
}

/* The row at a place among those without a hole. */
static const struct grid_row *row_at(const struct peers *peers, size_t place)
{
	for (size_t i = 0; i < peers->row_count; i++) {
		const struct grid_row *row = &peers->grid->rows[peers->rows[i]];

		if (!row->hole && place-- == 0)
			return row;
	}
	return NULL;
}

/*
 * A queued cell's own time is what lay before it, work or not; how long the work is, is seen where
 * a peer's cell was not queued. The lower median of these, or the position's control.
 */
static int64_t measured_control(const struct peers *peers, uint32_t position)
{
	const struct step_grid *grid = peers->grid;
	size_t count = 0;

	for (size_t i = 0; i < peers->row_count; i++) {
		const struct grid_row *row = &grid->rows[peers->rows[i]];
		const struct grid_cell *cell;

		if (row->hole)
			continue;
		cell = &grid->cells[grid_cell_at(grid, row, position)];
		if (!(cell->flags & CELL_QUEUED))
			peers->blame->scratch[count++] =
				grid_own_ns(grid, grid_cell_at(grid, row, position));
	}
	return count ? lower_median_int64(peers->blame->scratch, count)
		     : peers->blame->controls[peers->first_control + position].control_ns;
}

/* The peers are the members of one instance at each position. */
static bool lie_in_columns(const struct peers *peers)
{
	const struct step_grid *grid = peers->grid;
	const struct grid_row *row = &grid->rows[peers->rows[0]];

	for (uint32_t p = 0; p < peers->position_count && peers->blame->traits.alike; p++) {
		if (grid->instances[grid->cells[row->first_cell + p].instance].member_count !=
			peers->row_count)
			return false;
	}
	return peers->blame->traits.alike;
}

/* The peers' own times at a position. */
static const int64_t *column_of(const struct peers *peers, uint32_t position)
{
	const struct step_grid *grid = peers->grid;
	uint32_t left = peers->position_count - position;

	if (peers->in_columns)
		return &grid->own_ns[grid->places[grid->rows[peers->rows[0]].first_cell +
						  position]];
	if (position % COLUMNS_AT_ONCE == 0)
		fill_columns(peers, position,
			position + (left < COLUMNS_AT_ONCE ? left : COLUMNS_AT_ONCE));
	return &peers->columns[position % COLUMNS_AT_ONCE * peers->stride];
}

/* The control of one position: the lower median of the peers' own times, and whose it is. */
static void find_control(struct peers *peers, uint32_t position)
{
	const struct step_grid *grid = peers->grid;
	const int64_t *column = column_of(peers, position);
	struct blame_control *control = &peers->blame->controls[peers->first_control + position];
	size_t place = 0;

	control->control_ns = lower_median_of_int64(column, peers->count, peers->blame->scratch);
	while (column[place] != control->control_ns)
		place++;
	/* Where no row has a hole, a place is an index. */
	const struct grid_row *row = peers->count == peers->row_count
					     ? &grid->rows[peers->rows[place]]
					     : row_at(peers, place);

	control->cell = grid_cell_at(grid, row, position);
	control->own_ns = control->control_ns;
	control->plain = grid->cells[control->cell].own == &activity_none &&
			 !(grid->cells[control->cell].part->flags & PART_DEVICE_TIME);
	control->queued = grid->cells[control->cell].flags & CELL_QUEUED;
	control->measured_ns =
		control->queued ? measured_control(peers, position) : control->control_ns;
	peers->plain_controls &= control->plain;
	peers->control_sum_ns += control->own_ns;
}

/* Takes a cell and its control into the sums of its row. */
static void add_components(const struct step_grid *grid, struct blame_row *row, uint32_t c,
	const struct blame_control *compared)
{
	const struct grid_cell *cell = &grid->cells[c], *control = &grid->cells[compared->cell];
	int64_t own_ns = grid_own_ns(grid, c);

	if (!((cell->part->flags | control->part->flags) & (PART_DEVICE_TIME | PART_HOST_TIME)) &&
		cell->own == &activity_none && control->own == &activity_none) {
		row->own[EXCESS_COMPUTE] += own_ns > 0 ? own_ns : 0;
		row->control[EXCESS_COMPUTE] += compared->own_ns > 0 ? compared->own_ns : 0;
		return;
	}
	blame_components(cell, own_ns, row->own);
	blame_components(control, compared->own_ns, row->control);
	row->on_device |= (cell->part->flags & (PART_DEVICE_TIME | PART_HOST_TIME)) != 0;
	if (cell->part->flags & PART_HOST_TIME) {
		row->host_times = true;
		row->unjoined |= cell->instance == GRID_NONE;
	}
	row->minor_faults += cell->own->minor_faults;
	row->control_minor_faults += control->own->minor_faults;
}

/* What a row does before its next instance, cell by cell; not of overlapped rows. */
struct leading {
	struct blame_lead lead;
	int64_t opaque_ns;
	uint8_t mixed;
};

static void add_lead(struct blame *blame, const struct step_grid *grid, uint32_t c,
	int64_t control_ns, struct leading *leading)
{
	const struct grid_cell *cell = &grid->cells[c];

	leading->lead.own_ns += grid_own_ns(grid, c);
	leading->lead.control_ns += control_ns;
	leading->opaque_ns += cell->opaque_ns;
	if (cell->instance == GRID_NONE) {
		leading->opaque_ns += grid_call_ns(grid, c);
		return;
	}
	uint32_t at = grid->places[c];

	if (leading->opaque_ns) {
		leading->mixed |= MIXED_OPAQUE;
		blame->opaque_ns[at] = leading->opaque_ns;
		blame->traits.opaque = true;
	}
	if (leading->mixed)
		blame->mixed[at] = leading->mixed;
	if (!blame->traits.alike)
		blame->leads[at] = leading->lead;
	*leading = (struct leading){0};
}

/* Compares a plain row with the controls of its positions. */
static void compare_plain(const struct peers *peers, uint32_t r)
{
	const struct step_grid *grid = peers->grid;
	const struct grid_row *row = &grid->rows[r];
	struct blame *blame = peers->blame;
	struct blame_row *result = &blame->rows[r];
	int64_t own_ns = row->own_ns,
		control_ns = peers->control_sum_ns; /* what is COMPUTE of them */

	result->own_excess_ns += own_ns - control_ns;
	for (uint32_t p = 0; p < row->cell_count && !(blame->traits.alike && peers->plain_controls);
		p++) {
		const struct blame_control *control = &blame->controls[peers->first_control + p];
		uint32_t place = grid->places[row->first_cell + p];

		if (!blame->traits.alike)
			blame->leads[place] =
				(struct blame_lead){grid->own_ns[place], control->control_ns};
		if (control->plain)
			continue;
		own_ns -= grid->own_ns[place];
		control_ns -= control->own_ns;
		add_components(grid, result, row->first_cell + p, control);
		blame->mixed[place] = MIXED_ACTIVITY;
	}
	result->own[EXCESS_COMPUTE] += own_ns;
	result->control[EXCESS_COMPUTE] += control_ns;
}

/* The same for one that is not plain, and not overlapped. */
static void compare_row(const struct peers *peers, uint32_t r)
{
	const struct step_grid *grid = peers->grid;
	const struct grid_row *row = &grid->rows[r];
	struct blame *blame = peers->blame;
	struct leading leading = {0};

	for (uint32_t p = 0; p < row->cell_count; p++) {
		const struct blame_control *control = &blame->controls[peers->first_control + p];
		uint32_t c = row->first_cell + p;

		blame->rows[r].own_excess_ns += grid_own_ns(grid, c) - control->own_ns;
		add_components(grid, &blame->rows[r], c, control);
		if (!control->plain || grid->cells[c].own != &activity_none)
			leading.mixed |= MIXED_ACTIVITY;
		add_lead(blame, grid, c, control->control_ns, &leading);
	}
}

/* It was queued, and nothing is known of the work before it. */
static bool is_bound(const struct grid_cell *cell)
{
	return (cell->flags & (CELL_QUEUED | CELL_RECKONED)) == CELL_QUEUED;
}

/* As many times as long as its control's as the rank was sent more to work on: 1, where both, or neither, got as much. */
static double times_as_much(const struct step_grid *grid, uint32_t c, uint32_t control)
{
	uint64_t received = segments_received_bytes(grid, c);
	uint64_t by_control = received ? segments_received_bytes(grid, control) : 0;

	return by_control && received > by_control ? (double)received / (double)by_control : 1;
}

/*
 * How long a cell's own time would be if the rank did as its control: as long as there, for as much work, and longer by
 * what it waited for others beside its work, for that excess may be theirs.
 */
static int64_t expected_ns(
	const struct peers *peers, uint32_t c, int64_t own_ns, const struct blame_control *control)
{
	const struct grid_cell *cell = &peers->grid->cells[c];
	int64_t arrival_ns = grid_times_of(peers->grid, cell)->arrival_ns;
	int64_t expected_ns = control->control_ns;

	if (own_ns <= expected_ns || !(cell->part->flags & PART_DEVICE_TIME))
		return expected_ns;
	expected_ns = (int64_t)((double)expected_ns * times_as_much(peers->grid, c, control->cell));
	expected_ns +=
		blame_waits_beside(&peers->waits, cell->lane, arrival_ns - own_ns, arrival_ns);
	return expected_ns < own_ns ? expected_ns : own_ns;
}

/* The same for an overlapped row. */
static void compare_streams(struct peers *peers, uint32_t r)
{
	const struct step_grid *grid = peers->grid;
	const struct grid_row *row = &grid->rows[r];
	struct blame *blame = peers->blame;

	blame_waits_of_row(&peers->waits, grid, row);
	for (uint32_t p = 0; p < row->cell_count; p++) {
		const struct blame_control *control = &blame->controls[peers->first_control + p];
		uint32_t c = grid_cell_at(grid, row, p);
		const struct grid_cell *cell = &grid->cells[c];
		int64_t own_ns = grid_own_ns(grid, c);
		/* Of queued cells only a bound is known: they neither exceed nor show others to be early. */
		bool bound = cell->flags & CELL_QUEUED
				     ? own_ns > control->control_ns
				     : control->queued && own_ns < control->control_ns;

		blame->cells[c] =
			(struct blame_cell){bound ? own_ns : expected_ns(peers, c, own_ns, control),
				control->cell, is_bound(cell) ? control->measured_ns : INT64_MAX};
		if (bound)
			continue;
		blame->rows[r].own_excess_ns += own_ns - control->own_ns;
		add_components(grid, &blame->rows[r], c, control);
	}
}

/* For how long a row's device was in calls since its host last enqueued some. */
struct stays {
	int64_t sum_ns, until_ns;
};

static void add_stay(struct stays *stays, const struct cell_times *times)
{
	int64_t from_ns = times->arrival_ns > stays->until_ns ? times->arrival_ns : stays->until_ns;

	if (times->departure_ns <= from_ns)
		return;
	stays->sum_ns += times->departure_ns - from_ns;
	stays->until_ns = times->departure_ns;
}

/* What holds a host up, as the kernel tells, and not what its program does: healthy stages sleep in turn while they wait. */
static bool holds_up(int kind)
{
	return kind != EXCESS_COMPUTE && kind != EXCESS_HOST_CPU && kind != EXCESS_ASLEEP;
}

/* What a row without peers is made of. */
struct alone {
	bool known;	 /* some of it is a device's, and was not queued */
	int64_t own_ns;	 /* of all its cells */
	int64_t turn_ns; /* while its device waited for its host */
	int64_t told_ns; /* of that, what the kernel says its host was held up */
};

/*
 * By how much a cell is late because its host was held up, as the kernel tells: no longer than it was the host's turn, and not
 * while the device was in calls, where the host may have waited for others. The control is the cell without that.
 */
static int64_t add_held_up(struct blame_row *result, const struct grid_cell *cell, int64_t own_ns,
	int64_t stays_ns, struct alone *alone)
{
	int64_t kinds[EXCESS_NR] = {0}, sum_ns = 0, held_ns;
	int64_t most_ns = larger(own_ns < cell->own->host_ns ? own_ns : cell->own->host_ns, 0);

	blame_components(cell, own_ns, kinds);
	for (int k = 0; k < EXCESS_NR; k++)
		sum_ns += holds_up(k) ? kinds[k] : 0;
	held_ns = clamp(sum_ns - stays_ns, 0, most_ns);
	double left = sum_ns > 0 ? 1 - (double)held_ns / (double)sum_ns : 1;

	for (int k = 0; k < EXCESS_NR; k++) {
		result->own[k] += kinds[k];
		result->control[k] += holds_up(k) ? (int64_t)(left * (double)kinds[k]) : kinds[k];
	}
	result->minor_faults += cell->own->minor_faults;
	result->control_minor_faults += (int64_t)(left * cell->own->minor_faults);
	result->own_excess_ns += held_ns;
	alone->known = true;
	alone->turn_ns += clamp(cell->own->host_ns - stays_ns, 0, most_ns);
	alone->told_ns += held_ns;
	return held_ns;
}

/*
 * Whichever stage is the slowest, a step of its job is as long as that one's own time. So a rank is slower than before when its own
 * time alone is more than its steps usually take; and its host is, as far as its device waited for it. A share of its cells is
 * then excess. Why is not known: threads that sleep while others of their process work do so at all times.
 */
static void add_past(struct blame *blame, const struct step_grid *grid, const struct grid_row *row,
	const struct alone *alone)
{
	struct blame_row *result = &blame->rows[row - grid->rows];
	int64_t usual_ns = blame_past_usual_ns(blame, grid, row);
	int64_t excess_ns = usual_ns == INT64_MAX ? 0
						  : clamp(alone->own_ns - usual_ns - alone->told_ns,
							    0, alone->turn_ns - alone->told_ns);

	if (excess_ns == 0)
		return;
	double left = 1 - (double)excess_ns / (double)(alone->own_ns - alone->told_ns);

	result->control[EXCESS_HOST_CPU] -= excess_ns;
	result->own_excess_ns += excess_ns;
	result->past_ns = excess_ns;
	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++)
		blame->cells[c].control_ns = (int64_t)(left * (double)blame->cells[c].control_ns);
}

/*
 * A stage of a pipeline whose rank has had no peers of late. Where it mostly has some, a step without is an odd
 * one; and so are those of ranks that only meet all others.
 */
static bool is_alone(struct blame *blame, const struct step_grid *grid, const struct grid_row *row)
{
	uint8_t *peers = &blame->peers[row->rank];

	if (row->hole)
		return false;
	if (*peers > 0) {
		--*peers;
		return false;
	}
	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
		if (part_kind_is_device_message(grid->cells[c].part))
			return true;
	}
	return false;
}

/*
 * A row without peers is its own control, but for what its host was held up. What lay before its queued cells is
 * not known to be work: in a replay they follow each other as they did.
 */
static void keep_row(struct blame *blame, const struct step_grid *grid, uint32_t r)
{
	const struct grid_row *row = &grid->rows[r];
	struct blame_row *result = &blame->rows[r];
	struct leading leading = {0};
	struct stays stays = {.until_ns = INT64_MIN};
	struct alone alone = {0};
	bool without_peers = is_alone(blame, grid, row);

	blame->row_controls[r] = GRID_NONE;
	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
		const struct grid_cell *cell = &grid->cells[c];
		int64_t own_ns = grid_own_ns(grid, c), held_ns = 0;

		if (!row->overlapped) {
			add_lead(blame, grid, c, own_ns, &leading);
			continue;
		}
		alone.own_ns += own_ns;
		if (without_peers && cell->part->flags & PART_DEVICE_TIME) {
			result->alone = result->on_device = true;
			if (!is_bound(cell))
				held_ns = add_held_up(result, cell, own_ns, stays.sum_ns, &alone);
			if (!activity_is_none(cell->own))
				stays.sum_ns = 0;
			add_stay(&stays, grid_times_of(grid, cell));
		}
		blame->cells[c] = (struct blame_cell){
			own_ns - held_ns, GRID_NONE, is_bound(cell) ? 0 : INT64_MAX};
	}
	if (alone.known)
		add_past(blame, grid, row, &alone);
}

static void compare_peers(struct peers *peers)
{
	struct blame *blame = peers->blame;

	peers->in_columns = lie_in_columns(peers);
	peers->plain_controls = true;
	for (uint32_t p = 0; p < peers->position_count && peers->count >= 2; p++)
		find_control(peers, p);
	for (size_t i = 0; i < peers->row_count; i++) {
		uint32_t r = peers->rows[i];

		if (peers->count < 2 || peers->grid->rows[r].hole) {
			keep_row(blame, peers->grid, r);
			continue;
		}
		blame->row_controls[r] = peers->first_control;
		if (blame->peers[peers->grid->rows[r].rank] < PEERS_MEMORY)
			blame->peers[peers->grid->rows[r].rank]++;
		if (peers->grid->rows[r].overlapped)
			compare_streams(peers, r);
		else if (peers->grid->rows[r].plain)
			compare_plain(peers, r);
		else
			compare_row(peers, r);
		blame->rows[r].judged = peers->position_count > 0;
	}
}

static bool same_layout(const struct step_grid *grid, uint32_t a, uint32_t b)
{
	return grid->rows[a].layout == grid->rows[b].layout &&
	       grid->rows[a].cell_count == grid->rows[b].cell_count;
}

/* Each row has peers, and no hole; rows are sorted by layout. */
static bool all_have_peers(const struct step_grid *grid, const uint32_t *rows)
{
	size_t count = grid->row_count;

	for (size_t i = 0; i < count; i++) {
		if (grid->rows[rows[i]].hole ||
			!((i > 0 && same_layout(grid, rows[i - 1], rows[i])) ||
				(i + 1 < count && same_layout(grid, rows[i], rows[i + 1]))))
			return false;
	}
	return true;
}

/* Room for the controls of all groups of rows, which are sorted by layout, and for one group's columns. */
static int take_controls(
	struct blame *blame, const struct step_grid *grid, const uint32_t *rows, int64_t **columns)
{
	struct arena *arena = &blame->arena;
	size_t count = 0;

	for (size_t i = 0; i < grid->row_count; i++) {
		if (i == 0 || !same_layout(grid, rows[i - 1], rows[i]))
			count += grid->rows[rows[i]].cell_count;
	}
	blame->controls = arena_take(arena, count, sizeof(*blame->controls));
	*columns = arena_take(
		arena, COLUMNS_AT_ONCE * (grid->row_count + COLUMN_GAP), sizeof(**columns));
	if (blame->traits.alike)
		blame->column_meetings =
			arena_take(arena, grid->instance_count, sizeof(*blame->column_meetings));
	else
		blame->leads = arena_take(arena, grid->member_end, sizeof(*blame->leads));
	return arena_error(arena);
}

int blame_controls(struct blame *blame, const struct step_grid *grid)
{
	const uint32_t *rows = rows_by_layout(blame, grid);
	uint32_t control_count = 0;
	int64_t *columns;
	int error;

	if (!rows)
		return arena_error(&blame->arena);
	blame->traits.alike =
		grid->traits.alike && blame->traits.in_order && all_have_peers(grid, rows);
	struct blame_waits waits = {0};

	if (grid->traits.overlapped && !grid->traits.in_turn)
		blame_waits_begin(&waits, grid, &blame->arena);
	error = take_controls(blame, grid, rows, &columns);
	for (size_t first = 0, next; first < grid->row_count && error == 0; first = next) {
		struct peers peers = {.blame = blame,
			.grid = grid,
			.rows = &rows[first],
			.columns = columns,
			.position_count = grid->rows[rows[first]].cell_count,
			.first_control = control_count,
			.waits = waits};

		for (next = first;
			next < grid->row_count && same_layout(grid, rows[first], rows[next]);
			next++)
			peers.count += !grid->rows[rows[next]].hole;
		peers.row_count = next - first;
		peers.stride = peers.count + COLUMN_GAP;
		compare_peers(&peers);
		control_count += peers.position_count;
	}
	return error;
}
