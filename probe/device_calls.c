/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/device_calls.h"

#include <stdlib.h>
#include <string.h>

/* From a call to its start on an idle device: 5 to 30 us, more with an event to wait for. */
#define LAUNCH_USUAL_NS 100000

enum {
	HOST_RECORDS_MAX = 8192, /* a ring: the oldest are added up */
	DONE_MAX = 65536,	 /* between two looks, some tens of milliseconds */
	STREAMS = UINT8_MAX + 1,
};
/* A call before it that is not done after this is taken for lost. */
#define LOST_NS INT64_C(2000000000)

struct host_record {
	int64_t time_ns;
	int64_t device_wait_ns;
	struct activity before, others;
};

struct done_call {
	struct collective_part part;
	uint64_t number;
};

struct device_calls {
	struct host_record *records; /* ring */
	size_t record_first, record_count;
	struct done_call *done;
	size_t done_count, done_capacity, done_taken;
	bool sorted;
	uint64_t next_number;
	bool timed;		 /* some calls have device times */
	int64_t newest_ns;	 /* departure of these; of all while none has */
	int64_t last_enqueue_ns; /* of the calls taken so far; 0 = none */
	/* Where nobody tells what the host did: */
	bool host_seen;
	int64_t cpu_read_ns; /* when launchers_cpu_ns was read last; 0 = never */
	uint64_t cpu_ns;
	int64_t waited_ns;		/* since then, at most, for collectives */
	int64_t queued_ns, block_io_ns; /* of what was told, not yet found in a segment */
	/* Of late: long waits for collectives, and how long of them its threads wanted a CPU. */
	int64_t waits_ns, busy_waits_ns;
	size_t stream_count; /* streams seen so far: those below it */
	int64_t busy_from_ns[STREAMS],
		last_departure_ns[STREAMS]; /* of calls in a row, and of the last */
	struct activity last_others;
	uint64_t dropped;
};

struct device_calls *device_calls_create(void)
{
	struct device_calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return NULL;
	calls->next_number = 1;
	calls->records = calloc(HOST_RECORDS_MAX, sizeof(*calls->records));
	if (!calls->records) {
		free(calls);
		return NULL;
	}
	return calls;
}

void device_calls_destroy(struct device_calls *calls)
{
	if (!calls)
		return;
	free(calls->records);
	free(calls->done);
	free(calls);
}

static struct host_record *record_at(struct device_calls *calls, size_t index)
{
	return &calls->records[(calls->record_first + index) % HOST_RECORDS_MAX];
}

void device_calls_host(struct device_calls *calls, struct host_ns time,
	const struct activity *before, int64_t device_wait_ns, const struct activity *others)
{
	struct host_record record = {time.value, device_wait_ns, *before, *others};

	calls->host_seen = true;
	if (calls->record_count == HOST_RECORDS_MAX) { /* the two oldest become one */
		struct host_record *oldest = record_at(calls, 0), *next = record_at(calls, 1);

		activity_add(&next->before, &oldest->before);
		next->device_wait_ns += oldest->device_wait_ns;
		calls->record_first = (calls->record_first + 1) % HOST_RECORDS_MAX;
		calls->record_count--;
		calls->dropped++;
	}
	if (calls->record_count == 0)
		calls->record_first = 0; /* touches no more memory than it needs */
	*record_at(calls, calls->record_count++) = record;
}

/* What was taken makes room. */
static void forget_taken(struct device_calls *calls)
{
	calls->done_count -= calls->done_taken;
	memmove(calls->done, calls->done + calls->done_taken,
		calls->done_count * sizeof(*calls->done));
	calls->done_taken = 0;
}

void device_calls_done(
	struct device_calls *calls, const struct collective_part *part, uint64_t number)
{
	bool timed = (part->flags & PART_DEVICE_TIME) != 0;

	if (calls->done_taken)
		forget_taken(calls);
	if (calls->done_count == calls->done_capacity) {
		size_t capacity = calls->done_capacity ? calls->done_capacity * 2 : 256;
		struct done_call *grown = capacity <= DONE_MAX
						  ? realloc(calls->done, capacity * sizeof(*grown))
						  : NULL;

		if (!grown) {
			calls->dropped++;
			return;
		}
		calls->done = grown;
		calls->done_capacity = capacity;
	}
	calls->done[calls->done_count++] = (struct done_call){*part, number};
	calls->sorted = false;
	if (timed && !calls->timed)
		calls->newest_ns = 0; /* the host may be far ahead of its device */
	calls->timed |= timed;
	if (timed == calls->timed && part->departure.value > calls->newest_ns)
		calls->newest_ns = part->departure.value;
}

