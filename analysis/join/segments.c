/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/segments.h"
#include "analysis/base/clamp.h"
#include "analysis/join/segments_beside.h"
#include "analysis/join/segments_internal.h"

#include <errno.h>
#include <stdlib.h>

enum { LANES_MAX = 256 };

/* Times of the host, of calls that return when they are done: its thread does nothing else then. */
static bool blocks_its_thread(const struct part_kind *part)
{
	return part->stream == 0 && !(part->flags & PART_DEVICE_TIME);
}

/* How much later than a cell came what it waited for may have ended, as the clocks read. */
static int64_t slack_of(const struct step_grid *grid, const struct grid_row *row)
{
	int64_t work_ns = 0, count = 0, slack_ns;

	if (!row->works)
		return ORDER_SLACK_NS;
	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
		if (!(grid->cells[c].flags & CELL_LOCAL))
			continue;
		work_ns += grid->times[c].departure_ns - grid->times[c].arrival_ns;
		count++;
	}
	slack_ns = count ? work_ns / count / ORDER_SLACKS_IN_WORK : 0;
	return slack_ns > ORDER_SLACK_OF_WORK_NS ? slack_ns : ORDER_SLACK_OF_WORK_NS;
}

/* Mostly in order already: insertion sort. */
static void sort_by_departure(struct step_grid *grid, const struct grid_row *row)
{
	uint32_t *list = &grid->by_departure[row->first_cell];
	int64_t slack_ns = slack_of(grid, row);

	for (uint32_t i = 0; i < row->cell_count; i++) {
		uint32_t c = row->first_cell + i, at = i;

		/* a stream is never overtaken by its own next one, however the clocks read */
		for (; at > 0 &&
			grid->times[list[at - 1]].departure_ns > grid->times[c].departure_ns &&
			grid->cells[list[at - 1]].lane != grid->cells[c].lane;
			at--)
			list[at] = list[at - 1];
		list[at] = c;
	}
	for (uint32_t i = 0, ended = 0; i < row->cell_count; i++) {
		struct grid_cell *cell = &grid->cells[row->first_cell + i];

		while (ended < row->cell_count && list[ended] < row->first_cell + i &&
			grid->times[list[ended]].departure_ns <=
				grid_times_of(grid, cell)->arrival_ns + slack_ns &&
			!segments_one_group(grid, list[ended], row->first_cell + i))
			ended++;
		grid_stream_of(grid, cell)->needs = ended;
	}
}

/* What runs on one stream of a row. */
struct lane {
	uint32_t count; /* of cells */
	uint32_t first; /* of them, within the row */
	uint64_t operations, bytes;
};

/* Lanes of one row in the order in which all its peers have them. */
static bool comes_before(const struct lane *a, const struct lane *b)
{
	if (a->count != b->count)
		return a->count > b->count;
	if (a->operations != b->operations)
		return a->operations < b->operations;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes;
	return a->first < b->first;
}

/*
 * Numbers the row's streams. Where a device's streams are shown, each rank has numbered its own as
 * they appeared: by what runs on them, peers agree, however communicators start together. Where
 * work is shown, streams have a meaning.
 */
static void find_lanes(struct step_grid *grid, const struct grid_row *row)
{
	struct lane lanes[256];
	uint8_t streams[256], number[256];
	uint64_t present[4] = {0};
	uint32_t count = 0;

	for (uint32_t i = 0; i < row->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[row->first_cell + i];
		uint8_t stream = cell->part->stream;

		if (!(present[stream / 64] >> stream % 64 & 1))
			lanes[stream] = (struct lane){.first = i};
		present[stream / 64] |= UINT64_C(1) << stream % 64;
		lanes[stream].count++;
		lanes[stream].bytes += cell->part->length_bytes;
		lanes[stream].operations =
			hash_mix(lanes[stream].operations, cell->part->operation);
	}
	for (unsigned stream = 0; stream < 256; stream++) {
		uint32_t at = count;

		if (!(present[stream / 64] >> stream % 64 & 1))
			continue;
		for (; at > 0 && !row->works &&
			comes_before(&lanes[stream], &lanes[streams[at - 1]]);
			at--)
			streams[at] = streams[at - 1];
		streams[at] = (uint8_t)stream;
		count++;
	}
	for (uint32_t lane = 0; lane < count; lane++)
		number[streams[lane]] = (uint8_t)(row->works ? streams[lane] : lane);
	for (uint32_t i = 0; i < row->cell_count; i++) {
		struct grid_cell *cell = &grid->cells[row->first_cell + i];

		cell->lane = number[cell->part->stream];
	}
}

