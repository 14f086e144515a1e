/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining the counts of attached ranks. Each rank's latest calls are remembered as its steps are
 * handed out, so what is found depends on the steps alone, never on how much waits in the queues.
 */
#include <stdlib.h>

#include "analysis/join/assembly_internal.h"

enum {
	HISTORIES_MAX = 16, /* of one rank: communicators and channels that are joined at a time */
	NEWS_MAX = 64,	    /* calls between two looks for a shift, at most */
};

/* A communicator's latest calls on one rank; times are the host's. */
struct shift_history {
	size_t count, next; /* ring */
	size_t news, wanted_news;
	struct shift_part parts[SEQUENCE_SHIFT_PARTS_MAX];
};

/* What a part's count is of. */
static struct rank_communicator *counted_on(
	struct assembly *assembly, uint32_t number, const struct part_kind *kind)
{
	if (part_kind_is_message(kind))
		return assembly_channel(assembly, number, kind);
	return stream_communicator(&assembly->streams->ranks[number], kind->communicator_id);
}

/* Its history is compared with another rank's. */
static bool is_compared(const struct communicator_entry *shared,
	const struct rank_communicator *communicator, uint32_t number, bool message)
{
	if (!shared)
		return false;
	if (message)
		return !shared->shift_found && shared->first_rank != UINT32_MAX &&
		       shared->member_count > 1;
	/* The reference is remembered as long as others may have to find their place in it. */
	return !communicator->shift.known || shared->first_rank == number;
}

/* A program's messages have turns, in which one waits for the other: some steps of them are needed. */
static struct shift_history *history_of(
	struct rank_stream *rank, struct rank_communicator *communicator, bool message)
{
	size_t most = message ? HISTORIES_MAX / 2 : HISTORIES_MAX; /* a rank may have many peers */

	if (communicator->history || rank->history_count >= most)
		return communicator->history;
	communicator->history = calloc(1, sizeof(*communicator->history));
	if (communicator->history) {
		communicator->history->wanted_news = message ? NEWS_MAX : SEQUENCE_SHIFT_PARTS_MIN;
		rank->history_count++;
	}
	return communicator->history;
}

void assembly_remember(struct assembly *assembly, uint32_t number, const struct part_kind *kind,
	const struct packed_times *times, uint64_t sequence)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];
	bool message = part_kind_is_message(kind);

	if (!(kind->flags & PART_SEQUENCE_RELATIVE) || (kind->flags & PART_ENQUEUE_ONLY) ||
		!kind->communicator_id ||
		(!message && operation_waits_for(kind->operation) != WAITS_FOR_ALL))
		return;
	struct rank_communicator *communicator = counted_on(assembly, number, kind);

	if (!communicator || !is_compared(assembly_communicator(assembly, communicator->id),
				     communicator, number, message))
		return;
	struct shift_history *history = history_of(rank, communicator, message);

	if (!history)
		return;
	history->parts[history->next] = (struct shift_part){
		.sequence = sequence,
		.arrival_ns = times->arrival.value,
		.departure_ns = times->departure.value,
		/* Of a collective, lengths may differ between members. */
		.token = message ? kind->length_bytes : kind->operation,
	};
	history->next = (history->next + 1) % SEQUENCE_SHIFT_PARTS_MAX;
	history->count += history->count < SEQUENCE_SHIFT_PARTS_MAX;
	history->news++;
}

/* In order of sequence, on the job's clock. */
static size_t copy_history(const struct assembly *assembly, const struct rank_stream *rank,
	const struct shift_history *history, struct shift_part *parts)
{
	size_t first = history->next + SEQUENCE_SHIFT_PARTS_MAX - history->count;

	for (size_t i = 0; i < history->count; i++) {
		parts[i] = history->parts[(first + i) % SEQUENCE_SHIFT_PARTS_MAX];
		parts[i].arrival_ns =
			assembly_job_ns(assembly, rank, (struct host_ns){parts[i].arrival_ns});
		parts[i].departure_ns =
			assembly_job_ns(assembly, rank, (struct host_ns){parts[i].departure_ns});
	}
	return history->count;
}

static void forget_history(struct rank_stream *rank, struct rank_communicator *communicator)
{
	rank->history_count -= communicator->history != NULL;
	free(communicator->history);
	communicator->history = NULL;
}

static void find_shift(struct assembly *assembly, struct rank_stream *rank,
	struct rank_communicator *communicator, bool channel)
{
	const struct rank_streams *streams = assembly->streams;
	struct communicator_entry *shared = assembly_communicator(assembly, communicator->id);
	struct shift_part reference[SEQUENCE_SHIFT_PARTS_MAX], own[SEQUENCE_SHIFT_PARTS_MAX];
	struct shift_history *history = communicator->history;

	if (!shared || shared->first_rank >= streams->rank_capacity ||
		history->news < history->wanted_news)
		return;
	struct rank_stream *first = &streams->ranks[shared->first_rank];
	struct rank_communicator *counted =
		channel ? communicator_list_add(
				  &first->channels, communicator->id, first->channels.count)
			: stream_communicator(first, communicator->id);

	if (first == rank || !counted || !counted->history)
		return;
	history->news = 0;
	history->wanted_news =
		history->wanted_news * 2 < NEWS_MAX ? history->wanted_news * 2 : NEWS_MAX;
	int64_t tolerance_ns =
		rank->host == first->host
			? 0
			: clock_fit_error_ns(&streams->hosts[rank->host].clock) +
				  clock_fit_error_ns(&streams->hosts[first->host].clock);
	size_t reference_count = copy_history(assembly, first, counted->history, reference);
	size_t own_count = copy_history(assembly, rank, history, own);
	int64_t shift;

	if (sequence_shift_find(
		    reference, reference_count, own, own_count, tolerance_ns, channel, &shift) < 0)
		return;
	communicator->shift = (struct sequence_shift){.known = true, .value = shift};
	forget_history(rank, communicator);
	shared->shift_found = true;
	if (channel)
		forget_history(first, counted);
}

void assembly_find_shifts(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];

	for (size_t i = 0; rank->history_count && i < rank->communicators.count; i++) {
		if (rank->communicators.items[i].history)
			find_shift(assembly, rank, &rank->communicators.items[i], false);
	}
	for (size_t i = 0; rank->history_count && i < rank->channels.count; i++) {
		if (rank->channels.items[i].history)
			find_shift(assembly, rank, &rank->channels.items[i], true);
	}
}

bool assembly_shifted_sequence(struct assembly *assembly, uint32_t number,
	const struct part_kind *kind, uint64_t *sequence)
{
	struct rank_communicator *communicator = counted_on(assembly, number, kind);
	const struct communicator_entry *shared =
		communicator ? assembly_communicator(assembly, communicator->id) : NULL;

	if (!shared)
		return false;
	/*
	 * What joined once under a reference keeps its number when a lower rank comes later. Before anybody has found its place
	 * in it, the reference's own joins nothing either: so their steps are made of the same.
	 */
	if (!communicator->shift.known &&
		(shared->first_rank != number ||
			(!part_kind_is_message(kind) && !shared->shift_found &&
				shared->member_count > 1))) {
		assembly->shifts_unknown++;
		return false;
	}
	communicator->shift.known = true;
	/* A part before the reference's first call wraps: it joins nothing, as it should. */
	*sequence += (uint64_t)communicator->shift.value;
	return true;
}
