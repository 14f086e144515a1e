/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/pipeline_hang_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HOPS_MAX = 64 };
#define LOOK_EVERY_NS INT64_C(1000000000)
/* Who left a collective this lately has not stopped; probes list a rank after as long. */
#define MOVED_LATELY_NS INT64_C(2000000000)

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

static void take_stall(struct report_stall *stall, const struct message_open_call *call,
	const struct clock_fit *clock, struct host_ns sent)
{
	if (!call->stall.threads) /* of before it was told */
		return;
	*stall = (struct report_stall){.known = true,
		.kind = call->kind,
		.state = call->state,
		.told = call->stall,
		.seen = clock_fit_to_job(clock, sent),
		.since = clock_fit_to_job(clock, call->arrival),
		.launched = clock_fit_to_job(clock, call->stall.launched)};
	memcpy(stall->where, call->where, sizeof(stall->where));
}

const struct report_stall *pipeline_hang_stall(const struct pipeline_hang *hang, uint32_t rank)
{
	return rank < hang->capacity && hang->ranks[rank].stall.known ? &hang->ranks[rank].stall
								      : NULL;
}

static void take_call(struct hang_rank *rank, const struct message_open_call *call,
	const struct clock_fit *clock, struct host_ns sent)
{
	struct job_ns since = clock_fit_to_job(clock, call->arrival);

	take_stall(&rank->stall, call, clock, sent);
	if (call->kind == OPEN_CALL_UNSEEN) /* nobody is blamed for what nobody could see */
		return;
	rank->listed = true;
	rank->communicator_id = call->communicator_id;
	rank->sequence = call->sequence;
	rank->since = since;
	rank->peer = call->peer;
	rank->operation = call->operation;
	rank->relative = call->flags & PART_SEQUENCE_RELATIVE;
	rank->kind = call->kind < OPEN_CALL_KIND_NR ? call->kind : OPEN_CALL_POINT_TO_POINT;
	rank->state = call->state;
	rank->reason = call->reason;
	memcpy(rank->where, call->where, sizeof(rank->where));
}

int pipeline_hang_take(struct pipeline_hang *hang, const struct message_batch *batch,
	const struct held_steps *held, const struct clock_fit *clock)
{
	int error = 0;

	for (size_t i = 0; i < held->step_count && error == 0; i++) {
		const struct packed_step *step = &held->steps[i];

		if (step->part_count == 0)
			continue;
		error = reserve(hang, step->rank);
		if (error < 0)
			return error;
		size_t last = step->part_count - 1;
		struct hang_rank *rank = &hang->ranks[step->rank];

		rank->last_known = true;
		rank->last_operation = packed_kind(step, last)->operation;
		rank->last_sequence = packed_sequence(step, last);
		rank->last_departure = clock_fit_to_job(clock, step->times[last].departure);
		rank->listed = false;
	}
	for (size_t r = 0; hang->any_listed && r < hang->capacity; r++) {
		if (hang->ranks[r].listed && hang->ranks[r].probe_id == batch->probe_id)
			hang->ranks[r].listed = false; /* unless it is listed again */
	}
	for (size_t i = 0; i < batch->open_call_count && error == 0; i++) {
		const struct message_open_call *call = &batch->open_calls[i];

		error = reserve(hang, call->rank);
		if (error < 0)
			return error;
		take_call(&hang->ranks[call->rank], call, clock, batch->sent);
		hang->ranks[call->rank].probe_id = batch->probe_id;
		hang->any_listed = true;
	}
	return error;
}

static bool is_in_collective(const struct hang_rank *rank)
{
	return rank->listed && rank->kind == OPEN_CALL_COLLECTIVE;
}

/* Inside of any call that waits for somebody or something. */
static bool waits(const struct hang_rank *rank)
{
	return rank->listed && rank->kind != OPEN_CALL_NONE;
}