/*
 * What one piece of work has released starts in any order: which comes first, and has that work for
 * its own, is decided alike on all peers.
 */
static void settle_order(struct step_grid *grid, const struct grid_row *row)
{
	for (uint32_t i = 1; i < row->cell_count; i++) {
		uint32_t c = row->first_cell + i;
		struct grid_cell cell = grid->cells[c];
		struct cell_times times = grid->times[c];

		for (; c > row->first_cell && cell.lane < grid->cells[c - 1].lane &&
			times.arrival_ns - grid->times[c - 1].arrival_ns < TOGETHER_NS;
			c--) {
			grid->cells[c] = grid->cells[c - 1];
			grid->times[c] = grid->times[c - 1];
		}
		grid->cells[c] = cell;
		grid->times[c] = times;
	}
}

void segments_settle(struct step_grid *grid)
{
	for (size_t r = 0; r < grid->row_count; r++) {
		struct grid_row *row = &grid->rows[r];

		bool messages = row->in_turn;

		if (row->in_turn)
			segments_settle_turn(grid, row);
		if (!row->overlapped)
			continue;
		if (messages && !row->works)
			segments_settle_groups(grid, row);
		find_lanes(grid, row);
		if (!row->works)
			settle_order(grid, row);
	}
}

/*
 * The cells of a lane as peers are compared: collectives as they come, then messages by what they are, since stages of
 * a pipeline send the same in another order. Where work is shown, messages have streams of their own.
 */
static void place_lane(
	struct step_grid *grid, const struct grid_row *row, uint32_t first, uint32_t end)
{
	const uint32_t *list = &grid->by_stream[row->first_cell];
	uint32_t *places = &grid->by_place[row->first_cell], collectives = first, messages;

	for (uint32_t i = first; i < end; i++) {
		if (row->works || !part_kind_is_message(grid->cells[list[i]].part))
			places[collectives++] = list[i];
	}
	messages = collectives;
	for (uint32_t i = first; i < end && messages < end; i++) {
		if (part_kind_is_message(grid->cells[list[i]].part))
			places[messages++] = list[i];
	}
	segments_sort_messages(grid, &places[collectives], end - collectives);
}

static void sort_by_lane(struct step_grid *grid, struct grid_row *row)
{
	uint32_t *list = &grid->by_stream[row->first_cell];
	uint64_t layout = 0;
	uint32_t count = 0;

	for (uint32_t lane = 0; count < row->cell_count; lane++) {
		uint32_t before = GRID_NONE, first = count;

		for (uint32_t i = 0; i < row->cell_count; i++) {
			struct grid_cell *cell = &grid->cells[row->first_cell + i];

			if (cell->lane != lane)
				continue;
			grid_stream_of(grid, cell)->before = before;
			before = row->first_cell + i;
			list[count++] = before;
			layout = hash_mix(
				layout, (uint64_t)lane << 32 | (uint64_t)cell->part->purpose << 16 |
						(uint64_t)(cell->instance == GRID_NONE) << 8 |
						cell->part->operation);
		}
		place_lane(grid, row, first, count);
	}
	row->layout = layout;
}

/*
 * Where work is shown, it waits for messages of its own direction alone: of those that were there,
 * the last. What else came and went meanwhile it would not have waited for.
 */
static void find_inputs(struct step_grid *grid, const struct grid_row *row)
{
	const uint32_t *list = &grid->by_departure[row->first_cell];
	uint32_t inputs[2] = {GRID_NONE, GRID_NONE}, ended = 0;

	for (uint32_t i = 0; i < row->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[row->first_cell + i];
		struct cell_stream *stream = &grid->streams[row->first_cell + i];
		uint8_t purpose = cell->part->purpose;

		for (; ended < stream->needs; ended++) {
			const struct part_kind *part = grid->cells[list[ended]].part;

			if (part->operation == OPERATION_RECEIVE)
				inputs[part->purpose == PURPOSE_BACKWARD] = list[ended];
		}
		if (!(cell->flags & CELL_LOCAL))
			continue;
		stream->before = GRID_NONE;
		if (purpose == PURPOSE_FORWARD || purpose == PURPOSE_BACKWARD)
			stream->before = inputs[purpose == PURPOSE_BACKWARD];
	}
}

