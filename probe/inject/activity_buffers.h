/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI's activity buffers: a fixed pool, and their records as records of the ring. Buffers come
 * and go on CUPTI's threads; begin and end are the helper's.
 */
#ifndef SLOWRANK_PROBE_INJECT_ACTIVITY_BUFFERS_H
#define SLOWRANK_PROBE_INJECT_ACTIVITY_BUFFERS_H

#include <stdbool.h>

#include "probe/inject/cupti_abi.h"

struct activity_counts {
	uint64_t records, dropped, invalid;
};

/*
 * Maps the pool at its first use; forgets names and counts. launches: they are shown too, so a kernel
 * waits for its own, which may lie in a buffer that comes later. False: no memory.
 */
bool activity_buffers_begin(const struct cupti_abi *cupti, bool launches);

/* CUPTI holds no buffer. */
bool activity_buffers_idle(void);

/* Not the case: kernels of NCCL came, and most without their launches. */
bool activity_buffers_launches_known(void);

/* All was flushed: a kernel that has waited since the flush before goes without its launch; all: any. */
void activity_buffers_flushed(bool all);
void activity_buffers_counts(struct activity_counts *counts);

/* For cuptiActivityRegisterCallbacks(). Without a free buffer CUPTI drops, and it is counted. */
void activity_buffer_requested(uint8_t **buffer, size_t *size, size_t *record_max);
void activity_buffer_completed(
	void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size);

#endif