static bool is_stopped(const struct hang_rank *rank)
{
	return rank->listed && (rank->state == 'T' || rank->state == 't' || rank->state == 'Z');
}

static bool is_inside(const struct pipeline_hang *hang, uint32_t rank, const struct hang_rank *call)
{
	return rank < hang->capacity && is_in_collective(&hang->ranks[rank]) &&
	       hang->ranks[rank].communicator_id == call->communicator_id &&
	       hang->ranks[rank].sequence == call->sequence;
}

/* Counts from an attach differ between ranks: makes them the communicator's, or gives them up. */
static void count_alike(struct pipeline_hang *hang, struct rank_table *table)
{
	for (uint32_t r = 0; r < table->end && r < hang->capacity; r++) {
		struct hang_rank *rank = &hang->ranks[r];
		const struct rank_communicator *own;

		if (!is_in_collective(rank) || !rank->relative)
			continue;
		own = rank_entry_communicator(&table->ranks[r], rank->communicator_id);
		rank->relative = false;
		if (own && own->shift.known)
			rank->sequence += (uint64_t)own->shift.value;
		else
			rank->kind =
				OPEN_CALL_POINT_TO_POINT; /* in some call, for whom is unknown */
	}
}

/* Who of a call's communicator has not entered it, and who has. */
static void gather(struct pipeline_hang *hang, struct rank_table *table,
	const struct hang_rank *call, struct meeting_place *place)
{
	*place = (struct meeting_place){.call = call};
	for (uint32_t r = 0; r < table->end && r < hang->capacity; r++) {
		const struct rank_communicator *own =
			rank_entry_communicator(&table->ranks[r], call->communicator_id);

		if (!own)
			continue;
		if (is_inside(hang, r, call))
			place->inside_count++;
		else if (!call->peer || own->own_index + 1 == call->peer)
			hang->missing[place->missing_count++] = r;
	}
	place->member_count = place->inside_count + place->missing_count;
}

enum presence {
	PRESENCE_WAITS = 0,   /* in a send, a receive, or for its device: perhaps for others */
	PRESENCE_OUTSIDE = 1, /* in no call that is known */
	PRESENCE_STOPPED = 2, /* cannot go on by itself: stopped by a signal, dead, ended */
};

static enum presence presence_of(
	const struct pipeline_hang *hang, const struct rank_table *table, uint32_t r)
{
	const struct hang_rank *rank = &hang->ranks[r];

	if ((r < table->end && table->ranks[r].exited) || is_stopped(rank))
		return PRESENCE_STOPPED;
	return waits(rank) ? PRESENCE_WAITS : PRESENCE_OUTSIDE;
}

/* Keeps of the missing those who are the surest to be the reason. */
static enum presence keep_surest(
	struct pipeline_hang *hang, const struct rank_table *table, struct meeting_place *place)
{
	enum presence surest = PRESENCE_WAITS;
	size_t kept = 0;

	for (size_t i = 0; i < place->missing_count; i++) {
		enum presence presence = presence_of(hang, table, hang->missing[i]);

		if (presence > surest) {
			surest = presence;
			kept = 0;
		}
		if (presence == surest)
			hang->missing[kept++] = hang->missing[i];
	}
	place->missing_count = kept;
	return surest;
}

/* Of all ranks, those that stopped; else, when asked for, those that are known to be in no call. */
static size_t find_anywhere(
	struct pipeline_hang *hang, const struct rank_table *table, bool outside_too)
{
	enum presence least = outside_too ? PRESENCE_OUTSIDE : PRESENCE_STOPPED;
	struct meeting_place all = {0};

	for (uint32_t r = 0; r < table->end && r < hang->capacity; r++) {
		if (presence_of(hang, table, r) >= least &&
			(hang->ranks[r].listed || table->ranks[r].exited))
			hang->missing[all.missing_count++] = r;
	}
	if (all.missing_count)
		keep_surest(hang, table, &all);
	return all.missing_count;
}

