/* SPDX-License-Identifier: Apache-2.0 */
/* One instance after the other: who came late by what of its own, who waited, what was carried on. */
#include <string.h>

#include "analysis/attribute/blame_internal.h"
#include "analysis/base/robust_stats.h"
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

static struct blame_tally *meeting_tally_of(const struct meeting *meeting, uint32_t m)
{
	return &meeting->blame->tallies[meeting->members[m].row];
}

static struct blame_carry *meeting_carry_of(const struct meeting *meeting, uint32_t m)
{
	return &meeting_tally_of(meeting, m)->carry;
}

static struct blame_row *meeting_row_of(const struct meeting *meeting, uint32_t m)
{
	return &meeting->blame->rows[meeting->members[m].row];
}

static int64_t meeting_call_ns(const struct meeting *meeting, uint32_t m)
{
	return meeting->departure_ns[m] - meeting->arrival_ns[m];
}

static int64_t meeting_transfer_ns_of(const struct meeting *meeting, uint32_t m)
{
	return blame_transfer_ns(
		meeting->blame, meeting->grid, meeting->found, meeting->instance->first_member + m);
}

/* The other part of the time inside; less than that where it went on beside other work. */
static int64_t meeting_wait_ns_of(const struct meeting *meeting, uint32_t m)
{
	return meeting->found->kept
		       ? meeting->shares[m].wait_ns
		       : meeting_call_ns(meeting, m) - meeting_transfer_ns_of(meeting, m);
}

static void meeting_take_lead(const struct meeting *meeting, struct blame_carry *carry, uint32_t at)
{
	const struct blame *blame = meeting->blame;

	carry->own_ns += blame_lead_own_ns(blame, meeting->grid, meeting->found, at) -
			 blame_lead_control_ns(blame, meeting->found, at);
	carry->opaque_ns += blame->traits.opaque ? blame_opaque_ns(blame, at) : 0;
}

