/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts all ranks where the leader's cut cuts them. No instance may lie on both sides: what has one
 * member before the cut has all of them there, with everything that they did before (the least
 * consistent cut; Mattern, Virtual Time and Global States of Distributed Systems, 1989). Ranks
 * that are no members of the leader's instance are cut at the place of their own entries that
 * the leader's rule gives, the one nearest in time; without one, by time. The result depends on
 * the streams alone, not on the order in which they came.
 */
#include "analysis/join/assembly_internal.h"
#include "analysis/join/segments.h"

static uint64_t cut_number(const struct assembly *assembly)
{
	return assembly->next_number + 1;
}

static bool overdue(const struct assembly *assembly)
{
	const struct rank_stream *leader = &assembly->streams->ranks[assembly->cut.rank];

	return assembly->newest_ns - assembly->cut.time_ns > ASSEMBLY_LAG_NS &&
	       leader->entry_count >= ASSEMBLY_LAG_ENTRIES;
}

/* The communicator of a part that must lie on one side, and its sequence; NULL: none. */
static struct rank_communicator *joined_by(struct assembly *assembly, uint32_t number,
	const struct packed_step *entry, size_t part, uint64_t *sequence)
{
	const struct part_kind *kind = packed_kind(entry, part);
	struct rank_communicator *communicator;

	if (assembly_part_is_loose(&assembly->streams->ranks[number], kind) ||
		!kind->communicator_id)
		return NULL;
	if (part_kind_is_message(kind))
		communicator = assembly_channel(assembly, number, kind);
	else if (operation_waits_for(kind->operation) == WAITS_FOR_NOBODY)
		return NULL;
	else
		communicator = stream_communicator(
			&assembly->streams->ranks[number], kind->communicator_id);
	if (communicator)
		communicator->uncounted =
			!assembly_sequence(assembly, number, entry, part, sequence);
	return communicator;
}

/* A whole entry at once, where its slots tell what it has of each communicator. */
static void note_slots(struct assembly *assembly, uint32_t number, const struct packed_step *entry)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	uint64_t cut = cut_number(assembly);

	for (size_t i = 0; i < entry->slot_count; i++) {
		const struct packed_slot *slot = &entry->slots[i];
		uint64_t last = slot->sequence + slot->part_count - 1;
		struct rank_communicator *communicator =
			stream_communicator(rank, slot->communicator_id);

		if (!communicator)
			continue;
		communicator->uncounted = false;
		if (communicator->reached_cut != cut || last > communicator->reached)
			communicator->reached = last;
		communicator->reached_cut = cut;
	}
}

/* Notes what lies between two places of a rank's stream. */
static void note_parts(struct assembly *assembly, uint32_t number, struct stream_position from,
	struct stream_position to)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	uint64_t cut = cut_number(assembly), sequence;

	for (; from.entry <= to.entry && from.entry < rank->entry_count; from.entry++) {
		const struct packed_step *entry = stream_at(rank, from.entry)->entry;
		size_t end = from.entry < to.entry ? entry->part_count : to.part;

		if (entry->layout && from.part == 0 && end == entry->part_count) {
			note_slots(assembly, number, entry);
			continue;
		}
		for (size_t p = from.part; p < end; p++) {
			struct rank_communicator *communicator =
				joined_by(assembly, number, entry, p, &sequence);

			if (!communicator || communicator->uncounted)
				continue;
			if (communicator->reached_cut != cut || sequence > communicator->reached)
				communicator->reached = sequence;
			communicator->reached_cut = cut;
		}
		from.part = 0;
	}
}

static size_t joined_count(const struct rank_stream *rank)
{
	return rank->communicators.count + rank->channels.count;
}

static struct rank_communicator *joined_at(struct rank_stream *rank, size_t index)
{
	return index < rank->communicators.count
		       ? &rank->communicators.items[index]
		       : &rank->channels.items[index - rank->communicators.count];
}

/* What lies before this rank's cut lies before the others'. */
static void raise_all(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	uint64_t cut = cut_number(assembly);

	for (size_t i = 0; i < joined_count(rank); i++) {
		struct rank_communicator *communicator = joined_at(rank, i);
		struct communicator_entry *shared = assembly_shared(assembly, communicator);

		if (!shared || communicator->reached_cut != cut ||
			(shared->cut == cut && shared->cut_sequence >= communicator->reached))
			continue;
		shared->cut = cut;
		shared->cut_sequence = communicator->reached;
		assembly->raises++;
	}
}

