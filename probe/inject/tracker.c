/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/tracker.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "probe/inject/clock_bounds.h"
#include "probe/inject/gpu_clock.h"
#include "probe/inject/process.h"
#include "probe/inject/tracker_names.h"

#define NO_TIME INT64_MAX
enum { PLACES_TRIED = 16, CHANNELS_MAX = 64 };
/*
 * The kernels of a communicator follow each other; only calls of one group, which are one kernel, end in any
 * order. So when so many kernels that were launched later have ended, a call that is still in flight has ended too, and
 * NCCL did not tell of all its channels. One later kernel is not enough: NCCL looks at channels in turn.
 */
enum { KERNELS_PASSED = 4 };

/* Without an end for so long, calls in a full table that were launched before are taken for some whose end is not told. */
#define SILENT_NS INT64_C(1000000000)

/* Points of a channel: some for a time before the call, less one for each that is not. From so many on, its times are other calls'. */
enum { EARLY_POINTS = 2, EARLY_POINTS_MIN = 16, EARLY_POINTS_MAX = 128 };

enum { STATE_FREE = 0, STATE_ACTIVE = 1, STATE_BUSY = 2 };
enum {
	KIND_API = 1,
	KIND_TASK = 2,
	KIND_CHANNEL = 3,
	KIND_LOST_TASK = 4, /* without a place */
	KIND_LOST_CHANNEL = 5,
	KIND_UNTIMED_CHANNEL = 6, /* NCCL tells another call's times for it */
};
enum { KIND_BITS = 3, COMMUNICATOR_BITS = 6, PLACE_BITS = 10, GENERATION_BITS = 29, KEY_BITS = 16 };
_Static_assert(TRACKER_COMMUNICATORS_MAX == 1 << COMMUNICATOR_BITS, "handle");
_Static_assert(TRACKER_EVENTS_MAX == 1 << PLACE_BITS, "handle");
_Static_assert(KIND_BITS + COMMUNICATOR_BITS + PLACE_BITS + GENERATION_BITS + KEY_BITS == 64, "");

struct event {
	uint64_t tag;				/* atomic: generation << 2 | state */
	uint64_t order;				/* atomic: of its launch */
	uint64_t kernel;			/* atomic: that it is a part of */
	int64_t start_ns, stop_ns, observed_ns; /* atomic: earliest, latest */
	uint32_t stopped;     /* atomic: channels that ended, with a time or not */
	uint32_t seen;	      /* atomic: of these, with both times */
	uint32_t zero_stamps; /* atomic */
	int64_t earliest_ns;  /* its kernel did not start before */
	struct ring_collective collective;
};

struct communicator {
	uint32_t used; /* atomic */
	uint64_t hash;
	int32_t rank, rank_count, node_count;
	uint8_t device;
	uint64_t cursor;       /* atomic */
	uint64_t launched;     /* atomic: events so far, also of those before it here */
	uint64_t ended;	       /* atomic: the order of the last launched one that ended */
	uint64_t kernels;      /* atomic: launched so far */
	uint64_t ended_kernel; /* atomic: the last one of which some call ended */
	uint64_t swept;	       /* atomic: places that hold nothing to be ended by finish_passed() */
	int64_t timed_ns; /* atomic: when an end was last told, with its time; at first its begin */
	int64_t launch_after_ns; /* atomic: the kernel whose tasks are told of was launched later */
	int64_t told_ns; /* atomic: the last word of a kernel's tasks; 0 = the next one's are being told of */
	uint64_t dropped;	     /* atomic */
	uint32_t untimed;	     /* atomic: its first channels, whose times are other calls' */
	uint8_t early[CHANNELS_MAX]; /* atomic: points of each channel */
	uint32_t broadcasts;	     /* atomic: called, and without a task so far */
	struct event *events;	     /* kept for the next communicator here */
	uint32_t *peer_sequences;    /* atomic; sends, then receives */
	size_t peer_count;
};

static struct {
	pthread_mutex_t lock; /* of begin and end */
	uint64_t launched;    /* atomic: collectives of all of them */
	struct communicator communicators[TRACKER_COMMUNICATORS_MAX];
} tracker = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *make_handle(unsigned kind, uint64_t communicator, uint64_t place, uint64_t generation)
{
	uint64_t value = process_key() & ((1U << KEY_BITS) - 1);

	value = value << GENERATION_BITS | (generation & ((UINT64_C(1) << GENERATION_BITS) - 1));
	value = value << PLACE_BITS | place;
	value = value << COMMUNICATOR_BITS | communicator;
	return (void *)(uintptr_t)(value << KIND_BITS | kind);
}

