/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach --deep: has the kernels of those ranks shown whose collectives events cannot time (CUPTI, by the
 * library that was loaded): all the time, and only where the host does not launch so much that it
 * would slow the job down. Another profiler in the process goes first. One thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_KERNELS_H
#define SLOWRANK_PROBE_ATTACH_KERNELS_H

#include "probe/attach_events.h"
#include "probe/device_looks.h"
#include "probe/job.h"
#include "probe/launch_rates.h"
#include "probe/sources/ring_source.h"

struct attach_kernels;

/* All outlive it. Returns NULL without memory. */
struct attach_kernels *attach_kernels_create(struct ring_source *rings, struct job *job,
	const struct attach_events *events, const struct device_looks *looks,
	const struct launch_rates *rates);
void attach_kernels_destroy(struct attach_kernels *kernels); /* NULL is fine */

/* Each may be called with NULL: then nothing is wanted. */
void attach_kernels_hello(
	struct attach_kernels *kernels, pid_t pid, const struct ring_hello *hello);
void attach_kernels_report(
	struct attach_kernels *kernels, pid_t pid, const struct ring_deep_report *report);
void attach_kernels_step(struct attach_kernels *kernels, pid_t pid, const struct step_entry *step);
void attach_kernels_kernel(struct attach_kernels *kernels, const struct ring_source_kernel *kernel);
void attach_kernels_ended(struct attach_kernels *kernels, pid_t pid);
void attach_kernels_tick(struct attach_kernels *kernels, struct host_ns now);

/* "device.time" in words: how many collectives were matched, and why not. False: nothing to say. */
bool attach_kernels_state(const struct attach_kernels *kernels, struct message_source *out);

#endif