/*
 * A send that ended before its receiver came did not wait for it. Nor did one of a thread that went
 * on long before its message was there: it was copied away, and waits for nobody, whether the
 * receiver was early or not.
 */
static void find_alone(struct step_grid *grid, const struct grid_row *row)
{
	for (uint32_t i = 0; i < row->cell_count; i++) {
		struct grid_cell *cell = &grid->cells[row->first_cell + i];
		struct cell_times *times = grid_times_of(grid, cell);
		const struct grid_instance *instance;

		if (cell->instance == GRID_NONE || cell->part->operation != OPERATION_SEND)
			continue;
		instance = &grid->instances[cell->instance];
		for (uint32_t m = 0; m < instance->member_count; m++) {
			const struct grid_cell *other =
				&grid->cells[grid->members[instance->first_member + m]];

			if (other->part->operation != OPERATION_RECEIVE)
				continue;
			if (grid_times_of(grid, other)->arrival_ns > times->departure_ns ||
				(!row->works && blocks_its_thread(cell->part) &&
					2 * (times->departure_ns - times->arrival_ns) <
						grid_times_of(grid, other)->departure_ns -
							times->arrival_ns))
				cell->flags |= CELL_ALONE;
		}
		if (instance->member_count < 2)
			cell->flags |= CELL_ALONE;
	}
}

/* It may have been ready long before: it only waited for its stream. */
static bool was_queued(const struct step_grid *grid, const struct grid_cell *cell)
{
	uint32_t before = grid_stream_of(grid, cell)->before;

	return before != GRID_NONE &&
	       grid_times_of(grid, cell)->arrival_ns - grid->times[before].departure_ns <
		       DEVICE_QUEUED_NS;
}

/*
 * A collective goes on beside the rank's work when another of the rank's cells came while it lasted,
 * or when the next of its stream was queued behind it. Seen once on any peer, it holds for all.
 */
static void find_asynchronous(struct step_grid *grid, const struct grid_row *row)
{
	const uint32_t *list = &grid->by_stream[row->first_cell];
	bool several = row->cell_count > 0 && grid->cells[list[row->cell_count - 1]].lane != 0;

	for (uint32_t i = 0; i < row->cell_count; i++) {
		struct grid_cell *cell = &grid->cells[list[i]];
		struct cell_times *times = grid_times_of(grid, cell);
		const struct grid_cell *next =
			i + 1 < row->cell_count ? &grid->cells[list[i + 1]] : NULL;
		const struct grid_cell *later =
			list[i] + 1 < row->first_cell + row->cell_count ? cell + 1 : NULL;
		enum beside known =
			beside_known(grid->making.beside, hash_mix(row->layout, i), several);
		bool seen;

		if (!next || next->lane != cell->lane)
			cell->flags |= CELL_LAST;
		if (cell->flags & CELL_LOCAL || cell->part->operation == OPERATION_RECEIVE ||
			(!row->works && blocks_its_thread(cell->part)) || known == BESIDE_BLOCKS)
			continue;
		if (next && next->lane != cell->lane)
			next = NULL;
		seen = later && later->part->operation != OPERATION_SEND &&
		       later->part->operation != OPERATION_RECEIVE && later->lane != cell->lane &&
		       grid_times_of(grid, later)->arrival_ns > times->arrival_ns + TOGETHER_NS &&
		       grid_times_of(grid, later)->arrival_ns + DEVICE_QUEUED_NS <
			       times->departure_ns &&
		       !was_queued(grid, later);
		if (next && !row->works &&
			grid_times_of(grid, next)->arrival_ns - times->departure_ns <
				DEVICE_QUEUED_NS) {
			seen = true;
			grid->cells[list[i + 1]].flags |= CELL_QUEUED;
		}
		if (cell->part->operation != OPERATION_SEND && known != BESIDE_WORK &&
			!beside_asynchronous(grid->making.beside, hash_mix(row->layout, i), seen))
			continue;
		cell->flags |= CELL_ASYNC;
		/* After a long stay, the next one was most likely ready before it could begin. */
		if (next && !row->works &&
			grid_times_of(grid, next)->arrival_ns - times->departure_ns <
				segments_length_ns(grid, cell) / BESIDE_STAYS_PER_GAP)
			grid->cells[list[i + 1]].flags |= CELL_QUEUED;
	}
}