/*
 * Sends and receives of a device that overlap on one stream are a group, and what starts together on two streams is
 * released together: either shows in any order, so all of it lies on the same side.
 */
static size_t end_of_group(const struct packed_step *entry, size_t end)
{
	const struct part_kind *last = packed_kind(entry, end - 1);
	int64_t together_ns = entry->times[end - 1].arrival.value + TOGETHER_NS;
	int64_t end_ns = entry->times[end - 1].departure.value;

	for (size_t p = end; p < entry->part_count && part_kind_is_device_message(last); p++) {
		const struct part_kind *kind = packed_kind(entry, p);
		int64_t arrival_ns = entry->times[p].arrival.value;
		int64_t departure_ns = entry->times[p].departure.value;
		bool same = kind->stream == last->stream;

		if (arrival_ns >= end_ns && arrival_ns >= together_ns)
			break;
		if (!part_kind_is_device_message(kind) ||
			arrival_ns >= (same ? end_ns : together_ns))
			continue;
		end = p + 1;
		if (same && departure_ns > end_ns)
			end_ns = departure_ns;
	}
	return end;
}

/*
 * A device's calls on one communicator and stream begin in their order. Where they are told in another, some times are other
 * calls' (assembly_retold.c), and what was called before the last one lies before the cut as well.
 */
static size_t end_of_disorder(const struct packed_step *entry, size_t end)
{
	const struct part_kind *last = packed_kind(entry, end - 1);
	uint64_t sequence = packed_sequence(entry, end - 1);

	if (!(last->flags & PART_DEVICE_TIME) || part_kind_is_message(last))
		return end;
	for (size_t p = end; p < entry->part_count; p++) {
		const struct part_kind *kind = packed_kind(entry, p);

		if (kind->communicator_id == last->communicator_id &&
			kind->stream == last->stream && !part_kind_is_message(kind) &&
			packed_sequence(entry, p) < sequence)
			end = p + 1;
	}
	return end;
}

/* Moves a rank's cut on, and takes what lies between with it. */
static void move_to(struct assembly *assembly, uint32_t number, struct stream_position at)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	struct rank_scan *scan = &assembly->scans[number];

	if (at.part > 0 && at.entry < rank->entry_count) {
		const struct packed_step *entry = stream_at(rank, at.entry)->entry;

		at.part = end_of_disorder(entry, end_of_group(entry, at.part));
	}
	note_parts(assembly, number, scan->at, at);
	scan->at = at;
	scan->found = true;
	raise_all(assembly, number);
}

/* How many communicators the rank must be followed on for. */
static size_t count_wanted(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	uint64_t cut = cut_number(assembly);
	size_t count = 0;

	for (size_t i = 0; i < joined_count(rank); i++) {
		struct rank_communicator *communicator = joined_at(rank, i);
		const struct communicator_entry *shared = assembly_shared(assembly, communicator);

		communicator->wanted = 0;
		if (!shared || shared->cut != cut ||
			(communicator->reached_cut == cut &&
				communicator->reached >= shared->cut_sequence))
			continue;
		communicator->wanted = shared->cut_sequence + 1;
		count++;
	}
	return count;
}

/*
 * Follows a rank through a whole entry by its slots. Returns false when what is wanted of some
 * communicator ends inside of it: its parts are to be looked at.
 */
static bool follow_slots(struct assembly *assembly, uint32_t number, size_t e, size_t *wanted,
	struct stream_position *due)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;

	for (size_t i = 0; i < entry->slot_count; i++) {
		const struct packed_slot *slot = &entry->slots[i];
		const struct rank_communicator *communicator =
			stream_communicator(rank, slot->communicator_id);

		if (communicator && communicator->wanted &&
			slot->sequence + slot->part_count > communicator->wanted)
			return false;
	}
	for (size_t i = 0; i < entry->slot_count; i++) {
		const struct packed_slot *slot = &entry->slots[i];
		struct rank_communicator *communicator =
			stream_communicator(rank, slot->communicator_id);

		if (!communicator || !communicator->wanted)
			continue;
		communicator->uncounted = false;
		if (due->entry < e || due->part < slot->last_part + 1)
			*due = (struct stream_position){e, slot->last_part + 1};
		if (slot->sequence + slot->part_count < communicator->wanted)
			continue;
		communicator->reached_cut = cut_number(assembly);
		communicator->reached = communicator->wanted - 1;
		communicator->wanted = 0;
		--*wanted;
	}
	return true;
}