/*
 * From a call to what its missing members wait for, until some are found that wait for nobody. Who
 * waits in a receive, or for its device, does so for somebody unknown: then those are meant that are in
 * no call at all. HANG_CIRCLE: they wait for each other.
 */
static enum hang_end walk(struct pipeline_hang *hang, struct rank_table *table,
	const struct hang_rank *call, struct meeting_place *place)
{
	for (int hop = 0; hop < HOPS_MAX && call->kind == OPEN_CALL_COLLECTIVE; hop++) {
		const struct hang_rank *next = NULL;
		size_t free_count = 0;

		gather(hang, table, call, place);
		for (size_t i = 0; i < place->missing_count; i++) {
			const struct hang_rank *rank = &hang->ranks[hang->missing[i]];

			if (!is_in_collective(rank) || is_stopped(rank))
				hang->missing[free_count++] = hang->missing[i];
			else if (!next)
				next = rank;
		}
		if (free_count) {
			place->missing_count = free_count;
			if (keep_surest(hang, table, place) > PRESENCE_WAITS)
				return HANG_FOUND;
			size_t waiting = place->missing_count;
			place->missing_count = find_anywhere(hang, table, true);
			if (place->missing_count)
				return HANG_FOUND;
			/* Nobody else is outside: it is these that do not come. */
			gather(hang, table, call, place);
			keep_surest(hang, table, place);
			return place->missing_count == waiting ? HANG_FOUND : HANG_CIRCLE;
		}
		if (!next) { /* all are inside: has one of them stopped there? */
			place->missing_count = find_anywhere(hang, table, false);
			return HANG_FOUND;
		}
		call = next;
	}
	if (call->kind == OPEN_CALL_COLLECTIVE)
		return HANG_CIRCLE;
	*place = (struct meeting_place){.call = call};
	place->missing_count = find_anywhere(hang, table, true);
	return place->missing_count ? HANG_FOUND : HANG_CIRCLE;
}

/* Somebody who should be there has just left another collective: slow, but it goes on. */
static bool still_moves(
	const struct pipeline_hang *hang, const struct meeting_place *place, struct job_ns now)
{
	for (size_t i = 0; i < place->missing_count; i++) {
		const struct hang_rank *rank = &hang->ranks[hang->missing[i]];

		if (!rank->listed && rank->last_known &&
			now.value - rank->last_departure.value < MOVED_LATELY_NS)
			return true;
	}
	return false;
}

static bool is_missing(
	const struct pipeline_hang *hang, const struct meeting_place *place, uint32_t r)
{
	for (size_t i = 0; i < place->missing_count; i++) {
		if (hang->missing[i] == r)
			return true;
	}
	return false;
}

static int report(struct pipeline_hang *hang, struct rank_table *table, struct judge *judge,
	const struct hang_rank *oldest, struct job_ns now)
{
	struct hang_finding finding = {.since = oldest->since};
	struct meeting_place place;
	enum hang_end end = walk(hang, table, oldest, &place);
	size_t waiting = 0;

	/* All hosts wait for their devices: a long kernel looks the same, and nobody is missing. */
	if ((end == HANG_CIRCLE && place.call->kind == OPEN_CALL_DEVICE_WAIT) ||
		still_moves(hang, &place, now))
		return judge_hang(judge, NULL, now);
	if (end == HANG_CIRCLE)
		place.missing_count = 0; /* nobody in it is more to blame than another */
	for (uint32_t r = 0; r < hang->capacity; r++) {
		if (waits(&hang->ranks[r]) && !is_missing(hang, &place, r))
			hang->waiting[waiting++] = r;
	}
	finding.missing = hang->missing;
	finding.missing_count = place.missing_count;
	finding.waiting = hang->waiting;
	finding.waiting_count = waiting;
	pipeline_hang_describe(hang, table, &place, end, now, &finding);
	return judge_hang(judge, &finding, now);
}

