/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/attribute/whatif.h"

#include <string.h>

#include "analysis/attribute/blame_internal.h"

void whatif_init(struct whatif *whatif)
{
	memset(whatif, 0, sizeof(*whatif));
}

void whatif_fini(struct whatif *whatif)
{
	arena_fini(&whatif->arena);
	whatif_init(whatif);
}

void whatif_next_step(struct whatif *whatif)
{
	whatif->times = NULL;
	whatif->ends_known = false;
}

/* Room for the step's replays, which are laid out where its grid is overlapped. */
static int begin_step(
	struct whatif *whatif, const struct step_grid *grid, const struct blame *blame)
{
	struct arena *arena = &whatif->arena;
	size_t rows = grid->row_count;

	arena_reset(arena);
	whatif->nobody = arena_take_zeroed(arena, rows, sizeof(*whatif->nobody));
	whatif->ends_before = arena_take(arena, rows, sizeof(*whatif->ends_before));
	whatif->scratch = arena_take(arena, rows, sizeof(*whatif->scratch));
	whatif->relief = arena_take(arena, grid->cell_count, sizeof(*whatif->relief));
	whatif->streams = NULL;
	if (grid->traits.overlapped)
		whatif->streams = whatif_streams_lay_out(arena, grid, blame);
	whatif->times = arena_take(arena, rows, sizeof(*whatif->times));
	if (arena_error(arena) < 0)
		whatif->times = NULL; /* the next replay tries again */
	return arena_error(arena);
}

/*
 * Waits in calls that are not seen shrink when the rank they wait for is healed: at each position, by at
 * most the largest excess that is healed there. Kept at the control's cell, which all share.
 */
static void find_relief(
	struct whatif *whatif, const struct step_grid *grid, const struct blame *blame)
{
	const uint8_t *healed = whatif->change.healed;

	for (uint32_t c = 0; c < grid->cell_count; c++)
		whatif->relief[c] = (struct whatif_relief){0, 0};
	for (uint32_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		for (uint32_t i = 0; healed[r] && i < row->cell_count; i++) {
			uint32_t c = row->first_cell + i;
			uint32_t control = blame_cell_of(blame, grid, c).control_cell;
			int64_t excess =
				grid_own_ns(grid, c) - whatif_healed_ns(whatif, grid, blame, c);

			if (control != GRID_NONE && excess > whatif->relief[control].excess_ns)
				whatif->relief[control] =
					(struct whatif_relief){excess, grid->cells[c].opaque_ns};
		}
	}
}

/* What a cell's calls that are no cells take; less where peers at its place are healed. */
static int64_t opaque_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t c)
{
	const struct grid_cell *cell = &grid->cells[c];
	uint32_t control = blame_cell_of(blame, grid, c).control_cell;

	if (cell->opaque_ns == 0 || !whatif->relieved || control == GRID_NONE ||
		whatif->change.healed[cell->row])
		return cell->opaque_ns;
	return whatif_relieved_ns(whatif, control, cell->opaque_ns);
}

static int64_t segment_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t c)
{
	int64_t own_ns;

	if (whatif->change.own_ns)
		own_ns = whatif->change.own_ns[c];
	else if (whatif->change.healed[grid->cells[c].row])
		own_ns = whatif_healed_ns(whatif, grid, blame, c);
	else
		own_ns = grid_own_ns(grid, c);
	return own_ns + opaque_ns(whatif, grid, blame, c);
}

/* A row's cells up to and including c, since its last instance, one by one. */
static int64_t walk_back_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t c)
{
	const struct grid_row *row = &grid->rows[grid->cells[c].row];
	int64_t sum_ns = 0;

	do {
		const struct grid_cell *cell = &grid->cells[c];

		sum_ns += segment_ns(whatif, grid, blame, c);
		if (cell->instance == GRID_NONE) /* passed over as it was */
			sum_ns += grid_call_ns(grid, c);
	} while (c-- > row->first_cell && grid->cells[c].instance == GRID_NONE);
	return sum_ns;
}

