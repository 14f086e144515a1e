/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own declarations of what is used of CUPTI (cupti_activity.h, CUDA 12 and 13), by pointer. Records
 * grow at their end from version to version: only the heads that are read are declared.
 */
#ifndef SLOWRANK_PROBE_INJECT_CUPTI_ABI_H
#define SLOWRANK_PROBE_INJECT_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
	CUPTI_ABI_SUCCESS = 0,
	CUPTI_ABI_MULTIPLE_SUBSCRIBERS = 39,
	CUPTI_ABI_KIND_MEMCPY = 1,
	CUPTI_ABI_KIND_DRIVER = 4,
	CUPTI_ABI_KIND_RUNTIME = 5,
	CUPTI_ABI_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_ABI_KIND_SYNCHRONIZATION = 38,
};

struct cupti_abi_kernel { /* CUpti_ActivityKernel5 to 10 */
	uint32_t kind;
	uint8_t cache_config, shared_memory_config;
	uint16_t registers;
	uint32_t cache_requested, cache_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3];
	int32_t static_shared, dynamic_shared;
	uint32_t local_per_thread, local_total, correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, padding;
	uint32_t shared_executed;
	uint64_t graph_node;
};
struct cupti_abi_memcpy { /* CUpti_ActivityMemcpy4 to 6 */
	uint32_t kind;
	uint8_t copy_kind, source_kind, destination_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
};
struct cupti_abi_synchronization { /* with version 2, too */
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
};
struct cupti_abi_call { /* CUpti_ActivityAPI */
	uint32_t kind, call;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct cupti_abi_kernel, start) == 16, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct cupti_abi_kernel, device) == 40, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct cupti_abi_kernel, correlation) == 92, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct cupti_abi_kernel, name) == 104, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct cupti_abi_kernel, graph_node) == 144, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct cupti_abi_memcpy, start) == 16, "CUpti_ActivityMemcpy");
_Static_assert(offsetof(struct cupti_abi_memcpy, correlation) == 44, "CUpti_ActivityMemcpy");
_Static_assert(offsetof(struct cupti_abi_synchronization, correlation) == 24, "CUpti_ActivitySync");
_Static_assert(offsetof(struct cupti_abi_call, correlation) == 32, "CUpti_ActivityAPI");
#endif

typedef void (*cupti_abi_buffer_requested)(uint8_t **buffer, size_t *size, size_t *record_max);
typedef void (*cupti_abi_buffer_completed)(
	void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size);
typedef void (*cupti_abi_callback)(void *user, uint32_t domain, uint32_t id, const void *data);

struct cupti_abi {
	int (*subscribe)(void **subscriber, cupti_abi_callback callback, void *user);
	int (*unsubscribe)(void *subscriber);
	int (*register_callbacks)(
		cupti_abi_buffer_requested requested, cupti_abi_buffer_completed completed);
	int (*enable)(uint32_t kind);
	int (*disable)(uint32_t kind);
	int (*flush_all)(uint32_t flag);
	int (*next_record)(uint8_t *buffer, size_t valid_size, void **record);
	int (*dropped_records)(void *context, uint32_t stream, size_t *dropped);
	int (*timestamp)(uint64_t *timestamp);
};

#endif
