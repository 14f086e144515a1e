/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs: the driver, the in-process library, CUPTI, NVML. What only a job shows is said so. */
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "probe/attach/loader_cache.h"
#include "probe/attach/symbols.h"
#include "probe/device_environment.h"
#include "probe/doctor.h"

/* Tables of NCCL's profiler interface; the newest that both sides know is used. */
enum { PROFILER_TABLE_FIRST = 2, PROFILER_TABLE_LAST = 6, PATH_LENGTH = 256 };

struct wanted {
	const char *name;
	bool found;
	char path[PATH_LENGTH];
};

static void on_library(void *context, const char *path)
{
	struct wanted *wanted = context;
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	if (wanted->found || strncmp(name, wanted->name, strlen(wanted->name)) != 0)
		return;
	wanted->found = true;
	snprintf(wanted->path, sizeof(wanted->path), "%s", path);
}

static bool find_library(const char *name, char path[PATH_LENGTH])
{
	struct wanted wanted = {.name = name};

	loader_cache_visit("/etc/ld.so.cache", on_library, &wanted);
	memcpy(path, wanted.path, PATH_LENGTH);
	return wanted.found;
}

static void check_driver(struct doctor *doctor)
{
	char path[PATH_LENGTH];

	if (find_library("libcuda.so", path))
		doctor_add(doctor, DOCTOR_FINE, "gpu driver", "%.200s", path);
	else
		doctor_advise(doctor_add(doctor, DOCTOR_MISSING, "gpu driver",
				      "no libcuda.so on this host"),
			"nothing to do on hosts without NVIDIA GPUs");
}

/* "2, 3, 4": which tables the library has; the number of the newest, 0 = none. */
static int find_tables(const char *library, char *text, size_t capacity)
{
	size_t used = 0;
	int newest = 0;

	text[0] = '\0';
	for (int version = PROFILER_TABLE_FIRST; version <= PROFILER_TABLE_LAST; version++) {
		bool position_independent;
		uint64_t address;
		char name[32];

		snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
		if (symbols_find_object(library, name, &address, &position_independent) < 0)
			continue;
		newest = version;
		if (used < capacity)
			used += (size_t)snprintf(
				text + used, capacity - used, "%s%d", used ? ", " : "", version);
	}
	return newest;
}

static void check_plugin(struct doctor *doctor)
{
	const char *set = getenv("NCCL_PROFILER_PLUGIN");
	char path[PATH_MAX], tables[64];

	if (!device_environment_library(path, sizeof(path))) {
		doctor_advise(doctor_add(doctor, DOCTOR_MISSING, "gpu collectives",
				      "libslowrank_inject.so is not beside slowrank: no device "
				      "times, collectives are seen by enqueue time only"),
			"install it beside slowrank, or in ../lib");
		return;
	}
	if (find_tables(path, tables, sizeof(tables)) == 0) {
		doctor_advise(doctor_add(doctor, DOCTOR_MISSING, "gpu collectives",
				      "%.200s has no table of NCCL's profiler interface", path),
			"install the library of this version of slowrank");
		return;
	}
	if (set && strcasecmp(set, "none") == 0) {
		doctor_advise(doctor_add(doctor, DOCTOR_DEGRADED, "gpu collectives",
				      "NCCL_PROFILER_PLUGIN is set to %.150s, which is left as it "
				      "is: no device times",
				      set),
			"unset it for jobs that slowrank is to watch");
		return;
	}
	if (set && *set && strcmp(set, path) != 0) {
		doctor_add(doctor, DOCTOR_FINE, "gpu collectives",
			"%.100s, with your own plug-in %.60s behind it: both get NCCL's events",
			path, set);
		return;
	}
	doctor_add(doctor, DOCTOR_FINE, "gpu collectives",
		"%.180s: NCCL's profiler interface %s; NCCL 2.26 and later tell device times", path,
		tables);
}

/* Where CUDA and Python packages put it; a job looks beside the libcudart that it loads. */
static bool find_cupti(char path[PATH_LENGTH])
{
	static const char *const places[] = {"/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1?",
		"/usr/local/cuda*/targets/*/lib/libcupti.so.1?",
		"/usr/lib/python3*/*-packages/nvidia/*/lib/libcupti.so.1?",
		"/usr/lib/python3/*-packages/nvidia/*/lib/libcupti.so.1?",
		"/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcupti.so.1?",
		"/opt/*/lib/python3*/site-packages/nvidia/*/lib/libcupti.so.1?"};

	if (find_library("libcupti.so", path))
		return true;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		glob_t found = {0};
		bool any = glob(places[i], 0, NULL, &found) == 0 && found.gl_pathc > 0;

		if (any)
			snprintf(path, PATH_LENGTH, "%s", found.gl_pathv[0]);
		globfree(&found);
		if (any)
			return true;
	}
	return false;
}

static void check_cupti(struct doctor *doctor)
{
	const char *set = getenv("CUDA_INJECTION64_PATH");
	char path[PATH_LENGTH], own[PATH_MAX];
	bool is_own = set && device_environment_library(own, sizeof(own)) && strcmp(set, own) == 0;

	if (set && *set && !is_own)
		doctor_advise(doctor_add(doctor, DOCTOR_DEGRADED, "gpu kernels",
				      "CUDA_INJECTION64_PATH is set to %.150s: a profiler that may "
				      "hold CUPTI; deep looks give way to it",
				      set),
			"unset it for jobs that slowrank is to look into");
	else if (find_cupti(path))
		doctor_add(doctor, DOCTOR_FINE, "gpu kernels",
			"%.180s times the kernels of a suspect; whether a profiler in the job "
			"holds "
			"it already shows only when the job runs",
			path);
	else
		doctor_advise(
			doctor_add(doctor, DOCTOR_MISSING, "gpu kernels",
				"no libcupti in the loader's cache, CUDA's folders or Python's "
				"packages: longer-kernels and more-kernels cannot be told"),
			"nothing to do when jobs bring their own (PyTorch does): it is looked for "
			"beside the libcudart that they load");
}

static void check_health(struct doctor *doctor)
{
	char path[PATH_LENGTH];

	/* Which GPU is asked is known by the process that computes on it: there is none yet. */
	if (find_library("libnvidia-ml.so", path))
		doctor_add(doctor, DOCTOR_FINE, "gpu health",
			"%.180s: busy time, clocks, slowdown reasons, memory errors, other "
			"processes",
			path);
	else
		doctor_advise(doctor_add(doctor, DOCTOR_MISSING, "gpu health",
				      "no libnvidia-ml.so on this host"),
			"nothing to do on hosts without NVIDIA GPUs");
}

void doctor_check_devices(struct doctor *doctor)
{
	check_driver(doctor);
	check_plugin(doctor);
	check_cupti(doctor);
	check_health(doctor);
	doctor_check_rdma(doctor);
}