/* What row r does before its member m of an instance. */
static inline int64_t lead_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const struct blame_meeting *meeting, uint32_t m, uint32_t r)
{
	bool healed = whatif->change.healed[r];
	/* What has to be looked at cell by cell. */
	unsigned slow = healed ? (whatif->change.part == WHATIF_ALL ? 0 : MIXED_ACTIVITY)
			       : (whatif->relieved ? MIXED_OPAQUE : 0);
	int64_t own_ns = healed && whatif->change.part != WHATIF_HOST
				 ? blame_lead_control_ns(blame, meeting, m)
				 : blame_lead_own_ns(blame, grid, meeting, m);

	if (whatif->change.own_ns || (blame->mixed[m] & slow))
		return walk_back_ns(whatif, grid, blame, grid->members[m]);
	return own_ns + blame_opaque_ns(blame, m);
}

static bool is_root(const struct step_grid *grid, const struct grid_instance *instance, uint32_t m)
{
	return instance->root >= 0 &&
	       grid->cells[grid->members[instance->first_member + m]].own_index ==
		       (uint32_t)instance->root;
}

/* All leave when the last has come, each after its transfer; no hold to take out of it. */
static void leave_together(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t index, int64_t last_ns)
{
	const struct grid_instance *instance = &grid->instances[index];
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	const struct blame_meeting meeting = blame->meetings[index];
	int64_t faster_ns = whatif->change.faster ? whatif->change.faster[index] : 0;
	int64_t *times = whatif->times;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		uint32_t r = members[m].row;
		int64_t transfer_ns =
			blame_transfer_ns(blame, grid, &meeting, instance->first_member + m);

		/* A row may be there twice. */
		times[r] = larger(times[r], last_ns) + larger(transfer_ns - faster_ns, 0);
	}
}

/* All members' leads and transfers are known by columns, and nobody holds the others, nor comes sooner. */
static bool in_columns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t index)
{
	const struct blame_meeting *meeting = &blame->meetings[index];

	return meeting->control != GRID_NONE && !whatif->change.own_ns && !meeting->kept &&
	       !blame->traits.opaque && !blame->held[index] && grid->instances[index].root < 0 &&
	       !(whatif->change.faster && meeting->lagged);
}

/* What members bring that lies in columns: nothing of it is opaque, and nobody comes sooner. Returns the last one's. */
static int64_t bring_columns(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t index)
{
	const struct grid_instance *instance = &grid->instances[index];
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	const int64_t *own_ns = &grid->own_ns[instance->first_member];
	const uint8_t *healed = whatif->change.healed,
		      *mixed = &blame->mixed[instance->first_member];
	const enum whatif_part part = whatif->change.part;
	int64_t control_ns = blame->controls[blame->meetings[index].control].control_ns;
	int64_t *times = whatif->times, last_ns = INT64_MIN;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		uint32_t r = members[m].row;
		int64_t lead = own_ns[m];

		if (healed[r] && part != WHATIF_ALL && (mixed[m] & MIXED_ACTIVITY))
			lead = walk_back_ns(
				whatif, grid, blame, grid->members[instance->first_member + m]);
		else if (healed[r] && part != WHATIF_HOST)
			lead = control_ns;
		times[r] += lead;
		last_ns = larger(last_ns, times[r]);
	}
	return last_ns;
}

/* What members bring; *root_ns: the root's time. Returns the last one's. */
static int64_t bring_all(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t index, int64_t *root_ns)
{
	const struct grid_instance *instance = &grid->instances[index];
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	const struct blame_meeting meeting = blame->meetings[index];
	bool sooner = whatif->change.faster && meeting.lagged;
	int64_t *times = whatif->times, last_ns = INT64_MIN;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		uint32_t r = members[m].row, at = instance->first_member + m;
		int64_t time_ns = times[r] + lead_ns(whatif, grid, blame, &meeting, at, r);

		if (sooner)
			time_ns -= whatif_sooner_ns(whatif, grid, blame, index, at);
		last_ns = larger(last_ns, time_ns);
		if (is_root(grid, instance, m))
			*root_ns = time_ns;
		times[r] = time_ns;
	}
	return last_ns;
}