/*
 * What is still wanted was lost: some entry up to the cut says that it lacks parts, and one that
 * begins well after the cut is here. The next part of the communicator would show it too, but one
 * that only checkpoints use may not call for hours.
 */
static bool is_lost(
	const struct assembly *assembly, const struct rank_stream *rank, struct stream_position at)
{
	bool incomplete = false;

	for (; at.entry < rank->entry_count; at.entry++) {
		const struct packed_step *entry = stream_at(rank, at.entry)->entry;
		int64_t start_ns = assembly_job_ns(assembly, rank, entry->start);
		int64_t end_ns = assembly_job_ns(assembly, rank, entry->end);

		if (start_ns - assembly->cut.time_ns > (end_ns - start_ns) / 2)
			return incomplete;
		incomplete |= (entry->flags & STEP_INCOMPLETE) != 0;
	}
	return false;
}

/* The rank is as far as it can be: what was lost is wanted no more. */
static void forget_wanted(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];

	for (size_t i = 0; i < joined_count(rank); i++) {
		struct rank_communicator *communicator = joined_at(rank, i);

		if (!communicator->wanted)
			continue;
		communicator->reached_cut = cut_number(assembly);
		communicator->reached = communicator->wanted - 1;
		communicator->wanted = 0;
	}
}

/*
 * Follows a rank to what is wanted of it. Where a part was lost, the next one of its communicator
 * shows that, or the entry that lacks it; the cut stays behind the last that was due. Returns
 * false: not delivered yet.
 */
static bool follow(struct assembly *assembly, uint32_t number, size_t wanted)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	struct stream_position at = assembly->scans[number].at, due = at;
	uint64_t sequence;

	for (; at.entry < rank->entry_count; at.entry++, at.part = 0) {
		const struct packed_step *entry = stream_at(rank, at.entry)->entry;

		if (at.part == 0 && entry->layout &&
			follow_slots(assembly, number, at.entry, &wanted, &due))
			at.part = entry->part_count;
		for (; at.part < entry->part_count && wanted; at.part++) {
			struct rank_communicator *communicator =
				joined_by(assembly, number, entry, at.part, &sequence);

			if (!communicator || !communicator->wanted)
				continue;
			if (!communicator->uncounted && sequence < communicator->wanted)
				due = (struct stream_position){at.entry, at.part + 1};
			if (!communicator->uncounted && sequence + 1 < communicator->wanted)
				continue;
			communicator->reached_cut = cut_number(assembly);
			communicator->reached = communicator->wanted - 1;
			communicator->wanted = 0;
			wanted--;
		}
		if (!wanted) {
			move_to(assembly, number, due);
			return true;
		}
	}
	if (!is_lost(assembly, rank, assembly->scans[number].at))
		return false;
	forget_wanted(assembly, number);
	move_to(assembly, number, due);
	return true;
}

static struct stream_position place_by_time(
	const struct assembly *assembly, const struct rank_stream *rank, struct stream_position at)
{
	for (; at.entry < rank->entry_count; at.entry++, at.part = 0) {
		const struct packed_step *entry = stream_at(rank, at.entry)->entry;

		for (; at.part < entry->part_count; at.part++) {
			if (assembly_job_ns(assembly, rank, entry->times[at.part].arrival) >
				assembly->cut.time_ns)
				return at;
		}
	}
	return at;
}

/* The entry that the leader's cut lies in. */
static const struct packed_step *cut_entry(const struct assembly *assembly)
{
	const struct rank_stream *leader = &assembly->streams->ranks[assembly->cut.rank];

	return stream_at(leader, assembly->cut.entry)->entry;
}

/* Entries are steps, not windows, so they can be counted. */
static bool is_counted(const struct packed_step *entry)
{
	return !(entry->flags & STEP_WINDOW);
}