static int compare_calls(const void *left, const void *right)
{
	const struct done_call *a = left, *b = right;

	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	if (a->part.enqueue.value != b->part.enqueue.value)
		return a->part.enqueue.value < b->part.enqueue.value ? -1 : 1;
	return a->part.sequence < b->part.sequence ? -1 : a->part.sequence > b->part.sequence;
}

/* When the last call before ended that this one may have waited for. */
static int64_t ended_before(const struct device_calls *calls, int64_t arrival_ns)
{
	int64_t ended_ns = 0;

	for (size_t i = 0; i < calls->stream_count; i++) {
		if (calls->last_departure_ns[i] > ended_ns &&
			calls->last_departure_ns[i] <= arrival_ns)
			ended_ns = calls->last_departure_ns[i];
	}
	return ended_ns;
}

/* What is older was no part of a segment. */
#define DELAY_KEPT_NS INT64_C(1000000000)
#define WAIT_SEEN_NS 2000000
#define WAITS_KNOWN_NS 50000000
#define WAITS_KEPT_NS INT64_C(2000000000)

static void add_delay(int64_t *sum_ns, int64_t delay_ns)
{
	*sum_ns += delay_ns;
	if (*sum_ns > DELAY_KEPT_NS)
		*sum_ns = DELAY_KEPT_NS;
}

void device_calls_delay(struct device_calls *calls, int64_t queued_ns, int64_t block_io_ns)
{
	add_delay(&calls->queued_ns, queued_ns);
	add_delay(&calls->block_io_ns, block_io_ns);
}

/* How much of a time off the CPU was this kind of delay. */
static int64_t take_delay(int64_t *sum_ns, int64_t off_ns)
{
	int64_t taken_ns = off_ns < *sum_ns ? off_ns : *sum_ns;

	*sum_ns -= taken_ns;
	return taken_ns;
}

/*
 * How long the host may have waited for collectives before a call: as long as some, one queued behind the other, were
 * on the device and ended before the call. How long it did, nobody saw; and they may have waited for other ranks.
 */
static int64_t may_have_waited_ns(const struct device_calls *calls, int64_t enqueue_ns)
{
	int64_t longest_ns = 0;

	for (size_t i = 0; i < calls->stream_count && !calls->host_seen; i++) {
		int64_t from_ns = calls->busy_from_ns[i];

		if (from_ns < calls->last_enqueue_ns)
			from_ns = calls->last_enqueue_ns;
		if (calls->last_departure_ns[i] <= enqueue_ns &&
			calls->last_departure_ns[i] - from_ns > longest_ns)
			longest_ns = calls->last_departure_ns[i] - from_ns;
	}
	return longest_ns;
}

/*
 * Where waits sleep, whatever CUDA was told (a loop that asks and sleeps), a sleep may be a wait: then it is not
 * known what either was. It shows in the waits for collectives, which healthy ranks have.
 */
static bool waits_sleep(struct device_calls *calls, int64_t cpu_ns)
{
	int64_t wanted_ns, queued_ns;

	if (calls->waited_ns >= WAIT_SEEN_NS) {
		wanted_ns = calls->waited_ns - cpu_ns > 0 ? calls->waited_ns - cpu_ns : 0;
		queued_ns = take_delay(&calls->queued_ns, wanted_ns);
		calls->waits_ns += calls->waited_ns;
		calls->busy_waits_ns += calls->waited_ns - wanted_ns + queued_ns;
	}
	if (calls->waits_ns >= WAITS_KEPT_NS) {
		calls->waits_ns /= 2;
		calls->busy_waits_ns /= 2;
	}
	return calls->waits_ns >= WAITS_KNOWN_NS && 2 * calls->busy_waits_ns < calls->waits_ns;
}

/*
 * Of the host's own time, what its threads waited for storage, and what they slept for: they neither had a CPU nor wanted
 * one. What they wanted one for may have been a wait for the device's own work, which spins; so that is not told apart, nor
 * is how long they queued.
 */
static void fill_off_cpu(
	struct device_calls *calls, const struct collective_part *part, struct activity *before)
{
	int64_t enqueue_ns = part->enqueue.value, off_ns, cpu_ns;

	if (calls->host_seen || !part->launchers_cpu_ns)
		return;
	cpu_ns = (int64_t)(part->launchers_cpu_ns - calls->cpu_ns);
	off_ns = enqueue_ns - calls->cpu_read_ns - calls->waited_ns - cpu_ns;
	if (calls->cpu_read_ns && cpu_ns >= 0 && !waits_sleep(calls, cpu_ns) && off_ns > 0) {
		if (off_ns > before->host_ns)
			off_ns = before->host_ns;
		off_ns -= take_delay(&calls->queued_ns, off_ns);
		before->block_io_ns = take_delay(&calls->block_io_ns, off_ns);
		before->asleep_ns = off_ns - before->block_io_ns;
	}
	calls->cpu_read_ns = enqueue_ns;
	calls->cpu_ns = part->launchers_cpu_ns;
	calls->waited_ns = 0;
}

