/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay of grids whose rows have several streams. A cell starts when its stream is free and
 * the rank's work has come to it; the work goes on from the ends of what it waited for.
 *
 * A step is replayed up to 30 times, and what is looked at lies all over memory. So it is laid out once, in
 * the order of the replay: what does not depend on what is healed is known then, and a replay reads
 * what it needs from one end to the other.
 */
#include "analysis/attribute/whatif_streams_internal.h"
#include "analysis/join/segments.h"
#include "analysis/policy.h"

/* Room for a step's layout; rows have ends of their own, and one more cell ends the last one's needs. */
static struct stream_layout *take_room(struct arena *arena, const struct step_grid *grid)
{
	size_t cells = grid->cell_count + 1, rows = grid->row_count;
	struct stream_layout *layout = arena_take_zeroed(arena, 1, sizeof(*layout));

	if (!layout)
		return NULL;
	layout->in_turn = grid->traits.in_turn;
	layout->end_count = rows;
	layout->places = arena_take(arena, cells, sizeof(*layout->places));
	layout->ends = arena_take(arena, cells + rows, sizeof(*layout->ends));
	layout->members = arena_take(arena, cells, sizeof(*layout->members));
	layout->instances = arena_take(arena, grid->order_count, sizeof(*layout->instances));
	layout->started = arena_take_zeroed(arena, rows, sizeof(*layout->started));
	layout->ended = arena_take_zeroed(arena, rows, sizeof(*layout->ended));
	if (grid->traits.in_turn) {
		layout->turns = arena_take(arena, cells, sizeof(*layout->turns));
	} else {
		layout->cells = arena_take(arena, cells, sizeof(*layout->cells));
		layout->grid_cells = arena_take(arena, cells, sizeof(*layout->grid_cells));
		layout->needs = arena_take(arena, 2 * cells, sizeof(*layout->needs));
		layout->last = arena_take(arena, cells, sizeof(*layout->last));
		layout->needed = arena_take(arena, cells, sizeof(*layout->needed));
		layout->ready = arena_take(arena, cells, sizeof(*layout->ready));
	}
	return arena_error(arena) < 0 ? NULL : layout;
}

static void add_need(struct stream_layout *layout, uint32_t c)
{
	layout->needs[layout->need_count++] = layout->places[c];
	layout->needed[layout->places[c]] = 1;
}

/* The cell of a row that starts next. */
static void lay_cell(struct stream_layout *layout, const struct step_grid *grid,
	const struct blame *blame, const struct grid_row *row, uint32_t c)
{
	const struct grid_cell *cell = &grid->cells[c];
	const struct cell_stream *stream = grid_stream_of(grid, cell);
	const struct cell_times *times = grid_times_of(grid, cell);
	const struct blame_cell compared = blame_cell_of(blame, grid, c);
	uint32_t *ended = &layout->ended[cell->row];
	int64_t own_ns = times->own_ns, healed_ns = compared.control_ns;
	bool local = cell->flags & CELL_LOCAL;
	bool alone = !local && (cell->instance == GRID_NONE || (cell->flags & CELL_ALONE));
	uint32_t behind = GRID_NONE, first_need = (uint32_t)layout->need_count;

	if ((cell->flags & CELL_QUEUED) && healed_ns < own_ns)
		own_ns = healed_ns;
	for (; *ended < stream->needs; ++*ended) {
		uint32_t before = row->overlapped ? grid->by_departure[row->first_cell + *ended]
						  : row->first_cell + *ended;

		if (segments_holds(grid, row, &grid->cells[before], cell))
			add_need(layout, before);
	}
	if (row->works && local && stream->before != GRID_NONE)
		add_need(layout, stream->before);
	if (row->overlapped && !local && stream->before != GRID_NONE &&
		grid->times[stream->before].departure_ns <= times->arrival_ns)
		behind = layout->places[stream->before];
	layout->needed[layout->cell_count] = 0;
	layout->places[c] = (uint32_t)layout->cell_count;
	layout->grid_cells[layout->cell_count] = c;
	layout->cells[layout->cell_count++] = (struct stream_cell){
		.own_ns = own_ns < compared.most_ns ? own_ns : compared.most_ns,
		.healed_ns = healed_ns < compared.most_ns ? healed_ns : compared.most_ns,
		.opaque_ns = cell->opaque_ns,
		.alone_ns = alone ? times->departure_ns - times->arrival_ns : 0,
		.row = cell->row,
		.first_need = first_need,
		.behind = behind,
		.queue = cell->flags & CELL_BEHIND ? layout->places[stream->before] : GRID_NONE,
		.control = compared.control_cell,
		.works = row->works,
	};
}

