/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI's activity interface: libcupti.so.13, for kernels of the driver stand-in. As in CUPTI: one
 * subscriber, buffers that the client gives, records delivered when a buffer is full or flushed,
 * drops counted when there is no buffer.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/workload/device/stream.h"

enum { SUCCESS = 0, INVALID_KIND = 21, MAX_LIMIT_REACHED = 12, MULTIPLE_SUBSCRIBERS = 39 };
enum { CBID_MEMCPY_ASYNC = 306, CBID_LAUNCH_KERNEL = 307 }; /* cupti_driver_cbid.h */
enum { KIND_MEMCPY = 1, KIND_DRIVER = 4, KIND_KERNEL = 10, KIND_NR = 64 };

/* CUpti_ActivityKernel10 of cupti_activity.h, without what is behind graphNodeId. */
struct kernel_record {
	uint32_t kind;
	uint8_t cacheConfig, sharedMemoryConfig;
	uint16_t registersPerThread;
	uint32_t partitionedRequested, partitionedExecuted;
	uint64_t start, end, completed;
	uint32_t deviceId, contextId, streamId;
	int32_t gridX, gridY, gridZ, blockX, blockY, blockZ;
	int32_t staticSharedMemory, dynamicSharedMemory;
	uint32_t localMemoryPerThread, localMemoryTotal, correlationId;
	int64_t gridId;
	const char *name;
	void *reserved0;
	uint64_t queued, submitted;
	uint8_t launchType, carveoutRequested, carveout, padding;
	uint32_t sharedMemoryExecuted;
	uint64_t graphNodeId;
};
_Static_assert(sizeof(struct kernel_record) == 152, "CUpti_ActivityKernel10");

struct memcpy_record { /* the head of CUpti_ActivityMemcpy6 */
	uint32_t kind;
	uint8_t copyKind, srcKind, dstKind, flags;
	uint64_t bytes, start, end;
	uint32_t deviceId, contextId, streamId, correlationId;
};

struct call_record { /* CUpti_ActivityAPI */
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t processId, threadId, correlationId, returnValue;
};

typedef void (*buffer_requested)(uint8_t **buffer, size_t *size, size_t *record_max);
typedef void (*buffer_completed)(
	void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size);

static long cost_us;

static struct {
	pthread_mutex_t lock;
	bool subscribed, enabled[KIND_NR];
	buffer_requested requested;
	buffer_completed completed;
	uint8_t *buffer, *forced;
	size_t size, used, dropped;
	uint32_t correlation;
} cupti = {.lock = PTHREAD_MUTEX_INITIALIZER};

DEVICE_EXPORT int cuptiSubscribe(void **subscriber, void *callback, void *user);
DEVICE_EXPORT int cuptiUnsubscribe(void *subscriber);
DEVICE_EXPORT int cuptiActivityRegisterCallbacks(
	buffer_requested requested, buffer_completed completed);
DEVICE_EXPORT int cuptiActivityEnable(uint32_t kind);
DEVICE_EXPORT int cuptiActivityDisable(uint32_t kind);
DEVICE_EXPORT int cuptiActivityFlushAll(uint32_t flag);
DEVICE_EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_size, void **record);
DEVICE_EXPORT int cuptiActivityGetNumDroppedRecords(
	void *context, uint32_t stream, size_t *dropped);
DEVICE_EXPORT int cuptiGetTimestamp(uint64_t *timestamp);

/* CUPTI's clock is the real-time one. Once for all times of a record: they stay in order. */
static int64_t clock_offset_ns(void)
{
	struct timespec real, monotonic;

	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	return (real.tv_sec - monotonic.tv_sec) * 1000000000 + real.tv_nsec - monotonic.tv_nsec;
}

static void flush(void)
{
	if (cupti.buffer)
		cupti.completed(NULL, 0, cupti.buffer, cupti.size, cupti.used);
	cupti.buffer = NULL;
}

/* The lock is held. */
static void deliver(const void *record, size_t length)
{
	size_t record_max = 0;

	if (cupti.forced)
		memset(cupti.forced, 0xee, length);
	if (cupti.buffer && cupti.size - cupti.used < length)
		flush();
	if (!cupti.buffer) {
		cupti.used = 0;
		cupti.requested(&cupti.buffer, &cupti.size, &record_max);
	}
	if (!cupti.buffer) {
		cupti.dropped++;
		return;
	}
	memcpy(cupti.buffer + cupti.used, record, length);
	cupti.used += length;
}

