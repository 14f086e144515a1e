/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the next cut. */

#include "analysis/join/assembly_internal.h"

/* Up to when a rank was heard of; one that has said nothing yet is as late as the first data is old. */
static int64_t heard_of_ns(const struct assembly *assembly, const struct rank_stream *rank)
{
	return rank->newest.value ? assembly_job_ns(assembly, rank, rank->newest)
				  : assembly->oldest_ns;
}

/* Some rank has so many entries waiting that one without any is behind, not just about to come. */
static bool others_far_ahead(const struct assembly *assembly)
{
	const struct rank_streams *streams = assembly->streams;

	for (uint32_t r = 0; r < streams->end; r++) {
		if (streams->ranks[r].known &&
			streams->ranks[r].entry_count >= ASSEMBLY_LAG_ENTRIES)
			return true;
	}
	return false;
}

/* The lowest rank that delivers. */
static bool choose_leader(struct assembly *assembly, bool finish, uint32_t *leader)
{
	struct rank_streams *streams = assembly->streams;

	for (uint32_t r = 0; r < streams->end; r++) {
		struct rank_stream *rank = &streams->ranks[r];

		if (!rank->known || rank->host == UINT32_MAX || rank->lagging ||
			(rank->entry_count == 0 && (rank->exited || finish)))
			continue;
		if (rank->entry_count == 0 && assembly->newest_ns != INT64_MIN &&
			assembly->newest_ns - heard_of_ns(assembly, rank) > ASSEMBLY_LAG_NS &&
			others_far_ahead(assembly)) {
			rank->lagging = true;
			continue;
		}
		*leader = r;
		return rank->entry_count > 0;
	}
	return false;
}

/* How good a part is to cut at: synchronising before rooted, then the widest communicator. */
static uint64_t cut_merit(
	struct assembly *assembly, uint32_t number, const struct packed_step *entry, size_t part)
{
	const struct part_kind *kind = packed_kind(entry, part);
	struct rank_stream *rank = &assembly->streams->ranks[number];
	struct communicator_entry *shared = assembly_communicator(assembly, kind->communicator_id);
	struct rank_communicator *own;
	uint64_t sequence, size;

	if (kind->flags & PART_ENQUEUE_ONLY || !kind->communicator_id ||
		operation_waits_for(kind->operation) == WAITS_FOR_NOBODY ||
		!assembly_sequence(assembly, number, entry, part, &sequence))
		return 0;
	own = stream_communicator(rank, kind->communicator_id);
	size = own && own->size ? own->size : shared ? shared->member_count : 0;
	if (size < 2)
		return 0;
	return (operation_waits_for(kind->operation) == WAITS_FOR_ALL ? UINT64_C(1) << 40 : 0) +
	       size;
}

static void cut_at_end_of(struct assembly *assembly, uint32_t number, size_t e)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;

	assembly->cut.by_time = true;
	assembly->cut.entry = e;
	assembly->cut.time_ns = assembly_job_ns(assembly, rank, entry->end);
	assembly->scans[number].at = (struct stream_position){e, entry->part_count};
}

bool assembly_best_part(struct assembly *assembly, uint32_t number, const struct packed_step *entry,
	size_t from, bool *blocking, size_t *best)
{
	uint64_t best_merit = 0;

	for (size_t p = from; p < entry->part_count; p++) {
		uint64_t merit = cut_merit(assembly, number, entry, p);

		*blocking |= !(packed_kind(entry, p)->flags & PART_ENQUEUE_ONLY);
		if (merit && merit >= best_merit) {
			best_merit = merit;
			*best = p;
		}
	}
	return best_merit > 0;
}

static bool cut_in_entry(struct assembly *assembly, uint32_t number, size_t e, bool *blocking)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;
	size_t best;

	if (!assembly_best_part(
		    assembly, number, entry, e == 0 ? rank->part_head : 0, blocking, &best))
		return false;
	assembly->cut.by_time = false;
	assembly->cut.entry = e;
	assembly->cut.communicator_id = packed_kind(entry, best)->communicator_id;
	(void)assembly_sequence(assembly, number, entry, best, &assembly->cut.sequence);
	assembly->cut.time_ns = assembly_job_ns(assembly, rank, entry->times[best].departure);
	assembly->scans[number].at = (struct stream_position){e, best + 1};
	return true;
}

/* What a new leader has left of a step that was handed out is no step of its own. */
static void drop_begun(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];

	while (rank->entry_count && assembly->last_cut_ns != INT64_MIN) {
		const struct packed_step *entry = stream_at(rank, 0)->entry;
		int64_t start_ns = assembly_job_ns(assembly, rank, entry->start);
		int64_t end_ns = assembly_job_ns(assembly, rank, entry->end);

		if (start_ns + (end_ns - start_ns) / 2 >= assembly->last_cut_ns)
			return;
		assembly_pop(assembly, rank);
		assembly->scans[number].at = (struct stream_position){0};
		assembly->scans[number].departed_valid = false;
	}
}

bool assembly_choose_cut(struct assembly *assembly, bool finish)
{
	uint32_t leader;

	if (!choose_leader(assembly, finish, &leader))
		return false;
	const struct rank_stream *rank = &assembly->streams->ranks[leader];

	if (leader != assembly->leader)
		drop_begun(assembly, leader);
	/* Where there is nobody to meet, each entry is a step. */
	size_t merged_max =
		assembly->streams->world_size == 1 && assembly->streams->known_count == 1
			? 1
			: MERGED_ENTRIES_MAX;
	/*
	 * An entry gives one cut: what follows it there belongs to the next step. Not where others took the leader
	 * on into an entry whose own cut is still to come.
	 */
	size_t first = leader == assembly->leader && rank->part_head && assembly->cut_given ? 1 : 0;

	assembly->leader = leader;
	for (size_t e = first; e < rank->entry_count; e++) {
		const struct packed_step *entry = stream_at(rank, e)->entry;
		bool blocking = false;
		bool found = cut_in_entry(assembly, leader, e, &blocking);

		if (!found && ((entry->part_count && !blocking) || assembly_is_cycle(entry) ||
				      e + 1 >= first + merged_max)) {
			cut_at_end_of(assembly, leader, e);
			found = true;
		}
		if (!found)
			continue;
		assembly->cut.valid = true;
		assembly->cut.rank = leader;
		assembly->ready_rank = 0;
		assembly->placing = assembly->placed = false;
		return true;
	}
	return false;
}