/* Lets members of rows with a hole come with the others. Returns when the last one comes. */
static int64_t catch_up(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t index, int64_t last_ns)
{
	const struct grid_instance *instance = &grid->instances[index];
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	int64_t least_ns = whatif_least_wait_ns(grid, blame, index), whole_ns = INT64_MIN;

	if (least_ns == INT64_MAX)
		return last_ns;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		if (!(members[m].flags & MEMBER_DOUBTFUL))
			whole_ns = larger(whole_ns, whatif->times[members[m].row]);
	}
	last_ns = whole_ns;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		int64_t *time_ns = &whatif->times[members[m].row], late_ns;

		if (!(members[m].flags & MEMBER_DOUBTFUL))
			continue;
		late_ns = whatif->change.healed[members[m].row]
				  ? 0
				  : least_ns - whatif_wait_ns(grid, blame, index,
						       instance->first_member + m);
		*time_ns = smaller(*time_ns, whole_ns + larger(late_ns, 0));
		last_ns = larger(last_ns, *time_ns);
	}
	return last_ns;
}

static void replay_instance(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, uint32_t index)
{
	const struct grid_instance *instance = &grid->instances[index];
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	const struct blame_meeting *meeting = &blame->meetings[index];
	int64_t root = INT64_MIN, last = INT64_MIN;
	int64_t released = whatif_released_ns(whatif, grid, blame, instance);
	bool hold_stays = whatif->change.part == WHATIF_COMPUTE;

	if (in_columns(whatif, grid, blame, index))
		last = bring_columns(whatif, grid, blame, index);
	else
		last = bring_all(whatif, grid, blame, index, &root);
	if (whatif->holes && instance->usable && instance->waits_for == WAITS_FOR_ALL)
		last = catch_up(whatif, grid, blame, index, last);
	if (!blame->held[index] && instance->usable && instance->waits_for == WAITS_FOR_ALL) {
		leave_together(whatif, grid, blame, index, last);
		return;
	}
	for (uint32_t m = 0; m < instance->member_count; m++) {
		int64_t *time = &whatif->times[members[m].row];
		uint32_t at = instance->first_member + m;
		int64_t transfer = whatif_transfer_ns(
			whatif, index, blame_transfer_ns(blame, grid, meeting, at));
		int64_t needed = INT64_MIN;

		if (!instance->usable || instance->waits_for == WAITS_FOR_NOBODY) {
			*time += grid->departure_ns[at] - grid->arrival_ns[at];
			continue;
		}
		if (instance->waits_for == WAITS_FOR_ALL)
			needed = last;
		else if (instance->waits_for == WAITS_FOR_ROOT)
			needed = root;
		else if (instance->waits_for == WAITS_FOR_ALL_AT_ROOT && is_root(grid, instance, m))
			needed = last;
		else if (instance->waits_for == WAITS_FOR_PREFIX)
			needed = *time + blame->shares[at].wait_ns;
		if (needed > *time)
			*time = needed;
		int64_t hold = blame->held[index] ? blame->holds[at] : 0;
		int64_t shrink =
			!hold_stays && hold > released && whatif->change.healed[members[m].row]
				? hold
				: released;
		*time += shrink < transfer ? transfer - shrink : 0;
	}
}

/*
 * Instances of the same members one after the other, all of whom are healed: they all bring as much, and the last to leave is the
 * last to come. So nobody's time is needed in between. Takes that one of order, and those after it; returns the place after them.
 */
