/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/pipeline_hang.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOPS_MAX = 64 };
#define LOOK_EVERY_NS INT64_C(1000000000)

void pipeline_hang_fini(struct pipeline_hang *hang)
{
	free(hang->ranks);
	free(hang->missing);
	free(hang->waiting);
	*hang = (struct pipeline_hang){0};
}

static int reserve(struct pipeline_hang *hang, uint32_t rank)
{
	size_t capacity = hang->capacity ? hang->capacity : 16;
	struct hang_rank *ranks;
	uint32_t *missing, *waiting;

	if (rank < hang->capacity)
		return 0;
	while (capacity <= rank)
		capacity *= 2;
	ranks = realloc(hang->ranks, capacity * sizeof(*ranks));
	if (ranks)
		hang->ranks = ranks;
	missing = realloc(hang->missing, capacity * sizeof(*missing));
	if (missing)
		hang->missing = missing;
	waiting = realloc(hang->waiting, capacity * sizeof(*waiting));
	if (waiting)
		hang->waiting = waiting;
	if (!ranks || !missing || !waiting)
		return -ENOMEM;
	memset(ranks + hang->capacity, 0, (capacity - hang->capacity) * sizeof(*ranks));
	hang->capacity = capacity;
	return 0;
}

int pipeline_hang_take(struct pipeline_hang *hang, const struct message_batch *batch,
	const struct clock_fit *clock)
{
	int error = 0;

	for (size_t i = 0; i < batch->step_count && error == 0; i++) {
		const struct step_entry *step = &batch->steps[i];

		if (step->part_count == 0)
			continue;
		error = reserve(hang, step->rank);
		if (error < 0)
			return error;
		const struct collective_part *part = &step->parts[step->part_count - 1];
		struct hang_rank *rank = &hang->ranks[step->rank];

		rank->last_known = true;
		rank->last_operation = part->operation;
		rank->last_sequence = part->sequence;
		rank->last_departure = clock_fit_to_job(clock, part->departure);
		rank->inside = false;
	}
	for (size_t r = 0; hang->any_inside && r < hang->capacity; r++) {
		if (hang->ranks[r].inside && hang->ranks[r].probe_id == batch->probe_id)
			hang->ranks[r].inside = false; /* unless it is listed again */
	}
	for (size_t i = 0; i < batch->open_call_count && error == 0; i++) {
		const struct message_open_call *call = &batch->open_calls[i];

		error = reserve(hang, call->rank);
		if (error < 0)
			return error;
		struct hang_rank *rank = &hang->ranks[call->rank];

		rank->inside = true;
		rank->probe_id = batch->probe_id;
		rank->communicator_id = call->communicator_id;
		rank->sequence = call->sequence;
		rank->since = clock_fit_to_job(clock, call->arrival);
		rank->peer = call->peer;
		rank->operation = call->operation;
		hang->any_inside = true;
	}
	return error;
}

/* Who of a call's communicator has not entered it, and who has. */
struct meeting_place {
	const struct hang_rank *call;
	size_t missing_count, inside_count;
};

static bool is_inside(const struct pipeline_hang *hang, uint32_t rank, const struct hang_rank *call)
{
	return rank < hang->capacity && hang->ranks[rank].inside &&
	       hang->ranks[rank].communicator_id == call->communicator_id &&
	       hang->ranks[rank].sequence == call->sequence;
}

static void gather(struct pipeline_hang *hang, struct assembly *assembly,
	const struct hang_rank *call, struct meeting_place *place)
{
	struct rank_table *table = assembly->table;

	*place = (struct meeting_place){.call = call};
	for (uint32_t r = 0; r < table->end && r < hang->capacity; r++) {
		struct rank_entry *rank = &table->ranks[r];
		const struct rank_communicator *own = NULL;

		for (size_t c = 0; c < rank->communicator_count && !own; c++) {
			if (rank->communicators[c].id == call->communicator_id)
				own = &rank->communicators[c];
		}
		if (!own)
			continue;
		if (is_inside(hang, r, call))
			place->inside_count++;
		else if (!call->peer || own->own_index + 1 == call->peer)
			hang->missing[place->missing_count++] = r;
	}
}

