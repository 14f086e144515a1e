/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the ring, checked, as the callbacks' structs. Nothing in them is believed. */
#include <stdlib.h>
#include <string.h>

#include "probe/sources/ring_source_internal.h"

/* The payload's struct, if the record is long enough for it. Records may grow. */
#define PAYLOAD(record, member)                                                                    \
	((record)->length_bytes >= sizeof((record)->member) ? &(record)->member : NULL)

static struct host_ns to_host(const struct ring_clock *clock, int64_t gpu_ns)
{
	return ring_clock_to_host(clock, (struct gpu_ns){gpu_ns});
}

static struct ring_clock *find_clock(struct ring_process *process, uint32_t domain, int32_t device)
{
	if (domain == RING_CLOCK_CUPTI)
		return &process->cupti_clock;
	if (domain == RING_CLOCK_EVENTS)
		return &process->event_clocks[(uint32_t)device % RING_SOURCE_DEVICES];
	if (domain != RING_CLOCK_GLOBALTIMER)
		return NULL;
	return &process->clocks[(uint32_t)device % RING_SOURCE_DEVICES];
}

/*
 * A kernel begins behind its call and ends before that is seen, but for what the clock may err, and a
 * correction of it that is under way. At a replay the call is the graph's. NCCL tells of a launch only after it,
 * by which time its thread may have been off the CPU: so the launch's time bounds nothing.
 */
#define CLOCK_CORRECTION_NS INT64_C(1000000)

static bool is_plausible(
	const struct ring_source_collective *call, const struct ring_collective *told)
{
	int64_t error_ns = call->clock_error_ns + CLOCK_CORRECTION_NS;

	if (call->device_stop.value < call->device_start.value)
		return false;
	if (call->device_start.value > 0 && !(call->flags & RING_COLLECTIVE_GRAPH) &&
		ring_collective_knows_call(told) &&
		call->device_start.value < call->enqueue.value - error_ns)
		return false;
	return call->device_stop.value <= told->observed_host_ns + error_ns;
}

/* Libraries of before say less. */
static uint64_t launchers_cpu_ns(const struct ring_record *record)
{
	return record->length_bytes >= sizeof(record->collective)
		       ? record->collective.launchers_cpu_ns
		       : 0;
}

static void deliver_collective(
	struct ring_source *source, struct ring_process *process, const struct ring_record *record)
{
	const struct ring_collective *collective = &record->collective;
	const struct ring_clock *clock = &process->clocks[collective->device % RING_SOURCE_DEVICES];
	struct ring_source_collective out = {.pid = process->pid,
		.thread_id = (pid_t)collective->thread_id,
		.communicator = collective->communicator,
		.rank = collective->rank,
		.sequence = collective->sequence,
		.length_bytes = collective->length_bytes,
		.function = collective->function < RING_FUNCTION_NR ? collective->function
								    : RING_FUNCTION_UNKNOWN,
		.datatype = collective->datatype,
		.root = collective->root,
		.flags = collective->flags,
		.channels_expected = collective->channels_expected,
		.channels_seen = collective->channels_seen,
		.enqueue = {collective->enqueue_host_ns},
		.device_start = to_host(clock, collective->device_start_ns),
		.device_stop = to_host(clock, collective->device_stop_ns),
		.clock_error_ns = ring_clock_error_ns(clock),
		.number = collective->number,
		.launchers_cpu_ns = launchers_cpu_ns(record)};

	if (out.rank < -1 || out.rank >= STEP_RANK_COUNT_MAX)
		return;
	if (!is_plausible(&out, collective)) {
		out.device_start = out.device_stop = (struct host_ns){0};
		out.flags |= RING_COLLECTIVE_IMPLAUSIBLE;
	}
	if (source->callbacks.collective)
		source->callbacks.collective(source->context, &out);
}

static struct ring_name *find_name(struct ring_process *process, uint32_t id, bool make)
{
	for (uint32_t i = 0; i < 16; i++) {
		struct ring_name *name = &process->names[(id + i) % RING_SOURCE_NAMES_MAX];

		if (name->id == id && name->text)
			return name;
		if (!name->text)
			return make ? name : NULL;
	}
	return NULL;
}

