/* SPDX-License-Identifier: Apache-2.0 */
/* Own declarations of what is called of the CUDA driver (cuda.h, CUDA 11 to 13), by pointer. */
#ifndef SLOWRANK_PROBE_INJECT_CUDA_ABI_H
#define SLOWRANK_PROBE_INJECT_CUDA_ABI_H

#include <stddef.h>

enum {
	CUDA_ABI_SUCCESS = 0,
	CUDA_ABI_NOT_READY = 600,
	CUDA_ABI_STREAM_NON_BLOCKING = 1,
	CUDA_ABI_HOST_ALLOC_PORTABLE = 1,
	CUDA_ABI_HOST_ALLOC_DEVICE_MAPPED = 2,
	CUDA_ABI_CAPTURE_MODE_RELAXED = 2,
	CUDA_ABI_CAPTURE_NONE = 0,
	CUDA_ABI_SCHEDULE_MASK = 7, /* of a context's flags */
	CUDA_ABI_SCHEDULE_BLOCKING_SYNC = 4,
};

struct cuda_abi {
	int (*driver_get_version)(int *version);
	int (*context_get_current)(void **context);
	int (*context_get_device)(int *device);
	int (*exchange_capture_mode)(int *mode); /* of this thread */
	int (*module_load_data)(void **module, const void *image);
	int (*module_get_function)(void **function, void *module, const char *name);
	int (*host_alloc)(void **pointer, size_t bytes, unsigned int flags);
	int (*host_get_device_pointer)(unsigned long long *pointer, void *host, unsigned int flags);
	int (*stream_create)(void **stream, unsigned int flags);
	int (*stream_query)(void *stream);
	int (*launch_kernel)(void *function, unsigned int grid_x, unsigned int grid_y,
		unsigned int grid_z, unsigned int block_x, unsigned int block_y,
		unsigned int block_z, unsigned int shared_bytes, void *stream, void **arguments,
		void **extra);
};

/* Of events, all by the stream's own context. */
struct cuda_abi_events {
	int (*context_set_current)(void *context);
	int (*context_get_device)(int *device);
	int (*exchange_capture_mode)(int *mode); /* of this thread */
	int (*stream_create)(void **stream, unsigned int flags);
	int (*stream_get_context)(void *stream, void **context);
	int (*stream_is_capturing)(void *stream, int *status);
	int (*event_create)(void **event, unsigned int flags);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_elapsed)(float *milliseconds, void *start, void *end);
};

#endif
