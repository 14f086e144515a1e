/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step that repeats: where each rank has the same calls as in the step before, what joins what stays,
 * and only times are filled in.
 */
#include <stdlib.h>

#include "analysis/base/vectorised.h"
#include "analysis/join/assembly_internal.h"

/*
 * Each of the rank's communicators went on by as much as for the other ranks: so its parts join
 * those that they joined in the step before.
 */
static bool joins_repeat(struct assembly *assembly, uint32_t r, const struct step_grid *grid,
	const struct grid_row *row)
{
	struct rank_stream *rank = &assembly->streams->ranks[r];
	const struct packed_step *head = stream_at(rank, 0)->entry;

	for (size_t i = 0; i < head->slot_count; i++) {
		const struct packed_slot *slot = &head->slots[i];
		struct rank_communicator *own = stream_communicator(rank, slot->communicator_id);
		struct communicator_entry *shared = own ? assembly_shared(assembly, own) : NULL;
		uint32_t instance = grid->cells[row->first_cell + slot->first_part].instance;

		if (!shared || instance == GRID_NONE)
			return false;
		uint64_t advance = slot->sequence - grid->instances[instance].sequence;

		if (shared->repeat != assembly->repeats)
			shared->advance = advance;
		shared->repeat = assembly->repeats;
		if (shared->advance != advance)
			return false;
	}
	return true;
}

bool assembly_grid_repeats(struct assembly *assembly, const struct step_grid *grid)
{
	const struct rank_streams *streams = assembly->streams;
	size_t index = 0;

	if (!grid->traits.linked || grid->traits.overlapped || grid->row_count == 0 ||
		grid->order_count != grid->instance_count ||
		assembly->grid_announcements != assembly->announcements)
		return false;
	assembly->repeats++;
	for (uint32_t r = 0; r < streams->end; r++) {
		if (!assembly_has_row(assembly, r))
			continue;
		const struct grid_row *row = &grid->rows[index];

		if (index++ == grid->row_count || row->rank != r ||
			row->host != streams->ranks[r].host || !row->calls ||
			row->calls != assembly_layout_of(assembly, r) ||
			!joins_repeat(assembly, r, grid, row))
			return false;
	}
	return index == grid->row_count;
}

struct grid_times {
	int64_t arrival_ns[GRID_TIMES_MAX], departure_ns[GRID_TIMES_MAX], own_ns[GRID_TIMES_MAX];
};

/* Some parts of a row on their way into the grid. */
struct row_filling {
	const struct packed_times *parts;
	uint32_t count;
	struct clock_line clock;
	int64_t departed_ns; /* from the part before them, by the host's clock */
	struct grid_times times;
};

/* Fills in the times. Returns the sum of own times; *end_ns becomes the last departure if that is later. */
VECTORISED
static int64_t reckon_times(struct row_filling *filling, int64_t *end_ns)
{
	const struct packed_times *restrict parts = filling->parts;
	struct grid_times *restrict times = &filling->times;
	const struct clock_line clock = filling->clock;
	int64_t sum_ns = 0, last_ns = *end_ns;

	times->own_ns[0] = parts[0].arrival.value - filling->departed_ns;
	for (uint32_t p = 1; p < filling->count; p++)
		times->own_ns[p] = parts[p].arrival.value - parts[p - 1].departure.value;
	for (uint32_t p = 0; p < filling->count; p++) {
		int64_t own_ns = times->own_ns[p] > 0 ? times->own_ns[p] : 0;
		int64_t departure_ns = clock_line_to_job(&clock, parts[p].departure).value;

		times->arrival_ns[p] = clock_line_to_job(&clock, parts[p].arrival).value;
		times->departure_ns[p] = departure_ns;
		times->own_ns[p] = own_ns;
		sum_ns += own_ns;
		last_ns = departure_ns > last_ns ? departure_ns : last_ns;
	}
	*end_ns = last_ns;
	return sum_ns;
}

/*
 * What the segment before the cell at a position of a row, and its call, were made of. Returns what of the
 * segment is the rank's own.
 */
static int64_t take_activity(struct step_grid *grid, struct grid_row *row, uint32_t position,
	const struct activity *before, const struct activity *inside, int64_t segment_ns)
{
	uint32_t c = row->first_cell + position;
	struct grid_cell *cell = &grid->cells[c];
	int64_t comm_ns = before->comm_call_ns;

	cell->own = before;
	cell->inside = inside;
	cell->opaque_ns = comm_ns < segment_ns ? comm_ns : segment_ns;
	row->plain &= before == &activity_none;
	if (grid->cells[c].instance != GRID_NONE)
		grid->instances[grid->cells[c].instance].inside |= inside != &activity_none;
	grid->member_parts[grid->places[c]].flags =
		(inside != &activity_none ? (uint32_t)MEMBER_INSIDE : 0) | grid_row_flags(row);
	return segment_ns - cell->opaque_ns;
}

/* Leaves of the segments what is the rank's own. Returns how much was not. */
static int64_t take_activities(struct step_grid *grid, struct grid_row *row, uint32_t first,
	const struct packed_step *head, struct row_filling *filling)
{
	int64_t others_ns = 0;

	for (uint32_t p = 0; p < filling->count; p++) {
		int64_t segment_ns = filling->times.own_ns[p];
		int64_t own_ns = take_activity(grid, row, first + p, packed_before(head, first + p),
			packed_inside(head, first + p), segment_ns);

		filling->times.own_ns[p] = own_ns;
		others_ns += segment_ns - own_ns;
	}
	return others_ns;
}

