/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that NCCL looks up with dlsym(): which it gets hangs on the user's own plug-in (nccl_chain.h),
 * so the symbols are resolved when they are asked for. Each version's descriptor becomes a tracker_task.
 * Only init() could fail, and does not: without a ring it asks for no events. Versions 2 and 3
 * know no device times, and tell the communicator with its first event.
 */
#include "probe/inject/nccl_plugin.h"

#include <errno.h>
#include <pthread.h>

#include "probe/inject/gpu_clock.h"
#include "probe/inject/nccl_abi.h"
#include "probe/inject/nccl_chain.h"
#include "probe/inject/process.h"
#include "probe/inject/tracker.h"

#define PLUGIN_EXPORT __attribute__((visibility("default")))

enum {
	HOST_EVENTS = NCCL_EVENT_COLLECTIVE | NCCL_EVENT_POINT_TO_POINT,
	DEVICE_EVENTS = HOST_EVENTS | NCCL_EVENT_KERNEL_CHANNEL,
};

/*
 * NCCL has one mask for all communicators, which may be changed at any time; each task keeps what it began
 * with. It is touched only while a communicator lives, and only where NCCL goes on numbering what it was not
 * asked for: with version 4 and later.
 */
static struct {
	pthread_mutex_t lock;
	int *mask; /* NULL: nobody's, or not one for all */
	int events;
	uint32_t communicators;
	bool paused;
} activation = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A communicator without a place does not clear the mask of the others. */
static void ask_for(int *mask, int events)
{
	pthread_mutex_lock(&activation.lock);
	if (activation.communicators++ == 0)
		activation.mask = events & NCCL_EVENT_KERNEL_CHANNEL ? mask : NULL;
	else if (activation.mask != mask)
		activation.mask = NULL;
	activation.events = events;
	__atomic_store_n(mask, activation.mask && activation.paused ? 0 : events, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&activation.lock);
}

static void ask_no_more(void)
{
	pthread_mutex_lock(&activation.lock);
	if (activation.communicators > 0 && --activation.communicators == 0)
		activation.mask = NULL;
	pthread_mutex_unlock(&activation.lock);
}

void nccl_plugin_pause(bool paused)
{
	pthread_mutex_lock(&activation.lock);
	if (activation.paused != paused && activation.mask)
		__atomic_store_n(activation.mask, paused ? 0 : activation.events, __ATOMIC_RELAXED);
	activation.paused = paused;
	pthread_mutex_unlock(&activation.lock);
}

static int start(int version, int events, void **context, int *activation_mask, uint64_t hash,
	int rank, int rank_count, int node_count)
{
	int kept = errno;

	*context = NULL;
	if (process_start(version)) {
		gpu_clock_measure();
		*context = tracker_begin(hash, rank, rank_count, node_count);
		ask_for(activation_mask, events);
	} else {
		*activation_mask = 0;
	}
	errno = kept;
	return NCCL_ABI_SUCCESS;
}

static int finalize(void *context)
{
	int kept = errno;

	tracker_end(context);
	if (process_is_live()) /* a forked child may find the lock taken for good */
		ask_no_more();
	errno = kept;
	return NCCL_ABI_SUCCESS;
}

static int stop_event(void *handle)
{
	tracker_stop(handle);
	return NCCL_ABI_SUCCESS;
}

static int record_event_state(void *handle, int state, const void *arguments)
{
	const union nccl_state_arguments *state_arguments = arguments;

	if (state == NCCL_STATE_KERNEL_CHANNEL_STOP && state_arguments)
		tracker_channel_time(handle, state_arguments->kernel_channel.timer);
	return NCCL_ABI_SUCCESS;
}

static int ignore_event_state(void *handle, int state, const void *arguments)
{
	(void)handle;
	(void)state;
	(void)arguments;
	return NCCL_ABI_SUCCESS;
}

static void *start_point_to_point_v2(
	void *context, int rank, const struct nccl_point_to_point_v2 *event)
{
	struct tracker_task task = {.function = event->function,
		.datatype = event->datatype,
		.element_count = event->count,
		.root = event->peer,
		.rank = rank,
		.point_to_point = true};

	tracker_learn(context, event->communicator_hash, rank);
	return tracker_task_start(context, &task);
}