/* A row's cells up to and including `until`; at: that one's place among the members, or GRID_NONE. */
static void lay_cells(struct stream_layout *layout, const struct step_grid *grid,
	const struct blame *blame, uint32_t r, uint32_t until, uint32_t at)
{
	const struct grid_row *row = &grid->rows[r];

	if (layout->in_turn) {
		whatif_turns_lay(layout, grid, blame, r, until, at);
		return;
	}
	while (layout->started[r] < row->cell_count &&
		row->first_cell + layout->started[r] <= until)
		lay_cell(layout, grid, blame, row, row->first_cell + layout->started[r]++);
}

/* The receiver's side of a message whose sender did not wait for it. */
static bool is_message(
	const struct step_grid *grid, const struct grid_instance *instance, uint32_t at)
{
	const struct grid_member *members = &grid->member_parts[instance->first_member];

	return instance->waits_for == WAITS_FOR_PARTNER && instance->member_count == 2 &&
	       ((members[0].flags | members[1].flags) & CELL_ALONE) &&
	       grid->cells[grid->members[at]].part->operation == OPERATION_RECEIVE &&
	       !grid->rows[grid->member_parts[at].row].works;
}

/*
 * A message is there so long after it was sent, whether its receiver is or not. Where the receiver
 * came so late that it did not wait, that is not known: it was there by then.
 */
static void lay_message(struct stream_member *member, const struct step_grid *grid,
	const struct grid_instance *instance, uint32_t at)
{
	uint32_t other = 2 * instance->first_member + 1 - at;
	int64_t call_ns = grid->departure_ns[at] - grid->arrival_ns[at];
	int64_t way_ns = grid->departure_ns[at] - grid->arrival_ns[other];

	if (call_ns > way_ns / MESSAGE_SEEN) {
		member->waits_for = STREAM_MESSAGE;
		member->transfer_ns = way_ns;
	} else {
		member->waits_for = STREAM_LAST;
		member->fixed_ns = call_ns;
	}
}

static uint8_t wait_of(const struct grid_instance *instance, bool root)
{
	switch (instance->waits_for) {
	case WAITS_FOR_ALL:
	case WAITS_FOR_PARTNER:
		return STREAM_LAST;
	case WAITS_FOR_ROOT:
		return STREAM_ROOT;
	case WAITS_FOR_ALL_AT_ROOT:
		return root ? STREAM_LAST : STREAM_NOBODY;
	default:
		return STREAM_NOBODY;
	}
}

/* seen_ns: when the last member came. */
static struct stream_member lay_member(const struct stream_layout *layout,
	const struct step_grid *grid, const struct blame *blame,
	const struct grid_instance *instance, uint32_t at, int64_t seen_ns)
{
	const struct grid_member *part = &grid->member_parts[at];
	const struct blame_share share = blame->shares[at];
	int64_t call_ns = grid->departure_ns[at] - grid->arrival_ns[at];
	bool alone = part->flags & CELL_ALONE;
	struct stream_member member = {
		.end = layout->in_turn && !alone ? part->row : layout->places[grid->members[at]],
		.root = instance->root >= 0 &&
			grid->cells[grid->members[at]].own_index == (uint32_t)instance->root,
	};

	if (alone || !instance->usable || instance->waits_for == WAITS_FOR_NOBODY) {
		member.waits_for = alone ? STREAM_GONE : STREAM_NOBODY;
		member.fixed_ns = call_ns;
		return member;
	}
	if (is_message(grid, instance, at)) {
		lay_message(&member, grid, instance, at);
		return member;
	}
	member.waits_for = wait_of(instance, member.root);
	member.transfer_ns = share.transfer_ns;
	if (instance->waits_for == WAITS_FOR_PREFIX && share.wait_ns > 0)
		member.fixed_ns = share.wait_ns;
	/* What the member's own transfer was: it may have been shorter than its exposed stay. */
	if (instance->waits_for == WAITS_FOR_ALL || instance->waits_for == WAITS_FOR_PARTNER)
		member.transfer_ns =
			grid->departure_ns[at] > seen_ns ? grid->departure_ns[at] - seen_ns : 0;
	return member;
}

