/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sources/stand_in_nvml.h"

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

EXPORTED struct stand_in_nvml stand_in_nvml;

/* nvml.h */
struct process {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};
struct utilization {
	unsigned pid;
	unsigned long long time_us;
	unsigned multiprocessors, memory, encoder, decoder;
};
struct rates {
	unsigned busy, memory;
};

EXPORTED int nvmlInit_v2(void);
EXPORTED int nvmlShutdown(void);
EXPORTED int nvmlDeviceGetCount_v2(unsigned *count);
EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(
	void *device, unsigned *count, struct process *processes);
EXPORTED int nvmlDeviceGetProcessUtilization(
	void *device, struct utilization *samples, unsigned *count, unsigned long long since_us);
EXPORTED int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz);
EXPORTED int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates);

int nvmlInit_v2(void)
{
	return SUCCESS;
}

int nvmlShutdown(void)
{
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 1;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = &stand_in_nvml;
	return index == 0 ? SUCCESS : INVALID;
}

int nvmlDeviceGetComputeRunningProcesses_v3(
	void *device, unsigned *count, struct process *processes)
{
	unsigned filled = 0;

	(void)device;
	stand_in_nvml.asked_processes++;
	if (stand_in_nvml.own)
		processes[filled++] = (struct process){.pid = stand_in_nvml.own};
	for (unsigned i = 0; i < stand_in_nvml.other_count; i++)
		processes[filled++] = (struct process){.pid = stand_in_nvml.others[i]};
	*count = filled;
	return SUCCESS;
}

int nvmlDeviceGetProcessUtilization(
	void *device, struct utilization *samples, unsigned *count, unsigned long long since_us)
{
	unsigned filled = 0;

	(void)device;
	stand_in_nvml.asked_utilization++;
	for (unsigned i = 0; i < stand_in_nvml.other_count; i++) {
		if (stand_in_nvml.used_percent[i])
			samples[filled++] = (struct utilization){.pid = stand_in_nvml.others[i],
				.time_us = since_us + 1,
				.multiprocessors = stand_in_nvml.used_percent[i]};
	}
	*count = filled;
	return filled ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
	(void)device;
	(void)type;
	*mhz = 1980;
	return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates)
{
	(void)device;
	*rates = (struct rates){.busy = stand_in_nvml.busy_percent};
	return stand_in_nvml.busy_percent > 100 ? NOT_SUPPORTED : SUCCESS;
}
