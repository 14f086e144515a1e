/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

enum {
	DEVICES_MAX = 64,
	PROCESSES_MAX = 256,	   /* on one device */
	LOOK_INTERVAL_SAMPLES = 5, /* a process without a device yet is looked for this seldom */
	/* nvml.h */
	SUCCESS = 0,
	NOT_FOUND = 6,
	CLOCK_SM = 1,
	ERROR_UNCORRECTED = 1,
	COUNTER_VOLATILE = 0,
};

/* nvmlProcessInfo_t of the functions with suffix _v3, nvml.h. */
struct nvml_process {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_t layout");

/* nvmlProcessUtilizationSample_t, nvml.h. */
struct nvml_utilization {
	unsigned pid;
	unsigned long long time_us;			    /* of the epoch */
	unsigned multiprocessors, memory, encoder, decoder; /* percent */
};
_Static_assert(sizeof(struct nvml_utilization) == 32, "nvmlProcessUtilizationSample_t layout");

typedef void *nvml_device;

struct nvml_api {
	int (*init)(void);
	int (*shutdown)(void);
	int (*device_count)(unsigned *count);
	int (*device)(unsigned index, nvml_device *device);
	int (*processes)(nvml_device device, unsigned *count, struct nvml_process *processes);
	int (*utilization)(nvml_device device, struct nvml_utilization *samples, unsigned *count,
		unsigned long long since_us);
	int (*clock)(nvml_device device, int type, unsigned *mhz);
	int (*reasons)(nvml_device device, unsigned long long *reasons);
	int (*ecc_errors)(
		nvml_device device, int type, int counter, unsigned long long *error_count);
};

struct nvml_sampler {
	struct sampler base;
	void *library; /* NULL: not there */
	bool ready;    /* init was called */
	struct nvml_api api;
	nvml_device device; /* NULL: not found yet */
	unsigned device_count;
	unsigned until_look;	    /* samples until the device is looked for again */
	unsigned long long seen_us; /* until when utilization was read */
	struct nvml_process processes[PROCESSES_MAX];
	struct nvml_utilization utilization[PROCESSES_MAX];
};

static bool load_api(void *library, struct nvml_api *api)
{
	const struct {
		const char *name;
		void *slot;
		bool needed;
	} functions[] = {
		{"nvmlInit_v2", &api->init, true},
		{"nvmlShutdown", &api->shutdown, true},
		{"nvmlDeviceGetCount_v2", &api->device_count, true},
		{"nvmlDeviceGetHandleByIndex_v2", &api->device, true},
		{"nvmlDeviceGetComputeRunningProcesses_v3", &api->processes, true},
		{"nvmlDeviceGetProcessUtilization", &api->utilization, false},
		{"nvmlDeviceGetClockInfo", &api->clock, false},
		{"nvmlDeviceGetCurrentClocksThrottleReasons", &api->reasons, false},
		{"nvmlDeviceGetTotalEccErrors", &api->ecc_errors, false},
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *address = dlsym(library, functions[i].name);

		if (!address && functions[i].needed)
			return false;
		*(void **)functions[i].slot = address;
	}
	return true;
}

/* How many processes compute on the device; *own: the rank's is one of them. -1: not known. */
static int count_processes(struct nvml_sampler *sampler, nvml_device device, bool *own)
{
	unsigned count = PROCESSES_MAX;

	*own = false;
	if (sampler->api.processes(device, &count, sampler->processes) != SUCCESS ||
		count > PROCESSES_MAX)
		return -1;
	for (unsigned i = 0; i < count; i++)
		*own |= sampler->processes[i].pid == (unsigned)sampler->base.pid;
	return (int)count;
}

/* The device that the rank's process computes on; it opens one only when it starts to. */
static void look_for_device(struct nvml_sampler *sampler)
{
	for (unsigned i = 0; i < sampler->device_count && i < DEVICES_MAX; i++) {
		nvml_device device;
		bool own;

		if (sampler->api.device(i, &device) == SUCCESS &&
			count_processes(sampler, device, &own) > 0 && own) {
			sampler->device = device;
			sampler_set_state(&sampler->base, SOURCE_ON, "%s", "");
			return;
		}
	}
	sampler_set_state(&sampler->base, SOURCE_MISSING,
		"the driver names no GPU that the rank's process computes on (in a container, give "
		"slowrank the host's pid namespace)");
}

/*
 * Of the others, those that computed since the last look: many only hold a context. -1: the driver
 * does not tell.
 */
static int count_busy_others(struct nvml_sampler *sampler)
{
	unsigned count = PROCESSES_MAX;
	int busy = 0, result;

	if (!sampler->api.utilization)
		return -1;
	result = sampler->api.utilization(
		sampler->device, sampler->utilization, &count, sampler->seen_us);
	if (result == NOT_FOUND) /* nothing new */
		return 0;
	if (result != SUCCESS || count > PROCESSES_MAX)
		return -1;
	for (unsigned i = 0; i < count; i++) {
		const struct nvml_utilization *sample = &sampler->utilization[i];

		if (sample->time_us > sampler->seen_us)
			sampler->seen_us = sample->time_us;
		busy += sample->pid && sample->pid != (unsigned)sampler->base.pid &&
			sample->multiprocessors > 0;
	}
	return busy;
}

static void take_processes(struct nvml_sampler *sampler, struct sample_list *list)
{
	bool own;
	int count = count_processes(sampler, sampler->device, &own);

	if (count < 0)
		return;
	if (!own) { /* left it, or moved to another */
		sampler->device = NULL;
		return;
	}
	int busy = count > 1 ? count_busy_others(sampler) : 0;

	sample_list_add(list, METRIC_GPU_OTHER_PROCESSES, busy >= 0 ? busy : count - 1);
}

static void take_rest(struct nvml_sampler *sampler, struct sample_list *list)
{
	const struct nvml_api *api = &sampler->api;
	unsigned long long wide;
	unsigned value;

	if (api->clock && api->clock(sampler->device, CLOCK_SM, &value) == SUCCESS)
		sample_list_add(list, METRIC_GPU_CLOCK_MHZ, value);
	if (api->reasons && api->reasons(sampler->device, &wide) == SUCCESS)
		sample_list_add(list, METRIC_GPU_SLOWDOWN_REASONS, (int64_t)wide);
	if (api->ecc_errors && api->ecc_errors(sampler->device, ERROR_UNCORRECTED, COUNTER_VOLATILE,
				       &wide) == SUCCESS)
		sample_list_add(list, METRIC_GPU_ECC_ERRORS, (int64_t)wide);
}

static size_t nvml_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct nvml_sampler *sampler = (struct nvml_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};