/* The times of so many cells of a row, from a position on. */
static void put_times(struct step_grid *grid, const struct grid_row *row, uint32_t first,
	uint32_t count, const struct grid_times *times)
{
	int64_t *restrict arrival_ns = grid->arrival_ns, *restrict departure_ns =
								 grid->departure_ns;
	int64_t *restrict own_ns = grid->own_ns;
	const uint32_t *places = &grid->places[row->first_cell + first];

	for (uint32_t p = 0; p < count; p++) {
		uint32_t at = places[p];

		arrival_ns[at] = times->arrival_ns[p];
		departure_ns[at] = times->departure_ns[p];
		own_ns[at] = times->own_ns[p];
	}
}

static void fill_cells(struct step_grid *grid, struct grid_row *row, const struct packed_step *head,
	bool activities, struct row_filling *filling)
{
	uint32_t left = row->cell_count;

	for (uint32_t p = 0; left > 0; p += filling->count, left -= filling->count) {
		filling->parts = &head->times[p];
		filling->count = left < GRID_TIMES_MAX ? left : GRID_TIMES_MAX;
		row->own_ns += reckon_times(filling, &row->end_ns);
		filling->departed_ns = filling->parts[filling->count - 1].departure.value;
		if (activities)
			row->own_ns -= take_activities(grid, row, p, head, filling);
		put_times(grid, row, p, filling->count, &filling->times);
	}
}

/* The sequence of the instance of a cell of a row that is first. */
static void put_sequence(
	struct step_grid *grid, const struct grid_row *row, uint32_t position, uint64_t sequence)
{
	uint32_t c = row->first_cell + position, i = grid->cells[c].instance;

	if (grid->instances[i].first_member == grid->places[c])
		grid->instances[i].sequence = sequence;
}

static void begin_row(struct step_grid *grid, struct grid_row *row, int64_t start_ns,
	int64_t clock_error_ns, bool hole, bool bare)
{
	grid->making.errors_moved |= row->clock_error_ns != clock_error_ns;
	row->start_ns = start_ns;
	row->clock_error_ns = clock_error_ns;
	row->hole = hole;
	row->bare = bare;
	row->plain = true;
	if (clock_error_ns > grid->step.clock_error_ns)
		grid->step.clock_error_ns = clock_error_ns;
}

/* The same row with the times of this step. */
static void fill_row(struct assembly *assembly, struct step_grid *grid, struct grid_row *row)
{
	const struct rank_stream *rank = &assembly->streams->ranks[row->rank];
	struct rank_scan *scan = &assembly->scans[row->rank];
	const struct packed_step *head = stream_at(rank, 0)->entry;
	const struct clock_fit *fit = &assembly->streams->hosts[rank->host].clock;
	struct row_filling filling;
	struct host_ns start = assembly_row_start(rank, scan);
	bool hole = rank->hole || scan->was_untimed || (head->flags & STEP_INCOMPLETE);
	bool bare, was_bare = row->bare;

	filling.clock = clock_fit_line(fit);
	filling.departed_ns =
		(scan->departed_valid && !rank->hole ? scan->departed : head->start).value;
	row->start_unknown = !scan->departed_valid;
	bare = !hole && !row->start_unknown && head->activity_count == 0;
	begin_row(grid, row, clock_line_to_job(&filling.clock, start).value,
		clock_fit_error_ns(fit), hole, bare);
	scan->untimed = false;
	row->host_to_job_ns = row->start_ns - start.value;
	row->launches = (struct step_launches){0};
	row->phases = (struct row_phases){0};
	assembly_add_entry(row, head);
	row->own_ns = 0;
	row->end_ns = row->start_ns;
	fill_cells(grid, row, head, !bare || !was_bare, &filling);
	for (uint32_t p = 0; row->first && p < row->cell_count; p++)
		put_sequence(grid, row, p, packed_sequence(head, p));
}

static void begin_grid(struct step_grid *grid)
{
	arena_fini(&grid->making.passing);
	free(grid->times);
	grid->times = NULL;
	grid->making.time_capacity = 0;
	grid->step.clock_error_ns = 0;
	arena_reset(&grid->making.activities);
	grid->making.errors_moved = false;
	grid->making.repeats++;
	for (size_t i = 0; i < grid->instance_count; i++)
		grid->instances[i].inside = false;
}

static void end_grid(struct step_grid *grid)
{
	for (size_t i = 0; i < grid->instance_count && grid->making.errors_moved; i++) {
		struct grid_instance *instance = &grid->instances[i];
		const struct grid_member *members = &grid->member_parts[instance->first_member];

		instance->clock_error_ns = 0;
		for (uint32_t m = 0; m < instance->member_count; m++) {
			int64_t error_ns = grid->rows[members[m].row].clock_error_ns;

			if (error_ns > instance->clock_error_ns)
				instance->clock_error_ns = error_ns;
		}
	}
}

void assembly_repeat_grid(struct assembly *assembly, struct step_grid *grid)
{
	begin_grid(grid);
	for (size_t r = 0; r < grid->row_count; r++)
		fill_row(assembly, grid, &grid->rows[r]);
	end_grid(grid);
}