/*
 * From the call that lasts longest to what its missing members wait for, until some are found that
 * wait for nobody. Returns false when they wait in a circle; place is then the last call looked at.
 */
static bool walk(struct pipeline_hang *hang, struct assembly *assembly,
	const struct hang_rank *oldest, struct meeting_place *place)
{
	const struct hang_rank *call = oldest;

	for (int hop = 0; hop < HOPS_MAX; hop++) {
		const struct hang_rank *next = NULL;
		size_t free_count = 0;

		gather(hang, assembly, call, place);
		for (size_t i = 0; i < place->missing_count; i++) {
			const struct hang_rank *rank = &hang->ranks[hang->missing[i]];

			if (!rank->inside)
				hang->missing[free_count++] = hang->missing[i];
			else if (!next)
				next = rank;
		}
		if (free_count || !next) {
			place->missing_count = free_count;
			return true;
		}
		call = next;
	}
	return false;
}

static void describe(const struct pipeline_hang *hang, const struct rank_table *table,
	const struct meeting_place *place, struct job_ns now, char detail[VERDICT_DETAIL_LENGTH])
{
	size_t members = place->inside_count + place->missing_count;
	const char *operation = operation_name((enum operation)place->call->operation);
	int length = snprintf(detail, VERDICT_DETAIL_LENGTH, "%s %" PRIu64 " entered by %zu of %zu",
		operation, place->call->sequence, place->inside_count, members);

	if (place->missing_count == 0 || length < 0 || length >= VERDICT_DETAIL_LENGTH)
		return;
	uint32_t first = hang->missing[0];
	const struct hang_rank *rank = &hang->ranks[first];
	size_t room = (size_t)(VERDICT_DETAIL_LENGTH - length);

	if (first < table->end && table->ranks[first].exited)
		snprintf(detail + length, room, "; rank %u has ended with status %d", first,
			table->ranks[first].exit_code);
	else if (rank->last_known)
		snprintf(detail + length, room, "; rank %u last left %s %" PRIu64 ", %.1f s ago",
			first, operation_name((enum operation)rank->last_operation),
			rank->last_sequence,
			(double)(now.value - rank->last_departure.value) / 1e9);
	else
		snprintf(detail + length, room, "; rank %u was never seen in one", first);
}

static int report(struct pipeline_hang *hang, struct assembly *assembly, struct judge *judge,
	const struct hang_rank *oldest, struct job_ns now)
{
	struct hang_finding finding = {.since = oldest->since};
	struct meeting_place place;
	bool found = walk(hang, assembly, oldest, &place);
	size_t waiting = 0;

	for (uint32_t r = 0; r < hang->capacity; r++) {
		if (hang->ranks[r].inside)
			hang->waiting[waiting++] = r;
	}
	if (!found)
		place.missing_count = 0; /* a circle: nobody in it is more to blame than another */
	describe(hang, assembly->table, &place, now, finding.detail);
	if (!found)
		snprintf(finding.detail, sizeof(finding.detail),
			"the calls of %zu ranks wait for each other in a circle", waiting);
	finding.missing = hang->missing;
	finding.missing_count = place.missing_count;
	finding.waiting = hang->waiting;
	finding.waiting_count = waiting;
	return judge_hang(judge, &finding, now);
}

int pipeline_hang_look(struct pipeline_hang *hang, struct assembly *assembly, struct judge *judge,
	struct job_ns now)
{
	const struct hang_rank *oldest = NULL;

	if (!hang->any_inside || now.value - hang->looked.value < LOOK_EVERY_NS)
		return 0;
	if (assembly->table->end && reserve(hang, assembly->table->end - 1) < 0)
		return -ENOMEM;
	hang->looked = now;
	for (uint32_t r = 0; r < hang->capacity; r++) {
		const struct hang_rank *rank = &hang->ranks[r];

		if (rank->inside && (!oldest || rank->since.value < oldest->since.value))
			oldest = rank;
	}
	hang->any_inside = oldest;
	if (!oldest || now.value - oldest->since.value <
			       judge_hang_limit_ns(judge, (uint32_t)(oldest - hang->ranks)))
		return judge_hang(judge, NULL, now);
	return report(hang, assembly, judge, oldest, now);
}
