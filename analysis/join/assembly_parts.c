/* SPDX-License-Identifier: Apache-2.0 */
/* What all of the assembly asks for: times on the job's clock, the job's communicators, and a rank's part of the next step. */
#include <errno.h>
#include <stdlib.h>

#include "analysis/base/hash.h"
#include "analysis/join/assembly_internal.h"

enum { RANK_CHANNELS_MAX = 64 }; /* ways to and from other ranks that cuts follow */

int64_t assembly_job_ns(
	const struct assembly *assembly, const struct rank_stream *rank, struct host_ns time)
{
	return clock_fit_to_job(&assembly->streams->hosts[rank->host].clock, time).value;
}

static size_t communicator_slot(const struct assembly *assembly, uint64_t id)
{
	size_t mask = assembly->communicator_capacity - 1;
	size_t at = (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

	while (assembly->communicators[at].id && assembly->communicators[at].id != id)
		at = (at + 1) & mask;
	return at;
}

struct communicator_entry *assembly_communicator(const struct assembly *assembly, uint64_t id)
{
	if (!assembly->communicator_capacity || !id)
		return NULL;
	size_t at = communicator_slot(assembly, id);

	return assembly->communicators[at].id ? &assembly->communicators[at] : NULL;
}

static int grow_communicators(struct assembly *assembly)
{
	struct communicator_entry *old = assembly->communicators;
	size_t old_capacity = assembly->communicator_capacity;
	size_t capacity = old_capacity ? old_capacity * 2 : 64;
	struct communicator_entry *grown = calloc(capacity, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	assembly->communicators = grown;
	assembly->communicator_capacity = capacity;
	for (size_t i = 0; i < old_capacity; i++) {
		if (old[i].id)
			grown[communicator_slot(assembly, old[i].id)] = old[i];
	}
	free(old);
	return 0;
}

struct communicator_entry *assembly_shared(
	const struct assembly *assembly, struct rank_communicator *communicator)
{
	if (communicator->slot_capacity != assembly->communicator_capacity ||
		!communicator->slot_capacity) {
		if (!assembly->communicator_capacity || !communicator->id)
			return NULL;
		communicator->slot = communicator_slot(assembly, communicator->id);
		communicator->slot_capacity = assembly->communicator_capacity;
	}
	struct communicator_entry *entry = &assembly->communicators[communicator->slot];

	/* It may have been announced since: an empty slot becomes its own. */
	if (entry->id != communicator->id) {
		communicator->slot_capacity = 0;
		return NULL;
	}
	return entry;
}

int assembly_note_communicator(struct assembly *assembly, uint64_t id, uint32_t rank)
{
	if (!id)
		return 0;
	if (assembly->communicator_count * 2 >= assembly->communicator_capacity) {
		int error = grow_communicators(assembly);

		if (error < 0)
			return error;
	}
	struct communicator_entry *entry =
		&assembly->communicators[communicator_slot(assembly, id)];

	assembly->announcements++;
	if (!entry->id) {
		*entry = (struct communicator_entry){.id = id, .first_rank = rank};
		assembly->communicator_count++;
	}
	if (rank < entry->first_rank)
		entry->first_rank = rank;
	entry->member_count++;
	return 0;
}

/* The channel of that id; NULL where a rank has too many of them, or memory is short. */
static struct rank_communicator *find_channel(
	struct assembly *assembly, uint32_t number, uint64_t id, bool sends)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];

	size_t count = rank->channels.count;
	struct rank_communicator *channel =
		communicator_list_add(&rank->channels, id, RANK_CHANNELS_MAX);

	if (rank->channels.count == count)
		return channel;
	if (assembly_note_communicator(assembly, id, sends ? number : UINT32_MAX) < 0) {
		rank->channels.count--;
		return NULL;
	}
	assembly->raises++; /* the other end may be before the cut already */
	return channel;
}

struct rank_communicator *assembly_channel(
	struct assembly *assembly, uint32_t number, const struct part_kind *kind)
{
	const struct rank_communicator *communicator =
		stream_communicator(&assembly->streams->ranks[number], kind->communicator_id);
	bool sends = kind->operation == OPERATION_SEND;

	if (!communicator || communicator->own_index == STEP_RANK_UNKNOWN || !kind->peer)
		return NULL;
	return find_channel(
		assembly, number, grid_pair_key(kind, communicator->own_index) | 1, sends);
}

bool assembly_has_row(const struct assembly *assembly, uint32_t r)
{
	const struct rank_stream *rank = &assembly->streams->ranks[r];

	return rank->known && assembly->scans[r].found && rank->entry_count > 0;
}

uint64_t assembly_layout_of(const struct assembly *assembly, uint32_t r)
{
	const struct rank_stream *rank = &assembly->streams->ranks[r];
	const struct packed_step *head = stream_at(rank, 0)->entry;
	struct stream_position at = assembly->scans[r].at;
	bool whole = at.entry == 0 ? at.part == head->part_count : at.entry == 1 && at.part == 0;

	return whole && rank->part_head == 0 ? head->layout : 0;
}

struct host_ns assembly_row_start(const struct rank_stream *rank, const struct rank_scan *scan)
{
	const struct packed_step *head = stream_at(rank, 0)->entry;
	struct host_ns start =
		rank->part_head ? head->times[rank->part_head - 1].departure : head->start;

	if (scan->was_reckoned && !rank->hole)
		return scan->departed;
	if (!scan->departed_valid || rank->hole || scan->departed.value > start.value ||
		(head->part_flags & (PART_HOST_TIME | PART_ENQUEUE_ONLY)))
		return start;
	return scan->departed;
}