/* Sends that were copied away meet when they are received: their rows may have gone on since, or not yet. */
static void meeting_take_turns(
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
static void meeting_take_segments(struct meeting *meeting, uint32_t m)
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

/* The lower median of each member's value; the values are in scratch. */
static int64_t usual_of(const struct meeting *meeting)
{
	int64_t *values = meeting->blame->scratch;

	return lower_median_of_int64(values, meeting->count, values + meeting->count);
}

static void find_root(struct meeting *meeting)
{
	for (uint32_t m = 0; m < meeting->count && meeting->instance->root >= 0; m++) {
		if (meeting->grid->cells[meeting->cells[m]].own_index ==
			(uint32_t)meeting->instance->root)
			meeting->root_member = m;
	}
}

/* Upper medians of the calls mirror the lower median of the arrivals. */
static void compare_calls(struct meeting *meeting)
{
	int64_t *scratch = meeting->blame->scratch, shortest_ns = INT64_MAX;

	for (uint32_t m = 0; m < meeting->count; m++) {
		scratch[m] = -meeting_call_ns(meeting, m);
		if (meeting_call_ns(meeting, m) < shortest_ns)
			shortest_ns = meeting_call_ns(meeting, m);
	}
	meeting->found->shortest_call_ns = shortest_ns;
	meeting->usual_call_ns = -usual_of(meeting);
}

static void gather(struct meeting *meeting)
{
	const struct grid_instance *instance = meeting->instance;
	int64_t *scratch = meeting->blame->scratch;
	int64_t last_ns = largest_int64(meeting->arrival_ns, meeting->count);
	bool opaque = false;

	for (uint32_t m = 0; m < meeting->count && meeting->blame->traits.opaque; m++) {
		scratch[m] = -meeting_carry_of(meeting, m)->opaque_ns;
		opaque |= scratch[m] != 0;
	}
	/* Upper median: of two ranks, the one that waits in point-to-point calls is the usual one. */
	meeting->usual_opaque_ns = opaque ? -usual_of(meeting) : 0;
	meeting->usual_arrival_ns =
		lower_median_of_int64(meeting->arrival_ns, meeting->count, scratch);
	meeting->found->last_arrival_ns = last_ns;
	meeting->found->last_departure_ns = largest_int64(meeting->departure_ns, meeting->count);
	meeting->found->by_duration =
		!instance->same_host && instance->waits_for == WAITS_FOR_ALL &&
		2 * instance->clock_error_ns > last_ns - meeting->usual_arrival_ns;
	if (meeting->found->by_duration)
		compare_calls(meeting);
	meeting->root_member = meeting->count;
	find_root(meeting);
}

/* How much later than usual a member came. */
static int64_t late_ns(const struct meeting *meeting, uint32_t m)
{
	int64_t late = meeting->found->by_duration
			       ? meeting->usual_call_ns - meeting_call_ns(meeting, m)
			       : meeting->arrival_ns[m] - meeting->usual_arrival_ns;

	return late > 0 ? late : 0;
}

/* Charges a late member with what is its own; what remains it inherited. Returns the comm part. */
static inline int64_t charge_lateness(struct meeting *meeting, uint32_t m, int64_t late)
{
	struct blame_tally *row = meeting_tally_of(meeting, m);
	int64_t hidden = clamp(meeting->usual_opaque_ns - row->carry.opaque_ns, 0, INT64_MAX);
	int64_t own = clamp(row->carry.own_ns, 0, late + hidden);
	int64_t comm = clamp(row->carry.comm_ns, 0, late - own);

	row->delay_ns += own;
	row->comm_delay_ns += comm;
	row->inherited_ns += clamp(late - own - comm, 0, INT64_MAX);
	return comm;
}

/* Whose arrival a member had to wait for; its own when for nobody's. */
static int64_t required_arrival_ns(const struct meeting *meeting, uint32_t m)
{
	int64_t own = meeting->arrival_ns[m];

	switch (meeting->instance->waits_for) {
	case WAITS_FOR_ALL:
		return meeting->found->last_arrival_ns;
	case WAITS_FOR_ROOT:
		return meeting->root_member < meeting->count
			       ? meeting->arrival_ns[meeting->root_member]
			       : own;
	case WAITS_FOR_ALL_AT_ROOT:
		return m == meeting->root_member ? meeting->found->last_arrival_ns : own;
	case WAITS_FOR_PARTNER: /* the other one; a send that left before has waited for nobody */
		return meeting->count == 2 && !(meeting->members[m].flags & CELL_ALONE)
			       ? meeting->arrival_ns[1 - m]
			       : own;
	case WAITS_FOR_PREFIX: /* members are by rank, mostly the order of the prefix: a chain */
		return m > 0 ? meeting->arrival_ns[m - 1] : own;
	default:
		return own;
	}
}

/* When the last one came that a send or receive could wait for. */
static int64_t last_partner_ns(const struct meeting *meeting, uint32_t m)
{
	int64_t last_ns = meeting->arrival_ns[m];

	if ((meeting->members[m].flags & (MEMBER_IN_TURN | CELL_TOGETHER)) != MEMBER_IN_TURN)
		return segments_last_partner_ns(meeting->grid, meeting->cells[m]);
	for (uint32_t k = 0; k < meeting->count; k++) { /* it was posted alone */
		if (meeting->arrival_ns[k] > last_ns &&
			meeting->arrival_ns[k] <= meeting->departure_ns[m])
			last_ns = meeting->arrival_ns[k];
	}
	return last_ns;
}

/* Into the shares that are kept. */
static void split_call(struct meeting *meeting, uint32_t m)
{
	const struct grid_member *member = &meeting->members[m];
	struct blame_share *result = &meeting->shares[m];
	int64_t inside = meeting_call_ns(meeting, m);

	if (meeting->found->by_duration)
		result->wait_ns = inside - meeting->found->shortest_call_ns;
	else
		result->wait_ns =
			clamp(required_arrival_ns(meeting, m) - meeting->arrival_ns[m], 0, inside);
	result->transfer_ns = inside - result->wait_ns;
	if (meeting->instance->waits_for == WAITS_FOR_PARTNER)
		result->transfer_ns = clamp(meeting->departure_ns[m] - last_partner_ns(meeting, m),
			0, result->transfer_ns);
	/* beside other work, waiting costs nothing */
	if (member->flags & (MEMBER_OVERLAPPED | MEMBER_IN_TURN))
		result->wait_ns = clamp(segments_exposed_ns(meeting->grid, meeting->cells[m]) -
						(inside - result->wait_ns),
			0, result->wait_ns);
}

/* Returns the transfer. */
static inline int64_t add_share(struct meeting *meeting, uint32_t m)
{
	int64_t transfer_ns = meeting_transfer_ns_of(meeting, m);

	meeting_tally_of(meeting, m)->wait_ns += meeting_wait_ns_of(meeting, m);
	meeting_tally_of(meeting, m)->transfer_ns += transfer_ns;
	return transfer_ns;
}

static void split_calls(struct meeting *meeting)
{
	for (uint32_t m = 0; m < meeting->count; m++) {
		split_call(meeting, m);
		(void)add_share(meeting, m);
	}
}

static int64_t off_cpu_ns(const struct activity *inside)
{
	return inside->preempted_ns + inside->throttled_ns + inside->block_io_ns +
	       inside->major_fault_ns;
}

/* Off-CPU time inside, surely after the last arrival: what exceeds the wait. */
static int64_t off_after_ns(const struct meeting *meeting, uint32_t m)
{
	if (!(meeting->members[m].flags & MEMBER_INSIDE))
		return 0;
	return clamp(off_cpu_ns(meeting->grid->cells[meeting->cells[m]].inside) -
			     meeting_wait_ns_of(meeting, m),
		0, meeting_transfer_ns_of(meeting, m));
}

static void add_hold(struct meeting *meeting, uint32_t m, int64_t hold)
{
	const struct activity *inside = meeting->grid->cells[meeting->cells[m]].inside;
	struct blame_row *row = meeting_row_of(meeting, m);
	double off = (double)off_cpu_ns(inside);
	double share = off > 0 ? (double)hold / off : 0;

	row->own[EXCESS_PREEMPTED] += (int64_t)(share * (double)inside->preempted_ns);
	row->own[EXCESS_THROTTLED] += (int64_t)(share * (double)inside->throttled_ns);
	row->own[EXCESS_BLOCK_IO] += (int64_t)(share * (double)inside->block_io_ns);
	row->own[EXCESS_MAJOR_FAULT] += (int64_t)(share * (double)inside->major_fault_ns);
	row->own_excess_ns += hold;
}

static void note_hold(struct meeting *meeting, uint32_t m, int64_t hold)
{
	int64_t *holds = &meeting->blame->holds[meeting->instance->first_member];
	uint8_t *held = &meeting->blame->held[meeting->instance - meeting->grid->instances];

	if (!*held) /* the first one */
		memset(holds, 0, meeting->count * sizeof(*holds));
	*held = 1;
	holds[m] = hold;
}

/* What members that were off the CPU held the others up by; returns the worst. */
static int64_t charge_holds(struct meeting *meeting, int64_t usual_transfer)
{
	int64_t *scratch = meeting->blame->scratch;
	int64_t usual_off, worst_hold = 0;

	for (uint32_t m = 0; m < meeting->count; m++)
		scratch[m] = off_after_ns(meeting, m);
	usual_off = usual_of(meeting);
	for (uint32_t m = 0; m < meeting->count; m++) {
		int64_t hold = clamp(off_after_ns(meeting, m) - usual_off, 0, INT64_MAX);
		int64_t held_others = meeting->instance->waits_for == WAITS_FOR_ALL
					      ? clamp(hold, 0, usual_transfer)
					      : 0;

		if (hold == 0)
			continue;
		note_hold(meeting, m, hold);
		add_hold(meeting, m, hold);
		meeting_tally_of(meeting, m)->delay_ns += held_others;
		/* of its lag, what did not hold the others is its own */
		int64_t lag =
			clamp(meeting_transfer_ns_of(meeting, m) - usual_transfer, 0, INT64_MAX);
		int64_t own_lag = clamp(hold - held_others, 0, lag);

		meeting_carry_of(meeting, m)->own_ns += own_lag;
		meeting_carry_of(meeting, m)->comm_ns -= own_lag;
		if (held_others > worst_hold)
			worst_hold = held_others;
	}
	return worst_hold;
}

/* The lower median of the members' transfers. */
static int64_t usual_transfer_ns(const struct meeting *meeting)
{
	const struct blame_meeting *found = meeting->found;
	int64_t *scratch = meeting->blame->scratch;

	for (uint32_t m = 0; m < meeting->count && found->kept; m++)
		scratch[m] = meeting->shares[m].transfer_ns;
	if (found->kept)
		return usual_of(meeting);
	if (found->by_duration)
		return found->shortest_call_ns;
	/* From the last arrival to the departure: who leaves when half have is the usual one in both. */
	return clamp(lower_median_of_int64(meeting->departure_ns, meeting->count, scratch) -
			     found->last_arrival_ns,
		0, INT64_MAX);
}

/*
 * After the last arrival: members that were off the CPU held the others; members that left late
 * carry that on. Returns the usual transfer without the holds.
 */
static int64_t charge_departures(struct meeting *meeting)
{
	int64_t usual_transfer = usual_transfer_ns(meeting);

	for (uint32_t m = 0; m < meeting->count; m++)
		meeting_carry_of(meeting, m)->comm_ns +=
			clamp(meeting_transfer_ns_of(meeting, m) - usual_transfer, 0, INT64_MAX);
	return usual_transfer -
	       (meeting->instance->inside ? charge_holds(meeting, usual_transfer) : 0);
}

static uint64_t shape_of(const struct grid_instance *instance, uint64_t hash)
{
	hash = (hash ^ instance->operation) * UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ (hash >> 29) ^ instance->length_bytes) * UINT64_C(0xbf58476d1ce4e5b9);
	return (hash ^ (hash >> 32)) | 1;
}

