/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/device_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach_events.h"
#include "probe/attach_kernels.h"
#include "probe/sources/ring_source.h"

enum {
	COMMUNICATORS_MAX = 65536,    /* of all processes together */
	RECORDS_PER_POLL_MAX = 65536, /* of one process: eight rings full */
};

/* Told once a second, and taken a little later. */
#define IN_FLIGHT_VALID_NS INT64_C(2500000000)

/* A communicator of a process, as its library tells it. */
struct device_communicator {
	pid_t pid;
	uint64_t hash;
	int32_t rank, rank_count;
	uint32_t functions;		 /* bits of enum ring_function that were announced */
	uint8_t stream;			 /* its calls follow each other; beside those of others */
	struct ring_in_flight in_flight; /* the last that was told; host_ns 0: nothing so far */
};

struct device_source {
	struct job *job;
	struct ring_source *rings;
	struct launch_rates *rates;
	struct device_looks *looks;
	struct attach_events *events; /* NULL with --deep off, and after attach without --deep */
	bool asked;		      /* --deep on */
	struct attach_kernels *shown; /* attach --deep; else NULL */
	size_t communicator_count, communicator_capacity, last;
	struct device_communicator *communicators;
	uint64_t with_device_time, without_device_time, copy_engine, lost;
	uint64_t others_times, implausible;
	int64_t in_flight_ns; /* when any process last told of a call in flight */
	/* Where nobody else sees the host: calls, and those with the CPU time of threads. */
	bool watches_launchers, knows_run_delay;
	uint64_t with_launchers, calls;
};

static struct device_communicator *find_communicator(
	struct device_source *source, pid_t pid, uint64_t hash)
{
	if (source->last < source->communicator_count) {
		struct device_communicator *last = &source->communicators[source->last];

		if (last->pid == pid && last->hash == hash)
			return last;
	}
	for (size_t i = 0; i < source->communicator_count; i++) {
		if (source->communicators[i].pid == pid && source->communicators[i].hash == hash) {
			source->last = i;
			return &source->communicators[i];
		}
	}
	return NULL;
}

static struct device_communicator *add_communicator(
	struct device_source *source, pid_t pid, uint64_t hash)
{
	if (source->communicator_count == source->communicator_capacity) {
		size_t capacity =
			source->communicator_capacity ? source->communicator_capacity * 2 : 64;
		struct device_communicator *grown =
			capacity <= COMMUNICATORS_MAX
				? realloc(source->communicators, capacity * sizeof(*grown))
				: NULL;

		if (!grown)
			return NULL;
		source->communicators = grown;
		source->communicator_capacity = capacity;
	}
	struct device_communicator made = {.pid = pid, .hash = hash, .rank = -1};
	size_t own_count = 0;

	for (size_t i = 0; i < source->communicator_count; i++)
		own_count += source->communicators[i].pid == pid;
	made.stream = (uint8_t)(own_count % UINT8_MAX + 1);
	source->communicators[source->communicator_count] = made;
	return &source->communicators[source->communicator_count++];
}

static void on_communicator(
	void *context, pid_t pid, const struct ring_communicator *communicator, bool ended)
{
	struct device_source *source = context;
	struct device_communicator *known = find_communicator(source, pid, communicator->hash);

	if (ended || !communicator->hash)
		return; /* calls of it may still come */
	if (!known)
		known = add_communicator(source, pid, communicator->hash);
	if (!known)
		return;
	known->rank = communicator->rank;
	known->rank_count = communicator->rank_count;
	known->functions = 0;
	/* So that the job knows that device times will come, before the first call does. */
	job_device_process(source->job, pid);
}

/* NCCL counts the calls of each function by itself; sends and receives are of one kind. */
static uint64_t counted_id(uint64_t hash, uint8_t function)
{
	uint64_t kind = function == RING_FUNCTION_RECEIVE ? RING_FUNCTION_SEND : function;
	uint64_t id = (hash ^ (kind << 56)) * UINT64_C(0x9e3779b97f4a7c15);

	id ^= id >> 32;
	return id ? id : 1;
}

static uint8_t operation_of(uint8_t function)
{
	static const uint8_t operations[RING_FUNCTION_NR] = {
		[RING_FUNCTION_ALL_REDUCE] = OPERATION_ALL_REDUCE,
		[RING_FUNCTION_ALL_GATHER] = OPERATION_ALL_GATHER,
		[RING_FUNCTION_REDUCE_SCATTER] = OPERATION_REDUCE_SCATTER,
		[RING_FUNCTION_BROADCAST] = OPERATION_BROADCAST,
		[RING_FUNCTION_REDUCE] = OPERATION_REDUCE,
		[RING_FUNCTION_SEND] = OPERATION_SEND,
		[RING_FUNCTION_RECEIVE] = OPERATION_RECEIVE,
		[RING_FUNCTION_ALL_TO_ALL] = OPERATION_ALL_TO_ALL,
		[RING_FUNCTION_GATHER] = OPERATION_GATHER,
		[RING_FUNCTION_SCATTER] = OPERATION_SCATTER,
	};

	return function < RING_FUNCTION_NR ? operations[function] : OPERATION_UNKNOWN;
}

