/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/step_packer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void step_packer_fini(struct step_packer *packer)
{
	free(packer->steps);
	free(packer->kinds);
	free(packer->activities);
	free(packer->times);
	free(packer->calls);
	free(packer->sequences);
	free(packer->marks);
	free(packer->slots);
	free(packer->table);
	*packer = (struct step_packer){0};
}

static int reserve(void **array, size_t *capacity, size_t needed, size_t size)
{
	if (needed < *capacity)
		return 0;
	size_t grown_capacity = 2 * needed + 1; /* never NULL: places are counted on from it */
	void *grown = realloc(*array, grown_capacity * size);

	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = grown_capacity;
	return 0;
}

/* Room for the parts of all steps, and so for their kinds; the table is at most half full. */
static int prepare(struct step_packer *packer, size_t step_count, size_t part_count)
{
	size_t table_capacity = 64, calls = packer->part_capacity;
	size_t sequences = packer->part_capacity, marks = packer->part_capacity;
	int error = reserve((void **)&packer->calls, &calls, part_count, sizeof(*packer->calls));

	if (error == 0)
		error = reserve((void **)&packer->sequences, &sequences, part_count,
			sizeof(*packer->sequences));
	if (error == 0)
		error = reserve(
			(void **)&packer->marks, &marks, part_count, sizeof(*packer->marks));
	if (error == 0)
		error = reserve((void **)&packer->times, &packer->part_capacity, part_count,
			sizeof(*packer->times));

	if (error == 0)
		error = reserve((void **)&packer->steps, &packer->step_capacity, step_count,
			sizeof(*packer->steps));
	if (error == 0)
		error = reserve((void **)&packer->slots, &packer->slot_capacity,
			step_count * PACKED_SLOTS_MAX, sizeof(*packer->slots));
	if (error == 0)
		error = reserve((void **)&packer->kinds, &packer->kind_capacity, part_count,
			sizeof(*packer->kinds));
	if (error < 0)
		return error;
	while (table_capacity < 2 * part_count)
		table_capacity *= 2;
	if (table_capacity > packer->table_capacity) {
		free(packer->table);
		packer->table = malloc(table_capacity * sizeof(*packer->table));
		packer->table_capacity = packer->table ? table_capacity : 0;
		if (!packer->table)
			return -ENOMEM;
	}
	packer->kind_count = packer->activity_count = packer->part_count = 0;
	return 0;
}

static uint64_t mix(uint64_t hash, uint64_t value) /* splitmix64's finaliser */
{
	hash += value * UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return hash ^ (hash >> 27);
}

static uint32_t find_kind(struct step_packer *packer, const struct part_kind *kind)
{
	uint64_t details = (uint64_t)(uint32_t)kind->root << 32 | kind->peer;
	uint64_t names = (uint64_t)kind->operation << 24 | (uint64_t)kind->flags << 16 |
			 (uint64_t)kind->purpose << 8 | kind->stream;
	size_t mask = packer->table_capacity - 1;
	size_t at = mix(mix(mix(kind->communicator_id + kind->chunk, kind->length_bytes), details),
			    names) &
		    mask;

	if (packer->kind_count == 0)
		memset(packer->table, 0, packer->table_capacity * sizeof(*packer->table));
	for (; packer->table[at]; at = (at + 1) & mask) {
		if (part_kind_same(&packer->kinds[packer->table[at] - 1], kind))
			return packer->table[at] - 1;
	}
	packer->kinds[packer->kind_count++] = *kind;
	packer->table[at] = (uint32_t)packer->kind_count;
	return packer->table[at] - 1;
}

/* Returns where it is kept, counted from the step's first, + 1, or 0 for none. */
static uint16_t pack_activity(
	struct step_packer *packer, const struct activity *activity, struct packed_step *step)
{
	if (activity_is_none(activity))
		return 0;
	packer->activities[packer->activity_count++] = *activity;
	return (uint16_t)++step->activity_count;
}

/* Steps repeat: the kind of a place is mostly that of the same place in the step before. */
static int pack_parts(struct step_packer *packer, const struct step_entry *step,
	const struct packed_call *guess, struct packed_step *packed)
{
	int error = reserve((void **)&packer->activities, &packer->activity_capacity,
		packer->activity_count + 2 * step->part_count, sizeof(*packer->activities));

	if (error < 0)
		return error;
	for (size_t p = 0; p < step->part_count; p++) {
		const struct collective_part *part = &step->parts[p];
		const struct part_kind kind = {
			.communicator_id = part->communicator_id,
			.length_bytes = part->length_bytes,
			.root = part->root,
			.peer = part->peer,
			.chunk = part->chunk,
			.operation = part->operation,
			.flags = part->flags,
			.purpose = part->purpose,
			.stream = part->stream,
		};
		bool guessed = guess && part_kind_same(&packer->kinds[guess[p].kind], &kind);

		packed->part_flags |= part->flags;
		size_t at = packer->part_count++;

		packer->times[at] = (struct packed_times){part->arrival, part->departure};
		packer->sequences[at] = part->sequence;
		packer->calls[at] = (struct packed_call){
			.kind = guessed ? guess[p].kind : find_kind(packer, &kind)};
		packer->marks[at] = (struct packed_marks){
			.before = pack_activity(packer, &part->before, packed),
			.inside = pack_activity(packer, &part->inside, packed),
		};
	}
	return 0;
}

static struct packed_step without_parts(const struct step_entry *step)
{
	return (struct packed_step){
		.rank = step->rank,
		.flags = step->flags,
		.index = step->index,
		.signature = step->signature,
		.start = step->start,
		.end = step->end,
		.input_ns = step->input_ns,
		.compute_ns = step->compute_ns,
		.host_ns = step->host_ns,
		.comm_ns = step->comm_ns,
		.part_count = step->part_count,
		.launches = step->launches.window ? &step->launches : NULL,
	};
}

int step_packer_pack(struct step_packer *packer, const struct step_entry *steps, size_t step_count,
	const struct packed_step **packed)
{
	size_t part_count = 0, guess_at = 0, part_at = 0;
	const struct activity *activities;
	int error;

	for (size_t i = 0; i < step_count; i++)
		part_count += steps[i].part_count;
	error = prepare(packer, step_count, part_count);
	for (size_t i = 0; i < step_count && error == 0; i++) {
		bool alike = i > 0 && steps[i - 1].part_count == steps[i].part_count;
		size_t first = packer->part_count;

		packer->steps[i] = without_parts(&steps[i]);
		error = pack_parts(packer, &steps[i], alike ? &packer->calls[guess_at] : NULL,
			&packer->steps[i]);
		guess_at = first;
	}
	if (error < 0)
		return error;
	/* Only now do they lie where they stay. */
	activities = packer->activities;
	for (size_t i = 0; i < step_count; i++) {
		struct packed_step *step = &packer->steps[i];

		step->times = &packer->times[part_at];
		step->calls = &packer->calls[part_at];
		step->sequences = &packer->sequences[part_at];
		step->marks = step->activity_count ? &packer->marks[part_at] : NULL;
		step->activities = activities;
		step->kinds = packer->kinds;
		step->kind_count = packer->kind_count;
		packed_step_lay_out(
			step, &packer->calls[part_at], &packer->slots[i * PACKED_SLOTS_MAX]);
		if (step->layout)
			step->sequences = NULL;
		part_at += step->part_count;
		activities += step->activity_count;
	}
	*packed = packer->steps;
	return 0;
}