static void take_name(struct ring_process *process, const struct ring_kernel_name *piece)
{
	struct ring_name *name;

	if (!piece->name_id || piece->total_bytes > RING_SOURCE_NAME_BYTES_MAX ||
		piece->piece_bytes > RING_NAME_PIECE_BYTES ||
		piece->piece_offset + piece->piece_bytes > piece->total_bytes)
		return;
	name = find_name(process, piece->name_id, true);
	if (!name)
		return;
	if (!name->text) {
		name->text = calloc(1, (size_t)piece->total_bytes + 1);
		if (!name->text)
			return;
		name->id = piece->name_id;
		name->total_bytes = piece->total_bytes;
	}
	if (piece->total_bytes == name->total_bytes)
		memcpy(name->text + piece->piece_offset, piece->text, piece->piece_bytes);
}

static void deliver_kernel(
	struct ring_source *source, struct ring_process *process, const struct ring_kernel *kernel)
{
	const struct ring_name *name = find_name(process, kernel->name_id, false);
	struct ring_source_kernel out = {.pid = process->pid,
		.name = name ? name->text : "",
		.name_id = kernel->name_id,
		.device = kernel->device,
		.stream = kernel->stream,
		.correlation = kernel->correlation,
		.in_graph = kernel->graph_node != 0,
		.launch = to_host(&process->cupti_clock, kernel->launch_host_ns),
		.start = to_host(&process->cupti_clock, kernel->start_ns),
		.stop = to_host(&process->cupti_clock, kernel->stop_ns),
		.clock_error_ns = ring_clock_error_ns(&process->cupti_clock)};

	if (source->callbacks.kernel && out.stop.value >= out.start.value)
		source->callbacks.kernel(source->context, &out);
}

static void deliver_memcpy(
	struct ring_source *source, struct ring_process *process, const struct ring_memcpy *copy)
{
	struct ring_source_memcpy out = {.pid = process->pid,
		.length_bytes = copy->length_bytes,
		.device = copy->device,
		.stream = copy->stream,
		.correlation = copy->correlation,
		.copy_kind = copy->copy_kind,
		.start = to_host(&process->cupti_clock, copy->start_ns),
		.stop = to_host(&process->cupti_clock, copy->stop_ns),
		.clock_error_ns = ring_clock_error_ns(&process->cupti_clock)};

	if (source->callbacks.memcpy && out.stop.value >= out.start.value)
		source->callbacks.memcpy(source->context, &out);
}

static void deliver_synchronisation(struct ring_source *source, struct ring_process *process,
	const struct ring_synchronisation *synchronisation)
{
	struct ring_source_synchronisation out = {.pid = process->pid,
		.type = synchronisation->type,
		.stream = synchronisation->stream,
		.correlation = synchronisation->correlation,
		.start = to_host(&process->cupti_clock, synchronisation->start_ns),
		.stop = to_host(&process->cupti_clock, synchronisation->stop_ns),
		.clock_error_ns = ring_clock_error_ns(&process->cupti_clock)};

	if (source->callbacks.synchronisation && out.stop.value >= out.start.value)
		source->callbacks.synchronisation(source->context, &out);
}

static void deliver_timed_call(struct ring_source *source, struct ring_process *process,
	const struct ring_timed_call *call)
{
	const struct ring_clock *clock = &process->event_clocks[call->device % RING_SOURCE_DEVICES];
	struct ring_source_timed_call out = {.pid = process->pid,
		.handle = call->handle,
		.thread_id = (pid_t)call->thread_id,
		.entered = {call->entered_host_ns},
		.returned = {call->returned_host_ns},
		.launched = {call->launched_host_ns},
		.start = to_host(clock, call->start_ns),
		.stop = to_host(clock, call->stop_ns)};

	if (out.stop.value < out.start.value)
		out.start = out.stop = (struct host_ns){0};
	if (source->callbacks.timed_call)
		source->callbacks.timed_call(source->context, &out);
}