/*
 * What the host did up to this call's enqueue. A call that was enqueued before one already taken
 * (it was taken for lost) gets nothing: its share went to that one.
 */
static void fill_before(struct device_calls *calls, struct collective_part *part)
{
	int64_t enqueue_ns = part->enqueue.value, device_wait_ns = 0;
	struct activity before = {0};

	while (calls->record_count && record_at(calls, 0)->time_ns <= enqueue_ns) {
		const struct host_record *record = record_at(calls, 0);

		activity_add(&before, &record->before);
		device_wait_ns += record->device_wait_ns;
		calls->last_others = record->others;
		calls->record_first = (calls->record_first + 1) % HOST_RECORDS_MAX;
		calls->record_count--;
	}
	if (calls->last_enqueue_ns && enqueue_ns > calls->last_enqueue_ns) {
		int64_t waited_ns = may_have_waited_ns(calls, enqueue_ns);

		device_wait_ns += waited_ns;
		calls->waited_ns += waited_ns;
		/*
		 * By what a call waited for the device's work, the host could have come later. Not
		 * by what it waited behind the collective before it, which may wait for others.
		 */
		int64_t ended_ns = ended_before(calls, part->arrival.value);
		int64_t ready_ns = enqueue_ns > ended_ns ? enqueue_ns : ended_ns;
		int64_t ahead_ns = part->arrival.value - ready_ns - LAUNCH_USUAL_NS;

		before.host_ns = enqueue_ns - calls->last_enqueue_ns - device_wait_ns -
				 (ahead_ns > 0 ? ahead_ns : 0);
		if (before.host_ns < 0)
			before.host_ns = 0;
	}
	fill_off_cpu(calls, part, &before);
	if (enqueue_ns > calls->last_enqueue_ns)
		calls->last_enqueue_ns = enqueue_ns;
	if (part->departure.value > calls->last_departure_ns[part->stream]) {
		if (part->arrival.value - calls->last_departure_ns[part->stream] > LAUNCH_USUAL_NS)
			calls->busy_from_ns[part->stream] = part->arrival.value;
		calls->last_departure_ns[part->stream] = part->departure.value;
		if (part->stream >= calls->stream_count)
			calls->stream_count = part->stream + 1U;
	}
	part->before = before;
}

/* Calls before the first that waits are lost: the device is long past one behind them. */
static bool are_lost(const struct device_calls *calls)
{
	for (size_t i = calls->done_taken; i < calls->done_count; i++) {
		const struct collective_part *part = &calls->done[i].part;

		if (!calls->timed || part->flags & PART_DEVICE_TIME)
			return calls->newest_ns - part->departure.value > LOST_NS;
	}
	return false;
}

/* All calls before it are done, or lost, or there is no room to wait for them. */
static bool is_next(const struct device_calls *calls, const struct done_call *call)
{
	return call->number <= calls->next_number ||
	       calls->done_count - calls->done_taken >= DONE_MAX / 2 || are_lost(calls);
}

/* It was taken for lost, and has no times to tell now. */
static bool is_too_late(const struct device_calls *calls, const struct done_call *call)
{
	return call->number && call->number < calls->next_number &&
	       !(call->part.flags & PART_DEVICE_TIME);
}

/*
 * A host that is ahead of its device makes a call long before it runs. The calls of a stream follow each other: one whose
 * times nobody told began no earlier than the one before it ended, and so it stays in its place among those that have times.
 */
static void place_untimed(const struct device_calls *calls, struct collective_part *part)
{
	int64_t ended_ns = calls->last_departure_ns[part->stream];

	if (calls->timed && part->flags & PART_ENQUEUE_ONLY && part->arrival.value < ended_ns)
		part->arrival.value = part->departure.value = ended_ns;
}

bool device_calls_take(struct device_calls *calls, bool finish, struct collective_part *part,
	struct activity *others)
{
	const struct done_call *call;

	if (!calls->sorted && calls->done_count > calls->done_taken) {
		qsort(calls->done + calls->done_taken, calls->done_count - calls->done_taken,
			sizeof(*calls->done), compare_calls);
		calls->sorted = true;
	}
	for (call = calls->done + calls->done_taken;
		calls->done_taken < calls->done_count && is_too_late(calls, call); call++) {
		calls->done_taken++;
		calls->dropped++;
	}
	if (calls->done_taken == calls->done_count || (!finish && !is_next(calls, call)))
		return false;
	calls->done_taken++;
	if (call->number >= calls->next_number)
		calls->next_number = call->number + 1;
	*part = call->part;
	place_untimed(calls, part);
	fill_before(calls, part);
	*others = calls->last_others;
	return true;
}

uint64_t device_calls_dropped(const struct device_calls *calls)
{
	return calls->dropped;
}
