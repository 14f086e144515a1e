/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/pipeline_hang_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/policy.h"

enum {
	HOPS_MAX = 64,
	TRIES_MAX = 4, /* calls that are followed, the oldest first */
};

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

static bool is_later(struct job_ns one, struct job_ns other)
{
	return one.value > other.value;
}

static bool is_same_call(const struct hang_call *one, const struct hang_call *other)
{
	return one->communicator_id == other->communicator_id && one->sequence == other->sequence &&
	       one->operation == other->operation;
}

/*
 * The oldest call that the rank's device has not ended. A host that runs ahead launched it long before it was
 * the oldest, and before its kernel began: it waits since the look before the first one that shows it so. So does one
 * whose host was stopped at that look: nobody told then what its device did.
 */
static void take_device(struct hang_rank *rank, const struct message_open_call *call,
	const struct clock_fit *clock, struct job_ns looked_before)
{
	const struct message_stall *stall = &call->stall;
	bool known =
		rank->device.kind != OPEN_CALL_NONE || rank->state == 'T' || rank->state == 't';
	bool message = stall->operation == OPERATION_SEND || stall->operation == OPERATION_RECEIVE;
	struct hang_call device = {
		.kind = message ? OPEN_CALL_POINT_TO_POINT : OPEN_CALL_COLLECTIVE,
		.operation = stall->operation,
		.on_device = true,
		.started = stall->started,
		.communicator_id = stall->communicator_id,
		.sequence = stall->sequence,
		.since = clock_fit_to_job(clock, stall->launched)};

	if (!stall->operation)
		device.kind = OPEN_CALL_NONE;
	else if (known && is_same_call(&device, &rank->device) &&
		 device.started == rank->device.started)
		device.since = rank->device.since;
	else if (known && is_later(looked_before, device.since))
		device.since = looked_before;
	rank->device = device;
}

/* Signs that it goes on, though it leaves no collective: it begins other calls, reads or writes. */
static void take_signs(struct hang_rank *rank, const struct message_open_call *call,
	const struct clock_fit *clock, struct job_ns seen)
{
	struct job_ns moved = clock_fit_to_job(clock, call->arrival);

	moved.value += (int64_t)call->stall.acted_ms * 1000000;
	if (is_later(moved, rank->moved))
		rank->moved = moved;
	if (call->stall.io_bytes < rank->io_bytes)
		rank->io_bytes = 0; /* it has moved since */
	if (call->stall.io_bytes - rank->io_bytes < HANG_WORK_BYTES)
		return;
	rank->io_bytes = call->stall.io_bytes;
	rank->moved = seen;
}

static void take_call(struct hang_rank *rank, const struct message_open_call *call,
	const struct clock_fit *clock, struct host_ns sent)
{
	struct job_ns looked_before = rank->stall.seen;

	take_stall(&rank->stall, call, clock, sent);
	take_device(rank, call, clock, looked_before);
	take_signs(rank, call, clock, clock_fit_to_job(clock, sent));
	rank->host = (struct hang_call){
		.kind = call->kind < OPEN_CALL_KIND_NR ? call->kind : OPEN_CALL_POINT_TO_POINT,
		.operation = call->operation,
		.peer = call->peer,
		.communicator_id = call->communicator_id,
		.sequence = call->sequence,
		.since = clock_fit_to_job(clock, call->arrival)};
	rank->relative = call->flags & PART_SEQUENCE_RELATIVE;
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
	}
	for (size_t i = 0; i < batch->open_call_count && error == 0; i++) {
		const struct message_open_call *call = &batch->open_calls[i];

		error = reserve(hang, call->rank);
		if (error < 0)
			return error;
		if (batch->number < hang->ranks[call->rank].batch)
			continue; /* a later one came first */
		take_call(&hang->ranks[call->rank], call, clock, batch->sent);
		hang->ranks[call->rank].batch = batch->number + 1;
		hang->any_listed = true;
	}
	return error;
}