static void take_clock(struct ring_process *process, const struct ring_record *record)
{
	const struct ring_clock_pair *pair = &record->clock_pair;
	const struct ring_clock_bound *bound = &record->clock_bound;
	struct ring_clock *clock;

	if (record->kind == RING_RECORD_CLOCK_PAIR) {
		clock = find_clock(process, pair->domain, pair->device);
		if (clock)
			ring_clock_pair(clock, (struct host_ns){pair->host_ns},
				(struct gpu_ns){pair->gpu_ns}, pair->error_ns);
	} else {
		clock = find_clock(process, bound->domain, bound->device);
		if (clock)
			ring_clock_bound(clock, (struct host_ns){bound->host_ns}, bound->low_ns,
				bound->high_ns);
	}
}

static void deliver_rare(
	struct ring_source *source, struct ring_process *process, const struct ring_record *record)
{
	const struct ring_source_callbacks *callbacks = &source->callbacks;

	switch (record->kind) {
	case RING_RECORD_HELLO:
		if (PAYLOAD(record, hello) && callbacks->hello)
			callbacks->hello(source->context, process->pid, &record->hello);
		break;
	case RING_RECORD_IN_FLIGHT:
		if (PAYLOAD(record, in_flight) && callbacks->in_flight &&
			record->in_flight.function < RING_FUNCTION_NR)
			callbacks->in_flight(source->context, process->pid, &record->in_flight);
		break;
	case RING_RECORD_COMMUNICATOR:
	case RING_RECORD_COMMUNICATOR_END:
		if (PAYLOAD(record, communicator) && callbacks->communicator)
			callbacks->communicator(source->context, process->pid,
				&record->communicator,
				record->kind == RING_RECORD_COMMUNICATOR_END);
		break;
	case RING_RECORD_DEEP_STATE:
		if (PAYLOAD(record, deep) && callbacks->deep_state)
			callbacks->deep_state(source->context, process->pid, &record->deep);
		break;
	case RING_RECORD_TIMED_STATE:
		if (PAYLOAD(record, timed_state) && callbacks->timed_state)
			callbacks->timed_state(source->context, process->pid, &record->timed_state);
		break;
	case RING_RECORD_DROPS: /* the ring's own are in its header; the library's own: here */
		if (PAYLOAD(record, drops))
			process->library_drops = record->drops.events + record->drops.communicators;
		break;
	default:
		process->unknown++;
	}
}

void ring_source_deliver(
	struct ring_source *source, struct ring_process *process, const struct ring_record *record)
{
	switch (record->kind) {
	case RING_RECORD_COLLECTIVE:
		if (record->length_bytes >= RING_COLLECTIVE_BYTES_MIN)
			deliver_collective(source, process, record);
		break;
	case RING_RECORD_TIMED_CALL:
		if (PAYLOAD(record, timed_call))
			deliver_timed_call(source, process, &record->timed_call);
		break;
	case RING_RECORD_CLOCK_PAIR:
		if (PAYLOAD(record, clock_pair))
			take_clock(process, record);
		break;
	case RING_RECORD_CLOCK_BOUND:
		if (PAYLOAD(record, clock_bound))
			take_clock(process, record);
		break;
	case RING_RECORD_KERNEL:
		if (PAYLOAD(record, kernel))
			deliver_kernel(source, process, &record->kernel);
		break;
	case RING_RECORD_KERNEL_NAME:
		if (PAYLOAD(record, kernel_name))
			take_name(process, &record->kernel_name);
		break;
	case RING_RECORD_MEMCPY:
		if (PAYLOAD(record, memcpy))
			deliver_memcpy(source, process, &record->memcpy);
		break;
	case RING_RECORD_SYNCHRONISATION:
		if (PAYLOAD(record, synchronisation))
			deliver_synchronisation(source, process, &record->synchronisation);
		break;
	default:
		deliver_rare(source, process, record);
	}
}
