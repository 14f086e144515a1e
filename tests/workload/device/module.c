/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and host memory of the driver stand-in: enough for a kernel that reads the timer. */
#include <stdlib.h>
#include <string.h>

#include "tests/workload/device/stream.h"

struct CUmod_st {
	char entry[64];
};

static struct CUmod_st timer_module;

static void timer_code(void *const *arguments)
{
	uint64_t *cell = *(uint64_t *const *)arguments[0];

	__atomic_store_n(&cell[0], (uint64_t)device_globaltimer_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&cell[1], *(const uint64_t *)arguments[1], __ATOMIC_RELEASE);
}

static const struct device_function timer_function = {
	"globaltimer", timer_code, 2, {sizeof(uint64_t), sizeof(uint64_t)}};

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	static _Thread_local int current;
	int before = current;

	if (*mode < 0 || *mode > 2)
		return CUDA_ERROR_INVALID_VALUE;
	current = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	const char *entry = strstr(image, ".entry ");
	size_t length;

	if (!entry || !strstr(image, "%globaltimer"))
		return CUDA_ERROR_INVALID_IMAGE;
	entry += strlen(".entry ");
	length = strcspn(entry, "( \n");
	if (length >= sizeof(timer_module.entry))
		return CUDA_ERROR_INVALID_IMAGE;
	memcpy(timer_module.entry, entry, length);
	timer_module.entry[length] = '\0';
	*module = &timer_module;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	if (strcmp(module->entry, name) != 0)
		return CUDA_ERROR_NOT_FOUND;
	*function = &timer_function;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pointer, size_t length_bytes, unsigned int flags)
{
	(void)flags;
	*pointer = calloc(1, length_bytes);
	return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned int flags)
{
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	*pointer = (CUdeviceptr)(uintptr_t)host;
	return CUDA_SUCCESS;
}
