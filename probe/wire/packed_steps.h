/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps as they come off the wire and wait to be analysed: a sixth of the size of a step_entry's
 * parts. What repeats from step to step (whom a call goes to, how long it is) is kept once per batch,
 * activities only where there are any. Plain values; any thread.
 */
#ifndef SLOWRANK_PROBE_WIRE_PACKED_STEPS_H
#define SLOWRANK_PROBE_WIRE_PACKED_STEPS_H

#include "analysis/align.h"

struct packed_part {
	struct host_ns arrival, departure;
	uint64_t sequence;
	uint32_t kind;		 /* into the batch's kinds */
	uint16_t before, inside; /* into the step's activities + 1; 0 = none */
};

enum { PACKED_SLOTS_MAX = 32 };

/* The parts of a step on one communicator, where their sequence numbers follow each other. */
struct packed_slot {
	uint64_t communicator_id;
	uint64_t sequence; /* of the first */
	uint32_t first_part, last_part, part_count;
};

_Static_assert(2 * STEP_PART_COUNT_MAX <= UINT16_MAX, "activities of a step");
_Static_assert(sizeof(struct packed_part) == 32, "two of them in a line of a cache");

struct packed_step {
	uint32_t rank;
	uint32_t flags;	     /* enum step_flag */
	uint32_t part_flags; /* enum part_flag: of any of its parts */
	uint64_t index, signature;
	struct host_ns start, end;
	int64_t input_ns, compute_ns, host_ns, comm_ns;
	/*
	 * Hash of its calls and how they lie on communicators: steps with equal ones differ in nothing but
	 * times, activities and the slots' sequences. 0: it has other calls than blocking collectives
	 * on known communicators, or more slots than PACKED_SLOTS_MAX; then it has none.
	 */
	uint64_t layout;
	size_t part_count, kind_count, activity_count, slot_count;
	const struct packed_part *parts;
	const struct part_kind *kinds; /* of the whole batch */
	const struct activity *activities;
	const struct packed_slot *slots;
	const struct step_launches *launches; /* NULL: not looked at */
};

/* Finds the layout and the slots, into `slots`, of a step that is complete but for these. */
void packed_step_lay_out(struct packed_step *step, struct packed_slot slots[PACKED_SLOTS_MAX]);

static inline const struct part_kind *packed_kind(
	const struct packed_step *step, const struct packed_part *part)
{
	return &step->kinds[part->kind];
}

static inline const struct activity *packed_activity(const struct packed_step *step, uint32_t at)
{
	return at ? &step->activities[at - 1] : &activity_none;
}

#endif