static bool is_in_collective(const struct hang_rank *rank)
{
	return pipeline_hang_call(rank).kind == OPEN_CALL_COLLECTIVE;
}

/* Inside of any call that waits for somebody or something. */
static bool waits(const struct hang_rank *rank)
{
	uint8_t kind = pipeline_hang_call(rank).kind;

	return kind != OPEN_CALL_NONE && kind != OPEN_CALL_UNSEEN;
}

static bool is_stopped(const struct hang_rank *rank)
{
	return rank->listed && (rank->state == 'T' || rank->state == 't' || rank->state == 'Z');
}

/* It has entered that call; a later one of the same communicator says so, too. */
static bool is_inside(const struct hang_rank *rank, const struct hang_call *call)
{
	struct hang_call own = pipeline_hang_call(rank);

	return own.kind == OPEN_CALL_COLLECTIVE && own.communicator_id == call->communicator_id &&
	       ((own.sequence == call->sequence && own.operation == call->operation) ||
		       own.sequence > call->sequence);
}

/* Counts from an attach differ between ranks: makes them the communicator's, or gives them up. */
static void count_alike(struct hang_rank *rank, const struct rank_stream *stream)
{
	const struct rank_communicator *own;

	if (!rank->listed || rank->host.kind != OPEN_CALL_COLLECTIVE || !rank->relative)
		return;
	own = communicator_list_find(&stream->communicators, rank->host.communicator_id);
	rank->relative = false;
	if (own && own->shift.known)
		rank->host.sequence += (uint64_t)own->shift.value;
	else
		rank->host.kind = OPEN_CALL_POINT_TO_POINT; /* in some call, for whom is unknown */
}

/*
 * What the newest batch of the rank's probe says of it, since each lists all who have not moved. Who is in none
 * has moved; whom nobody watches any more is left in peace.
 */
static void refresh(struct hang_rank *rank, const struct rank_table *table, uint32_t r,
	const struct probe_table *probes, struct job_ns now, struct job_ns received)
{
	const struct rank_entry *entry = &table->ranks[r];
	const struct rank_stream *stream = &table->streams.ranks[r];
	const struct probe_entry *probe =
		entry->owned ? probe_table_find(probes, entry->probe_id) : NULL;
	int64_t silent_ns = probe ? received.value - probe->last_received.value : 0;

	rank->listed = probe && rank->batch == probe->next_number;
	rank->heard = silent_ns < HANG_SILENT_NS;
	rank->moves = !probe || probe->final || (!rank->listed && rank->heard);
	if (!stream->exited)
		rank->gone.value = 0;
	else if (!rank->gone.value)
		rank->gone = now;
	count_alike(rank, stream);
}

/* Who of a call's communicator has not entered it, and who has. */
static void gather(struct pipeline_hang *hang, const struct rank_table *table,
	const struct hang_call *call, struct meeting_place *place)
{
	*place = (struct meeting_place){.call = *call, .all_begun = true};
	for (uint32_t r = 0; r < table->streams.end; r++) {
		const struct rank_communicator *own = communicator_list_find(
			&table->streams.ranks[r].communicators, call->communicator_id);

		if (!own)
			continue;
		if (own->size > place->member_count)
			place->member_count = own->size;
		if (is_inside(&hang->ranks[r], call)) {
			bool begun = pipeline_hang_call(&hang->ranks[r]).started;

			place->inside_count++;
			place->begun |= begun;
			place->all_begun &= begun;
		} else if (!call->peer || own->own_index + 1 == call->peer) {
			hang->missing[place->missing_count++] = r;
		}
	}
	if (place->member_count < place->inside_count + place->missing_count)
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

	if (table->streams.ranks[r].exited || is_stopped(rank))
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

	for (uint32_t r = 0; r < table->streams.end; r++) {
		const struct hang_rank *rank = &hang->ranks[r];

		if (presence_of(hang, table, r) >= least &&
			(table->streams.ranks[r].exited || is_stopped(rank) ||
				(rank->listed && rank->host.kind != OPEN_CALL_UNSEEN)))
			hang->missing[all.missing_count++] = r;
	}
	if (all.missing_count)
		keep_surest(hang, table, &all);
	return all.missing_count;
}