/* Which members are doubtful, and by how much these may be late: whatif_least_wait_ns(). */
static void lay_doubts(struct stream_layout *layout, struct stream_instance *laid,
	const struct step_grid *grid, const struct blame *blame)
{
	const struct grid_instance *instance = &grid->instances[laid->instance];
	int64_t least_ns = whatif_least_wait_ns(grid, blame, laid->instance);

	for (uint32_t m = 0; m < instance->member_count && least_ns < INT64_MAX; m++) {
		uint32_t at = instance->first_member + m;
		struct stream_member *member = &layout->members[laid->first_member + m];

		if (!(grid->member_parts[at].flags & MEMBER_DOUBTFUL))
			continue;
		laid->doubtful = member->doubtful = true;
		raise(&member->late_ns, least_ns - whatif_wait_ns(grid, blame, laid->instance, at));
	}
}

static void lay_instance(struct stream_layout *layout, const struct step_grid *grid,
	const struct blame *blame, uint32_t index)
{
	const struct grid_instance *instance = &grid->instances[index];
	struct stream_instance laid = {.instance = index,
		.first_member = (uint32_t)layout->member_count,
		.member_count = instance->member_count};
	int64_t seen_ns = INT64_MIN;
	uint32_t flags = 0;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		uint32_t at = instance->first_member + m;

		flags |= grid->member_parts[at].flags;
		lay_cells(layout, grid, blame, grid->member_parts[at].row, grid->members[at], at);
		raise(&seen_ns, grid->arrival_ns[at]);
	}
	laid.started = (uint32_t)layout->cell_count;
	for (uint32_t m = 0; m < instance->member_count; m++)
		layout->members[layout->member_count++] = lay_member(
			layout, grid, blame, instance, instance->first_member + m, seen_ns);
	if ((flags & MEMBER_DOUBTFUL) && instance->usable && instance->waits_for == WAITS_FOR_ALL)
		lay_doubts(layout, &laid, grid, blame);
	layout->instances[layout->instance_count++] = laid;
}

struct stream_layout *whatif_streams_lay_out(
	struct arena *arena, const struct step_grid *grid, const struct blame *blame)
{
	struct stream_layout *layout = take_room(arena, grid);

	if (!layout)
		return NULL;
	for (size_t o = 0; o < grid->order_count; o++) {
		blame_fetch_ahead(blame, grid, o);
		lay_instance(layout, grid, blame, grid->order[o]);
	}
	for (size_t r = 0; r < grid->row_count; r++)
		lay_cells(layout, grid, blame, (uint32_t)r, UINT32_MAX - 1, GRID_NONE);
	if (layout->in_turn)
		return layout;
	layout->cells[layout->cell_count].first_need = (uint32_t)layout->need_count;
	for (size_t k = 0; k < layout->cell_count; k++) {
		if (!layout->needed[k])
			layout->last[layout->last_count++] = (uint32_t)k;
	}
	return layout;
}

/* A cell's own time as it is replayed. */
static inline int64_t own_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, size_t k)
{
	const struct whatif_change *change = &whatif->change;
	const struct stream_cell *cell = &whatif->streams->cells[k];
	bool healed = change->healed[cell->row];
	int64_t own_ns = healed ? cell->healed_ns : cell->own_ns;

	if (change->own_ns || (healed && change->part != WHATIF_ALL)) {
		uint32_t c = whatif->streams->grid_cells[k];
		int64_t most_ns = blame_cell_of(blame, grid, c).most_ns;

		own_ns = change->own_ns ? change->own_ns[c]
					: whatif_healed_ns(whatif, grid, blame, c);
		own_ns = own_ns < most_ns ? own_ns : most_ns;
	}
	if (change->scales)
		own_ns = (int64_t)((double)own_ns * change->scales[cell->row]);
	return own_ns;
}

/* What its calls that are no cells take; less where peers at its place are healed. */
static inline int64_t opaque_ns(const struct whatif *whatif, const struct stream_cell *cell)
{
	if (cell->opaque_ns == 0 || !whatif->relieved || cell->control == GRID_NONE ||
		whatif->change.healed[cell->row])
		return cell->opaque_ns;
	return whatif_relieved_ns(whatif, cell->control, cell->opaque_ns);
}

static void start_cells(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, size_t from, size_t until)
{
	const struct stream_layout *layout = whatif->streams;
	int64_t *ends = layout->ends;

	if (layout->in_turn) {
		whatif_turns_start(whatif, grid, blame, from, until);
		return;
	}
	for (size_t k = from; k < until; k++) {
		const struct stream_cell *cell = &layout->cells[k];
		int64_t own = own_ns(whatif, grid, blame, k);
		int64_t time_ns = whatif->times[cell->row], start_ns;

		for (uint32_t n = cell->first_need; n < cell[1].first_need; n++)
			raise(&time_ns, ends[layout->needs[n]]);
		if (cell->queue != GRID_NONE)
			start_ns = layout->ready[cell->queue] + own;
		else
			start_ns = time_ns + own + opaque_ns(whatif, cell);
		layout->ready[k] = start_ns;
		if (cell->behind != GRID_NONE)
			raise(&start_ns, ends[cell->behind]);
		ends[k] = start_ns + cell->alone_ns;
		if (!cell->works && own > 0 && cell->queue == GRID_NONE)
			time_ns += own;
		whatif->times[cell->row] = time_ns;
	}
}

