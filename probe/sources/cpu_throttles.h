/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the CPUs of a set were slowed down for heat, by the kernel's counts (x86:
 * /sys/devices/system/cpu/cpuN/thermal_throttle). Of a large set, some CPUs are looked at. For one thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_CPU_THROTTLES_H
#define SLOWRANK_PROBE_SOURCES_CPU_THROTTLES_H

#include <sched.h>

#include "probe/sources/sampler.h"

enum { CPU_THROTTLES_CPUS = 8 };

/* Zero-initialised is empty. */
struct cpu_throttles {
	cpu_set_t cpus; /* the set of the last look */
	unsigned chosen[CPU_THROTTLES_CPUS], count;
	struct growing_counter cores[CPU_THROTTLES_CPUS], packages[CPU_THROTTLES_CPUS];
	int64_t sum; /* of all cores, and of the package that had most; since the first look */
};

/* Whether the kernel counts them here. */
bool cpu_throttles_are_counted(void);

void cpu_throttles_look(struct cpu_throttles *throttles, const cpu_set_t *cpus);

#endif
