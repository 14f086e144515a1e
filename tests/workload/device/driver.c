/* SPDX-License-Identifier: Apache-2.0 */
/* The driver interface: libcuda.so.1. One device, whose kernels run on the threads of streams. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/workload/device/stream.h"

enum { STREAMS_MAX = 256 };

static struct {
	pthread_mutex_t lock;
	int initialised;
	CUstream default_stream;
	CUstream streams[STREAMS_MAX];
	CUstream captured; /* atomic; one at a time; NULL = none */
	int capture_broken;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUstream real_stream(CUstream stream)
{
	return stream ? stream : driver.default_stream;
}

CUresult cuInit(unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&driver.lock);
	if (!driver.initialised) {
		result = stream_create(&driver.default_stream);
		driver.initialised = result == CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&driver.lock);
	return result;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	*count = 1;
	return driver.initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	if (ordinal != 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = 0;
	return driver.initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	if (device != 0 || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)length, "slowrank stand-in");
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (device != 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*context = (CUcontext)&driver;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	return context == (CUcontext)&driver ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	*context = driver.initialised ? (CUcontext)&driver : NULL;
	return driver.initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = 0;
	return driver.initialised ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	*flags = device_waits_spin() ? CU_CTX_SCHED_SPIN : CU_CTX_SCHED_BLOCKING_SYNC;
	return driver.initialised ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* As the real one, the driver waits by itself, and not through what it offers to others. */
static void wait_for_all(void)
{
	CUstream streams[STREAMS_MAX];

	pthread_mutex_lock(&driver.lock);
	memcpy(streams, driver.streams, sizeof(streams));
	pthread_mutex_unlock(&driver.lock);
	stream_synchronize(driver.default_stream);
	for (size_t i = 0; i < STREAMS_MAX; i++) {
		if (streams[i])
			stream_synchronize(streams[i]);
	}
}

CUresult cuCtxSynchronize(void)
{
	if (!driver.initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	wait_for_all();
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t length_bytes)
{
	void *memory = length_bytes ? calloc(1, length_bytes) : NULL;

	if (!length_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pointer = (CUdeviceptr)(uintptr_t)memory;
	return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
	if (!driver.initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	wait_for_all();
	free((void *)(uintptr_t)pointer);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(
	CUdeviceptr destination, CUdeviceptr source, size_t length_bytes, CUstream stream)
{
	struct stream_task task = {.kind = STREAM_COPY,
		.memory = {.destination = (void *)(uintptr_t)destination,
			.source = (const void *)(uintptr_t)source,
			.length_bytes = length_bytes}};

	return stream_enqueue(real_stream(stream), &task);
}

/* Of memory that is not pinned: after all that was launched before, and until it is done. */
CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t length_bytes)
{
	CUresult error;

	if (!driver.initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	wait_for_all();
	error = cuMemcpyAsync(destination, source, length_bytes, NULL);
	wait_for_all();
	return error;
}

CUresult cuMemsetD8Async(
	CUdeviceptr destination, unsigned char value, size_t length_bytes, CUstream stream)
{
	struct stream_task task = {.kind = STREAM_SET,
		.memory = {.destination = (void *)(uintptr_t)destination,
			.length_bytes = length_bytes,
			.value = value}};

	return stream_enqueue(real_stream(stream), &task);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	(void)flags;
	if (!driver.initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&driver.lock);
	for (size_t i = 0; i < STREAMS_MAX; i++) {
		if (driver.streams[i])
			continue;
		result = stream_create(&driver.streams[i]);
		if (result == CUDA_SUCCESS)
			*stream = driver.streams[i];
		break;
	}
	pthread_mutex_unlock(&driver.lock);
	return result;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	CUresult result = CUDA_ERROR_INVALID_HANDLE;

	pthread_mutex_lock(&driver.lock);
	for (size_t i = 0; i < STREAMS_MAX; i++) {
		if (stream && driver.streams[i] == stream) {
			driver.streams[i] = NULL;
			result = CUDA_SUCCESS;
			break;
		}
	}
	pthread_mutex_unlock(&driver.lock);
	if (result == CUDA_SUCCESS)
		stream_destroy(stream);
	return result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	stream_synchronize(real_stream(stream));
	return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream)
{
	return stream_is_idle(real_stream(stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	(void)stream;
	return cuCtxGetCurrent(context);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	(void)mode;
	driver.capture_broken = 0;
	__atomic_store_n(&driver.captured, stream, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, void **graph)
{
	*graph = NULL;
	if (__atomic_exchange_n(&driver.captured, NULL, __ATOMIC_ACQ_REL) != stream)
		return CUDA_ERROR_INVALID_HANDLE;
	return driver.capture_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
	*status = stream && __atomic_load_n(&driver.captured, __ATOMIC_ACQUIRE) == stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	(void)flags;
	return event ? event_make_wait(event, real_stream(stream)) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	(void)flags;
	return event_create(event);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	event_release(event);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	if (stream && __atomic_load_n(&driver.captured, __ATOMIC_ACQUIRE) == stream)
		driver.capture_broken = 1;
	return event ? event_record(event, real_stream(stream)) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventSynchronize(CUevent event)
{
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	event_synchronize(event);
	return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	return event_is_reached(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	if (!start || !end)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event_is_reached(start) || !event_is_reached(end))
		return CUDA_ERROR_NOT_READY;
	if (!event_time_ns(start) || !event_time_ns(end)) /* never recorded */
		return CUDA_ERROR_INVALID_HANDLE;
	*milliseconds = (float)((double)(event_time_ns(end) - event_time_ns(start)) / 1e6);
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, CUstream stream, void **arguments)
{
	struct stream_task task = {.kind = STREAM_KERNEL};

	if (!driver.initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!function || function->argument_count > DEVICE_ARGUMENTS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	task.kernel.function = function;
	for (size_t i = 0; i < function->argument_count; i++) {
		if (function->argument_bytes[i] > DEVICE_ARGUMENT_BYTES_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(task.kernel.arguments[i], arguments[i], function->argument_bytes[i]);
	}
	return stream_enqueue(real_stream(stream), &task);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared_bytes, CUstream stream, void **arguments, void **extra)
{
	(void)shared_bytes;
	if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z || extra)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(function, stream, arguments);
}

CUresult cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
	if (!config || !config->gridDimX || !config->blockDimX || extra)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(function, config->hStream, arguments);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user_data)
{
	struct stream_task task = {.kind = STREAM_HOST_FUNCTION,
		.host = {.function = function, .user_data = user_data}};

	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_enqueue(real_stream(stream), &task);
}
