/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/wire/packed_steps.h"

#include "analysis/base/hash.h"

/* A call that blocks its thread until others came: nothing but its times can differ. */
static bool is_plain(const struct part_kind *kind)
{
	return kind->communicator_id && kind->operation != OPERATION_SEND &&
	       kind->operation != OPERATION_RECEIVE && kind->flags == 0 && kind->stream == 0 &&
	       operation_waits_for(kind->operation) != WAITS_FOR_NOBODY;
}

static uint64_t hash_kind(const struct part_kind *kind)
{
	uint64_t details = (uint64_t)(uint32_t)kind->root << 32 | kind->peer;
	uint64_t names =
		(uint64_t)kind->operation << 40 | (uint64_t)kind->purpose << 32 | kind->chunk;

	return hash_mix(
		hash_mix(hash_mix(kind->communicator_id, kind->length_bytes), details), names);
}

/* The slot of a part; NULL where it would be one too many, or its sequence does not follow. */
static struct packed_slot *find_slot(
	struct packed_slot *slots, size_t *slot_count, uint64_t communicator_id, uint64_t sequence)
{
	for (size_t i = 0; i < *slot_count; i++) {
		if (slots[i].communicator_id == communicator_id)
			return slots[i].sequence + slots[i].part_count == sequence ? &slots[i]
										   : NULL;
	}
	if (*slot_count == PACKED_SLOTS_MAX)
		return NULL;
	slots[*slot_count] =
		(struct packed_slot){.communicator_id = communicator_id, .sequence = sequence};
	return &slots[(*slot_count)++];
}

void packed_step_lay_out(struct packed_step *step, struct packed_call *calls,
	struct packed_slot slots[PACKED_SLOTS_MAX])
{
	uint64_t layout = step->part_count;
	size_t slot_count = 0;

	step->layout = 0;
	step->slot_count = 0;
	step->slots = slots;
	for (size_t p = 0; p < step->part_count; p++) {
		const struct part_kind *kind = packed_kind(step, p);
		struct packed_slot *slot =
			is_plain(kind) ? find_slot(slots, &slot_count, kind->communicator_id,
						 step->sequences[p])
				       : NULL;

		if (!slot)
			return;
		calls[p].slot = (uint16_t)(slot - slots);
		calls[p].ordinal = (uint16_t)slot->part_count;
		if (slot->part_count++ == 0)
			slot->first_part = (uint32_t)p;
		slot->last_part = (uint32_t)p;
		layout = hash_mix(layout, hash_kind(kind));
	}
	step->slot_count = slot_count;
	step->layout = step->part_count ? layout | 1 : 0;
}
