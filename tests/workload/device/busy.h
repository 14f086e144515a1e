/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a stand-in device ran kernels, for the stand-in of the driver's library in another process: a file for each
 * process in the folder that STAND_IN_GPUS names, with a byte for each 100 us of the last seconds.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_DEVICE_BUSY_H
#define SLOWRANK_TESTS_WORKLOAD_DEVICE_BUSY_H

#include <stdint.h>

enum { BUSY_SLOTS = 1 << 16, BUSY_SLOT_NS = 100000 };

/* What the byte of a slot is when some kernel ran in it. Slots are numbered from CLOCK_MONOTONIC's epoch. */
static inline uint8_t busy_mark(int64_t slot)
{
	return (uint8_t)(1 + slot / BUSY_SLOTS % UINT8_MAX);
}

/* Of this process's device; nothing without the folder. Thread-safe. */
void busy_tell(int64_t start_ns, int64_t end_ns);

#endif
