/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampler of how fast a rank's CPUs are: the cycles, and instructions, of its busiest threads beside the time that
 * they were on a CPU. By the best of three ways that works here: the PMU's counters (cycles and instructions), the
 * model-specific register of actual cycles (no instructions), the clock rate that cpufreq tells. Source "cycles".
 */
#ifndef SLOWRANK_PROBE_SOURCES_CYCLES_H
#define SLOWRANK_PROBE_SOURCES_CYCLES_H

#include "probe/sources/sampler.h"

/* Returns 0 or -ENOMEM; what cannot be measured is in the state. */
int cycles_sampler_create(pid_t pid, uint32_t rank, struct sampler **sampler)
	__attribute__((warn_unused_result));

#endif