/*
 * With a member missing, its lateness would look like a long transfer. Of thousands of members one is
 * always missing, for parts get lost; but hardly ever the one that came last.
 */
static bool nearly_all(const struct grid_instance *instance)
{
	if (instance->reckoned)
		return false;
	return instance->complete ||
	       (uint64_t)(instance->size - instance->member_count) * MEMBERS_PER_MISSING <=
		       instance->size;
}

static void tell_transfer(struct meeting *meeting, int64_t transfer_ns)
{
	const struct grid_instance *instance = meeting->instance;
	struct blame *blame = meeting->blame;

	if (!nearly_all(instance))
		return;
	blame->transfers[blame->transfer_count++] = (struct blame_transfer){
		.shape = shape_of(instance, instance->communicator_id),
		.kind = shape_of(instance, instance->same_host ? ~instance->size : instance->size),
		.transfer_ns = transfer_ns,
		.instance = (uint32_t)(instance - meeting->grid->instances),
	};
}

/* Then what lies after the last arrival is each device's own work as well: no transfer, no lag. */
static bool by_host_times(const struct meeting *meeting)
{
	return meeting->count > 0 && (meeting->members[0].flags & MEMBER_HOST_TIME);
}

static void note_lag(struct meeting *meeting, uint32_t m, int64_t lag)
{
	int64_t *lags = &meeting->blame->lags[meeting->instance->first_member];

	if (!meeting->found->lagged) /* the first one */
		memset(lags, 0, meeting->count * sizeof(*lags));
	meeting->found->lagged = true;
	lags[m] = lag;
}