/* Where the leader's rule cuts an entry: once, or, as it does its own now, behind each of so many rounds. */
struct places {
	uint32_t count;
	uint16_t parts[ENTRY_CYCLES_MAX];
	bool by_end; /* there is no collective: the entry's end says when that was */
};

static void find_places(struct assembly *assembly, uint32_t number, size_t e, struct places *places)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;
	bool blocking = false;
	size_t best;

	*places = (struct places){.count = assembly->cut.round_count};
	if (places->count > 1 &&
		assembly_round_ends(assembly, number, entry, places->count, places->parts))
		return;
	places->count = 1;
	if (!assembly_best_part(
		    assembly, number, entry, e == 0 ? rank->part_head : 0, &blocking, &best)) {
		places->count = assembly_is_cycle(entry) ? 1 : 0;
		places->by_end = true;
		best = entry->part_count - 1;
	}
	places->parts[0] = (uint16_t)best;
}

/* A place, and when that was. */
static void take_place(const struct assembly *assembly, uint32_t number, size_t e,
	const struct places *places, uint32_t round, struct stream_position *at, int64_t *time_ns)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *entry = stream_at(rank, e)->entry;
	size_t part = places->parts[round];

	*at = (struct stream_position){e, part + 1};
	*time_ns = assembly_job_ns(
		assembly, rank, places->by_end ? entry->end : entry->times[part].departure);
}

/*
 * As many entries on as the leader, since the last cut: where transfers of the
 * leader's groups became much slower, ranks that do not take part in them may be nearer to its cut with the
 * entry after. Only earlier than the leader's cut: what is as late as that lacks entries.
 */
static bool place_by_count(struct assembly *assembly, uint32_t number, int64_t step_ns,
	struct stream_position *at, int64_t *place_ns)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct rank_scan *scan = &assembly->scans[number];
	uint64_t wanted = cut_entry(assembly)->index + scan->ahead;
	struct places places;

	if (scan->counted < COUNTED_CUTS_MIN || scan->counted_from != assembly->cut.rank)
		return false;
	for (size_t e = scan->at.entry; e < rank->entry_count; e++) {
		const struct packed_step *entry = stream_at(rank, e)->entry;

		if (entry->index < wanted)
			continue;
		find_places(assembly, number, e, &places);
		if (entry->index > wanted || !is_counted(entry) ||
			places.count != assembly->cut.round_count)
			return false;
		take_place(assembly, number, e, &places, assembly->cut.round, at, place_ns);
		return *place_ns <= assembly->cut.time_ns &&
		       *place_ns > assembly->cut.time_ns - step_ns;
	}
	return false;
}

/* at: the place by the rule, NULL: by time. */
static void note_place(struct assembly *assembly, uint32_t number, const struct stream_position *at)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct packed_step *leader = cut_entry(assembly);
	struct rank_scan *scan = &assembly->scans[number];
	uint64_t ahead = scan->ahead;
	bool counted = false;

	if (at) {
		const struct packed_step *own = stream_at(rank, at->entry)->entry;

		counted = !assembly->cut.by_time && is_counted(own) && is_counted(leader);
		scan->ahead = own->index - leader->index;
	}
	if (!counted || scan->counted_from != assembly->cut.rank || scan->ahead != ahead)
		scan->counted = 0;
	scan->counted_from = assembly->cut.rank;
	scan->counted += counted && scan->counted < COUNTED_CUTS_MIN;
}

/* The first place that is not too early; false: it is too late, or still to come. */
static bool place_near(
	struct assembly *assembly, uint32_t number, int64_t half_ns, struct stream_position *at)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	int64_t time_ns = assembly->cut.time_ns, place_ns;
	struct places places;

	for (size_t e = assembly->scans[number].at.entry; e < rank->entry_count; e++) {
		find_places(assembly, number, e, &places);
		for (uint32_t round = 0; round < places.count; round++) {
			take_place(assembly, number, e, &places, round, at, &place_ns);
			if (place_ns >= time_ns - half_ns)
				return place_ns <= time_ns + half_ns;
		}
	}
	return false;
}

/*
 * Where the leader's rule would cut this rank's own entries, within half a step of the leader's
 * cut. Returns false when that is still to come.
 */