/*
 * Into own_ns of each cell, until find_own(): how long the work before it usually takes, where it
 * follows an asynchronous one; negative: not known. Where cells of other streams lie between, that holds
 * only from one queued cell to the next of a stream (CELL_BEHIND): it was ready long before it could
 * begin, and what came meanwhile it did not need.
 */
static void find_usual(struct step_grid *grid, const struct grid_row *row)
{
	const uint32_t *list = &grid->by_stream[row->first_cell];

	for (uint32_t i = 0; i < row->cell_count; i++) {
		struct grid_cell *cell = &grid->cells[list[i]];
		struct cell_times *times = grid_times_of(grid, cell);
		uint32_t before_at = grid->streams[list[i]].before;

		times->own_ns = -1;
		if (row->works || before_at == GRID_NONE)
			continue;
		const struct grid_cell *before = &grid->cells[before_at];
		bool next = before_at + 1 == list[i], queued = cell->flags & CELL_QUEUED;

		if ((before->flags & CELL_ASYNC) && (next || queued))
			times->own_ns =
				beside_work_ns(grid->making.beside, hash_mix(row->layout, i - 1));
		if (times->own_ns >= 0 && queued && (!next || (before->flags & CELL_BEHIND)))
			cell->flags |= CELL_BEHIND;
	}
}

/*
 * When a rank's work came to a cell, by what is usual where that is known: a cell that came when its
 * stream was free may have been ready long before, and is marked. free_ns: the work went on from here;
 * if that was reckoned too, it may have been stopped since, so what exceeds the usual counts only where
 * it is seen.
 */
static int64_t find_ready(const struct step_grid *grid, struct grid_cell *cell, int64_t free_ns)
{
	struct cell_times *times = grid_times_of(grid, cell);
	int64_t usual_ns = times->own_ns;

	if (usual_ns < 0)
		return times->arrival_ns;
	const struct grid_cell *before = &grid->cells[grid_stream_of(grid, cell)->before];

	if (free_ns + usual_ns <= grid_times_of(grid, before)->departure_ns &&
		times->arrival_ns - grid_times_of(grid, before)->departure_ns <
			usual_ns / BESIDE_STAYS_PER_GAP)
		cell->flags |= CELL_QUEUED;
	if (!(cell->flags & CELL_QUEUED))
		usual_ns = segments_later_ns(
			usual_ns, times->arrival_ns - grid_times_of(grid, before)->arrival_ns);
	if (free_ns + usual_ns > times->arrival_ns)
		return times->arrival_ns;
	if (cell->flags & CELL_QUEUED)
		cell->flags |= CELL_RECKONED;
	return free_ns + usual_ns;
}

/* It was ready so long after the one before it in its stream was, or when it came. */
static void follow_queue(struct step_grid *grid, struct grid_cell *cell, int64_t *ready_ns)
{
	struct cell_times *times = grid_times_of(grid, cell);

	if (*ready_ns + times->own_ns > times->arrival_ns)
		times->own_ns = segments_later_ns(0, times->arrival_ns - *ready_ns);
	*ready_ns += times->own_ns;
	cell->opaque_ns = 0;
	cell->flags |= CELL_RECKONED;
}

/*
 * A host that was late itself: its calls do not wait for what the device waits for. One that is known to wait for its device,
 * though nobody sees it, is late by no more than its device was free.
 */
static int64_t with_late_host(
	struct grid_cell *cell, int64_t lead_ns, struct segments_waits *waits, bool host_waits)
{
	int64_t late_ns = segments_later_ns(cell->own->host_ns - lead_ns, 0), waited_ns = 0;

