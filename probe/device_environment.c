/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/device_environment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char library_name[] = "libslowrank_inject.so";
static const char plugin_variable[] = "NCCL_PROFILER_PLUGIN";
static const char injection_variable[] = "CUDA_INJECTION64_PATH";

bool device_environment_library(char *path, size_t capacity)
{
	static const char *const folders[] = {"", "../lib/", "../lib/slowrank/"};
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	if (length <= 0)
		return false;
	program[length] = '\0';
	slash = strrchr(program, '/');
	if (!slash)
		return false;
	slash[1] = '\0';
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		int written = snprintf(path, capacity, "%s%s%s", program, folders[i], library_name);

		if (written > 0 && (size_t)written < capacity && access(path, R_OK) == 0)
			return true;
	}
	return false;
}

bool device_environment_set(
	const struct probe_options *options, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	const char *plugin = getenv(plugin_variable), *injection = getenv(injection_variable);
	char path[PATH_MAX];

	why[0] = '\0';
	if (!(options->sources & PROBE_SOURCE_DEVICE)) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "not asked for");
		return false;
	}
	if (!device_environment_library(path, sizeof(path))) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"%s is not beside slowrank: collectives are seen by enqueue time only",
			library_name);
		return false;
	}
	if (options->deep != PROBE_DEEP_OFF && !(injection && *injection))
		setenv(injection_variable, path, 1);
	/* A probe of an outer slowrank set the very same. */
	if (plugin && *plugin && strcmp(plugin, path) != 0) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"NCCL_PROFILER_PLUGIN is set to %.150s, which was left as it is", plugin);
		return false;
	}
	setenv(plugin_variable, path, 1);
	return true;
}
