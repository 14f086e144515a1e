/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay of grids whose rows are in turn. A cell starts when its row has done what it did before, so
 * a row's time is all that is kept of it; a send that was copied away has an end of its own, since its row
 * goes on before the message is received.
 */
#include "analysis/attribute/whatif_streams_internal.h"

void whatif_turns_lay(struct stream_layout *layout, const struct step_grid *grid,
	const struct blame *blame, uint32_t r, uint32_t until, uint32_t at)
{
	const struct grid_row *row = &grid->rows[r];

	while (layout->started[r] < row->cell_count &&
		row->first_cell + layout->started[r] <= until) {
		uint32_t c = row->first_cell + layout->started[r]++;
		uint32_t member = c == until ? at : grid->places[c], end = GRID_NONE;
		bool alone = grid->member_parts[member].flags & CELL_ALONE;

		if (alone)
			end = layout->places[c] = (uint32_t)layout->end_count++;
		layout->turns[layout->cell_count++] = (struct stream_turn){
			.own_ns = grid->own_ns[member],
			.healed_ns = blame->leads[member].control_ns,
			.opaque_ns = blame_opaque_ns(blame, member),
			.alone_ns =
				alone ? grid->departure_ns[member] - grid->arrival_ns[member] : 0,
			.row = r,
			.end = end,
			.member = member,
		};
	}
}

/* Where it is neither as it was nor as its control. */
static int64_t changed_own_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const struct stream_turn *turn)
{
	const struct whatif_change *change = &whatif->change;
	bool healed = change->healed[turn->row];
	int64_t own_ns = healed ? turn->healed_ns : turn->own_ns;

	if (change->own_ns)
		own_ns = change->own_ns[grid->members[turn->member]];
	else if (healed && change->part != WHATIF_ALL)
		own_ns = whatif_healed_ns(whatif, grid, blame, grid->members[turn->member]);
	if (change->scales)
		own_ns = (int64_t)((double)own_ns * change->scales[turn->row]);
	return own_ns;
}

/* What its calls that are no cells take; less where peers at its place are healed. */
static int64_t opaque_ns(const struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, const struct stream_turn *turn)
{
	uint32_t control;

	if (!whatif->relieved || whatif->change.healed[turn->row])
		return turn->opaque_ns;
	control = blame_cell_of(blame, grid, grid->members[turn->member]).control_cell;
	return control == GRID_NONE ? turn->opaque_ns
				    : whatif_relieved_ns(whatif, control, turn->opaque_ns);
}

void whatif_turns_begin(struct whatif *whatif, const struct step_grid *grid)
{
	for (size_t r = 0; r < grid->row_count; r++)
		whatif->streams->ends[r] = INT64_MIN;
}

void whatif_turns_start(struct whatif *whatif, const struct step_grid *grid,
	const struct blame *blame, size_t from, size_t until)
{
	const struct stream_layout *layout = whatif->streams;
	const struct whatif_change *change = &whatif->change;
	bool changed = change->own_ns || change->scales || change->part != WHATIF_ALL;
	int64_t *ends = layout->ends;

	for (size_t k = from; k < until; k++) {
		const struct stream_turn *turn = &layout->turns[k];
		int64_t own_ns = change->healed[turn->row] ? turn->healed_ns : turn->own_ns;
		int64_t time_ns = whatif->times[turn->row], start_ns;

		if (changed)
			own_ns = changed_own_ns(whatif, grid, blame, turn);
		raise(&time_ns, ends[turn->row]);
		start_ns = time_ns + own_ns;
		if (turn->opaque_ns)
			start_ns += opaque_ns(whatif, grid, blame, turn);
		ends[turn->row] = start_ns + turn->alone_ns;
		if (turn->end != GRID_NONE)
			ends[turn->end] = ends[turn->row];
		if (own_ns > 0)
			time_ns += own_ns;
		whatif->times[turn->row] = time_ns;
	}
}

void whatif_turns_end(struct whatif *whatif, const struct step_grid *grid)
{
	for (size_t r = 0; r < grid->row_count; r++)
		raise(&whatif->times[r], whatif->streams->ends[r]);
}
