/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime interface: libcudart.so.13, over the driver's. */
#include <stdlib.h>

#include "tests/workload/device/cuda_api.h"

static _Thread_local cudaError_t last_error;

static cudaError_t done(CUresult result)
{
	cudaError_t error = (cudaError_t)result; /* the numbers are the same */

	if (error != cudaSuccess && error != cudaErrorNotReady)
		last_error = error;
	return error;
}

/* The runtime initialises itself in its first call. */
static cudaError_t begin(void)
{
	return done(cuInit(0));
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t error = begin();

	return error ? error : done(cuDeviceGetCount(count));
}

cudaError_t cudaSetDevice(int device)
{
	cudaError_t error = begin();
	CUcontext context;

	if (!error)
		error = done(cuDevicePrimaryCtxRetain(&context, device));
	return error ? error : done(cuCtxSetCurrent(context));
}

cudaError_t cudaGetDevice(int *device)
{
	*device = 0;
	return begin();
}

cudaError_t cudaDeviceSynchronize(void)
{
	cudaError_t error = begin();

	return error ? error : done(cuCtxSynchronize());
}

cudaError_t cudaMalloc(void **pointer, size_t length_bytes)
{
	cudaError_t error = begin();
	CUdeviceptr memory;

	if (!error)
		error = done(cuMemAlloc_v2(&memory, length_bytes));
	if (!error)
		*pointer = (void *)(uintptr_t)memory;
	return error;
}

cudaError_t cudaFree(void *pointer)
{
	cudaError_t error = begin();

	return error ? error : done(cuMemFree_v2((CUdeviceptr)(uintptr_t)pointer));
}

cudaError_t cudaMemsetAsync(void *destination, int value, size_t length_bytes, cudaStream_t stream)
{
	cudaError_t error = begin();

	return error ? error
		     : done(cuMemsetD8Async((CUdeviceptr)(uintptr_t)destination,
			       (unsigned char)value, length_bytes, stream));
}

cudaError_t cudaMemcpyAsync(
	void *destination, const void *source, size_t length_bytes, int kind, cudaStream_t stream)
{
	cudaError_t error = begin();

	(void)kind; /* all memory is the host's */
	return error ? error
		     : done(cuMemcpyAsync((CUdeviceptr)(uintptr_t)destination,
			       (CUdeviceptr)(uintptr_t)source, length_bytes, stream));
}

cudaError_t cudaMemcpy(void *destination, const void *source, size_t length_bytes, int kind)
{
	cudaError_t error = begin();

	(void)kind; /* all memory is the host's */
	return error ? error
		     : done(cuMemcpy((CUdeviceptr)(uintptr_t)destination,
			       (CUdeviceptr)(uintptr_t)source, length_bytes));
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithFlags(stream, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	cudaError_t error = begin();

	return error ? error : done(cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	return done(cuStreamDestroy_v2(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	cudaError_t error = begin();

	return error ? error : done(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	cudaError_t error = begin();

	return error ? error : done(cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	return done(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	cudaError_t error = begin();

	return error ? error : done(cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	return done(cuEventDestroy_v2(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return done(cuEventRecord(event, stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return done(cuEventSynchronize(event));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return done(cuEventQuery(event));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	return done(cuEventElapsedTime(milliseconds, start, end));
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
	size_t shared_bytes, cudaStream_t stream)
{
	cudaError_t error = begin();

	return error ? error
		     : done(cuLaunchKernel((CUfunction)function, grid.x, grid.y, grid.z, block.x,
			       block.y, block.z, (unsigned int)shared_bytes, stream, arguments,
			       NULL));
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "no error";
	case cudaErrorInvalidValue:
		return "invalid argument";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorInvalidDevice:
		return "invalid device ordinal";
	case cudaErrorInvalidResourceHandle:
		return "invalid resource handle";
	case cudaErrorNotReady:
		return "device not ready";
	default:
		return "unknown error";
	}
}
