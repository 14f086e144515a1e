/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/device/nccl_profiler.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/workload/device/nccl_profiler_api.h"

static struct {
	pthread_mutex_t lock;
	unsigned references;
	void *library;
	int version;
	int mask; /* one for all communicators, as in NCCL */
	union {
		const ncclProfiler_v2_t *v2;
		const ncclProfiler_v4_t *v4;
		const ncclProfiler_v5_t *v5;
	};
	int (*start_event)(void *context, void **handle, void *descriptor);
	int (*stop_event)(void *handle);
	int (*record_event_state)(void *handle, int state, void *arguments);
	int (*finalize)(void *context);
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void ignore_log(
	int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)format;
}

static bool take_table(int version)
{
	char name[32];
	const void *table;

	snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
	table = dlsym(plugin.library, name);
	if (!table)
		return false;
	plugin.version = version;
	if (version >= 5) {
		plugin.v5 = table;
		plugin.start_event = plugin.v5->startEvent;
		plugin.stop_event = plugin.v5->stopEvent;
		plugin.record_event_state = plugin.v5->recordEventState;
		plugin.finalize = plugin.v5->finalize;
	} else if (version == 4) {
		plugin.v4 = table;
		plugin.start_event = plugin.v4->startEvent;
		plugin.stop_event = plugin.v4->stopEvent;
		plugin.record_event_state = plugin.v4->recordEventState;
		plugin.finalize = plugin.v4->finalize;
	} else {
		plugin.v2 = table;
		plugin.start_event = plugin.v2->startEvent;
		plugin.stop_event = plugin.v2->stopEvent;
		plugin.record_event_state = plugin.v2->recordEventState;
		plugin.finalize = plugin.v2->finalize;
	}
	return true;
}

static bool load(void)
{
	const char *path = getenv("NCCL_PROFILER_PLUGIN");
	const char *newest = getenv("SLOWRANK_STAND_IN_PROFILER");
	int version = newest ? atoi(newest) : 6;

	if (plugin.references) {
		plugin.references++;
		return true;
	}
	if (!path || strcmp(path, "none") == 0)
		return false;
	plugin.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!plugin.library)
		return false;
	while (version >= 2 && !take_table(version))
		version--;
	if (version >= 2) {
		plugin.references = 1;
		return true;
	}
	dlclose(plugin.library);
	return false;
}

static void unload(void)
{
	if (--plugin.references)
		return;
	dlclose(plugin.library);
	plugin.version = 0;
	plugin.mask = 0;
}

int profiler_version(void)
{
	return plugin.version;
}

void profiler_begin(
	struct profiler_communicator *communicator, uint64_t hash, int rank, int rank_count)
{
	int error;

	*communicator = (struct profiler_communicator){
		.hash = hash, .rank = rank, .rank_count = rank_count};
	pthread_mutex_lock(&plugin.lock);
	communicator->loaded = load();
	if (communicator->loaded) {
		if (plugin.version >= 5)
			error = plugin.v5->init(&communicator->context, hash, &plugin.mask, NULL, 1,
				rank_count, rank, ignore_log);
		else if (plugin.version == 4)
			error = plugin.v4->init(&communicator->context, &plugin.mask, NULL, hash, 1,
				rank_count, rank, ignore_log);
		else
			error = plugin.v2->init(&communicator->context, &plugin.mask);
		if (error) {
			unload();
			communicator->loaded = false;
		}
	}
	pthread_mutex_unlock(&plugin.lock);
}

void profiler_end(struct profiler_communicator *communicator)
{
	if (!communicator->loaded)
		return;
	if (communicator->context)
		plugin.finalize(communicator->context);
	pthread_mutex_lock(&plugin.lock);
	unload();
	communicator->loaded = false;
	pthread_mutex_unlock(&plugin.lock);
}

void profiler_call_start(struct profiler_communicator *communicator,
	const struct profiler_call *call, struct profiler_task *task)
{
	ncclProfilerEventDescr_v5_t event = {.rank = communicator->rank};

	*task = (struct profiler_task){.context = communicator->context,
		.rank = communicator->rank,
		.mask = __atomic_load_n(&plugin.mask, __ATOMIC_RELAXED),
		.channels = call->channels};
	/* A parent's event comes when any of its children is wanted. */
	if (!communicator->loaded || plugin.version < 5 || !task->mask)
		return;
	if (call->point_to_point) {
		event.type = ncclProfileP2pApi;
		event.p2pApi.func = call->function;
		event.p2pApi.count = call->count;
		event.p2pApi.datatype = call->datatype;
		event.p2pApi.stream = call->stream;
		event.p2pApi.graphCaptured = call->graph_captured;
	} else {
		event.type = ncclProfileCollApi;
		event.collApi.func = call->function;
		event.collApi.count = call->count;
		event.collApi.datatype = call->datatype;
		event.collApi.root = call->root;
		event.collApi.stream = call->stream;
		event.collApi.graphCaptured = call->graph_captured;
	}
	plugin.start_event(communicator->context, &task->api, &event);
	if (task->api)
		plugin.stop_event(task->api);
}

