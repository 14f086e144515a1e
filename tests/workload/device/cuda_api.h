/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own declarations of the part of the CUDA driver and runtime interfaces that a training loop
 * needs, with the names, arguments and numbers of NVIDIA's public headers (cuda.h,
 * cuda_runtime_api.h of CUDA 13). Calls may come from any thread.
 *
 * The stand-ins differ from a GPU in this: a device function is a struct device_function, a
 * device pointer is a host pointer, and the default stream does not wait for other streams.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_DEVICE_CUDA_API_H
#define SLOWRANK_TESTS_WORKLOAD_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#define DEVICE_EXPORT __attribute__((visibility("default")))

/* Driver interface. */
typedef enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
} CUresult;

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef const struct device_function *CUfunction;
typedef void (*CUhostFn)(void *user_data);

enum { DEVICE_ARGUMENTS_MAX = 8, DEVICE_ARGUMENT_BYTES_MAX = 16 };

/* What a compiled kernel is here: its code runs on the stream's thread, its arguments copied. */
struct device_function {
	const char *name;
	void (*code)(void *const *arguments);
	size_t argument_count;
	size_t argument_bytes[DEVICE_ARGUMENTS_MAX];
};

typedef struct CUlaunchConfig_st {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	void *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(CUlaunchConfig) == 56, "CUlaunchConfig of cuda.h");
#endif

DEVICE_EXPORT CUresult cuInit(unsigned int flags);
DEVICE_EXPORT CUresult cuDriverGetVersion(int *version);
DEVICE_EXPORT CUresult cuDeviceGetCount(int *count);
DEVICE_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal);
DEVICE_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device);
DEVICE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
DEVICE_EXPORT CUresult cuCtxSetCurrent(CUcontext context);
DEVICE_EXPORT CUresult cuCtxGetCurrent(CUcontext *context);
DEVICE_EXPORT CUresult cuCtxGetDevice(CUdevice *device);
enum { CU_CTX_SCHED_SPIN = 1, CU_CTX_SCHED_BLOCKING_SYNC = 4 };
DEVICE_EXPORT CUresult cuCtxGetFlags(unsigned int *flags);
DEVICE_EXPORT CUresult cuCtxSynchronize(void);
DEVICE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode);
/* Of all PTX only a kernel that stores %globaltimer, then its second argument, is understood. */
DEVICE_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image);
DEVICE_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
DEVICE_EXPORT CUresult cuMemHostAlloc(void **pointer, size_t length_bytes, unsigned int flags);
DEVICE_EXPORT CUresult cuMemHostGetDevicePointer_v2(
	CUdeviceptr *pointer, void *host, unsigned int flags);
DEVICE_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t length_bytes);
DEVICE_EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer);
DEVICE_EXPORT CUresult cuMemcpyAsync(
	CUdeviceptr destination, CUdeviceptr source, size_t length_bytes, CUstream stream);
DEVICE_EXPORT CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t length_bytes);
DEVICE_EXPORT CUresult cuMemsetD8Async(
	CUdeviceptr destination, unsigned char value, size_t length_bytes, CUstream stream);
DEVICE_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
DEVICE_EXPORT CUresult cuStreamDestroy_v2(CUstream stream);
DEVICE_EXPORT CUresult cuStreamSynchronize(CUstream stream);
DEVICE_EXPORT CUresult cuStreamQuery(CUstream stream);
DEVICE_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context);
/* A capture here only marks the stream: what may not be enqueued meanwhile fails, and breaks it. */
DEVICE_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
DEVICE_EXPORT CUresult cuStreamEndCapture(CUstream stream, void **graph);
DEVICE_EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status);
DEVICE_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
DEVICE_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags);
DEVICE_EXPORT CUresult cuEventDestroy_v2(CUevent event);
DEVICE_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream);
DEVICE_EXPORT CUresult cuEventSynchronize(CUevent event);
DEVICE_EXPORT CUresult cuEventQuery(CUevent event);
DEVICE_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
DEVICE_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared_bytes, CUstream stream, void **arguments, void **extra);
DEVICE_EXPORT CUresult cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra);
DEVICE_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user_data);

/* Runtime interface. */
typedef enum {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInvalidDevice = 101,
	cudaErrorInvalidResourceHandle = 400,
	cudaErrorNotReady = 600,
	cudaErrorUnknown = 999,
} cudaError_t;

typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;
typedef struct dim3 {
	unsigned int x, y, z;
} dim3;

DEVICE_EXPORT cudaError_t cudaRuntimeGetVersion(int *version);
DEVICE_EXPORT cudaError_t cudaGetDeviceCount(int *count);
DEVICE_EXPORT cudaError_t cudaSetDevice(int device);
DEVICE_EXPORT cudaError_t cudaGetDevice(int *device);
DEVICE_EXPORT cudaError_t cudaDeviceSynchronize(void);
DEVICE_EXPORT cudaError_t cudaMalloc(void **pointer, size_t length_bytes);
DEVICE_EXPORT cudaError_t cudaFree(void *pointer);
DEVICE_EXPORT cudaError_t cudaMemsetAsync(
	void *destination, int value, size_t length_bytes, cudaStream_t stream);
DEVICE_EXPORT cudaError_t cudaMemcpy(
	void *destination, const void *source, size_t length_bytes, int kind);
DEVICE_EXPORT cudaError_t cudaMemcpyAsync(
	void *destination, const void *source, size_t length_bytes, int kind, cudaStream_t stream);
DEVICE_EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream);
DEVICE_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
DEVICE_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream);
DEVICE_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream);
DEVICE_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream);
DEVICE_EXPORT cudaError_t cudaStreamWaitEvent(
	cudaStream_t stream, cudaEvent_t event, unsigned int flags);
DEVICE_EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event);
DEVICE_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
DEVICE_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event);
DEVICE_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
DEVICE_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event);
DEVICE_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event);
DEVICE_EXPORT cudaError_t cudaEventElapsedTime(
	float *milliseconds, cudaEvent_t start, cudaEvent_t end);
DEVICE_EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block,
	void **arguments, size_t shared_bytes, cudaStream_t stream);
DEVICE_EXPORT cudaError_t cudaGetLastError(void);
DEVICE_EXPORT const char *cudaGetErrorString(cudaError_t error);

#endif