static void announce(
	struct device_source *source, struct device_communicator *known, uint8_t function)
{
	struct communicator communicator = {
		.id = counted_id(known->hash, function),
		.size = known->rank_count > 0 ? (uint32_t)known->rank_count : 0,
		.own_index = known->rank >= 0 ? (uint32_t)known->rank : STEP_RANK_UNKNOWN,
	};

	if (function >= RING_FUNCTION_NR || known->functions & 1u << function)
		return;
	known->functions |= 1u << function;
	job_device_communicator(source->job, known->pid, &communicator);
}

static void on_collective(void *context, const struct ring_source_collective *call)
{
	struct device_source *source = context;
	struct device_communicator *known =
		find_communicator(source, call->pid, call->communicator);
	bool timed =
		call->device_start.value > 0 && call->device_stop.value >= call->device_start.value;
	bool graph = call->flags & RING_COLLECTIVE_GRAPH;
	bool has_peer =
		call->function == RING_FUNCTION_SEND || call->function == RING_FUNCTION_RECEIVE;

	if (!known) { /* its start was lost: a full ring */
		source->lost++;
		return;
	}
	announce(source, known, call->function);
	source->with_device_time += timed;
	source->copy_engine += (call->flags & RING_COLLECTIVE_COPY_ENGINE) != 0;
	struct collective_part part = {
		.communicator_id = counted_id(known->hash, call->function),
		.sequence = call->sequence,
		.length_bytes = call->length_bytes,
		.arrival = timed ? call->device_start : call->enqueue,
		.departure = timed ? call->device_stop : call->enqueue,
		.enqueue = call->enqueue,
		.launchers_cpu_ns = call->launchers_cpu_ns,
		.root = has_peer || call->root < 0 ? STEP_ROOT_NONE : call->root,
		.operation = operation_of(call->function),
		.flags = timed ? PART_DEVICE_TIME : PART_ENQUEUE_ONLY,
		.stream = known->stream,
		.peer = has_peer && call->root >= 0 ? (uint32_t)call->root + 1 : 0,
	};
	attach_events_told(source->events, call->pid, timed || graph);
	if (timed || graph ||
		!job_untold_call(
			source->job, call->pid, &part, (pid_t)call->thread_id, call->number)) {
		source->without_device_time += !timed;
		source->others_times += (call->flags & RING_COLLECTIVE_OTHERS_TIMES) != 0;
		source->implausible += (call->flags & RING_COLLECTIVE_IMPLAUSIBLE) != 0;
		job_device_call(source->job, call->pid, &part, call->number);
	}
	if (!source->watches_launchers)
		return;
	source->with_launchers += call->launchers_cpu_ns > 0;
	source->calls++;
	source->knows_run_delay |= job_device_launcher(source->job, call->pid, call->thread_id);
}

static void on_in_flight(void *context, pid_t pid, const struct ring_in_flight *call)
{
	struct device_source *source = context;
	struct device_communicator *known = find_communicator(source, pid, call->communicator);

	if (!known)
		return;
	announce(source, known, call->function); /* it may be the first of its kind */
	known->in_flight = *call;
	source->in_flight_ns = call->host_ns;
}

bool device_source_in_flight(const struct device_source *source, pid_t pid, struct host_ns now,
	struct message_stall *stall)
{
	const struct ring_in_flight *oldest = NULL;

	if (source->in_flight_ns <= now.value - IN_FLIGHT_VALID_NS)
		return false;
	for (size_t i = 0; i < source->communicator_count; i++) {
		const struct device_communicator *known = &source->communicators[i];

		if (known->pid == pid &&
			known->in_flight.host_ns > now.value - IN_FLIGHT_VALID_NS &&
			(!oldest || known->in_flight.launch_host_ns < oldest->launch_host_ns))
			oldest = &known->in_flight;
	}
	if (!oldest)
		return false;
	stall->communicator_id = counted_id(oldest->communicator, oldest->function);
	stall->sequence = oldest->sequence;
	stall->launched.value = oldest->launch_host_ns;
	stall->calls = oldest->count;
	stall->operation = operation_of(oldest->function);
	stall->started = oldest->started != 0;
	return true;
}