/* After all members of one that waits for all were charged. */
static void tell_meeting(struct meeting *meeting, int64_t usual_transfer, int64_t worst_comm)
{
	if (by_host_times(meeting))
		meeting->blame->traits.several_groups |= meeting->count != meeting->grid->row_count;
	else
		tell_transfer(meeting,
			usual_transfer -
				(meeting->instance->inside ? charge_holds(meeting, usual_transfer)
							   : 0) +
				worst_comm);
}

static void meet_all(struct meeting *meeting)
{
	int64_t worst_comm = 0, usual_transfer;

	for (uint32_t m = 0; m < meeting->count && meeting->found->kept; m++)
		split_call(meeting, m);
	usual_transfer = by_host_times(meeting) ? INT64_MAX : usual_transfer_ns(meeting);
	for (uint32_t m = 0; m < meeting->count; m++) {
		if (!meeting->taken)
			meeting_take_segments(meeting, m);
		int64_t comm = charge_lateness(meeting, m, late_ns(meeting, m));
		int64_t lag = add_share(meeting, m) - usual_transfer;

		if (comm > 0)
			note_lag(meeting, m, comm);
		worst_comm = comm > worst_comm ? comm : worst_comm;
		/* They leave together; who leaves later than usual carries that on. */
		*meeting_carry_of(meeting, m) = (struct blame_carry){.comm_ns = lag > 0 ? lag : 0};
	}
	tell_meeting(meeting, usual_transfer, worst_comm);
}