static int start_event_v2(void *context, void **handle, void *descriptor)
{
	const struct nccl_event_v2 *event = descriptor;
	int kept = errno;

	*handle = NULL;
	if (event->type == NCCL_EVENT_COLLECTIVE) {
		struct tracker_task task = {.function = event->collective.function,
			.datatype = event->collective.datatype,
			.sequence = event->collective.sequence,
			.element_count = event->collective.count,
			.root = event->collective.root,
			.rank = event->rank};

		tracker_learn(context, event->collective.communicator_hash, event->rank);
		*handle = tracker_task_start(context, &task);
	} else if (event->type == NCCL_EVENT_POINT_TO_POINT) {
		*handle = start_point_to_point_v2(context, event->rank, &event->point_to_point);
	}
	errno = kept;
	return NCCL_ABI_SUCCESS;
}

static int start_event_v3(void *context, void **handle, void *descriptor)
{
	const struct nccl_event_v3 *event = descriptor;
	int kept = errno;

	*handle = NULL;
	if (event->type == NCCL_EVENT_COLLECTIVE) {
		struct tracker_task task = {.function = event->collective.function,
			.datatype = event->collective.datatype,
			.sequence = event->collective.sequence,
			.element_count = event->collective.count,
			.root = event->collective.root,
			.rank = event->rank};

		tracker_learn(context, event->collective.communicator_hash, event->rank);
		*handle = tracker_task_start(context, &task);
	} else if (event->type == NCCL_EVENT_POINT_TO_POINT) {
		*handle = start_point_to_point_v2(context, event->rank, &event->point_to_point);
	}
	errno = kept;
	return NCCL_ABI_SUCCESS;
}

/* What versions 4 to 6 have in common. api: the parent's handle from version 5 on. */
static void *start_collective(
	void *context, int rank, const struct nccl_collective_v4 *event, void *api)
{
	struct tracker_task task = {.function = event->function,
		.datatype = event->datatype,
		.sequence = event->sequence,
		.element_count = event->count,
		.root = event->root,
		.rank = rank,
		.channels = event->channels,
		.api = api};

	return tracker_task_start(context, &task);
}

static void *start_point_to_point(
	void *context, int rank, const struct nccl_point_to_point_v4 *event, void *api)
{
	struct tracker_task task = {.function = event->function,
		.datatype = event->datatype,
		.element_count = event->count,
		.root = event->peer,
		.rank = rank,
		.channels = event->channels,
		.point_to_point = true,
		.api = api};

	return tracker_task_start(context, &task);
}

static int start_event_v4(void *context, void **handle, void *descriptor)
{
	const struct nccl_event_v4 *event = descriptor;
	int kept = errno;

	*handle = NULL;
	switch (event->type) {
	case NCCL_EVENT_COLLECTIVE:
		*handle = start_collective(context, event->rank, &event->collective, NULL);
		break;
	case NCCL_EVENT_POINT_TO_POINT:
		*handle = start_point_to_point(context, event->rank, &event->point_to_point, NULL);
		break;
	case NCCL_EVENT_KERNEL_CHANNEL:
		*handle = tracker_channel_start(
			event->parent, event->kernel_channel.channel, event->kernel_channel.timer);
		break;
	default: /* groups, proxies: they would be parents or children of what is not wanted */
		break;
	}
	errno = kept;
	return NCCL_ABI_SUCCESS;
}

static void *start_copy_engine(void *context, int rank, const struct nccl_copy_engine_v6 *event)
{
	struct tracker_task task = {.function = event->function,
		.datatype = event->datatype,
		.sequence = event->sequence,
		.element_count = event->count,
		.root = event->root,
		.rank = rank,
		.copy_engine = true};

	return tracker_task_start(context, &task);
}