/* Of one that does not go on alone. */
static uint32_t row_of(const struct stream_layout *layout, const struct stream_member *member)
{
	return layout->in_turn ? member->end : layout->cells[member->end].row;
}

/*
 * Of rows with a hole it is not known what lies in it: whatif_catch_up() for streams. Returns when the last
 * one comes.
 */
static int64_t catch_up(const struct whatif *whatif, const struct stream_instance *instance)
{
	const struct stream_layout *layout = whatif->streams;
	const struct stream_member *members = &layout->members[instance->first_member];
	int64_t *ends = layout->ends, whole_ns = INT64_MIN, last_ns;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		if (!members[m].doubtful)
			raise(&whole_ns, ends[members[m].end]);
	}
	last_ns = whole_ns;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		int64_t *end_ns = &ends[members[m].end], latest_ns = whole_ns;

		if (!members[m].doubtful)
			continue;
		if (!whatif->change.healed[row_of(layout, &members[m])])
			latest_ns += members[m].late_ns;
		if (*end_ns > latest_ns)
			*end_ns = latest_ns;
		raise(&last_ns, *end_ns);
	}
	return last_ns;
}

/* When the members come, where some may come sooner. */
static void come_sooner(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const struct stream_instance *instance)
{
	uint32_t first_member = grid->instances[instance->instance].first_member;

	for (uint32_t m = 0; m < instance->member_count; m++)
		whatif->streams->ends[whatif->streams->members[instance->first_member + m].end] -=
			whatif_sooner_ns(whatif, grid, blame, instance->instance, first_member + m);
}

static void end_instance(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const struct stream_instance *instance)
{
	int64_t released_ns =
		whatif_released_ns(whatif, grid, blame, &grid->instances[instance->instance]);
	const struct stream_layout *layout = whatif->streams;
	const struct stream_member *members = &layout->members[instance->first_member];
	int64_t *ends = layout->ends, last_ns = INT64_MIN, root_ns = INT64_MIN, sent_ns = 0;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		int64_t start_ns = ends[members[m].end];

		if (members[m].waits_for == STREAM_GONE) { /* it has ended: back to its start */
			start_ns -= members[m].fixed_ns;
			sent_ns = start_ns;
		}
		raise(&last_ns, start_ns);
		if (members[m].root)
			root_ns = start_ns;
	}
	if (instance->doubtful)
		last_ns = catch_up(whatif, instance);
	for (uint32_t m = 0; m < instance->member_count; m++) {
		int64_t *end_ns = &ends[members[m].end];
		int64_t transfer_ns = whatif_transfer_ns(
			whatif, instance->instance, members[m].transfer_ns - released_ns);

		switch ((enum stream_wait)members[m].waits_for) {
		case STREAM_GONE:
			continue;
		case STREAM_MESSAGE:
			raise(end_ns, sent_ns + transfer_ns);
			continue;
		case STREAM_LAST:
			raise(end_ns, last_ns);
			break;
		case STREAM_ROOT:
			raise(end_ns, root_ns);
			break;
		case STREAM_NOBODY:
			break;
		}
		*end_ns += members[m].fixed_ns + transfer_ns;
	}
}

void whatif_replay_streams(
	struct whatif *whatif, const struct step_grid *grid, const struct blame *blame)
{
	const struct stream_layout *layout = whatif->streams;
	size_t started = 0;

	if (layout->in_turn)
		whatif_turns_begin(whatif, grid);
	for (size_t i = 0; i < layout->instance_count; i++) {
		const struct stream_instance *instance = &layout->instances[i];

		start_cells(whatif, grid, blame, started, instance->started);
		started = instance->started;
		if (whatif->change.faster && blame->meetings[instance->instance].lagged)
			come_sooner(whatif, grid, blame, instance);
		end_instance(whatif, grid, blame, instance);
	}
	start_cells(whatif, grid, blame, started, layout->cell_count);
	if (layout->in_turn)
		whatif_turns_end(whatif, grid);
	for (size_t i = 0; i < layout->last_count; i++)
		raise(&whatif->times[layout->cells[layout->last[i]].row],
			layout->ends[layout->last[i]]);
}
