/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One deep look at one rank: gathers what its device ran, and sums what began within whole steps into a
 * profile. No I/O, no clock; one thread. Memory is bounded: records that do not fit are counted.
 */
#ifndef SLOWRANK_PROBE_DEVICE_LOOK_H
#define SLOWRANK_PROBE_DEVICE_LOOK_H

#include "analysis/explain/kernel_profile.h"
#include "probe/sources/ring_source.h"

enum {
	DEVICE_LOOK_RECORDS_MAX = 131072, /* 32 bytes each */
	DEVICE_LOOK_NAMES_MAX = 512,
	DEVICE_LOOK_STEPS_MAX = 256,
};

struct device_look;

struct device_look *device_look_create(void);	    /* NULL without memory */
void device_look_destroy(struct device_look *look); /* NULL is fine */

void device_look_kernel(struct device_look *look, const struct ring_source_kernel *kernel);
void device_look_copy(struct device_look *look, const struct ring_source_memcpy *copy);
void device_look_synchronisation(
	struct device_look *look, const struct ring_source_synchronisation *synchronisation);
/* A step of the rank, in order; those that lie within on..off count. */
void device_look_step(struct device_look *look, struct host_ns start, struct host_ns end);

/* Whole steps so far that began at on or later. */
uint32_t device_look_step_count(const struct device_look *look, struct host_ns on);

/*
 * Sums up. on, off: when kernels were seen. The first whole step is left out where there are others:
 * switching the interface on disturbs it. lost: records lost on the way here. Fills all of the
 * profile but rank and request.
 */
void device_look_finish(struct device_look *look, struct host_ns on, struct host_ns off,
	uint64_t invalid, uint64_t lost, struct kernel_profile *profile);

#endif