/* Of those that wait, after whom they wait for came: what a member sends may leave it at once. */
static void tell_rooted(struct meeting *meeting, bool from_root)
{
	int64_t *scratch = meeting->blame->scratch;
	size_t count = 0;

	for (uint32_t m = 0; m < meeting->count; m++) {
		if ((m != meeting->root_member) == from_root)
			scratch[count++] = meeting_transfer_ns_of(meeting, m);
	}
	if (count && meeting->root_member < meeting->count && !by_host_times(meeting))
		tell_transfer(meeting, lower_median_of_int64(scratch, count, scratch + count));
}

/* Rooted and prefix operations: some wait, and only they are in step with the rest after it. */
static void meet_some(struct meeting *meeting)
{
	bool from_root = meeting->instance->waits_for == WAITS_FOR_ROOT;

	for (uint32_t m = 0; m < meeting->count; m++) {
		bool makes_wait = from_root ? m == meeting->root_member : m != meeting->root_member;
		int64_t late = late_ns(meeting, m);

		if (makes_wait && meeting->root_member < meeting->count && !from_root) {
			/* only what the root had to wait for counts */
			int64_t after_root =
				meeting->arrival_ns[m] - meeting->arrival_ns[meeting->root_member];
			late = clamp(late, 0, clamp(after_root, 0, INT64_MAX));
		}
		split_call(meeting, m);
		(void)add_share(meeting, m);
		if (makes_wait && late > 0) {
			(void)charge_lateness(meeting, m, late);
			*meeting_carry_of(meeting, m) =
				(struct blame_carry){0}; /* passed on: not twice */
		} else if (meeting->shares[m].wait_ns > 0) {
			*meeting_carry_of(meeting, m) =
				(struct blame_carry){0}; /* it was there in time */
		}
	}
	tell_rooted(meeting, from_root);
	if (!by_host_times(meeting))
		(void)charge_departures(meeting);
}

/* The ranks' work goes on beside it: nobody is held up yet, so all keep what they are late by. */
static void meet_beside(struct meeting *meeting)
{
	int64_t *scratch = meeting->blame->scratch;

	for (uint32_t m = 0; m < meeting->count; m++) {
		split_call(meeting, m);
		(void)add_share(meeting, m);
		scratch[m] = meeting->shares[m].transfer_ns;
		/* What a member waited here it will not be seen to wait at the next one. */
		meeting_carry_of(meeting, m)->opaque_ns += meeting->shares[m].wait_ns;
	}
	tell_transfer(meeting, usual_of(meeting));
}

/*
 * How long a message was on its way. A send that leaves at once says nothing of it; its receiver
 * does, when it was there before the message was, for a part of its way. Else the two end together,
 * and what both of them took it was.
 */
static void tell_message(struct meeting *meeting)
{
	uint32_t receiver;

	if (meeting->count != 2)
		return;
	receiver = meeting->grid->cells[meeting->cells[0]].part->operation == OPERATION_RECEIVE ? 0
												: 1;
	int64_t transfer_ns = meeting->shares[receiver].transfer_ns;
	int64_t way_ns = meeting->departure_ns[receiver] - meeting->arrival_ns[1 - receiver];

	if (meeting->departure_ns[1 - receiver] < meeting->departure_ns[receiver]) {
		if (transfer_ns > way_ns / MESSAGE_SEEN)
			tell_transfer(meeting, way_ns);
		return;
	}
	tell_transfer(meeting, meeting->shares[1 - receiver].transfer_ns < transfer_ns
				       ? meeting->shares[1 - receiver].transfer_ns
				       : transfer_ns);
}

/*
 * A send and its receive. Who waited was in time; who made it wait is charged with what is its
 * own of that, and the rest it has inherited.
 */