/*
 * The missing are all in another call of as many members, which only they have entered: one of the two is not
 * what the program means. Those who are fewer are named; when both are as many, nobody.
 */
static bool keep_odd(struct pipeline_hang *hang, const struct rank_table *table,
	const struct meeting_place *first, const struct hang_call *other,
	struct meeting_place *place)
{
	struct meeting_place second;
	size_t kept = 0;

	gather(hang, table, other, &second);
	if (second.member_count != first->member_count ||
		second.inside_count >= first->inside_count)
		return false;
	for (size_t i = 0; i < second.missing_count; i++) {
		if (!is_inside(&hang->ranks[hang->missing[i]], &first->call))
			return false;
	}
	gather(hang, table, &first->call, place);
	for (size_t i = 0; i < place->missing_count; i++) {
		if (is_inside(&hang->ranks[hang->missing[i]], other))
			hang->missing[kept++] = hang->missing[i];
	}
	place->missing_count = kept;
	return kept > 0;
}

/*
 * From a call to what its missing members wait for, until some are found that wait for nobody. Who
 * waits in a receive, or for its device, does so for somebody unknown: then those are meant that are in
 * no call at all. HANG_CIRCLE: they wait for each other.
 */
static enum hang_end walk(struct pipeline_hang *hang, const struct rank_table *table,
	struct hang_call call, struct meeting_place *place)
{
	for (int hop = 0; hop < HOPS_MAX && call.kind == OPEN_CALL_COLLECTIVE; hop++) {
		const struct hang_rank *next = NULL;
		size_t free_count = 0;

		gather(hang, table, &call, place);
		if (!place->member_count) { /* whose it is, nobody said */
			call.kind = OPEN_CALL_POINT_TO_POINT;
			break;
		}
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
			place->for_anybody = true;
			place->missing_count = find_anywhere(hang, table, true);
			if (place->missing_count)
				return HANG_FOUND;
			/* Nobody else is outside: it is these that do not come. */
			gather(hang, table, &call, place);
			place->for_anybody = true;
			keep_surest(hang, table, place);
			return place->missing_count == waiting ? HANG_FOUND : HANG_CIRCLE;
		}
		if (!next) { /* all are inside: has one of them stopped there? */
			place->missing_count = find_anywhere(hang, table, false);
			return HANG_FOUND;
		}
		struct hang_call other = pipeline_hang_call(next);
		struct meeting_place first = *place;

		if (keep_odd(hang, table, &first, &other, place))
			return HANG_FOUND;
		call = other;
	}
	if (call.kind == OPEN_CALL_COLLECTIVE)
		return HANG_CIRCLE;
	*place = (struct meeting_place){.call = call, .for_anybody = true};
	place->missing_count = find_anywhere(hang, table, true);
	return place->missing_count ? HANG_FOUND : HANG_CIRCLE;
}

/*
 * Devices that have not begun the call have other work before it, however long: nobody waits in it yet, or only
 * for those. And a long kernel looks like a wait for the device, in which nobody is missing.
 */
static bool devices_work(const struct meeting_place *place, enum hang_end end)
{
	const struct hang_call *call = &place->call;

	if (call->kind == OPEN_CALL_DEVICE_WAIT)
		return end == HANG_CIRCLE;
	if (!call->on_device)
		return false;
	if (call->kind != OPEN_CALL_COLLECTIVE)
		return !call->started;
	return place->missing_count ? !place->begun : !place->all_begun;
}

static bool anybody_moves(const struct pipeline_hang *hang, const struct rank_table *table)
{
	for (uint32_t r = 0; r < table->streams.end; r++) {
		if (table->streams.ranks[r].known && !table->streams.ranks[r].exited &&
			hang->ranks[r].moves)
			return true;
	}
	return false;
}

