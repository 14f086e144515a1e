/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI's activity interface: libcupti.so.13, for kernels of the driver stand-in. As in CUPTI: one
 * subscriber, buffers that the client gives, records delivered when a buffer is full or flushed,
 * drops counted when there is no buffer.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "tests/workload/device/stream.h"

enum { SUCCESS = 0, INVALID_KIND = 21, MAX_LIMIT_REACHED = 12, MULTIPLE_SUBSCRIBERS = 39 };
enum { KIND_KERNEL = 10, KIND_NR = 64 };

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

typedef void (*buffer_requested)(uint8_t **buffer, size_t *size, size_t *record_max);
typedef void (*buffer_completed)(
	void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size);

static struct {
	pthread_mutex_t lock;
	bool subscribed, enabled[KIND_NR];
	buffer_requested requested;
	buffer_completed completed;
	uint8_t *buffer;
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

/* CUPTI's clock is the real-time one. */
static uint64_t to_cupti(int64_t monotonic_ns)
{
	struct timespec real, monotonic;

	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	return (uint64_t)(monotonic_ns + (real.tv_sec - monotonic.tv_sec) * 1000000000 +
			  real.tv_nsec - monotonic.tv_nsec);
}

static void flush(void)
{
	if (cupti.buffer)
		cupti.completed(NULL, 0, cupti.buffer, cupti.size, cupti.used);
	cupti.buffer = NULL;
}

static void on_kernel(const char *name, int64_t start_ns, int64_t end_ns, CUstream stream)
{
	struct kernel_record record = {.kind = KIND_KERNEL,
		.start = to_cupti(start_ns),
		.end = to_cupti(end_ns),
		.streamId = (uint32_t)((uintptr_t)stream >> 4),
		.name = name};
	size_t record_max = 0;

	pthread_mutex_lock(&cupti.lock);
	record.correlationId = ++cupti.correlation;
	if (cupti.buffer && cupti.size - cupti.used < sizeof(record))
		flush();
	if (!cupti.buffer && cupti.enabled[KIND_KERNEL]) {
		cupti.used = 0;
		cupti.requested(&cupti.buffer, &cupti.size, &record_max);
	}
	if (!cupti.enabled[KIND_KERNEL]) {
		/* switched off while it ran */
	} else if (!cupti.buffer) {
		cupti.dropped++;
	} else {
		memcpy(cupti.buffer + cupti.used, &record, sizeof(record));
		cupti.used += sizeof(record);
	}
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

static int set_enabled(uint32_t kind, bool enabled)
{
	if (kind == 0 || kind >= KIND_NR)
		return INVALID_KIND;
	pthread_mutex_lock(&cupti.lock);
	cupti.enabled[kind] = enabled;
	pthread_mutex_unlock(&cupti.lock);
	if (kind == KIND_KERNEL)
		device_set_activity_hook(enabled ? on_kernel : NULL);
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
	(void)flag;
	pthread_mutex_lock(&cupti.lock);
	flush();
	pthread_mutex_unlock(&cupti.lock);
	return SUCCESS;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_size, void **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + sizeof(struct kernel_record) : buffer;

	if ((size_t)(next - buffer) + sizeof(struct kernel_record) > valid_size)
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
