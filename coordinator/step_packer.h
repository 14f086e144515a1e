/* SPDX-License-Identifier: Apache-2.0 */
/* Packs steps that are structs already, as the decoder gives those that came off the wire. One thread. */
#ifndef SLOWRANK_COORDINATOR_STEP_PACKER_H
#define SLOWRANK_COORDINATOR_STEP_PACKER_H

#include "probe/wire/packed_steps.h"

/* Room to pack in, kept from batch to batch. Zero-initialised is empty. */
struct step_packer {
	struct packed_step *steps;
	struct part_kind *kinds;
	struct activity *activities;
	struct packed_times *times; /* these four by part */
	struct packed_call *calls;
	uint64_t *sequences;
	struct packed_marks *marks;
	struct packed_slot *slots; /* PACKED_SLOTS_MAX a step */
	uint32_t *table;	   /* hash: kind + 1, 0 = free */
	size_t step_capacity, kind_capacity, activity_capacity, part_capacity, slot_capacity;
	size_t table_capacity;
	size_t kind_count, activity_count, part_count;
};
void step_packer_fini(struct step_packer *packer);

/* The result lies in the packer until the next call. Returns 0 or -ENOMEM. */
int step_packer_pack(struct step_packer *packer, const struct step_entry *steps, size_t step_count,
	const struct packed_step **packed) __attribute__((warn_unused_result));

#endif