static int start_event_v5(void *context, void **handle, void *descriptor)
{
	const struct nccl_event_v5 *event = descriptor;
	int kept = errno;

	*handle = NULL;
	switch (event->type) {
	case NCCL_EVENT_COLLECTIVE_API:
		*handle = tracker_api_start(context, event->collective_api.function,
			event->collective_api.graph_captured);
		break;
	case NCCL_EVENT_POINT_TO_POINT_API:
		*handle = tracker_api_start(context, event->point_to_point_api.function,
			event->point_to_point_api.graph_captured);
		break;
	case NCCL_EVENT_COLLECTIVE:
		*handle = start_collective(
			context, event->rank, &event->collective.common, event->parent);
		break;
	case NCCL_EVENT_POINT_TO_POINT:
		*handle = start_point_to_point(
			context, event->rank, &event->point_to_point.common, event->parent);
		break;
	case NCCL_EVENT_KERNEL_CHANNEL:
		*handle = tracker_channel_start(
			event->parent, event->kernel_channel.channel, event->kernel_channel.timer);
		break;
	case NCCL_EVENT_COPY_ENGINE_COLLECTIVE:
		*handle = start_copy_engine(context, event->rank, &event->copy_engine);
		break;
	default:
		break;
	}
	errno = kept;
	return NCCL_ABI_SUCCESS;
}

static int init_v2(void **context, int *activation_mask)
{
	return start(2, HOST_EVENTS, context, activation_mask, 0, -1, 0, 0);
}

static int init_v3(void **context, int *activation_mask)
{
	return start(3, HOST_EVENTS, context, activation_mask, 0, -1, 0, 0);
}

static int init_v4(void **context, int *activation_mask, const char *communicator_name,
	uint64_t communicator_hash, int node_count, int rank_count, int rank, nccl_logger logger)
{
	(void)communicator_name;
	(void)logger;
	return start(4, DEVICE_EVENTS, context, activation_mask, communicator_hash, rank,
		rank_count, node_count);
}

static int init_v5(void **context, uint64_t communicator_hash, int *activation_mask,
	const char *communicator_name, int node_count, int rank_count, int rank, nccl_logger logger)
{
	(void)communicator_name;
	(void)logger;
	return start(5, DEVICE_EVENTS, context, activation_mask, communicator_hash, rank,
		rank_count, node_count);
}

static int init_v6(void **context, uint64_t communicator_hash, int *activation_mask,
	const char *communicator_name, int node_count, int rank_count, int rank, nccl_logger logger)
{
	(void)communicator_name;
	(void)logger;
	return start(6, DEVICE_EVENTS | NCCL_EVENT_COPY_ENGINE_COLLECTIVE, context, activation_mask,
		communicator_hash, rank, rank_count, node_count);
}

static const struct nccl_profiler_v2 table_v2 = {
	"slowrank", init_v2, start_event_v2, stop_event, ignore_event_state, finalize};
static const struct nccl_profiler_v2 table_v3 = {
	"slowrank", init_v3, start_event_v3, stop_event, ignore_event_state, finalize};
static const struct nccl_profiler_v4 table_v4 = {
	"slowrank", init_v4, start_event_v4, stop_event, record_event_state, finalize};
static const struct nccl_profiler_v5 table_v5 = {
	"slowrank", init_v5, start_event_v5, stop_event, record_event_state, finalize};
static const struct nccl_profiler_v5 table_v6 = {
	"slowrank", init_v6, start_event_v5, stop_event, record_event_state, finalize};

/* The value of the symbol is what the resolver returns when dlsym() finds it. */
#define PLUGIN_TABLE(version, table)                                                               \
	static __attribute__((used)) void (*resolve_v##version(void))(void)                        \
	{                                                                                          \
		return (void (*)(void))(uintptr_t)nccl_chain_table(version, table);                \
	}                                                                                          \
	extern void ncclProfiler_v##version(void);                                                 \
	PLUGIN_EXPORT void ncclProfiler_v##version(void)                                           \
		__attribute__((ifunc("resolve_v" #version)))

PLUGIN_TABLE(1, NULL); /* not served: the user's own plug-in's, if that knows no other */
PLUGIN_TABLE(2, &table_v2);
PLUGIN_TABLE(3, &table_v3);
PLUGIN_TABLE(4, &table_v4);
PLUGIN_TABLE(5, &table_v5);
PLUGIN_TABLE(6, &table_v6);
PLUGIN_TABLE(7, NULL);
PLUGIN_TABLE(8, NULL);
PLUGIN_TABLE(9, NULL);
