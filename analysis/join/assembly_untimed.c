/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a rank's device tells nothing of any more, while those of others still do (a source fell silent, or lost
 * some). Nobody begins a collective before its host called it, and where it waits for all, all leave it together: so such a
 * part begins with the first of the others', or when its host called if that was later, and ends with them, as a send does with
 * its receive; elsewhere it takes as long as the shortest. Late by this is only whose host was: that its device was is not seen, and the transfer says nothing.
 */
#include <errno.h>

#include "analysis/base/hash.h"
#include "analysis/join/align.h"
#include "analysis/join/assembly_internal.h"

/* What devices tell of one instance. */
struct timed_call {
	uint64_t key, sequence;		  /* key 0: free */
	int64_t arrival_ns, departure_ns; /* the first of each, on the job's clock */
	int64_t stay_ns;		  /* the shortest */
};

static bool is_told(const struct part_kind *kind)
{
	return kind->flags & PART_DEVICE_TIME && kind->communicator_id;
}

/* What a part is joined by, beside its sequence; 0: it is not known whom a message goes to, or comes from. */
static uint64_t key_of(const struct part_kind *kind, uint32_t own_index)
{
	if (!part_kind_is_message(kind))
		return kind->communicator_id;
	return kind->peer && own_index != STEP_RANK_UNKNOWN ? grid_pair_key(kind, own_index) : 0;
}

static uint32_t own_index_of(struct rank_stream *rank, const struct part_kind *kind)
{
	const struct rank_communicator *communicator =
		part_kind_is_message(kind) ? stream_communicator(rank, kind->communicator_id)
					   : NULL;

	return communicator ? communicator->own_index : STEP_RANK_UNKNOWN;
}

bool assembly_falls_silent(const struct assembly *assembly, uint32_t number)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	struct stream_position at = assembly->scans[number].at;

	for (size_t e = 0; rank->on_device && e < rank->entry_count && e <= at.entry; e++) {
		if (stream_at(rank, e)->entry->part_flags & PART_ENQUEUE_ONLY)
			return true;
	}
	return false;
}

static struct timed_call *find_call(
	const struct timed_calls *calls, uint64_t key, uint64_t sequence)
{
	size_t at = hash_mix(key, sequence) & (calls->capacity - 1);

	while (calls->table[at].key &&
		(calls->table[at].key != key || calls->table[at].sequence != sequence))
		at = (at + 1) & (calls->capacity - 1);
	return &calls->table[at];
}

static void note_call(struct timed_calls *calls, uint64_t key, uint64_t sequence,
	int64_t arrival_ns, int64_t departure_ns)
{
	struct timed_call *call = find_call(calls, key, sequence);

	if (!call->key)
		*call = (struct timed_call){
			key, sequence, arrival_ns, departure_ns, departure_ns - arrival_ns};
	if (arrival_ns < call->arrival_ns)
		call->arrival_ns = arrival_ns;
	if (departure_ns < call->departure_ns)
		call->departure_ns = departure_ns;
	if (departure_ns - arrival_ns < call->stay_ns)
		call->stay_ns = departure_ns - arrival_ns;
}

/* Notes the parts of a rank before the cut; without a table, counts them. */
static size_t note_rank(struct assembly *assembly, uint32_t number, struct timed_calls *calls)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	struct stream_position cut = assembly->scans[number].at;
	size_t count = 0, at = rank->part_head;

	for (size_t e = 0; e < rank->entry_count && e <= cut.entry; e++, at = 0) {
		const struct packed_step *entry = stream_at(rank, e)->entry;
		size_t end = e < cut.entry ? entry->part_count : cut.part;
		uint64_t sequence;

		for (size_t p = at; p < end; p++) {
			const struct part_kind *kind = packed_kind(entry, p);
			uint64_t key = is_told(kind) ? key_of(kind, own_index_of(rank, kind)) : 0;

			if (!key || !assembly_sequence(assembly, number, entry, p, &sequence))
				continue;
			count++;
			if (calls)
				note_call(calls, key, sequence,
					assembly_job_ns(assembly, rank, entry->times[p].arrival),
					assembly_job_ns(assembly, rank, entry->times[p].departure));
		}
	}
	return count;
}

int assembly_note_timed_calls(
	struct assembly *assembly, struct arena *arena, struct timed_calls *calls)
{
	size_t count = 0, capacity = 64;
	bool silent = false;

	*calls = (struct timed_calls){0};
	for (uint32_t r = 0; r < assembly->streams->end && !silent; r++)
		silent = assembly_has_row(assembly, r) && assembly_falls_silent(assembly, r);
	if (!silent)
		return 0;
	for (uint32_t r = 0; r < assembly->streams->end; r++)
		count += assembly_has_row(assembly, r) ? note_rank(assembly, r, NULL) : 0;
	while (capacity < 2 * count)
		capacity *= 2;
	calls->table = arena_take_zeroed(arena, capacity, sizeof(*calls->table));
	if (!calls->table)
		return -ENOMEM;
	calls->capacity = capacity;
	for (uint32_t r = 0; r < assembly->streams->end; r++) {
		if (assembly_has_row(assembly, r))
			note_rank(assembly, r, calls);
	}
	return 0;
}

bool assembly_reckon(const struct timed_calls *calls, struct grid_part *part)
{
	const struct part_kind *kind = part->kind;
	const struct timed_call *call;
	uint64_t key = part->joined ? key_of(kind, part->own_index) : 0;

	if (!calls->table || !key || kind->flags & PART_SEQUENCE_RELATIVE)
		return false;
	call = find_call(calls, key, part->sequence);
	if (!call->key)
		return false;
	if (part->arrival_ns < call->arrival_ns)
		part->arrival_ns = call->arrival_ns;
	part->call_ns = call->stay_ns;
	if (part_kind_is_message(kind) || operation_waits_for(kind->operation) == WAITS_FOR_ALL) {
		if (part->arrival_ns > call->departure_ns)
			part->arrival_ns = call->departure_ns;
		part->call_ns = call->departure_ns - part->arrival_ns;
	}
	part->reckoned = true;
	return true;
}