static void on_ended(void *context, pid_t pid)
{
	struct device_source *source = context;
	size_t kept = 0;

	for (size_t i = 0; i < source->communicator_count; i++) {
		if (source->communicators[i].pid != pid)
			source->communicators[kept++] = source->communicators[i];
	}
	source->communicator_count = kept;
	device_looks_ended(source->looks, pid);
	launch_rates_ended(source->rates, pid);
	attach_events_ended(source->events, pid);
	attach_kernels_ended(source->shown, pid);
}

static void on_hello(void *context, pid_t pid, const struct ring_hello *hello)
{
	struct device_source *source = context;

	launch_rates_add(source->rates, pid);
	device_looks_hello(source->looks, pid);
	attach_events_hello(source->events, pid, hello);
	attach_kernels_hello(source->shown, pid, hello);
}

void device_source_step(struct device_source *source, pid_t pid, const struct step_entry *step)
{
	launch_rates_step(source->rates, pid, step);
	device_looks_step(source->looks, pid, step);
	attach_kernels_step(source->shown, pid, step);
}

static void on_kernel(void *context, const struct ring_source_kernel *kernel)
{
	struct device_source *source = context;

	device_looks_kernel(source->looks, kernel);
	attach_kernels_kernel(source->shown, kernel);
}

static void on_copy(void *context, const struct ring_source_memcpy *copy)
{
	device_looks_copy(((struct device_source *)context)->looks, copy);
}

static void on_synchronisation(
	void *context, const struct ring_source_synchronisation *synchronisation)
{
	device_looks_synchronisation(((struct device_source *)context)->looks, synchronisation);
}

static void on_deep_state(void *context, pid_t pid, const struct ring_deep_report *report)
{
	struct device_source *source = context;

	device_looks_report(source->looks, pid, report);
	attach_kernels_report(source->shown, pid, report);
}

static void on_timed_call(void *context, const struct ring_source_timed_call *call)
{
	attach_events_call(((struct device_source *)context)->events, call);
}

static void on_timed_state(void *context, pid_t pid, const struct ring_timed_state *state)
{
	attach_events_state(((struct device_source *)context)->events, pid, state);
}

int device_source_create(
	struct job *job, const struct device_looks_options *looks, struct device_source **result)
{
	static const struct ring_source_callbacks callbacks = {
		.hello = on_hello,
		.communicator = on_communicator,
		.collective = on_collective,
		.kernel = on_kernel,
		.memcpy = on_copy,
		.synchronisation = on_synchronisation,
		.deep_state = on_deep_state,
		.timed_call = on_timed_call,
		.timed_state = on_timed_state,
		.in_flight = on_in_flight,
		.ended = on_ended,
	};
	struct device_source *source = calloc(1, sizeof(*source));
	int error;

	if (!source)
		return -ENOMEM;
	source->job = job;
	source->asked = looks->deep == PROBE_DEEP_ON;
	error = ring_source_create(NULL, &callbacks, source, &source->rings);
	if (error < 0) {
		free(source);
		return error;
	}
	source->rates = launch_rates_create();
	if (source->rates)
		source->looks = device_looks_create(looks, source->rings, job, source->rates);
	if (!source->looks) {
		device_source_destroy(source);
		return -ENOMEM;
	}
	if (source->asked || (looks->deep == PROBE_DEEP_AUTO && !looks->attached))
		source->events =
			attach_events_create(source->rings, job, looks->attached, source->asked);
	if (looks->attached && source->asked) {
		source->shown = attach_kernels_create(
			source->rings, job, source->events, source->looks, source->rates);
	}
	*result = source;
	return 0;
}

void device_source_destroy(struct device_source *source)
{
	if (!source)
		return;
	attach_kernels_destroy(source->shown);
	attach_events_destroy(source->events);
	device_looks_destroy(source->looks);
	launch_rates_destroy(source->rates);
	ring_source_destroy(source->rings);
	free(source->communicators);
	free(source);
}

void device_source_add_process(struct device_source *source, pid_t pid)
{
	/* More processes than the limit, or one that is gone already: seen by its calls alone. */
	(void)!ring_source_add_process(source->rings, pid);
}

size_t device_source_poll(struct device_source *source, struct host_ns now)
{
	attach_events_tick(source->events, now);
	attach_kernels_tick(source->shown, now);
	return ring_source_poll(source->rings, now, RECORDS_PER_POLL_MAX);
}

void device_source_launches(
	struct device_source *source, pid_t pid, const struct launch_count *count)
{
	launch_rates_counted(source->rates, pid, count);
}