	if (host_waits)
		waited_ns = late_ns;
	else if (waits->known)
		waited_ns = smaller(waits->left_ns, late_ns);
	waits->left_ns -= smaller(waits->left_ns, waited_ns);
	cell->host_queued = waited_ns > 0;
	return lead_ns + late_ns - waited_ns;
}

/* What the rank's own work took before each cell (and in it, for work of its own). */
static void find_own(struct step_grid *grid, const struct grid_row *row)
{
	const uint32_t *list = &grid->by_departure[row->first_cell];
	int64_t free_ns = row->start_ns; /* the rank's work could go on from here */
	int64_t ready[LANES_MAX];	 /* the last one of a lane */
	struct segments_waits waits = {.until_ns = INT64_MIN};
	int64_t *left_ns = beside_queue_left_ns(grid->making.beside, row->rank);
	uint32_t ended = 0;

	for (uint32_t i = 0; i < row->cell_count; i++)
		waits.known |= part_kind_is_device_message(grid->cells[row->first_cell + i].part);
	waits.left_ns = *left_ns;
	for (uint32_t i = 0; i < row->cell_count; i++) {
		struct grid_cell *cell = &grid->cells[row->first_cell + i];
		const struct cell_stream *stream = grid_stream_of(grid, cell);
		struct cell_times *times = grid_times_of(grid, cell);
		int64_t lead_ns, ready_ns;

		cell->host_queued = false;
		for (; ended < stream->needs; ended++) {
			const struct grid_cell *before = &grid->cells[list[ended]];

			if (segments_holds(grid, row, before, cell) &&
				grid_times_of(grid, before)->departure_ns > free_ns)
				free_ns = grid_times_of(grid, before)->departure_ns;
		}
		if (row->works && (cell->flags & CELL_LOCAL) && stream->before != GRID_NONE &&
			grid->times[stream->before].departure_ns > free_ns)
			free_ns = grid->times[stream->before].departure_ns;
		if (cell->flags & CELL_BEHIND) {
			follow_queue(grid, cell, &ready[cell->lane]);
			continue;
		}
		ready_ns = ready[cell->lane] = find_ready(grid, cell, free_ns);
		lead_ns = ready_ns > free_ns ? ready_ns - free_ns : 0;
		/* Where work is shown, what lies before communication is none: launches, and waits
		 * for what the source does not show. The published method leaves it out as well. */
		if (row->works && !(cell->flags & CELL_LOCAL))
			lead_ns = 0;
		if ((cell->part->flags & PART_DEVICE_TIME) && !row->works) {
			bool host_waits =
				cell->own->host_ns > lead_ns &&
				beside_host_waits(grid->making.beside, segments_host_place(row, i));

			lead_ns = with_late_host(cell, lead_ns, &waits, host_waits);
			segments_add_wait(&waits, times);
		}
		/* What the thread waited for in calls that are no cells is not its own: its device may have
		 * waited with it. */
		cell->opaque_ns = 0;
		if (!row->works)
			cell->opaque_ns = cell->own->comm_call_ns < lead_ns
						  ? cell->own->comm_call_ns
						  : lead_ns;
		times->own_ns = lead_ns - cell->opaque_ns;
		if (cell->flags & CELL_LOCAL)
			times->own_ns += times->departure_ns - times->arrival_ns;
		else if (!row->works)
			free_ns = segments_later_ns(free_ns,
				cell->flags & CELL_RECKONED ? ready_ns : times->arrival_ns);
	}
	*left_ns = row->hole ? 0 : smaller(waits.left_ns, waits.of_step_ns);
}

/* Of a row whose cells wait for each other, beside rows that are overlapped. */
static void follow_in_order(struct step_grid *grid, const struct grid_row *row)
{
	for (uint32_t i = 0; i < row->cell_count && grid->traits.overlapped; i++)
		grid->streams[row->first_cell + i] =
			(struct cell_stream){.needs = i, .before = GRID_NONE};
}

