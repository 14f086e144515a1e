/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one clock of a host that all times are told in (struct host_ns): CLOCK_MONOTONIC as the kernel
 * itself has it, and BPF. A process in a time namespace of its own, be it a rank or slowrank, is shown
 * another one, by an offset that it can read. Any thread; reads a file at the first call.
 */
#ifndef SLOWRANK_PROBE_RING_HOST_CLOCK_H
#define SLOWRANK_PROBE_RING_HOST_CLOCK_H

#include <stdint.h>

int64_t host_clock_now_ns(void);

/* Nanoseconds that this process sees the time since boot (of /proc/PID/stat) too late. */
int64_t host_clock_boot_offset_ns(void);

#endif
