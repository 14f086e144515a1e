/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining the counts of attached ranks. Each rank's latest calls are remembered as its steps are
 * handed out, so what is found depends on the steps alone, never on how much waits in the queues.
 */
#include <stdlib.h>

#include "analysis/join/assembly_internal.h"

enum {
	HISTORIES_MAX = 16, /* of one rank: communicators that are joined at a time */
	NEWS_MAX = 64,	    /* calls between two looks for a shift, at most */
};

/* A communicator's latest calls on one rank; times are the host's. */
struct shift_history {
	size_t count, next; /* ring */
	size_t news, wanted_news;
	struct shift_part parts[SEQUENCE_SHIFT_PARTS_MAX];
};

static struct shift_history *history_of(
	struct rank_stream *rank, struct rank_communicator *communicator)
{
	if (communicator->history || rank->history_count == HISTORIES_MAX)
		return communicator->history;
	communicator->history = calloc(1, sizeof(*communicator->history));
	if (communicator->history) {
		communicator->history->wanted_news = SEQUENCE_SHIFT_PARTS_MIN;
		rank->history_count++;
	}
	return communicator->history;
}

void assembly_remember(struct assembly *assembly, uint32_t number, const struct part_kind *kind,
	const struct packed_times *times, uint64_t sequence)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];

	if (!(kind->flags & PART_SEQUENCE_RELATIVE) || (kind->flags & PART_ENQUEUE_ONLY) ||
		!kind->communicator_id || operation_waits_for(kind->operation) != WAITS_FOR_ALL)
		return;
	const struct communicator_entry *shared =
		assembly_communicator(assembly, kind->communicator_id);
	struct rank_communicator *communicator = stream_communicator(rank, kind->communicator_id);

	/* The reference is remembered as long as others may have to find their place in it. */
	if (!shared || !communicator || (communicator->shift.known && shared->first_rank != number))
		return;
	struct shift_history *history = history_of(rank, communicator);

	if (!history)
		return;
	history->parts[history->next] = (struct shift_part){
		.sequence = sequence,
		.arrival_ns = times->arrival.value,
		.departure_ns = times->departure.value,
		.token = kind->operation, /* lengths may differ between members */
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

static void find_shift(
	struct assembly *assembly, struct rank_stream *rank, struct rank_communicator *communicator)
{
	const struct rank_streams *streams = assembly->streams;
	const struct communicator_entry *shared = assembly_communicator(assembly, communicator->id);
	struct shift_part reference[SEQUENCE_SHIFT_PARTS_MAX], own[SEQUENCE_SHIFT_PARTS_MAX];
	struct shift_history *history = communicator->history;

	if (!shared || history->news < history->wanted_news)
		return;
	struct rank_stream *first = &streams->ranks[shared->first_rank];
	struct rank_communicator *counted = stream_communicator(first, communicator->id);

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

	if (sequence_shift_find(reference, reference_count, own, own_count, tolerance_ns, &shift) <
		0)
		return;
	communicator->shift = (struct sequence_shift){.known = true, .value = shift};
	free(communicator->history);
	communicator->history = NULL;
	rank->history_count--;
}

void assembly_find_shifts(struct assembly *assembly, uint32_t number)
{
	struct rank_stream *rank = &assembly->streams->ranks[number];

	for (size_t i = 0; rank->history_count && i < rank->communicators.count; i++) {
		if (rank->communicators.items[i].history)
			find_shift(assembly, rank, &rank->communicators.items[i]);
	}
}

bool assembly_shifted_sequence(struct assembly *assembly, uint32_t number,
	const struct part_kind *kind, uint64_t *sequence)
{
	struct rank_communicator *communicator =
		stream_communicator(&assembly->streams->ranks[number], kind->communicator_id);
	const struct communicator_entry *shared =
		assembly_communicator(assembly, kind->communicator_id);

	if (!communicator || !shared)
		return false;
	/* What joined once under a reference keeps its number when a lower rank comes later. */
	if (!communicator->shift.known && shared->first_rank != number) {
		assembly->shifts_unknown++;
		return false;
	}
	communicator->shift.known = true;
	/* A part before the reference's first call wraps: it joins nothing, as it should. */
	*sequence += (uint64_t)communicator->shift.value;
	return true;
}
