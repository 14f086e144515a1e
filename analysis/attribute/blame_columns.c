/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances whose members bring what lies in columns, one after the other, of the same members. What their
 * columns tell comes first, of all of them. Then some members at a time go through all of them: what these
 * carry stays in the nearest cache, and the loop over them is one that compilers make vector instructions of.
 */
#include <string.h>

#include "analysis/attribute/blame_internal.h"
#include "analysis/base/robust_stats.h"
#include "analysis/base/vectorised.h"

enum { BLOCK_MEMBERS = 256 };

/* The tallies of some members, each figure in a column of its own. */
struct tally_block {
	int64_t carry_own_ns[BLOCK_MEMBERS], carry_comm_ns[BLOCK_MEMBERS];
	int64_t delay_ns[BLOCK_MEMBERS], comm_delay_ns[BLOCK_MEMBERS], inherited_ns[BLOCK_MEMBERS];
	int64_t wait_ns[BLOCK_MEMBERS], transfer_ns[BLOCK_MEMBERS];
};

static void load_tallies(struct tally_block *block, const struct blame *blame,
	const struct grid_member *members, size_t count)
{
	for (size_t m = 0; m < count; m++) {
		const struct blame_tally *tally = &blame->tallies[members[m].row];

		block->carry_own_ns[m] = tally->carry.own_ns;
		block->carry_comm_ns[m] = tally->carry.comm_ns;
		block->delay_ns[m] = tally->delay_ns;
		block->comm_delay_ns[m] = tally->comm_delay_ns;
		block->inherited_ns[m] = tally->inherited_ns;
		block->wait_ns[m] = tally->wait_ns;
		block->transfer_ns[m] = tally->transfer_ns;
	}
}

static void store_tallies(const struct tally_block *block, struct blame *blame,
	const struct grid_member *members, size_t count)
{
	for (size_t m = 0; m < count; m++)
		blame->tallies[members[m].row] = (struct blame_tally){
			.carry = {.own_ns = block->carry_own_ns[m],
				.comm_ns = block->carry_comm_ns[m]},
			.delay_ns = block->delay_ns[m],
			.comm_delay_ns = block->comm_delay_ns[m],
			.inherited_ns = block->inherited_ns[m],
			.wait_ns = block->wait_ns[m],
			.transfer_ns = block->transfer_ns[m],
		};
}

/* One instance as some of its members meet in it. */
struct column_slice {
	const int64_t *arrival_ns, *departure_ns, *own_ns;
	size_t count;
	int64_t control_ns, usual_ns, usual_transfer_ns, last_arrival_ns, shortest_call_ns;
	bool by_duration;
};

/*
 * As meet_all() of blame_meetings.c does for each member. comm_ns: what each was late by for having left its
 * last one late.
 */
VECTORISED
static void meet_block(struct tally_block *restrict block, const struct column_slice *slice,
	int64_t *restrict comm_ns)
{
	const struct column_slice at = *slice;

	for (size_t m = 0; m < at.count; m++) {
		int64_t call_ns = at.departure_ns[m] - at.arrival_ns[m];
		int64_t late_ns = larger(
			at.by_duration ? at.usual_ns - call_ns : at.arrival_ns[m] - at.usual_ns, 0);
		int64_t transfer_ns = at.by_duration
					      ? at.shortest_call_ns
					      : larger(at.departure_ns[m] - at.last_arrival_ns, 0);
		int64_t own_ns = block->carry_own_ns[m] + at.own_ns[m] - at.control_ns;

		own_ns = smaller(larger(own_ns, 0), late_ns);
		late_ns -= own_ns;
		comm_ns[m] = smaller(larger(block->carry_comm_ns[m], 0), late_ns);
		block->delay_ns[m] += own_ns;
		block->comm_delay_ns[m] += comm_ns[m];
		block->inherited_ns[m] += late_ns - comm_ns[m];
		block->wait_ns[m] += call_ns - transfer_ns;
		block->transfer_ns[m] += transfer_ns;
		/* They leave together; who leaves later than usual carries that on. */
		block->carry_own_ns[m] = 0;
		block->carry_comm_ns[m] = larger(transfer_ns - at.usual_transfer_ns, 0);
	}
}

/* lags: of all members; comm_ns: of those from first on. */
static void note_lags(struct blame_meeting *found, int64_t *lags, size_t member_count, size_t first,
	const int64_t *comm_ns, size_t count)
{
	if (!found->lagged)
		memset(lags, 0, member_count * sizeof(*lags));
	found->lagged = true;
	memcpy(lags + first, comm_ns, count * sizeof(*lags));
}

/* The members of an instance from first on. */
static void meet_slice(struct blame *blame, const struct step_grid *grid, uint32_t index,
	struct blame_column_meeting *seen, struct tally_block *block, size_t first, size_t count)
{
	const struct grid_instance *instance = &grid->instances[index];
	struct blame_meeting *found = &blame->meetings[index];
	size_t at = instance->first_member + first;
	int64_t comm_ns[BLOCK_MEMBERS], worst_ns;
	const struct column_slice slice = {
		.arrival_ns = &grid->arrival_ns[at],
		.departure_ns = &grid->departure_ns[at],
		.own_ns = &grid->own_ns[at],
		.count = count,
		.control_ns = blame->controls[found->control].control_ns,
		.usual_ns = seen->usual_ns,
		.usual_transfer_ns = seen->usual_transfer_ns,
		.last_arrival_ns = found->last_arrival_ns,
		.shortest_call_ns = found->shortest_call_ns,
		.by_duration = found->by_duration,
	};

	meet_block(block, &slice, comm_ns);
	worst_ns = largest_int64(comm_ns, count);
	if (worst_ns > 0)
		note_lags(found, &blame->lags[instance->first_member], instance->member_count,
			first, comm_ns, count);
	seen->worst_comm_ns = larger(seen->worst_comm_ns, worst_ns);
}

size_t blame_meet_columns(struct blame *blame, const struct step_grid *grid, size_t first)
{
	const struct grid_instance *instance = &grid->instances[grid->order[first]];
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	size_t end = first, member_count = instance->member_count;
	struct tally_block block;

	do { /* holds, of what was inside, are charged before the next one is met */
		instance = &grid->instances[grid->order[end]];
		blame_look(blame, grid, grid->order[end], &blame->column_meetings[end - first]);
		end++;
	} while (!instance->inside && end < grid->order_count &&
		 grid->instances[grid->order[end]].again &&
		 blame_in_columns(blame, &grid->instances[grid->order[end]]));
	for (size_t m = 0; m < member_count; m += BLOCK_MEMBERS) {
		size_t count = member_count - m < BLOCK_MEMBERS ? member_count - m : BLOCK_MEMBERS;

		load_tallies(&block, blame, &members[m], count);
		for (size_t o = first; o < end; o++)
			meet_slice(blame, grid, grid->order[o], &blame->column_meetings[o - first],
				&block, m, count);
		store_tallies(&block, blame, &members[m], count);
	}
	for (size_t o = first; o < end; o++)
		blame_tell(blame, grid, grid->order[o], &blame->column_meetings[o - first]);
	return end;
}