static void meet_partner(struct meeting *meeting)
{
	split_calls(meeting);
	for (uint32_t m = 0; m < meeting->count && meeting->count == 2; m++) {
		struct blame_carry *carry = meeting_carry_of(meeting, m);
		int64_t waited_ns = meeting->shares[1 - m].wait_ns;
		int64_t own = clamp(carry->own_ns, 0, waited_ns);

		if (waited_ns <= 0)
			continue;
		meeting_tally_of(meeting, m)->delay_ns += own;
		meeting_tally_of(meeting, m)->inherited_ns += waited_ns - own;
		carry->own_ns -= own;
		*meeting_carry_of(meeting, 1 - m) = (struct blame_carry){0};
	}
	tell_message(meeting);
}

static struct meeting meeting_of(struct blame *blame, const struct step_grid *grid, uint32_t index)
{
	const struct grid_instance *instance = &grid->instances[index];

	return (struct meeting){
		.blame = blame,
		.grid = grid,
		.instance = instance,
		.cells = &grid->members[instance->first_member],
		.members = &grid->member_parts[instance->first_member],
		.arrival_ns = &grid->arrival_ns[instance->first_member],
		.departure_ns = &grid->departure_ns[instance->first_member],
		.found = &blame->meetings[index],
		.shares = &blame->shares[instance->first_member],
		.count = instance->member_count,
	};
}

void blame_hold(struct blame *blame, const struct step_grid *grid, uint32_t instance, uint32_t m,
	int64_t hold_ns)
{
	struct meeting meeting = meeting_of(blame, grid, instance);
	struct blame_row *row = meeting_row_of(&meeting, m);

	note_hold(&meeting, m, hold_ns);
	row->delay_ns += hold_ns;
	row->own_excess_ns += hold_ns;
}

void blame_look(struct blame *blame, const struct step_grid *grid, uint32_t index,
	struct blame_column_meeting *seen)
{
	struct meeting meeting = meeting_of(blame, grid, index);

	*meeting.found =
		(struct blame_meeting){.control = blame_control_of(blame, grid, meeting.cells[0])};
	blame->traits.incomplete |= !meeting.instance->complete;
	gather(&meeting);
	*seen = (struct blame_column_meeting){
		.usual_ns = meeting.found->by_duration ? meeting.usual_call_ns
						       : meeting.usual_arrival_ns,
		.usual_transfer_ns =
			by_host_times(&meeting) ? INT64_MAX : usual_transfer_ns(&meeting),
	};
}

void blame_tell(struct blame *blame, const struct step_grid *grid, uint32_t index,
	const struct blame_column_meeting *seen)
{
	struct meeting meeting = meeting_of(blame, grid, index);

	tell_meeting(&meeting, seen->usual_transfer_ns, seen->worst_comm_ns);
}

void blame_meet(struct blame *blame, const struct step_grid *grid, uint32_t index)
{
	const struct grid_instance *instance = &grid->instances[index];
	struct meeting meeting = meeting_of(blame, grid, index);

	*meeting.found = (struct blame_meeting){
		.control = blame->traits.alike ? blame_control_of(blame, grid, meeting.cells[0])
					       : GRID_NONE,
		.kept = grid->traits.overlapped || instance->waits_for != WAITS_FOR_ALL ||
			!instance->usable,
	};
	meeting.taken = blame->traits.opaque || meeting.found->kept;
	for (uint32_t m = 0; m < meeting.count && meeting.taken; m++)
		meeting_take_segments(&meeting, m);
	if (instance->member_count < 2 && instance->size <= 1) { /* alone in its communicator */
		memset(meeting.shares, 0, meeting.count * sizeof(*meeting.shares));
		return;
	}
	blame->traits.incomplete |= !instance->complete;
	if (!instance->usable) {
		for (uint32_t m = 0; m < meeting.count; m++)
			*meeting_carry_of(&meeting, m) = (struct blame_carry){0};
		memset(meeting.shares, 0, meeting.count * sizeof(*meeting.shares));
		return;
	}
	gather(&meeting);
	if (instance->waits_for == WAITS_FOR_PARTNER)
		meet_partner(&meeting);
	else if (instance->waits_for == WAITS_FOR_ALL && (meeting.members[0].flags & CELL_ASYNC))
		meet_beside(&meeting);
	else if (instance->waits_for == WAITS_FOR_ALL)
		meet_all(&meeting);
	else if (instance->waits_for != WAITS_FOR_NOBODY)
		meet_some(&meeting);
	else
		split_calls(&meeting);
}
