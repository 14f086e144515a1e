/* SPDX-License-Identifier: Apache-2.0 */
/* An instance at work, and its members' segments up to it; inline, for each member of each instance. One thread. */
#ifndef SLOWRANK_ANALYSIS_ATTRIBUTE_BLAME_MEETING_H
#define SLOWRANK_ANALYSIS_ATTRIBUTE_BLAME_MEETING_H

#include "analysis/attribute/blame_internal.h"
#include "analysis/join/segments.h"

/* One instance at work: its members, with what the arrivals say. */
struct meeting {
	struct blame *blame;
	const struct step_grid *grid;
	const struct grid_instance *instance;
	const uint32_t *cells; /* of the members */
	const struct grid_member *members;
	const int64_t *arrival_ns, *departure_ns;
	struct blame_meeting *found;
	struct blame_share *shares; /* where they are kept */
	uint32_t count;
	uint32_t root_member;	  /* index into members, or count */
	int64_t usual_arrival_ns; /* lower median */
	int64_t usual_opaque_ns;
	int64_t usual_call_ns; /* by duration: lower median of the time inside */
	bool taken;	       /* the carries have the members' segments */
};

static inline struct blame_tally *meeting_tally_of(const struct meeting *meeting, uint32_t m)
{
	return &meeting->blame->tallies[meeting->members[m].row];
}

static inline struct blame_carry *meeting_carry_of(const struct meeting *meeting, uint32_t m)
{
	return &meeting_tally_of(meeting, m)->carry;
}

static inline struct blame_row *meeting_row_of(const struct meeting *meeting, uint32_t m)
{
	return &meeting->blame->rows[meeting->members[m].row];
}

static inline int64_t meeting_call_ns(const struct meeting *meeting, uint32_t m)
{
	return meeting->departure_ns[m] - meeting->arrival_ns[m];
}

static inline int64_t meeting_transfer_ns_of(const struct meeting *meeting, uint32_t m)
{
	return blame_transfer_ns(
		meeting->blame, meeting->grid, meeting->found, meeting->instance->first_member + m);
}

/* The other part of the time inside; less than that where it went on beside other work. */
static inline int64_t meeting_wait_ns_of(const struct meeting *meeting, uint32_t m)
{
	return meeting->found->kept
		       ? meeting->shares[m].wait_ns
		       : meeting_call_ns(meeting, m) - meeting_transfer_ns_of(meeting, m);
}

static inline void meeting_take_lead(
	const struct meeting *meeting, struct blame_carry *carry, uint32_t at)
{
	const struct blame *blame = meeting->blame;

	carry->own_ns += blame_lead_own_ns(blame, meeting->grid, meeting->found, at) -
			 blame_lead_control_ns(blame, meeting->found, at);
	carry->opaque_ns += blame->traits.opaque ? blame_opaque_ns(blame, at) : 0;
}

/* Sends that were copied away meet when they are received: their rows may have gone on since, or not yet. */
static inline void meeting_take_turns(
	const struct meeting *meeting, struct blame_carry *carry, uint32_t m, uint32_t at)
{
	const struct step_grid *grid = meeting->grid;
	uint32_t r = meeting->members[m].row, first = grid->rows[r].first_cell;
	uint32_t *cursor = &meeting->blame->cursors[r];

	for (; first + *cursor < meeting->cells[m]; ++*cursor)
		meeting_take_lead(meeting, carry, grid->places[first + *cursor]);
	if (first + *cursor > meeting->cells[m])
		return;
	meeting_take_lead(meeting, carry, at);
	++*cursor;
}

/* Adds what a row did since its last instance, this member's segment included. */
static inline void meeting_take_segments(struct meeting *meeting, uint32_t m)
{
	const struct grid_member *member = &meeting->members[m];
	struct blame *blame = meeting->blame;
	struct blame_carry *carry = meeting_carry_of(meeting, m);
	uint32_t at = meeting->instance->first_member + m;

	if (member->flags & MEMBER_IN_TURN) {
		meeting_take_turns(meeting, carry, m, at);
	} else if (!(member->flags & MEMBER_OVERLAPPED)) {
		meeting_take_lead(meeting, carry, at);
	} else {
		const struct step_grid *grid = meeting->grid;
		const struct grid_row *row = &grid->rows[member->row];

		while (blame->cursors[member->row] <= meeting->cells[m] - row->first_cell) {
			uint32_t c = row->first_cell + blame->cursors[member->row]++;

			carry->own_ns +=
				grid_own_ns(grid, c) - blame_cell_of(blame, grid, c).control_ns;
			carry->opaque_ns += grid->cells[c].opaque_ns;
		}
	}
	if (member->flags & MEMBER_HOLE)
		*carry = (struct blame_carry){0};
}

#endif