static unsigned handle_kind(const void *handle)
{
	return (unsigned)((uintptr_t)handle & ((1U << KIND_BITS) - 1));
}

static void *with_kind(const void *handle, unsigned kind)
{
	return (void *)(((uintptr_t)handle & ~(uintptr_t)((1U << KIND_BITS) - 1)) | kind);
}

/* The communicator of a handle (a task's or channel's), if that is of this kind and process; or NULL. */
static struct communicator *handle_communicator(const void *handle, unsigned kind)
{
	uint64_t value = (uintptr_t)handle >> KIND_BITS;
	struct communicator *communicator =
		&tracker.communicators[value & (TRACKER_COMMUNICATORS_MAX - 1)];

	value >>= COMMUNICATOR_BITS + PLACE_BITS + GENERATION_BITS;
	if (handle_kind(handle) != kind || !process_is_live() || !communicator->events ||
		value != (process_key() & ((1U << KEY_BITS) - 1)))
		return NULL;
	return communicator;
}

/* The event that a handle of a task or channel means, when it is still the same one. */
static struct event *find_event(const struct communicator *communicator, const void *handle)
{
	uint64_t value = (uintptr_t)handle >> (KIND_BITS + COMMUNICATOR_BITS), generation, tag;
	struct event *event;

	if (!communicator)
		return NULL;
	event = &communicator->events[value & (TRACKER_EVENTS_MAX - 1)];
	generation = (value >> PLACE_BITS) & ((UINT64_C(1) << GENERATION_BITS) - 1);
	tag = __atomic_load_n(&event->tag, __ATOMIC_ACQUIRE);
	if ((tag & 3) == STATE_ACTIVE &&
		((tag >> 2) & ((UINT64_C(1) << GENERATION_BITS) - 1)) == generation)
		return event;
	process_count_drop(PROCESS_DROP_LATE);
	return NULL;
}

static struct communicator *find_communicator(void *context)
{
	uintptr_t offset = (uintptr_t)context - (uintptr_t)tracker.communicators;
	struct communicator *communicator = context;

	if (offset >= sizeof(tracker.communicators) || offset % sizeof(*communicator) ||
		!process_is_live() || !__atomic_load_n(&communicator->used, __ATOMIC_ACQUIRE))
		return NULL;
	return communicator;
}

static void write_communicator(const struct communicator *communicator, bool ended)
{
	struct ring_communicator record = {.hash = communicator->hash,
		.rank = communicator->rank,
		.rank_count = communicator->rank_count,
		.node_count = communicator->node_count,
		.index = (uint32_t)(communicator - tracker.communicators),
		.host_ns = process_now_ns(),
		.dropped = __atomic_load_n(&communicator->dropped, __ATOMIC_RELAXED)};

	if (record.hash)
		process_write(ended ? RING_RECORD_COMMUNICATOR_END : RING_RECORD_COMMUNICATOR,
			&record, sizeof(record));
}