static void on_activity(const struct device_activity *activity)
{
	uint32_t stream = (uint32_t)((uintptr_t)activity->stream >> 4);
	int64_t offset_ns = clock_offset_ns();
	struct call_record call = {.kind = KIND_DRIVER,
		.cbid = activity->name ? CBID_LAUNCH_KERNEL : CBID_MEMCPY_ASYNC,
		.start = (uint64_t)(activity->launched_ns + offset_ns),
		.end = (uint64_t)(activity->launched_ns + offset_ns)};
	struct kernel_record kernel = {.kind = KIND_KERNEL,
		.start = (uint64_t)(activity->start_ns + offset_ns),
		.end = (uint64_t)(activity->end_ns + offset_ns),
		.streamId = stream,
		.name = activity->name};
	struct memcpy_record copy = {.kind = KIND_MEMCPY,
		.start = kernel.start,
		.end = kernel.end,
		.bytes = activity->length_bytes,
		.streamId = stream};

	/* What being watched costs, on the device's own time. */
	device_pass_time(cost_us * 1000L);
	pthread_mutex_lock(&cupti.lock);
	call.correlationId = kernel.correlationId = copy.correlationId = ++cupti.correlation;
	/* Each may have been switched off while it ran. */
	if (cupti.enabled[KIND_DRIVER])
		deliver(&call, sizeof(call));
	if (activity->name && cupti.enabled[KIND_KERNEL])
		deliver(&kernel, sizeof(kernel));
	if (!activity->name && cupti.enabled[KIND_MEMCPY])
		deliver(&copy, sizeof(copy));
	pthread_mutex_unlock(&cupti.lock);
}

int cuptiSubscribe(void **subscriber, void *callback, void *user)
{
	bool taken;

	(void)callback;
	(void)user;
	pthread_mutex_lock(&cupti.lock);
	taken = cupti.subscribed;
	cupti.subscribed = true;
	pthread_mutex_unlock(&cupti.lock);
	if (taken)
		return MULTIPLE_SUBSCRIBERS;
	*subscriber = &cupti;
	return SUCCESS;
}

int cuptiUnsubscribe(void *subscriber)
{
	pthread_mutex_lock(&cupti.lock);
	cupti.subscribed = subscriber != &cupti;
	pthread_mutex_unlock(&cupti.lock);
	return SUCCESS;
}

int cuptiActivityRegisterCallbacks(buffer_requested requested, buffer_completed completed)
{
	pthread_mutex_lock(&cupti.lock);
	cupti.requested = requested;
	cupti.completed = completed;
	pthread_mutex_unlock(&cupti.lock);
	return SUCCESS;
}

__attribute__((constructor)) static void read_cost(void)
{
	const char *text = getenv("SLOWRANK_STAND_IN_CUPTI_COST_US"); /* of a kernel */

	cost_us = text ? atol(text) : 0;
	if (cost_us < 0 || cost_us > 100000)
		cost_us = 0;
}

static int set_enabled(uint32_t kind, bool enabled)
{
	if (kind == 0 || kind >= KIND_NR)
		return INVALID_KIND;
	pthread_mutex_lock(&cupti.lock);
	cupti.enabled[kind] = enabled;
	pthread_mutex_unlock(&cupti.lock);
	if (kind == KIND_KERNEL)
		device_set_activity_hook(enabled ? on_activity : NULL);
	return SUCCESS;
}

int cuptiActivityEnable(uint32_t kind)
{
	return set_enabled(kind, true);
}

int cuptiActivityDisable(uint32_t kind)
{
	return set_enabled(kind, false);
}

int cuptiActivityFlushAll(uint32_t flag)
{
	pthread_mutex_lock(&cupti.lock);
	/* A forced one hands out buffers that are still written to. */
	if (flag)
		cupti.forced = cupti.buffer;
	flush();
	pthread_mutex_unlock(&cupti.lock);
	return SUCCESS;
}

static size_t record_bytes(const void *record)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	return kind == KIND_KERNEL   ? sizeof(struct kernel_record)
	       : kind == KIND_MEMCPY ? sizeof(struct memcpy_record)
				     : sizeof(struct call_record);
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_size, void **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + record_bytes(*record) : buffer;

	if (next == buffer + valid_size)
		return MAX_LIMIT_REACHED;
	*record = next;
	return SUCCESS;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	(void)context;
	(void)stream;
	*dropped = cupti.dropped; /* the lock is held: this is called from a callback */
	cupti.dropped = 0;
	return SUCCESS;
}

int cuptiGetTimestamp(uint64_t *timestamp)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*timestamp = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	return SUCCESS;
}
