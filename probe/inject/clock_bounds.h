/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every collective says about the device's clock, for nothing: its kernel starts after its
 * call, and its stop is seen after it happened. Any thread; a few atomic instructions.
 * Sums of about a second become one RING_RECORD_CLOCK_BOUND per device.
 */
#ifndef SLOWRANK_PROBE_INJECT_CLOCK_BOUNDS_H
#define SLOWRANK_PROBE_INJECT_CLOCK_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOCK_BOUNDS_DEVICES = 16 };

/* host time of the call, device time of the start: host - device is at least their difference. */
void clock_bounds_started(uint8_t device, int64_t call_host_ns, int64_t device_start_ns);
/*
 * host time when the stop was seen: host - device is at most their difference. One that starts and the ends of the second before
 * contradict is not believed.
 */
void clock_bounds_stopped(uint8_t device, int64_t observed_host_ns, int64_t device_stop_ns);

/*
 * Surely before its call: by what stops of the latest seconds say of the clock, which is wrong at most by how long it took to see
 * them, and beyond a correction of it. False where nothing is known.
 */
bool clock_bounds_precede(uint8_t device, int64_t call_host_ns, int64_t device_start_ns);

/* Writes and forgets what was learnt since the last call; for one thread (the helper). */
void clock_bounds_report(void);

#endif
