/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampler of stolen CPU time: what the CPUs that a rank's main thread may run on wanted to run, and how much of
 * that time the hypervisor gave to others. Needs no rights. Source "steal".
 */
#ifndef SLOWRANK_PROBE_SOURCES_STEAL_H
#define SLOWRANK_PROBE_SOURCES_STEAL_H

#include "probe/sources/cpu_times.h"
#include "probe/sources/sampler.h"

/* times outlives the sampler; NULL: it has its own. Returns 0 or -ENOMEM; what cannot be measured is in the state. */
int steal_sampler_create(pid_t pid, uint32_t rank, struct cpu_times *times,
	struct sampler **sampler) __attribute__((warn_unused_result));

#endif