static void *map_zeroed(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* A free communicator with its memory. Sequences of peers are optional, events are not. */
static struct communicator *take_communicator(int rank_count)
{
	size_t peers = rank_count > 0 && rank_count <= TRACKER_PEERS_MAX ? (size_t)rank_count : 0;
	struct communicator *communicator = NULL;

	for (size_t i = 0; i < TRACKER_COMMUNICATORS_MAX && !communicator; i++) {
		if (!tracker.communicators[i].used)
			communicator = &tracker.communicators[i];
	}
	if (!communicator)
		return NULL;
	if (!communicator->events)
		communicator->events = map_zeroed(TRACKER_EVENTS_MAX * sizeof(struct event));
	if (!communicator->events)
		return NULL;
	if (communicator->peer_sequences)
		munmap(communicator->peer_sequences,
			2 * communicator->peer_count * sizeof(uint32_t));
	communicator->peer_sequences = peers ? map_zeroed(2 * peers * sizeof(uint32_t)) : NULL;
	communicator->peer_count = communicator->peer_sequences ? peers : 0;
	return communicator;
}

void *tracker_begin(uint64_t hash, int rank, int rank_count, int node_count)
{
	struct communicator *communicator;

	pthread_mutex_lock(&tracker.lock);
	communicator = take_communicator(rank_count);
	if (communicator) {
		communicator->hash = hash;
		communicator->rank = rank;
		communicator->rank_count = rank_count;
		communicator->node_count = node_count;
		communicator->device = gpu_clock_device();
		communicator->dropped = 0;
		communicator->untimed = 0;
		memset(communicator->early, 0, sizeof(communicator->early));
		communicator->broadcasts = 0;
		communicator->launch_after_ns = communicator->told_ns = process_now_ns();
		__atomic_store_n(&communicator->timed_ns, process_now_ns(), __ATOMIC_RELAXED);
		__atomic_store_n(&communicator->used, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&tracker.lock);
	if (communicator)
		write_communicator(communicator, false);
	else
		process_count_drop(PROCESS_DROP_COMMUNICATOR);
	return communicator;
}

void tracker_learn(void *context, uint64_t hash, int rank)
{
	struct communicator *communicator = find_communicator(context);
	uint64_t unknown = 0;

	if (!communicator || !hash || communicator->hash)
		return;
	communicator->rank = rank;
	if (__atomic_compare_exchange_n(
		    &communicator->hash, &unknown, hash, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		write_communicator(communicator, false);
}

/* Takes an active event, as it was seen with this tag, away from everybody else. */
static bool claim_event(struct event *event, uint64_t tag)
{
	return (tag & 3) == STATE_ACTIVE &&
	       __atomic_compare_exchange_n(&event->tag, &tag, (tag & ~UINT64_C(3)) | STATE_BUSY,
		       false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Writes a claimed event and frees its place. */
static void finish_event(struct event *event)
{
	struct ring_collective *collective = &event->collective;
	int64_t start = __atomic_load_n(&event->start_ns, __ATOMIC_RELAXED);
	uint64_t tag = __atomic_load_n(&event->tag, __ATOMIC_RELAXED);
	uint32_t seen = __atomic_load_n(&event->seen, __ATOMIC_RELAXED);
	uint32_t zeros = __atomic_load_n(&event->zero_stamps, __ATOMIC_RELAXED);

	collective->device_start_ns = start == NO_TIME ? 0 : start;
	collective->device_stop_ns = __atomic_load_n(&event->stop_ns, __ATOMIC_RELAXED);
	collective->observed_host_ns = __atomic_load_n(&event->observed_ns, __ATOMIC_RELAXED);
	collective->channels_seen = (uint8_t)(seen > 255 ? 255 : seen);
	collective->zero_stamps = (uint8_t)(zeros > 255 ? 255 : zeros);
	if (seen < collective->channels_expected)
		collective->flags |= RING_COLLECTIVE_INCOMPLETE;
	process_write(RING_RECORD_COLLECTIVE, collective, sizeof(*collective));
	__atomic_store_n(&event->tag, ((tag >> 2) + 1) << 2 | STATE_FREE, __ATOMIC_RELEASE);
}

void tracker_end(void *context)
{
	struct communicator *communicator = find_communicator(context);

	if (!communicator)
		return;
	for (size_t i = 0; i < TRACKER_EVENTS_MAX; i++) {
		struct event *event = &communicator->events[i];

		if (claim_event(event, __atomic_load_n(&event->tag, __ATOMIC_ACQUIRE)))
			finish_event(event);
	}
	write_communicator(communicator, true);
	pthread_mutex_lock(&tracker.lock);
	__atomic_store_n(&communicator->used, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&tracker.lock);
}

/* The time itself is the handle: 60 bits of nanoseconds, and whether a graph is captured. */
void *tracker_api_start(void *context, const char *function, bool graph_captured)
{
	struct communicator *communicator = find_communicator(context);
	uint64_t now = (uint64_t)process_now_ns();

	if (communicator && tracker_function(function) == RING_FUNCTION_BROADCAST)
		__atomic_fetch_add(&communicator->broadcasts, 1, __ATOMIC_RELAXED);
	return (void *)(uintptr_t)(now << (KIND_BITS + 1) | (uint64_t)graph_captured << KIND_BITS |
				   KIND_API);
}

static uint64_t next_peer_sequence(
	struct communicator *communicator, const struct tracker_task *task, uint8_t function)
{
	size_t index = (size_t)task->root;

	if (task->root < 0 || index >= communicator->peer_count)
		return 0;
	if (function == RING_FUNCTION_RECEIVE)
		index += communicator->peer_count;
	return __atomic_fetch_add(&communicator->peer_sequences[index], 1, __ATOMIC_RELAXED);
}

/* A broadcast has its task, also at each replay of its graph. */
static void note_broadcast(struct communicator *communicator)
{
	uint32_t known = __atomic_load_n(&communicator->broadcasts, __ATOMIC_RELAXED);

	while (known > 0 && !__atomic_compare_exchange_n(&communicator->broadcasts, &known,
				    known - 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void fill_collective(struct communicator *communicator, const struct tracker_task *task,
	struct ring_collective *collective)
{
	uint8_t function = tracker_function(task->function),
		datatype = tracker_datatype(task->datatype);

	*collective = (struct ring_collective){.communicator = communicator->hash,
		.sequence = task->sequence,
		.length_bytes = task->element_count * tracker_datatype_bytes(datatype),
		.launch_host_ns = process_now_ns(),
		.thread_id = process_thread_id(),
		.root = task->root,
		.rank = task->rank,
		.function = function,
		.datatype = datatype,
		.channels_expected = task->channels,
		.device = communicator->device,
		.number = __atomic_add_fetch(&tracker.launched, 1, __ATOMIC_RELAXED),
		.launchers_cpu_ns = process_launchers_cpu_ns()};
	collective->enqueue_host_ns = collective->launch_host_ns;
	if (task->point_to_point) {
		collective->sequence = next_peer_sequence(communicator, task, function);
		collective->flags |= RING_COLLECTIVE_SEQUENCE_COUNTED;
	}
	if (function == RING_FUNCTION_BROADCAST)
		note_broadcast(communicator);
	if (__atomic_load_n(&communicator->broadcasts, __ATOMIC_RELAXED) > 0)
		collective->flags |= RING_COLLECTIVE_OTHERS_TIMES;
	if (task->copy_engine)
		collective->flags |= RING_COLLECTIVE_COPY_ENGINE;
	if (task->channels == 0)
		collective->flags |= RING_COLLECTIVE_NO_DEVICE;
	if (handle_kind(task->api) == KIND_API) {
		uint64_t value = (uintptr_t)task->api >> KIND_BITS;

		if (value & 1)
			collective->flags |= RING_COLLECTIVE_GRAPH;
		else
			collective->enqueue_host_ns = (int64_t)(value >> 1);
	}
}

/*
 * NCCL tells of a kernel's tasks after its launch: first that each begins, then that each is enqueued. So the first one
 * behind that is of another kernel, which was launched behind the last word of the one before.
 */
static void note_kernel(struct communicator *communicator)
{
	int64_t told_ns = __atomic_exchange_n(&communicator->told_ns, 0, __ATOMIC_RELAXED);

	if (!told_ns)
		return;
	__atomic_store_n(&communicator->launch_after_ns, told_ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&communicator->kernels, 1, __ATOMIC_RELAXED);
}

/* When a kernel can have started at the earliest: when it was called, of which NCCL tells from version 5 on. */
static int64_t earliest_start(
	struct communicator *communicator, const struct ring_collective *collective)
{
	return ring_collective_knows_call(collective)
		       ? collective->enqueue_host_ns
		       : __atomic_load_n(&communicator->launch_after_ns, __ATOMIC_RELAXED);
}

/* Later kernels have ended. */
static bool is_passed(const struct communicator *communicator, const struct event *event)
{
	return __atomic_load_n(&event->kernel, __ATOMIC_RELAXED) + KERNELS_PASSED <=
	       __atomic_load_n(&communicator->ended_kernel, __ATOMIC_RELAXED);
}

/*
 * It ended, since what was launched later has, and will not be told of; or nothing is told of on this communicator
 * for a second, though all places are in use.
 */
static bool is_stale(const struct communicator *communicator, const struct event *event)
{
	int64_t long_ago = process_now_ns() - SILENT_NS;

	return is_passed(communicator, event) ||
	       (event->collective.launch_host_ns < long_ago &&
		       __atomic_load_n(&communicator->timed_ns, __ATOMIC_RELAXED) < long_ago);
}

/* The place is free for one more event, and taken; a stale one is given up for it. */
static bool take_place(const struct communicator *communicator, struct event *event)
{
	uint64_t tag = __atomic_load_n(&event->tag, __ATOMIC_ACQUIRE);

	if ((tag & 3) == STATE_ACTIVE && is_stale(communicator, event) && claim_event(event, tag)) {
		finish_event(event);
		tag = __atomic_load_n(&event->tag, __ATOMIC_ACQUIRE);
	}
	return (tag & 3) == STATE_FREE &&
	       __atomic_compare_exchange_n(&event->tag, &tag, tag | STATE_BUSY, false,
		       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* A place for one more event: the next, or one soon after it, for some events stay long. NULL: none. */
static struct event *take_event(struct communicator *communicator, size_t *place)
{
	for (int tries = 0; tries < PLACES_TRIED; tries++) {
		*place = (size_t)__atomic_fetch_add(&communicator->cursor, 1, __ATOMIC_RELAXED) &
			 (TRACKER_EVENTS_MAX - 1);
		if (take_place(communicator, &communicator->events[*place]))
			return &communicator->events[*place];
	}
	return NULL;
}

/* All places are taken: it is not recorded. Its end is heard of all the same, and tells of others'. */
static void *lose_event(struct communicator *communicator, const struct tracker_task *task)
{
	uint64_t kernel = __atomic_load_n(&communicator->kernels, __ATOMIC_RELAXED);

	if (task->point_to_point)
		(void)next_peer_sequence(communicator, task, tracker_function(task->function));
	__atomic_fetch_add(&communicator->dropped, 1, __ATOMIC_RELAXED);
	process_count_drop(PROCESS_DROP_EVENT);
	return make_handle(KIND_LOST_TASK, (uint64_t)(communicator - tracker.communicators),
		kernel & (TRACKER_EVENTS_MAX - 1), kernel >> PLACE_BITS);
}

/* The kernel of one without a place: as much of it as the handle holds, the newest that it can be. */
static uint64_t lost_kernel(const struct communicator *communicator, const void *handle)
{
	uint64_t mask = (UINT64_C(1) << (PLACE_BITS + GENERATION_BITS)) - 1;
	uint64_t kernels = __atomic_load_n(&communicator->kernels, __ATOMIC_RELAXED);

	return kernels -
	       ((kernels - ((uintptr_t)handle >> (KIND_BITS + COMMUNICATOR_BITS))) & mask);
}

static void raise_to(uint64_t *value, uint64_t least)
{
	uint64_t known = __atomic_load_n(value, __ATOMIC_RELAXED);

	while (least > known && !__atomic_compare_exchange_n(value, &known, least, true,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Ends calls that later kernels have passed, as far as they lie before all others in flight. */
static void finish_passed(struct communicator *communicator)
{
	uint64_t swept = __atomic_load_n(&communicator->swept, __ATOMIC_RELAXED);

	while (swept < __atomic_load_n(&communicator->cursor, __ATOMIC_RELAXED)) {
		struct event *event = &communicator->events[swept & (TRACKER_EVENTS_MAX - 1)];
		uint64_t tag = __atomic_load_n(&event->tag, __ATOMIC_ACQUIRE);

		if ((tag & 3) == STATE_BUSY ||
			((tag & 3) == STATE_ACTIVE && !is_passed(communicator, event)))
			return;
		if (claim_event(event, tag))
			finish_event(event);
		if (__atomic_compare_exchange_n(&communicator->swept, &swept, swept + 1, false,
			    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			swept++;
	}
}

/*
 * NCCL (2.27 to 2.30) finds a kernel's times on a channel by counting what ran there. The device
 * counts exchanges with oneself, which lie on a communicator's first channels, the host does not:
 * from the first one on, the times told for these channels are those of some call before, and are
 * told at once. Large ones lie on more channels, and shift those where no other message is: is_early().
 */
static void note_own_exchange(struct communicator *communicator, uint8_t channels)
{
	if (channels > __atomic_load_n(&communicator->untimed, __ATOMIC_RELAXED))
		__atomic_store_n(&communicator->untimed, channels, __ATOMIC_RELAXED);
}

/*
 * A kernel seems to have begun before its call: the time is another call's; and where that goes on, so are those of the
 * channel that would fit.
 */
static bool is_early(struct communicator *communicator, const struct event *event, uint8_t channel,
	int64_t start_ns)
{
	const struct ring_collective *call = &event->collective;
	uint8_t *points = &communicator->early[channel % CHANNELS_MAX];
	uint8_t known = __atomic_load_n(points, __ATOMIC_RELAXED);
	bool early;

	if (start_ns <= 0 || call->flags & RING_COLLECTIVE_GRAPH)
		return false;
	early = clock_bounds_precede(call->device, event->earliest_ns, start_ns);
	if (early && known < EARLY_POINTS_MAX)
		known += EARLY_POINTS;
	else if (!early && known > 0)
		known--;
	__atomic_store_n(points, known, __ATOMIC_RELAXED);
	return early || known >= EARLY_POINTS_MIN;
}

void *tracker_task_start(void *context, const struct tracker_task *task)
{
	struct communicator *communicator = find_communicator(context);
	struct event *event;
	uint64_t generation, order;
	size_t place;

	if (!communicator)
		return NULL;
	/* Nobody waits for an exchange with oneself, and NCCL does not tell of its end. */
	if (task->point_to_point && task->root == task->rank) {
		note_own_exchange(communicator, task->channels);
		return NULL;
	}
	if (task->channels == 0) {
		struct ring_collective collective;

		fill_collective(communicator, task, &collective);
		process_write(RING_RECORD_COLLECTIVE, &collective, sizeof(collective));
		return NULL;
	}
	order = __atomic_add_fetch(&communicator->launched, 1, __ATOMIC_RELAXED);
	note_kernel(communicator);
	event = take_event(communicator, &place);
	if (!event)
		return lose_event(communicator, task);
	fill_collective(communicator, task, &event->collective);
	event->earliest_ns = earliest_start(communicator, &event->collective);
	__atomic_store_n(&event->order, order, __ATOMIC_RELAXED);
	__atomic_store_n(&event->kernel, __atomic_load_n(&communicator->kernels, __ATOMIC_RELAXED),
		__ATOMIC_RELAXED);
	event->start_ns = NO_TIME;
	event->stop_ns = event->observed_ns = 0;
	event->stopped = event->seen = event->zero_stamps = 0;
	generation = __atomic_load_n(&event->tag, __ATOMIC_RELAXED) >> 2;
	__atomic_store_n(&event->tag, generation << 2 | STATE_ACTIVE, __ATOMIC_RELEASE);
	return make_handle(
		KIND_TASK, (uint64_t)(communicator - tracker.communicators), place, generation);
}

void *tracker_channel_start(void *task, uint8_t channel, uint64_t timer)
{
	struct communicator *lost = handle_communicator(task, KIND_LOST_TASK);
	struct communicator *communicator = handle_communicator(task, KIND_TASK);
	struct event *event = find_event(communicator, task);
	int64_t start = (int64_t)timer, known;

	if (lost && channel >= __atomic_load_n(&lost->untimed, __ATOMIC_RELAXED) &&
		!__atomic_load_n(&lost->broadcasts, __ATOMIC_RELAXED))
		return with_kind(task, KIND_LOST_CHANNEL);
	if (!event)
		return NULL;
	if (event->collective.flags & RING_COLLECTIVE_OTHERS_TIMES ||
		channel < __atomic_load_n(&communicator->untimed, __ATOMIC_RELAXED) ||
		is_early(communicator, event, channel, start))
		return with_kind(task, KIND_UNTIMED_CHANNEL);
	if (start <= 0) {
		__atomic_fetch_add(&event->zero_stamps, 1, __ATOMIC_RELAXED);
	} else {
		known = __atomic_load_n(&event->start_ns, __ATOMIC_RELAXED);
		while (start < known && !__atomic_compare_exchange_n(&event->start_ns, &known,
						start, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
		if (!(event->collective.flags & RING_COLLECTIVE_GRAPH))
			clock_bounds_started(event->collective.device, event->earliest_ns, start);
	}
	return with_kind(task, KIND_CHANNEL);
}

void tracker_channel_time(void *channel, uint64_t timer)
{
	struct communicator *communicator = handle_communicator(channel, KIND_CHANNEL);
	struct communicator *untimed = handle_communicator(channel, KIND_UNTIMED_CHANNEL);
	struct event *event = find_event(untimed ? untimed : communicator, channel);
	int64_t stop = (int64_t)timer, now, known;

	if (!event)
		return;
	if (untimed) { /* another call's end is one: were it not for these, a wrong bound would stay */
		if (stop > 0)
			clock_bounds_stopped(event->collective.device, process_now_ns(), stop);
		return;
	}
	if (stop <= 0) {
		__atomic_fetch_add(&event->zero_stamps, 1, __ATOMIC_RELAXED);
		return;
	}
	now = process_now_ns();
	__atomic_store_n(&communicator->timed_ns, now, __ATOMIC_RELAXED);
	clock_bounds_stopped(event->collective.device, now, stop);
	known = __atomic_load_n(&event->stop_ns, __ATOMIC_RELAXED);
	while (stop > known && !__atomic_compare_exchange_n(&event->stop_ns, &known, stop, true,
				       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	__atomic_store_n(&event->observed_ns, now, __ATOMIC_RELAXED);
	__atomic_fetch_add(&event->seen, 1, __ATOMIC_RELAXED);
}

void tracker_stop(void *handle) /* a task's means enqueued, not finished */
{
	struct communicator *lost = handle_communicator(handle, KIND_LOST_CHANNEL);
	struct communicator *timed = handle_communicator(handle, KIND_CHANNEL);
	struct communicator *untimed = handle_communicator(handle, KIND_UNTIMED_CHANNEL);
	struct communicator *task = handle_communicator(handle, KIND_TASK);
	struct communicator *lost_task = handle_communicator(handle, KIND_LOST_TASK);
	struct communicator *told = task ? task : lost_task;
	struct event *event = find_event(timed ? timed : untimed, handle);
	uint64_t tag;

	if (told)
		__atomic_store_n(&told->told_ns, process_now_ns(), __ATOMIC_RELAXED);
	if (lost)
		raise_to(&lost->ended_kernel, lost_kernel(lost, handle));
	if (!event)
		return;
	if (timed) { /* else another call has ended */
		raise_to(&timed->ended, __atomic_load_n(&event->order, __ATOMIC_RELAXED));
		raise_to(&timed->ended_kernel, __atomic_load_n(&event->kernel, __ATOMIC_RELAXED));
	}
	tag = __atomic_load_n(&event->tag, __ATOMIC_ACQUIRE);
	if (__atomic_add_fetch(&event->stopped, 1, __ATOMIC_ACQ_REL) ==
			event->collective.channels_expected &&
		claim_event(event, tag)) {
		finish_event(event);
		finish_passed(timed ? timed : untimed);
	}
}

/* The oldest that is still to end; false: none, or it is not old. */
static bool find_in_flight(
	const struct communicator *communicator, int64_t now, struct ring_in_flight *found)
{
	uint64_t oldest = UINT64_MAX;

	*found = (struct ring_in_flight){.communicator = communicator->hash, .host_ns = now};
	for (size_t i = 0; i < TRACKER_EVENTS_MAX; i++) {
		const struct event *event = &communicator->events[i];
		uint64_t tag = __atomic_load_n(&event->tag, __ATOMIC_ACQUIRE);
		uint64_t order = __atomic_load_n(&event->order, __ATOMIC_RELAXED);
		struct ring_collective call;

		if ((tag & 3) != STATE_ACTIVE || is_passed(communicator, event))
			continue;
		found->count++;
		if (order > oldest)
			continue;
		memcpy(&call, &event->collective, sizeof(call));
		if (__atomic_load_n(&event->tag, __ATOMIC_ACQUIRE) != tag)
			continue; /* it has just ended */
		oldest = order;
		found->sequence = call.sequence;
		found->launch_host_ns = call.launch_host_ns;
		found->root = call.root;
		found->function = call.function;
		found->started = __atomic_load_n(&event->start_ns, __ATOMIC_RELAXED) != NO_TIME ||
				 __atomic_load_n(&event->zero_stamps, __ATOMIC_RELAXED) > 0;
	}
	return oldest != UINT64_MAX && found->launch_host_ns < now - RING_IN_FLIGHT_NS;
}

void tracker_report_in_flight(void)
{
	int64_t now = process_now_ns();
	struct ring_in_flight found;

	for (size_t i = 0; i < TRACKER_COMMUNICATORS_MAX; i++) {
		const struct communicator *communicator = &tracker.communicators[i];

		/* One that goes on, or has nothing to do, costs no more than this. */
		if (!__atomic_load_n(&communicator->used, __ATOMIC_ACQUIRE) ||
			__atomic_load_n(&communicator->timed_ns, __ATOMIC_RELAXED) >
				now - RING_IN_FLIGHT_NS ||
			__atomic_load_n(&communicator->launched, __ATOMIC_RELAXED) ==
				__atomic_load_n(&communicator->ended, __ATOMIC_RELAXED))
			continue;
		if (find_in_flight(communicator, now, &found))
			process_write(RING_RECORD_IN_FLIGHT, &found, sizeof(found));
	}
}
