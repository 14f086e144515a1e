/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

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

/*
 * Who computes on a device is a dear question (0.3 ms of CPU time, H200, driver 580), how much still more (1.6 ms, asked
 * where there are others), all else is 0.06 ms each. In a hurry both are asked with each sample; else the first this
 * seldom, and the second when the answer to the first changes, or after the longer time.
 */
#define USERS_INTERVAL_NS INT64_C(1900000000)
#define UTILIZATION_INTERVAL_NS INT64_C(5900000000)

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

/* nvmlUtilization_t, nvml.h: percent of the driver's last period, of 1/6 s to 1 s. */
struct nvml_rates {
	unsigned busy, memory;
};
_Static_assert(sizeof(struct nvml_rates) == 8, "nvmlUtilization_t layout");

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
	int (*rates)(nvml_device device, struct nvml_rates *rates);
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
	unsigned until_look; /* samples until the device is looked for again */
	struct hurry *hurry; /* shared */
	uint64_t others; /* the sum of the other processes' numbers, when utilization was read */
	struct host_ns users_read, utilization_read;
	struct host_ns busy_read;
	int64_t busy_ns;	    /* until then */
	unsigned long long seen_us; /* until when it was */
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
		{"nvmlDeviceGetUtilizationRates", &api->rates, false},
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

struct device_users {
	unsigned count;	 /* processes that compute on the device */
	bool own;	 /* the rank's is one of them */
	uint64_t others; /* the sum of the others' numbers: it changes when they do */
};

static bool read_users(struct nvml_sampler *sampler, nvml_device device, struct device_users *users)
{
	*users = (struct device_users){.count = PROCESSES_MAX};
	if (sampler->api.processes(device, &users->count, sampler->processes) != SUCCESS ||
		users->count > PROCESSES_MAX)
		return false;
	for (unsigned i = 0; i < users->count; i++) {
		if (sampler->processes[i].pid == (unsigned)sampler->base.pid)
			users->own = true;
		else
			users->others += sampler->processes[i].pid;
	}
	return true;
}

/* The device that the rank's process computes on; it opens one only when it starts to. */
static void look_for_device(struct nvml_sampler *sampler)
{
	for (unsigned i = 0; i < sampler->device_count && i < DEVICES_MAX; i++) {
		struct device_users users;
		nvml_device device;

		if (sampler->api.device(i, &device) == SUCCESS &&
			read_users(sampler, device, &users) && users.own) {
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

static int64_t cpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void take_others(
	struct nvml_sampler *sampler, const struct device_users *users, struct sample_list *list)
{
	int busy;

	if (users->others == sampler->others && !sampler->hurry->on &&
		list->now.value - sampler->utilization_read.value < UTILIZATION_INTERVAL_NS)
		return;
	sampler->others = users->others;
	sampler->utilization_read = list->now;
	busy = count_busy_others(sampler);
	sample_list_add(
		list, METRIC_GPU_OTHER_PROCESSES, busy >= 0 ? busy : (int64_t)users->count - 1);
}

static void take_processes(struct nvml_sampler *sampler, struct sample_list *list)
{
	struct device_users users;

	if (!sampler->hurry->on && list->now.value - sampler->users_read.value < USERS_INTERVAL_NS)
		return;
	sampler->users_read = list->now;
	if (!read_users(sampler, sampler->device, &users))
		return;
	if (!users.own) { /* left it, or moved to another */
		sampler->device = NULL;
		return;
	}
	if (users.count > 1) {
		take_others(sampler, &users, list);
	} else {
		sampler->others = 0;
		sample_list_add(list, METRIC_GPU_OTHER_PROCESSES, 0);
	}
}

/* A share of the time since the last look, which it stands for. */
static void take_busy(struct nvml_sampler *sampler, struct sample_list *list)
{
	int64_t elapsed_ns = list->now.value - sampler->busy_read.value;
	struct nvml_rates rates;

	if (!sampler->api.rates || sampler->api.rates(sampler->device, &rates) != SUCCESS ||
		rates.busy > 100) {
		sampler_set_state(&sampler->base, SOURCE_DEGRADED,
			"the driver does not tell how busy the GPU is (as with MIG): a late host "
			"may be one that waits for it");
		return;
	}
	sampler_set_state(&sampler->base, SOURCE_ON, "%s", "");
	if (sampler->busy_read.value)
		sampler->busy_ns += elapsed_ns / 100 * (int64_t)rates.busy;
	sampler->busy_read = list->now;
	sample_list_add(list, METRIC_GPU_BUSY_NS, sampler->busy_ns);
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
	if (sampler->device) {
		int64_t start_ns = cpu_now_ns();

		take_processes(sampler, &list);
		hurry_looked(sampler->hurry, cpu_now_ns() - start_ns);
	}
	if (sampler->device) {
		take_busy(sampler, &list);
		take_rest(sampler, &list);
	}
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

int nvml_sampler_create(pid_t pid, uint32_t rank, struct hurry *hurry, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = nvml_sample, .destroy = nvml_destroy};
	struct nvml_sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return -ENOMEM;
	sampler_init(&sampler->base, &operations, "nvml", pid, rank);
	sampler->hurry = hurry;
	open_library(sampler);
	*result = &sampler->base;
	return 0;
}
