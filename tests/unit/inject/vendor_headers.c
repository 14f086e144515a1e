/* SPDX-License-Identifier: Apache-2.0 */
/* Own declarations against the vendor's headers: compiled where these are installed, never run. */
#include "probe/inject/cupti_abi.h"

#include <cuda.h>
#include <cupti.h>

#define SAME(own, own_field, vendor, vendor_field)                                                 \
	_Static_assert(offsetof(struct own, own_field) == offsetof(vendor, vendor_field) &&        \
			       sizeof(((struct own *)0)->own_field) ==                             \
				       sizeof(((vendor *)0)->vendor_field),                        \
		#own "." #own_field)

SAME(cupti_abi_kernel, kind, CUpti_ActivityKernel9, kind);
SAME(cupti_abi_kernel, start, CUpti_ActivityKernel9, start);
SAME(cupti_abi_kernel, end, CUpti_ActivityKernel9, end);
SAME(cupti_abi_kernel, device, CUpti_ActivityKernel9, deviceId);
SAME(cupti_abi_kernel, context, CUpti_ActivityKernel9, contextId);
SAME(cupti_abi_kernel, stream, CUpti_ActivityKernel9, streamId);
SAME(cupti_abi_kernel, correlation, CUpti_ActivityKernel9, correlationId);
SAME(cupti_abi_kernel, name, CUpti_ActivityKernel9, name);
SAME(cupti_abi_kernel, graph_node, CUpti_ActivityKernel9, graphNodeId);
SAME(cupti_abi_memcpy, copy_kind, CUpti_ActivityMemcpy6, copyKind);
SAME(cupti_abi_memcpy, bytes, CUpti_ActivityMemcpy6, bytes);
SAME(cupti_abi_memcpy, start, CUpti_ActivityMemcpy6, start);
SAME(cupti_abi_memcpy, end, CUpti_ActivityMemcpy6, end);
SAME(cupti_abi_memcpy, stream, CUpti_ActivityMemcpy6, streamId);
SAME(cupti_abi_memcpy, correlation, CUpti_ActivityMemcpy6, correlationId);
SAME(cupti_abi_synchronization, start, CUpti_ActivitySynchronization, start);
SAME(cupti_abi_synchronization, end, CUpti_ActivitySynchronization, end);
SAME(cupti_abi_synchronization, context, CUpti_ActivitySynchronization, contextId);
SAME(cupti_abi_call, call, CUpti_ActivityAPI, cbid);
SAME(cupti_abi_call, start, CUpti_ActivityAPI, start);
SAME(cupti_abi_call, thread, CUpti_ActivityAPI, threadId);
SAME(cupti_abi_call, correlation, CUpti_ActivityAPI, correlationId);

#define EQUAL(own, vendor) _Static_assert((int)(own) == (int)(vendor), #own)

EQUAL(CUPTI_ABI_SUCCESS, CUPTI_SUCCESS);
EQUAL(CUPTI_ABI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
EQUAL(CUPTI_ABI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
EQUAL(CUPTI_ABI_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
EQUAL(CUPTI_ABI_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
EQUAL(CUPTI_ABI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
EQUAL(CUPTI_ABI_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