static bool place(struct assembly *assembly, uint32_t number, bool finish)
{
	const struct rank_stream *rank = &assembly->streams->ranks[number];
	const struct rank_stream *leader = &assembly->streams->ranks[assembly->cut.rank];
	struct rank_scan *scan = &assembly->scans[number];
	int64_t start_ns =
		assembly->last_cut_ns != INT64_MIN
			? assembly->last_cut_ns
			: assembly_job_ns(assembly, leader, stream_at(leader, 0)->entry->start);
	int64_t time_ns = assembly->cut.time_ns, half_ns = (time_ns - start_ns) / 2;
	struct stream_position at;
	int64_t place_ns = 0;
	bool near = place_by_count(assembly, number, 2 * half_ns, &at, &place_ns) ||
		    place_near(assembly, number, half_ns, &at);

	if (!near && !finish &&
		(!rank->entry_count || assembly_job_ns(assembly, rank, rank->newest) <=
					       time_ns + (rank->communicators.count ? half_ns : 0)))
		return false;
	if (!near)
		at = place_by_time(assembly, rank, scan->at);
	note_place(assembly, number, near ? &at : NULL);
	scan->placed = true;
	if (at.entry > scan->at.entry || (at.entry == scan->at.entry && at.part > scan->at.part))
		move_to(assembly, number, at);
	else
		move_to(assembly, number, scan->at);
	return true;
}

/* It has not delivered what is needed. Returns true when it is not waited for. */
static bool give_up(struct assembly *assembly, uint32_t number, bool finish)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	struct rank_scan *scan = &assembly->scans[number];

	if (!rank->lagging && !finish && !overdue(assembly) && !rank->exited)
		return false;
	rank->lagging = !rank->exited && !finish;
	scan->closed = true;
	if (!rank->lagging) /* takes what there is */
		move_to(assembly, number, (struct stream_position){rank->entry_count, 0});
	return true;
}

static bool is_member(struct assembly *assembly, const struct rank_stream *rank)
{
	for (size_t i = 0; i < rank->communicators.count && !assembly->cut.by_time; i++) {
		if (rank->communicators.items[i].id == assembly->cut.communicator_id)
			return !rank->communicators.items[i].uncounted &&
			       assembly_shared(assembly, &rank->communicators.items[i]) != NULL;
	}
	return false;
}

/* True when the rank needs no more waiting for in this round. */
static bool reach_rank(struct assembly *assembly, uint32_t number, bool finish)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	struct rank_scan *scan = &assembly->scans[number];
	size_t wanted;

	if (!rank->known || rank->host == UINT32_MAX)
		return finish || number >= assembly->streams->world_size || overdue(assembly);
	if (scan->closed)
		return true;
	if (number == assembly->cut.rank && !scan->found) {
		struct stream_position at = scan->at;

		scan->at = (struct stream_position){0, rank->part_head};
		move_to(assembly, number, at);
	}
	if (assembly->placing && !scan->placed && number != assembly->cut.rank &&
		!is_member(assembly, rank)) {
		if (!place(assembly, number, finish))
			return give_up(assembly, number, finish);
		rank->lagging = false;
	}
	if (scan->raises == assembly->raises)
		return true;
	wanted = count_wanted(assembly, number);
	if (wanted && !follow(assembly, number, wanted))
		return give_up(assembly, number, finish);
	if (wanted)
		rank->lagging = false;
	scan->raises = assembly->raises;
	return true;
}

bool assembly_reach_cut(struct assembly *assembly, bool finish)
{
	const struct rank_streams *streams = assembly->streams;
	uint32_t end = streams->world_size > streams->end ? streams->world_size : streams->end;

	/* Each round asks more of some communicator, and what has been delivered is finite. */
	for (;;) {
		for (; assembly->ready_rank < end; assembly->ready_rank++) {
			if (assembly->ready_rank >= streams->rank_capacity) {
				if (!finish && !overdue(assembly))
					return false;
				continue;
			}
			if (!reach_rank(assembly, assembly->ready_rank, finish))
				return false;
		}
		bool moved = assembly->raises != assembly->round_raises;

		assembly->round_raises = assembly->raises;
		assembly->ready_rank = 0;
		if (assembly->placing) {
			assembly->placing = false;
			assembly->placed = true;
		} else if (!moved && !assembly->placed) {
			assembly->placing = true;
			continue;
		}
		if (!moved && assembly->placed)
			return true;
	}
}