static void launch_v5(struct profiler_communicator *communicator, const struct profiler_call *call,
	struct profiler_task *task)
{
	ncclProfilerEventDescr_v5_t event = {.rank = communicator->rank, .parentObj = task->api};

	if (call->point_to_point) {
		event.type = ncclProfileP2p;
		event.p2p.func = call->function;
		event.p2p.datatype = call->datatype;
		event.p2p.count = call->count;
		event.p2p.peer = call->root;
		event.p2p.nChannels = call->channels;
	} else {
		event.type = ncclProfileColl;
		event.coll.seqNumber = communicator->sequences[call->function_index];
		event.coll.func = call->function;
		event.coll.count = call->count;
		event.coll.root = call->root;
		event.coll.datatype = call->datatype;
		event.coll.nChannels = call->channels;
	}
	plugin.start_event(communicator->context, &task->event, &event);
}

static void launch_v4(struct profiler_communicator *communicator, const struct profiler_call *call,
	struct profiler_task *task)
{
	ncclProfilerEventDescr_v4_t event = {.rank = communicator->rank};

	if (call->point_to_point) {
		event.type = ncclProfileP2p;
		event.p2p.func = call->function;
		event.p2p.datatype = call->datatype;
		event.p2p.count = call->count;
		event.p2p.peer = call->root;
		event.p2p.nChannels = call->channels;
	} else {
		event.type = ncclProfileColl;
		event.coll.seqNumber = communicator->sequences[call->function_index];
		event.coll.func = call->function;
		event.coll.count = call->count;
		event.coll.root = call->root;
		event.coll.datatype = call->datatype;
		event.coll.nChannels = call->channels;
	}
	plugin.start_event(communicator->context, &task->event, &event);
}

#define FILL_OLD(event)                                                                            \
	do {                                                                                       \
		if (call->point_to_point) {                                                        \
			(event).type = ncclProfileP2p;                                             \
			(event).p2p.commHash = communicator->hash;                                 \
			(event).p2p.func = call->function;                                         \
			(event).p2p.datatype = call->datatype;                                     \
			(event).p2p.count = call->count;                                           \
			(event).p2p.peer = call->root;                                             \
		} else {                                                                           \
			(event).type = ncclProfileColl;                                            \
			(event).coll.commHash = communicator->hash;                                \
			(event).coll.seqNumber = communicator->sequences[call->function_index];    \
			(event).coll.func = call->function;                                        \
			(event).coll.count = call->count;                                          \
			(event).coll.root = call->root;                                            \
			(event).coll.datatype = call->datatype;                                    \
			(event).coll.nMaxChannels = call->channels;                                \
		}                                                                                  \
	} while (0)

static void tell(struct profiler_communicator *communicator, const struct profiler_call *call,
	struct profiler_task *task)
{
	ncclProfilerEventDescr_v2_t v2 = {.rank = communicator->rank};
	ncclProfilerEventDescr_v3_t v3 = {.rank = communicator->rank};

	if (plugin.version >= 5) {
		launch_v5(communicator, call, task);
	} else if (plugin.version == 4) {
		launch_v4(communicator, call, task);
	} else if (plugin.version == 3) {
		FILL_OLD(v3);
		plugin.start_event(communicator->context, &task->event, &v3);
	} else {
		FILL_OLD(v2);
		plugin.start_event(communicator->context, &task->event, &v2);
	}
}

void profiler_launch(struct profiler_communicator *communicator, const struct profiler_call *call,
	struct profiler_task *task)
{
	bool asked = communicator->loaded &&
		     task->mask & (ncclProfileColl | ncclProfileP2p | ncclProfileKernelCh);

	if (asked)
		tell(communicator, call, task);
	/* Before version 4 NCCL numbers only what it is asked for. */
	if (!call->point_to_point && (asked || plugin.version >= 4))
		communicator->sequences[call->function_index]++;
}

void profiler_launched(struct profiler_task *task)
{
	if (task->event)
		plugin.stop_event(task->event);
}

void *profiler_channel_start(const struct profiler_task *task, uint8_t channel, uint64_t timer)
{
	ncclProfilerEventDescr_v4_t v4 = {
		.type = ncclProfileKernelCh, .parentObj = task->event, .rank = task->rank};
	ncclProfilerEventDescr_v5_t v5 = {
		.type = ncclProfileKernelCh, .parentObj = task->event, .rank = task->rank};
	void *handle = NULL;

	if (!(task->mask & ncclProfileKernelCh) || plugin.version < 4)
		return NULL;
	v4.kernelCh.channelId = v5.kernelCh.channelId = channel;
	v4.kernelCh.pTimer = v5.kernelCh.pTimer = timer;
	plugin.start_event(task->context, &handle, plugin.version == 4 ? (void *)&v4 : (void *)&v5);
	return handle;
}

void profiler_channel_stop(void *channel, uint64_t timer)
{
	ncclProfilerEventStateArgs_t arguments = {.kernelCh = {.pTimer = timer}};

	if (!channel)
		return;
	plugin.record_event_state(channel, ncclProfilerKernelChStop, &arguments);
	plugin.stop_event(channel);
}