	if (!sampler->ready)
		return 0;
	if (!sampler->device) {
		if (sampler->until_look) {
			sampler->until_look--;
			return 0;
		}
		sampler->until_look = LOOK_INTERVAL_SAMPLES;
		look_for_device(sampler);
	}
	if (sampler->device)
		take_processes(sampler, &list);
	if (sampler->device)
		take_rest(sampler, &list);
	return list.count;
}

static void nvml_destroy(struct sampler *base)
{
	struct nvml_sampler *sampler = (struct nvml_sampler *)base;

	if (sampler->ready)
		sampler->api.shutdown();
	if (sampler->library)
		dlclose(sampler->library);
	free(sampler);
}

static void open_library(struct nvml_sampler *sampler)
{
	sampler->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!sampler->library) {
		sampler_set_state(&sampler->base, SOURCE_OFF, "no NVIDIA driver here");
		return;
	}
	if (!load_api(sampler->library, &sampler->api)) {
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"libnvidia-ml.so.1 is too old: needs a driver of 510 or newer");
		return;
	}
	sampler->ready = sampler->api.init() == SUCCESS;
	if (!sampler->ready || sampler->api.device_count(&sampler->device_count) != SUCCESS) {
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"the NVIDIA driver does not answer: see nvidia-smi");
		return;
	}
	look_for_device(sampler);
}

int nvml_sampler_create(pid_t pid, uint32_t rank, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = nvml_sample, .destroy = nvml_destroy};
	struct nvml_sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return -ENOMEM;
	sampler_init(&sampler->base, &operations, "nvml", pid, rank);
	open_library(sampler);
	*result = &sampler->base;
	return 0;
}
