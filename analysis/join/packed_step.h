/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps as they wait to be analysed: 16 bytes a part. What repeats from step to
 * step (what a call is, where it lies on its communicator) is kept once per batch, activities only
 * where there are any. Plain values; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_JOIN_PACKED_STEP_H
#define SLOWRANK_ANALYSIS_JOIN_PACKED_STEP_H

#include "analysis/join/align.h"

struct packed_times {
	struct host_ns arrival, departure;
};

/* What a part is but for its times. */
struct packed_call {
	uint32_t kind;	  /* into the batch's kinds */
	uint16_t slot;	  /* of a step that has them */
	uint16_t ordinal; /* among the parts of that slot */
};

/* What its segment, and its call, were made of: into the step's activities + 1; 0 = none. */
struct packed_marks {
	uint16_t before, inside;
};

enum { PACKED_SLOTS_MAX = 32 };

/* The parts of a step on one communicator, where their sequence numbers follow each other. */
struct packed_slot {
	uint64_t communicator_id;
	uint64_t sequence; /* of the first */
	uint32_t first_part, last_part, part_count;
};

_Static_assert(2 * STEP_PART_COUNT_MAX <= UINT16_MAX, "activities of a step, parts of a slot");

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
	const struct packed_times *times;
	const struct packed_call *calls;  /* steps may share them */
	const uint64_t *sequences;	  /* of parts; without a layout only: else slots tell */
	const struct packed_marks *marks; /* NULL: there are no activities */
	const struct part_kind *kinds;	  /* of the whole batch */
	const struct activity *activities;
	const struct packed_slot *slots;
	const struct step_launches *launches; /* NULL: not looked at */
};

static inline const struct part_kind *packed_kind(const struct packed_step *step, size_t part)
{
	return &step->kinds[step->calls[part].kind];
}

static inline uint64_t packed_sequence(const struct packed_step *step, size_t part)
{
	const struct packed_call *call = &step->calls[part];

	return step->layout ? step->slots[call->slot].sequence + call->ordinal
			    : step->sequences[part];
}

static inline const struct activity *packed_before(const struct packed_step *step, size_t part)
{
	uint32_t at = step->marks ? step->marks[part].before : 0;

	return at ? &step->activities[at - 1] : &activity_none;
}

static inline const struct activity *packed_inside(const struct packed_step *step, size_t part)
{
	uint32_t at = step->marks ? step->marks[part].inside : 0;

	return at ? &step->activities[at - 1] : &activity_none;
}

#endif