static size_t replay_healed(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, size_t first)
{
	int64_t last_ns = bring_columns(whatif, grid, blame, grid->order[first]);
	size_t o = first;

	while (o + 1 < grid->order_count && grid->instances[grid->order[o + 1]].again &&
		in_columns(whatif, grid, blame, grid->order[o + 1])) {
		last_ns += blame_longest_transfer_ns(&blame->meetings[grid->order[o]]);
		o++;
		last_ns += blame->controls[blame->meetings[grid->order[o]].control].control_ns;
	}
	leave_together(whatif, grid, blame, grid->order[o], last_ns);
	return o + 1;
}

static void replay_rows(
	struct whatif *whatif, const struct step_grid *grid, const struct blame *blame)
{
	for (size_t o = 0; o < grid->order_count;) {
		if (whatif->all_healed && in_columns(whatif, grid, blame, grid->order[o]))
			o = replay_healed(whatif, grid, blame, o);
		else
			replay_instance(whatif, grid, blame, grid->order[o++]);
	}
	for (uint32_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		if (row->cell_count &&
			grid->cells[row->first_cell + row->cell_count - 1].instance == GRID_NONE)
			whatif->times[r] += walk_back_ns(
				whatif, grid, blame, row->first_cell + row->cell_count - 1);
	}
}

static void rewind_rows(
	struct whatif *whatif, const struct step_grid *grid, const struct whatif_line *line)
{
	whatif->holes = false;
	for (size_t r = 0; r < grid->row_count; r++) {
		whatif->holes |= grid->rows[r].hole || grid->rows[r].start_unknown;
		whatif->times[r] = grid->rows[r].start_ns;
		if (line)
			whatif->times[r] -= line->ahead_ns[grid->rows[r].rank];
	}
}

static void replay(struct whatif *whatif, const struct step_grid *grid, const struct blame *blame,
	const struct whatif_change *change, const struct whatif_line *line)
{
	whatif->change = *change;
	if (!change->healed)
		whatif->change.healed = whatif->nobody;
	rewind_rows(whatif, grid, line);
	bool same = grid->row_count < 2 || memcmp(whatif->change.healed, whatif->change.healed + 1,
						   grid->row_count - 1) == 0;

	whatif->all_healed = same && grid->row_count && whatif->change.healed[0] &&
			     change->part == WHATIF_ALL && !change->faster && !whatif->holes;
	/* Only rows that are not healed have any, and only others that are give it. */
	whatif->relieved = blame->traits.opaque && !same;
	if (whatif->relieved)
		find_relief(whatif, grid, blame);
	if (grid->traits.overlapped)
		whatif_replay_streams(whatif, grid, blame);
	else
		replay_rows(whatif, grid, blame);
}

/*
 * How rows ended without anything healed. Where work is shown, launches are left out, so the step
 * as it was is replayed too; else the rows show it.
 */
static void find_ends(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, bool replayed)
{
	bool ran = replayed || grid->traits.overlapped;

	if (whatif->ends_known && whatif->ends_replayed == ran)
		return; /* once a step */
	if (ran)
		replay(whatif, grid, blame, &(struct whatif_change){0}, NULL);
	for (size_t r = 0; r < grid->row_count; r++)
		whatif->ends_before[r] = ran ? whatif->times[r] : grid->rows[r].end_ns;
	whatif->ends_known = true;
	whatif->ends_replayed = ran;
}

int whatif_replay(struct whatif *whatif, const struct step_grid *grid, const struct blame *blame,
	const struct whatif_change *change, struct whatif_line *line, int64_t *gain_ns)
{
	if (!blame->traits
			.in_order) { /* some instances contradict others: nobody knows what comes first */
		if (line)
			whatif_line_reset(line);
		*gain_ns = 0;
		return 0;
	}
	int error = whatif->times ? 0 : begin_step(whatif, grid, blame);

	if (error == 0 && line)
		error = whatif_line_reserve(line, grid);
	if (error < 0)
		return error;
	find_ends(whatif, grid, blame, change->scales || change->own_ns || change->faster);
	replay(whatif, grid, blame, change, line);
	*gain_ns = whatif_line_gain(whatif, grid, line);
	return 0;
}
