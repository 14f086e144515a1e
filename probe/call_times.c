/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/call_times.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 8192, EVENTS_MAX = 8192, LANES_MAX = 64 };

/* Events whose call did not come by then are of calls that no uprobe saw. */
static const int64_t event_patience_ns = 2000000000;
/* By then the kernel's record of a call is here. */
static const int64_t settle_ns = 1000000000;
/* So far apart may the plug-in tell of the parts of one call. */
static const int64_t parts_apart_ns = 300000000;

struct call {
	struct collective_part part;
	uint64_t handle, number;
	pid_t thread; /* where the handle is not known; else 0 */
	bool timed, taken;
};

struct timed_event {
	struct call_times_event of;
	int64_t told_ns; /* when its times went to a part of its call first; 0: not yet */
};

/*
 * A communicator. Its calls' kernels follow each other in the order of the calls, also from several streams; but an event
 * before a call tells when the call's own stream came to it, and not when the kernel could begin.
 */
struct lane {
	uint64_t handle;
	int64_t launched_ns; /* the latest kernel; several calls of a group have one */
	int64_t stop_ns;
	int64_t free_ns; /* when the kernel before it ended */
};

struct call_times {
	size_t call_count, event_count, lane_count;
	size_t checked; /* calls of which none can be handed out */
	bool news;	/* since calls and events were last matched */
	uint64_t number;
	int64_t settled_ns, heard_ns;
	struct call_times_counts counts;
	struct lane lanes[LANES_MAX];
	struct call calls[CALLS_MAX]; /* ascending by time */
	struct timed_event events[EVENTS_MAX];
};

struct call_times *call_times_create(struct host_ns now)
{
	struct call_times *times = calloc(1, sizeof(*times));

	if (times)
		times->heard_ns = now.value;
	return times;
}