int segments_find(struct step_grid *grid)
{
	uint64_t learnt_of = grid->cell_count / BESIDE_CELLS_MAX + 1; /* one of so many ranks */

	if (!grid->making.beside)
		grid->making.beside = beside_places_create();
	if (!grid->making.beside)
		return -ENOMEM;
	for (size_t r = 0; r < grid->row_count; r++) {
		struct grid_row *row = &grid->rows[r];

		if (row->in_turn) {
			segments_find_turn(grid, row);
			find_alone(grid, row);
		}
		if (!row->overlapped) {
			follow_in_order(grid, row);
			continue;
		}
		sort_by_lane(grid, row);
		sort_by_departure(grid, row);
		if (row->works)
			find_inputs(grid, row);
		find_alone(grid, row);
		find_asynchronous(grid, row);
	}
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		if (!row->overlapped || row->works || row->hole ||
			hash_mix(0, row->rank) % learnt_of != 0)
			continue;
		segments_learn(grid, row);
		segments_learn_hosts(grid, row);
	}
	/* Only now is every peer's evidence known. */
	for (size_t r = 0; r < grid->row_count; r++) {
		struct grid_row *row = &grid->rows[r];

		if (!row->overlapped)
			continue;
		find_asynchronous(grid, row);
		find_usual(grid, row);
		find_own(grid, row);
	}
	return 0;
}

int64_t segments_exposed_ns(const struct step_grid *grid, uint32_t c)
{
	const struct grid_cell *cell = &grid->cells[c];
	struct cell_times *times = grid_times_of(grid, cell);
	const struct grid_row *row = &grid->rows[cell->row];
	const uint32_t *list = &grid->by_departure[row->first_cell];
	int64_t from_ns = times->arrival_ns;

	if (row->in_turn && c > row->first_cell)
		from_ns = segments_later_ns(from_ns, grid->times[c - 1].departure_ns);
	if (!row->overlapped)
		return times->departure_ns - from_ns;
	/* The one that ended last before it did; it lies near its own place in either order. */
	uint32_t at = c - row->first_cell;

	while (at > 0 && list[at] != c && grid->times[list[at]].departure_ns > times->departure_ns)
		at--;
	while (at + 1 < row->cell_count && list[at] != c)
		at++;
	while (at > 0 && list[at] != c)
		at--;
	/* Its work was going on when it ended: nothing waited for it yet. */
	for (uint32_t i = at + 1; row->works && i < row->cell_count; i++) {
		const struct grid_cell *after = &grid->cells[list[i]];

		if (!(after->flags & CELL_LOCAL))
			continue;
		if (grid_times_of(grid, after)->arrival_ns < times->departure_ns)
			return 0;
		break;
	}
	for (uint32_t i = at; i-- > 0;) {
		const struct grid_cell *before = &grid->cells[list[i]];

		if (grid_times_of(grid, before)->departure_ns <= from_ns)
			break;
		if (!row->works || (before->flags & CELL_LOCAL)) {
			from_ns = grid_times_of(grid, before)->departure_ns;
			break;
		}
	}
	return times->departure_ns - from_ns;
}

static int64_t distance_ns(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

int64_t segments_last_partner_ns(const struct step_grid *grid, uint32_t c)
{
	const struct grid_cell *cell = &grid->cells[c];
	struct cell_times *times = grid_times_of(grid, cell);
	const struct grid_row *row = &grid->rows[cell->row];
	uint32_t first = c, end = c + 1;
	int64_t last_ns = times->arrival_ns;

	while (first > row->first_cell &&
		distance_ns(grid->times[first - 1].arrival_ns, times->arrival_ns) <= ORDER_SLACK_NS)
		first--;
	while (end < row->first_cell + row->cell_count &&
		distance_ns(grid->times[end].arrival_ns, times->arrival_ns) <= ORDER_SLACK_NS)
		end++;
	for (uint32_t i = first; i < end; i++) {
		const struct grid_cell *other = &grid->cells[i];
		const struct grid_instance *instance;

		if (other->instance == GRID_NONE ||
			distance_ns(grid_times_of(grid, other)->departure_ns, times->departure_ns) >
				ORDER_SLACK_NS)
			continue;
		instance = &grid->instances[other->instance];
		for (uint32_t m = 0;
			instance->waits_for == WAITS_FOR_PARTNER && m < instance->member_count;
			m++) {
			int64_t arrival_ns =
				grid->times[grid->members[instance->first_member + m]].arrival_ns;

			if (arrival_ns > last_ns && arrival_ns <= times->departure_ns)
				last_ns = arrival_ns;
		}
	}
	return last_ns;
}