bool device_source_wants_launches(const struct device_source *source)
{
	return device_looks_wants_launches(source->looks);
}

struct device_looks *device_source_looks(struct device_source *source)
{
	return source->looks;
}

void device_source_pause(struct device_source *source, bool paused)
{
	ring_source_pause(source->rings, paused);
}

static void put_state(struct message_source *out, enum source_state state, const char *why)
{
	snprintf(out->name, sizeof(out->name), "device.time");
	out->state = (uint8_t)state;
	snprintf(out->why, sizeof(out->why), "%s", why);
}

/* False: no collective was lost on its way. */
static bool put_lost(const struct device_source *source, struct message_source *out)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct ring_source_state state;

	ring_source_get_state(source->rings, &state);
	if (!state.dropped)
		return false;
	snprintf(why, sizeof(why),
		"%" PRIu64 " records were lost (%" PRIu64 " for a full ring, %" PRIu64
		" for too many in flight)",
		state.dropped, state.dropped_full, state.dropped_by_writer);
	put_state(out, SOURCE_DEGRADED, why);
	return true;
}

/* False: NCCL told no times that were left out. */
static bool put_left_out(const struct device_source *source, struct message_source *out)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	if (source->others_times)
		snprintf(why, sizeof(why),
			"%" PRIu64
			" collectives behind a broadcast: NCCL tells other calls' times for "
			"them (NCCL_ALLGATHERV_ENABLE=0 avoids it), which were left out",
			source->others_times);
	else if (source->implausible)
		snprintf(why, sizeof(why),
			"%" PRIu64
			" collectives had times before their launch or behind their end, "
			"which were left out",
			source->implausible);
	else
		return false;
	put_state(out, source->with_device_time ? SOURCE_DEGRADED : SOURCE_MISSING, why);
	return true;
}

/* Some calls have device times. */
static void put_timed(const struct device_source *source, struct message_source *out)
{
	struct call_times_counts filled;
	uint64_t without, all;

	job_call_times_counts(source->job, &filled);
	without = source->without_device_time + filled.untimed;
	all = source->with_device_time + filled.timed + without;
	if (!without || (filled.timed && without * 100 < all))
		put_state(out, SOURCE_ON, "");
	else if (source->events)
		put_state(out, SOURCE_DEGRADED, "some collectives came without device times");
	else
		put_state(out, SOURCE_DEGRADED,
			"some collectives came without device times (--deep auto times such calls "
			"by events where they are many)");
}

bool device_source_state(const struct device_source *source, const char *why_not, bool enqueue_only,
	struct message_source *out)
{
	if (source && !source->with_device_time &&
		(attach_events_coverage(source->events, out) ||
			attach_kernels_state(source->shown, out)))
		return true;
	if (source && put_lost(source, out))
		return true;
	if (source && attach_events_off(source->events, out)) {
		out->state = SOURCE_DEGRADED;
		return true;
	}
	if (source && put_left_out(source, out))
		return true;
	if (source && source->copy_engine)
		put_state(out, SOURCE_DEGRADED,
			"some collectives ran on copy engines, without a kernel: not timed");
	else if (source && source->with_device_time)
		put_timed(source, out);
	else if (enqueue_only || (source && source->without_device_time))
		put_state(out, SOURCE_MISSING,
			why_not[0] ? why_not
				   : "collectives seen by enqueue time only: waits are not judged");
	else
		return false;
	return true;
}

void device_source_watch_launchers(struct device_source *source)
{
	source->watches_launchers = true;
	ring_source_want_launchers_cpu(source->rings);
}

bool device_source_launchers_state(const struct device_source *source, struct message_source *out)
{
	if (!source->watches_launchers || source->calls == 0)
		return false;
	snprintf(out->name, sizeof(out->name), "device.launchers");
	out->state = SOURCE_ON;
	out->why[0] = '\0';
	if (!source->with_launchers) {
		out->state = SOURCE_MISSING;
		snprintf(out->why, sizeof(out->why),
			"waits for the device sleep here (blocking synchronisation), or more than "
			"8 "
			"threads make collectives: when a rank's host slept is not known");
	} else if (!source->knows_run_delay) {
		out->state = SOURCE_DEGRADED;
		snprintf(out->why, sizeof(out->why),
			"its threads' waits for a CPU cannot be read "
			"(/proc/PID/task/TID/schedstat): "
			"they count as sleep");
	}
	return true;
}

uint64_t device_source_dropped(const struct device_source *source)
{
	struct ring_source_state state;

	ring_source_get_state(source->rings, &state);
	return state.dropped + state.damaged + source->lost + device_looks_lost(source->looks);
}