void call_times_destroy(struct call_times *times)
{
	free(times);
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static size_t lane_of(struct call_times *times, uint64_t handle)
{
	size_t lane = 0;

	while (lane < times->lane_count && times->lanes[lane].handle != handle)
		lane++;
	if (lane == times->lane_count && lane < LANES_MAX)
		times->lanes[times->lane_count++] = (struct lane){.handle = handle};
	return lane;
}

/* When the kernel before that of an event had ended; 0: not known. */
static int64_t free_since(struct call_times *times, const struct call_times_event *event)
{
	size_t at = lane_of(times, event->handle);
	struct lane *lane = &times->lanes[at];

	if (at == LANES_MAX)
		return 0;
	if (event->launched.value > lane->launched_ns)
		*lane = (struct lane){
			event->handle, event->launched.value, event->stop.value, lane->stop_ns};
	return event->launched.value == lane->launched_ns ? lane->free_ns : 0;
}

/* What was handed out makes room. */
static void forget_taken(struct call_times *times)
{
	size_t kept = 0;

	if (times->call_count < CALLS_MAX)
		return;
	for (size_t i = 0; i < times->call_count; i++) {
		if (!times->calls[i].taken)
			times->calls[kept++] = times->calls[i];
	}
	times->call_count = kept;
	times->checked = 0;
}

static void add_call(struct call_times *times, const struct call *made)
{
	size_t place;

	forget_taken(times);
	if (times->call_count == CALLS_MAX) {
		times->counts.dropped++;
		return;
	}
	times->news = true;
	place = times->call_count++;
	/* Other threads' calls may be told a little late. */
	while (place > 0 && times->calls[place - 1].part.enqueue.value > made->part.enqueue.value)
		place--;
	memmove(times->calls + place + 1, times->calls + place,
		(times->call_count - 1 - place) * sizeof(*made));
	times->calls[place] = *made;
	if (place < times->checked)
		times->checked = place;
}

void call_times_call(struct call_times *times, const struct collective_part *part, uint64_t handle)
{
	struct call made = {.part = *part, .handle = handle, .number = ++times->number};

	made.part.flags |= PART_ENQUEUE_ONLY;
	made.part.enqueue = made.part.departure = made.part.arrival;
	add_call(times, &made);
}

void call_times_told_call(
	struct call_times *times, const struct collective_part *part, pid_t thread, uint64_t number)
{
	struct call made = {.part = *part, .thread = thread, .number = number};

	add_call(times, &made);
}

static void forget_told(struct call_times *times)
{
	size_t kept = 0;

	for (size_t i = 0; i < times->event_count; i++) {
		if (!times->events[i].told_ns)
			times->events[kept++] = times->events[i];
	}
	times->event_count = kept;
}

void call_times_event(struct call_times *times, const struct call_times_event *event)
{
	if (event->start.value <= 0 || event->stop.value < event->start.value)
		return;
	if (times->event_count == EVENTS_MAX)
		forget_told(times);
	if (times->event_count == EVENTS_MAX) {
		times->counts.dropped++;
		return;
	}
	struct timed_event *kept = &times->events[times->event_count++];

	*kept = (struct timed_event){.of = *event};
	kept->of.start.value = later(event->start.value, free_since(times, event));
	times->news = true;
}

void call_times_settled(struct call_times *times, struct host_ns settled, struct host_ns now)
{
	times->heard_ns = now.value;
	if (settled.value <= times->settled_ns)
		return;
	times->settled_ns = settled.value;
	times->checked = 0;
}

/* The first call that is not before a time. */
static size_t first_since(const struct call_times *times, int64_t time_ns)
{
	size_t low = 0, high = times->call_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (times->calls[middle].part.enqueue.value < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool is_of(const struct call *call, const struct call_times_event *event)
{
	return call->thread ? call->thread == event->thread : call->handle == event->handle;
}

static void give_times_to(
	struct call_times *times, struct call *call, const struct call_times_event *event)
{
	call->timed = true;
	call->part.flags &= (uint8_t)~PART_ENQUEUE_ONLY;
	call->part.flags |= PART_DEVICE_TIME;
	if (!call->thread)
		call->part.stream = (uint8_t)(1 + lane_of(times, call->handle));
	/* A device without work is ready before the kernel is there. */
	call->part.departure.value = later(event->stop.value, call->part.enqueue.value);
	call->part.arrival.value = earlier(call->part.departure.value,
		later(later(event->start.value, event->launched.value), call->part.enqueue.value));
}

/*
 * An uprobe sees one call of a function; the plug-in tells of all that it is made of: of ncclAlltoAll, a send and a
 * receive for each peer, in one kernel. Returns whether the event is done with.
 */
static bool give_times(struct call_times *times, struct timed_event *event, struct host_ns now)
{
	for (size_t i = first_since(times, event->of.entered.value);
		i < times->call_count &&
		times->calls[i].part.enqueue.value <= event->of.returned.value;
		i++) {
		struct call *call = &times->calls[i];

		if (!is_of(call, &event->of) || call->timed || call->taken)
			continue;
		give_times_to(times, call, &event->of);
		times->checked = 0;
		if (!call->thread)
			return true;
		if (!event->told_ns)
			event->told_ns = now.value;
	}
	return event->told_ns ? now.value - event->told_ns >= parts_apart_ns
			      : now.value - event->of.returned.value >= event_patience_ns;
}

static void match(struct call_times *times, struct host_ns now)
{
	size_t kept = 0;

	for (size_t i = 0; i < times->event_count; i++) {
		struct timed_event *event = &times->events[i];

		if (!give_times(times, event, now))
			times->events[kept++] = *event;
	}
	times->event_count = kept;
	times->news = false;
}

bool call_times_take(struct call_times *times, struct host_ns now, bool finish,
	struct collective_part *part, uint64_t *number)
{
	int64_t settled_ns = times->settled_ns;

	forget_taken(times);
	if (times->news)
		match(times, now);
	if (finish || now.value - times->heard_ns > CALL_TIMES_SILENCE_NS) {
		settled_ns = finish ? INT64_MAX : now.value - settle_ns;
		times->checked = 0;
	}
	for (; times->checked < times->call_count; times->checked++) {
		struct call *call = &times->calls[times->checked];
		bool full = times->call_count == CALLS_MAX && times->checked == 0;

		if (call->taken ||
			(!call->timed && !full && call->part.enqueue.value >= settled_ns))
			continue;
		call->taken = true;
		*(call->timed ? &times->counts.timed : &times->counts.untimed) += 1;
		*part = call->part;
		*number = call->number;
		return true;
	}
	return false;
}

void call_times_get_counts(const struct call_times *times, struct call_times_counts *counts)
{
	*counts = times->counts;
}
