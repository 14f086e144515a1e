/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A baseline of gpu_overhead.py: CUPTI's records of all kernels, from a process's first context to its
 * end, thrown away as they come. CUDA loads this library where CUDA_INJECTION64_PATH names it; libcupti
 * must be in the process already, as with PyTorch. Says on standard error, at the end, what was recorded.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/inject/cupti_abi.h"

enum { BUFFER_BYTES = 1 << 20 };

static atomic_size_t recorded_bytes;

static void give_buffer(uint8_t **buffer, size_t *size, size_t *record_max)
{
	*buffer = aligned_alloc(8, BUFFER_BYTES);
	*size = *buffer ? BUFFER_BYTES : 0;
	*record_max = 0; /* as many as fit */
}

static void drop_buffer(
	void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size)
{
	(void)context, (void)stream, (void)size;
	atomic_fetch_add_explicit(&recorded_bytes, valid_size, memory_order_relaxed);
	free(buffer);
}

static void tell(void)
{
	fprintf(stderr, "cupti_always: %zu bytes of records\n",
		atomic_load_explicit(&recorded_bytes, memory_order_relaxed));
}

__attribute__((visibility("default"))) int InitializeInjection(void);

/* Called by CUDA; 1 = well. */
int InitializeInjection(void)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
	int (*callbacks)(
		cupti_abi_buffer_requested requested, cupti_abi_buffer_completed completed);
	int (*enable)(uint32_t kind);
	void *library = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
		library = dlopen(names[i], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "cupti_always: there is no libcupti\n");
		return 1;
	}
	*(void **)&callbacks = dlsym(library, "cuptiActivityRegisterCallbacks");
	*(void **)&enable = dlsym(library, "cuptiActivityEnable");
	if (!callbacks || !enable || callbacks(give_buffer, drop_buffer) != CUPTI_ABI_SUCCESS ||
		enable(CUPTI_ABI_KIND_CONCURRENT_KERNEL) != CUPTI_ABI_SUCCESS) {
		fprintf(stderr, "cupti_always: CUPTI cannot be started\n");
		return 1;
	}
	(void)atexit(tell);
	return 1;
}
