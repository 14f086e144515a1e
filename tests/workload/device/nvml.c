/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's library: libnvidia-ml.so.1. Each process of the job has a stand-in device of its own. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/workload/device/busy.h"

#define EXPORTED __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, DEVICES = 16 };
/* A kernel is told of when it has ended. */
enum { PERIOD_SLOTS = 10000, ENDED_SLOTS = 2000 };

struct process {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
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
EXPORTED int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates);

/* The processes of the devices, in any order; 0: none any more. */
static unsigned find(unsigned index)
{
	const char *name = getenv("STAND_IN_GPUS");
	DIR *folder = name ? opendir(name) : NULL;
	struct dirent *entry;
	unsigned pid = 0, count = 0;

	while (folder && !pid && (entry = readdir(folder))) {
		unsigned long number = strtoul(entry->d_name, NULL, 10);

		if (number && count++ == index)
			pid = (unsigned)number;
	}
	if (folder)
		closedir(folder);
	return pid;
}

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
	*count = DEVICES; /* some are nobody's */
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	unsigned pid = index < DEVICES ? find(index) : 0;

	*device = (void *)(uintptr_t)pid;
	return pid ? SUCCESS : INVALID;
}

int nvmlDeviceGetComputeRunningProcesses_v3(
	void *device, unsigned *count, struct process *processes)
{
	*count = 1;
	processes[0] = (struct process){.pid = (unsigned)(uintptr_t)device};
	return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates)
{
	static uint8_t slots[BUSY_SLOTS];
	struct timespec now;
	char path[PATH_MAX];
	unsigned busy = 0;
	int64_t last;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/%u", getenv("STAND_IN_GPUS"), (unsigned)(uintptr_t)device);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -1 : pread(fd, slots, sizeof(slots), 0);
	if (fd >= 0)
		close(fd);
	if (length != BUSY_SLOTS)
		return NOT_SUPPORTED;
	clock_gettime(CLOCK_MONOTONIC, &now);
	last = ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec) / BUSY_SLOT_NS - ENDED_SLOTS;
	for (int64_t slot = last - PERIOD_SLOTS; slot < last; slot++)
		busy += slots[slot % BUSY_SLOTS] == busy_mark(slot);
	*rates = (struct rates){.busy = 100 * busy / PERIOD_SLOTS};
	return SUCCESS;
}
