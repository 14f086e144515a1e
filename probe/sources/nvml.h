/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampler of the NVIDIA GPU that a rank computes on: clock, why it is lowered, who else computes
 * there, memory errors. Source "nvml": libnvidia-ml.so.1, loaded at run time; the
 * driver names a rank's GPU by its process id, so in a pid namespace of its own nothing is known.
 */
#ifndef SLOWRANK_PROBE_SOURCES_NVML_H
#define SLOWRANK_PROBE_SOURCES_NVML_H

#include "probe/sources/hurry.h"
#include "probe/sources/sampler.h"

/* Bits of METRIC_GPU_SLOWDOWN_REASONS that cost speed: of nvmlClocksThrottleReasons, nvml.h. */
enum {
	NVML_REASON_POWER_CAP = 0x4,
	NVML_REASON_HARDWARE_SLOWDOWN = 0x8,
	NVML_REASON_SOFTWARE_THERMAL = 0x20,
	NVML_REASON_HARDWARE_THERMAL = 0x40,
	NVML_REASON_POWER_BRAKE = 0x80,
};

/*
 * The hurry is all samplers' together, outlives them, and is followed by the caller. Returns 0 or -ENOMEM; what
 * cannot be measured is in the state.
 */
int nvml_sampler_create(pid_t pid, uint32_t rank, struct hurry *hurry, struct sampler **sampler)
	__attribute__((warn_unused_result));

#endif