/* For how long nothing has moved: neither the call nor those who are missing. alive: any of these is. */
static int64_t still_ns(const struct pipeline_hang *hang, const struct rank_table *table,
	const struct meeting_place *place, struct job_ns since, struct job_ns now, bool *alive)
{
	*alive = place->missing_count == 0;
	if (place->for_anybody && anybody_moves(hang, table))
		return 0;
	if (is_later(place->call.since, since)) /* the last of those that wait for each other */
		since = place->call.since;
	for (size_t i = 0; i < place->missing_count; i++) {
		const struct hang_rank *rank = &hang->ranks[hang->missing[i]];
		struct job_ns moved = waits(rank) ? pipeline_hang_call(rank).since : rank->moved;

		if (presence_of(hang, table, hang->missing[i]) == PRESENCE_STOPPED)
			continue;
		*alive = true;
		if (rank->moves)
			return 0;
		if (is_later(moved, since))
			since = moved;
	}
	return now.value - since.value;
}

/* It came to a bad end; one that ends well may leave others to do the rest. */
static bool is_lost(const struct rank_table *table, uint32_t r)
{
	return table->streams.ranks[r].exited && table->ranks[r].exit_code != 0;
}

static bool was_asked_to_end(const struct rank_table *table, uint32_t r)
{
	return table->streams.ranks[r].exited && table->ranks[r].exit_code == 128 + SIGTERM;
}

/*
 * Launchers end the others when they have lost a rank: who was asked to end is not why, where one was lost otherwise.
 * Returns how many are still missing.
 */
static size_t leave_out_ended(
	struct pipeline_hang *hang, const struct rank_table *table, size_t missing_count)
{
	size_t kept = 0, lost = 0;

	for (size_t i = 0; i < missing_count; i++)
		lost += is_lost(table, hang->missing[i]) &&
			!was_asked_to_end(table, hang->missing[i]);
	for (size_t i = 0; i < missing_count; i++) {
		if (!lost || !was_asked_to_end(table, hang->missing[i]))
			hang->missing[kept++] = hang->missing[i];
	}
	return kept;
}

static int report(struct pipeline_hang *hang, const struct rank_table *table, struct judge *judge,
	const struct meeting_place *place, enum hang_end end, struct job_ns since,
	struct job_ns now)
{
	struct hang_finding finding = {.since = since,
		.missing = hang->missing,
		.missing_count = leave_out_ended(hang, table, place->missing_count),
		.waiting = hang->waiting};

	size_t next = 0; /* both are ascending */

	for (uint32_t r = 0; r < table->streams.end; r++) {
		if (next < finding.missing_count && hang->missing[next] == r)
			next++;
		else if (hang->ranks[r].listed)
			hang->waiting[finding.waiting_count++] = r;
	}
	pipeline_hang_describe(hang, table, place, end, now, &finding);
	return judge_hang(judge, &finding, now);
}

/* The call that is open for longest, collectives first, of those that were not tried. NULL: none is old. */
static const struct hang_rank *find_oldest(const struct pipeline_hang *hang,
	const struct rank_table *table, const struct hang_call *tried, size_t tried_count,
	struct job_ns now)
{
	const struct hang_rank *oldest = NULL;

	for (uint32_t r = 0; r < table->streams.end; r++) {
		const struct hang_rank *rank = &hang->ranks[r];
		struct hang_call call = pipeline_hang_call(rank);
		bool new = waits(rank) && now.value - call.since.value >= HANG_LIMIT_NS;

		for (size_t i = 0; i < tried_count && new; i++)
			new = call.kind != tried[i].kind ||
			      (call.kind == OPEN_CALL_COLLECTIVE &&
				      !is_same_call(&call, &tried[i]));
		if (!new)
			continue;
		struct hang_call best = oldest ? pipeline_hang_call(oldest) : call;
		bool collective = call.kind == OPEN_CALL_COLLECTIVE;

		if (!oldest || collective > (best.kind == OPEN_CALL_COLLECTIVE) ||
			(collective == (best.kind == OPEN_CALL_COLLECTIVE) &&
				is_later(best.since, call.since)))
			oldest = rank;
	}
	return oldest;
}

