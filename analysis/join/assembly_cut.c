/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the next cut. */

#include "analysis/join/assembly_internal.h"

/*
 * Up to when a rank was heard of; one that has said nothing yet, when the first data came, for that may go
 * back as far as its first steps are held back.
 */
static int64_t heard_of_ns(const struct assembly *assembly, const struct rank_stream *rank)
{
	return rank->newest.value ? assembly_job_ns(assembly, rank, rank->newest)
				  : assembly->began_ns;
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

static void cut_at_end_of(struct assembly *assembly, uint32_t number, size_t e)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;

	assembly->cut.by_time = true;
	assembly->cut.entry = e;
	assembly->cut.time_ns = assembly->cut.known_ns =
		assembly_job_ns(assembly, rank, entry->end);
	assembly->scans[number].at = (struct stream_position){e, entry->part_count};
}

static void cut_behind(struct assembly *assembly, uint32_t number, size_t e, size_t part)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;

	assembly->cut.by_time = false;
	assembly->cut.entry = e;
	assembly->cut.communicator_id = packed_kind(entry, part)->communicator_id;
	(void)assembly_sequence(assembly, number, entry, part, &assembly->cut.sequence);
	assembly->cut.time_ns = assembly->cut.known_ns =
		assembly_job_ns(assembly, rank, entry->times[part].departure);
	assembly->scans[number].at = (struct stream_position){e, part + 1};
}

/* Cuts behind the first of an entry's rounds, from one on, that is not done yet. */
static bool cut_at_round(struct assembly *assembly, uint32_t number, size_t e, uint32_t round)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;
	const uint16_t *ends = assembly->cut.round_ends;
	uint32_t count = assembly->cut.round_count;

	while (round < count && e == 0 && ends[round] < rank->part_head)
		round++;
	if (round >= count)
		return false;
	assembly->cut.round = round;
	cut_behind(assembly, number, e, ends[round]);
	assembly->cut.known_ns =
		assembly_job_ns(assembly, rank, entry->times[ends[count - 1]].departure);
	return true;
}

static bool cut_in_entry(struct assembly *assembly, uint32_t number, size_t e, bool *blocking)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;
	size_t best;

	assembly->cut.round_count =
		assembly_find_rounds(assembly, number, entry, assembly->cut.round_ends);
	if (assembly->cut.round_count > 1 && cut_at_round(assembly, number, e, 0))
		return true;
	assembly->cut.round = 0;
	assembly->cut.round_count = 1;
	if (!assembly_best_part(
		    assembly, number, entry, e == 0 ? rank->part_head : 0, blocking, &best))
		return false;
	cut_behind(assembly, number, e, best);
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

static void take_cut(struct assembly *assembly, uint32_t leader)
{
	assembly->cut.valid = true;
	assembly->cut.rank = leader;
	assembly->ready_rank = 0;
	assembly->placing = assembly->placed = false;
}

bool assembly_choose_cut(struct assembly *assembly, bool finish)
{
	uint32_t leader;

	if (!choose_leader(assembly, finish, &leader))
		return false;
	const struct rank_stream *rank = &assembly->streams->ranks[leader];

	if (leader != assembly->last_cut.leader)
		drop_begun(assembly, leader);
	/* Where there is nobody to meet, each entry is a step. */
	size_t merged_max =
		assembly->streams->world_size == 1 && assembly->streams->known_count == 1
			? 1
			: MERGED_ENTRIES_MAX;
	/*
	 * An entry gives one cut, or one for each of its rounds: what follows it there belongs to the next step. Not where
	 * others took the leader on into an entry whose own cut is still to come.
	 */
	size_t first =
		leader == assembly->last_cut.leader && rank->part_head && assembly->last_cut.given
			? 1
			: 0;

	assembly->last_cut.leader = leader;
	assembly->cut.begins_step =
		!first || !cut_at_round(assembly, leader, 0, assembly->cut.round + 1);
	if (!assembly->cut.begins_step) {
		take_cut(assembly, leader);
		return true;
	}
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
		take_cut(assembly, leader);
		return true;
	}
	return false;
}