/* The call that lasts longest, of collectives or of all others, when it is over its limit. */
static const struct hang_rank *find_oldest(const struct pipeline_hang *hang,
	const struct judge *judge, bool collective, struct job_ns now)
{
	const struct hang_rank *oldest = NULL;

	for (uint32_t r = 0; r < hang->capacity; r++) {
		const struct hang_rank *rank = &hang->ranks[r];

		if (waits(rank) && is_in_collective(rank) == collective &&
			(!oldest || rank->since.value < oldest->since.value))
			oldest = rank;
	}
	if (!oldest ||
		now.value - oldest->since.value <
			judge_hang_limit_ns(judge, (uint32_t)(oldest - hang->ranks), !collective))
		return NULL;
	return oldest;
}

/* Its host has not moved, or its device has not, by what its probe said just now. */
static bool stands_still(const struct hang_rank *rank, struct job_ns now)
{
	return rank->listed || (rank->stall.known && rank->stall.kind == OPEN_CALL_UNSEEN &&
				       now.value - rank->stall.seen.value < MOVED_LATELY_NS);
}

/* Stopped by a signal or a debugger in no call: it goes on only when somebody lets it. */
static bool is_held(const struct hang_rank *rank)
{
	return rank->listed && rank->kind == OPEN_CALL_NONE &&
	       (rank->state == 'T' || rank->state == 't');
}

/*
 * Nobody is seen in a call that waits, but some ranks are held, and nobody else moves: they wait where no
 * hook is (in a launch when the device's queue is full, for another thread), or will. A job that is held as
 * a whole waits for nobody. NULL: it is not so; else the one that was held first.
 */
static const struct hang_rank *find_held(struct pipeline_hang *hang, const struct rank_table *table,
	struct hang_finding *finding, struct job_ns now)
{
	const struct hang_rank *first = NULL;

	*finding = (struct hang_finding){.missing = hang->missing, .waiting = hang->waiting};
	for (uint32_t r = 0; r < table->end && r < hang->capacity; r++) {
		const struct hang_rank *rank = &hang->ranks[r];

		if (!table->ranks[r].known || table->ranks[r].exited)
			continue;
		if (!stands_still(rank, now))
			return NULL;
		if (!is_held(rank)) {
			hang->waiting[finding->waiting_count++] = r;
			continue;
		}
		hang->missing[finding->missing_count++] = r;
		if (!first || rank->since.value < first->since.value)
			first = rank;
	}
	return finding->waiting_count ? first : NULL;
}

static int report_held(struct pipeline_hang *hang, const struct rank_table *table,
	struct judge *judge, struct job_ns now)
{
	struct hang_finding finding;
	const struct hang_rank *held = find_held(hang, table, &finding, now);

	if (!held || now.value - held->since.value <
			     judge_hang_limit_ns(judge, (uint32_t)(held - hang->ranks), false))
		return judge_hang(judge, NULL, now);
	finding.since = held->since;
	pipeline_hang_describe(
		hang, table, &(struct meeting_place){.call = held}, HANG_FOUND, now, &finding);
	return judge_hang(judge, &finding, now);
}

int pipeline_hang_look(struct pipeline_hang *hang, struct assembly *assembly, struct judge *judge,
	struct job_ns now)
{
	struct rank_table *table = assembly->table;
	const struct hang_rank *oldest;

	if (!hang->any_listed || now.value - hang->looked.value < LOOK_EVERY_NS)
		return 0;
	if (table->end && reserve(hang, table->end - 1) < 0)
		return -ENOMEM;
	hang->looked = now;
	count_alike(hang, table);
	hang->any_listed = false;
	for (uint32_t r = 0; r < hang->capacity && !hang->any_listed; r++)
		hang->any_listed = hang->ranks[r].listed;
	oldest = find_oldest(hang, judge, true, now);
	if (!oldest)
		oldest = find_oldest(hang, judge, false, now);
	return oldest ? report(hang, table, judge, oldest, now)
		      : report_held(hang, table, judge, now);
}