/* Returns 1 when a call tells of a hang, 0 when none does. */
static int report_calls(struct pipeline_hang *hang, const struct rank_table *table,
	struct judge *judge, struct job_ns now)
{
	struct hang_call tried[TRIES_MAX];
	const struct hang_rank *oldest;

	for (size_t i = 0; i < TRIES_MAX && (oldest = find_oldest(hang, table, tried, i, now));
		i++) {
		struct meeting_place place;
		bool alive;

		tried[i] = pipeline_hang_call(oldest);
		enum hang_end end = walk(hang, table, tried[i], &place);
		if (end == HANG_CIRCLE)
			place.missing_count = 0; /* nobody in it is more to blame than another */
		if (still_ns(hang, table, &place, tried[i].since, now, &alive) <
				judge_hang_limit_ns(judge, alive) ||
			(alive && devices_work(&place, end)))
			continue;
		int error = report(hang, table, judge, &place, end, tried[i].since, now);

		return error < 0 ? error : 1;
	}
	return 0;
}

/* Stopped by a signal or a debugger in no call: it goes on only when somebody lets it. */
static bool is_held(const struct hang_rank *rank)
{
	return rank->listed && pipeline_hang_call(rank).kind == OPEN_CALL_NONE &&
	       (rank->state == 'T' || rank->state == 't');
}

/*
 * Nobody is seen in a call that tells, but some ranks are held by a signal or a debugger, or lost, and nobody
 * else moves: they wait where no hook is (in a launch when the device's queue is full, for another thread), or
 * will. A job that is held as a whole waits for nobody. Returns false when it is not so.
 */
static bool find_held(
	struct pipeline_hang *hang, const struct rank_table *table, struct hang_finding *finding)
{
	*finding = (struct hang_finding){.missing = hang->missing, .waiting = hang->waiting};
	for (uint32_t r = 0; r < table->streams.end; r++) {
		const struct hang_rank *rank = &hang->ranks[r];
		const struct rank_stream *stream = &table->streams.ranks[r];
		struct job_ns then = stream->exited ? rank->gone : rank->host.since;

		if (!stream->known || (stream->exited && !is_lost(table, r)))
			continue;
		if (!stream->exited && !rank->listed)
			return false;
		if (!stream->exited && !is_held(rank)) {
			hang->waiting[finding->waiting_count++] = r;
			continue;
		}
		if (!finding->missing_count || is_later(finding->since, then))
			finding->since = then;
		hang->missing[finding->missing_count++] = r;
	}
	return finding->waiting_count && finding->missing_count;
}

static int report_held(struct pipeline_hang *hang, const struct rank_table *table,
	struct judge *judge, struct job_ns now)
{
	struct meeting_place place = {.call.kind = OPEN_CALL_NONE};
	struct hang_finding finding;

	if (!find_held(hang, table, &finding) ||
		now.value - finding.since.value < judge_hang_limit_ns(judge, false))
		return judge_hang(judge, NULL, now);
	finding.missing_count = leave_out_ended(hang, table, finding.missing_count);
	pipeline_hang_describe(hang, table, &place, HANG_FOUND, now, &finding);
	return judge_hang(judge, &finding, now);
}

int pipeline_hang_look(struct pipeline_hang *hang, const struct rank_table *table,
	const struct probe_table *probes, struct judge *judge, struct job_ns now,
	struct job_ns received)
{
	int told;

	if (!hang->any_listed || now.value - hang->looked.value < HANG_LOOK_NS)
		return 0;
	if (table->streams.end && reserve(hang, table->streams.end - 1) < 0)
		return -ENOMEM;
	hang->looked = now;
	hang->any_listed = false;
	for (uint32_t r = 0; r < table->streams.end; r++) {
		refresh(&hang->ranks[r], table, r, probes, now, received);
		hang->any_listed |= hang->ranks[r].listed;
	}
	told = report_calls(hang, table, judge, now);
	if (told)
		return told < 0 ? told : 0;
	return report_held(hang, table, judge, now);
}
