/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/device_environment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "probe/attach/target_root.h"
#include "probe/ring/ring_layout.h"

enum { MAPS_LINES_MAX = 1 << 17 };

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

/* What the file says first, as NCCL keeps what is set already. NULL: nothing. */
static const char *read_configuration(const char *path, char *value, size_t capacity)
{
	const size_t length = sizeof(plugin_variable) - 1;
	FILE *file = fopen(path, "re");
	const char *found = NULL;
	char line[4096];

	if (!file)
		return NULL;
	while (!found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (strncmp(line, plugin_variable, length) == 0 && line[length] == '=') {
			snprintf(value, capacity, "%s", line + length + 1);
			found = value;
		}
	}
	fclose(file);
	return found;
}

/* What NCCL would find in its files, which set what the environment does not have. */
static const char *configured_plugin(char *value, size_t capacity)
{
	const char *file = getenv("NCCL_CONF_FILE"), *home = getenv("HOME"), *found = NULL;
	char path[PATH_MAX];

	if (file && *file) {
		found = read_configuration(file, value, capacity);
	} else if (home) {
		snprintf(path, sizeof(path), "%s/.nccl.conf", home);
		found = read_configuration(path, value, capacity);
	}
	return found ? found : read_configuration("/etc/nccl.conf", value, capacity);
}

bool device_environment_set(
	const struct probe_options *options, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	const char *plugin = getenv(plugin_variable), *injection = getenv(injection_variable);
	char path[PATH_MAX], value[PATH_MAX];

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
	/* A probe of an outer slowrank set the very same, and has remembered the user's. */
	if (plugin && strcmp(plugin, path) == 0)
		return true;
	if (!plugin)
		plugin = configured_plugin(value, sizeof(value));
	if (plugin && strcasecmp(plugin, "none") == 0) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"NCCL_PROFILER_PLUGIN is set to %.150s, which was left as it is", plugin);
		return false;
	}
	setenv(RING_USER_PLUGIN_VARIABLE, plugin ? plugin : "", 1);
	setenv(plugin_variable, path, 1);
	return true;
}

static bool is_mapped(pid_t pid)
{
	char path[32], *line = NULL;
	size_t capacity = 0, count = 0;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	while (file && !found && count++ < MAPS_LINES_MAX && getline(&line, &capacity, file) > 0)
		found = strstr(line, library_name) != NULL;
	free(line);
	if (file)
		fclose(file);
	return found || !file || count == 1; /* it has ended */
}

/* What keeps the library from making its ring where the process has its own files. NULL: nothing that is seen. */
static const char *problem_of_folder(pid_t pid, const char *folder)
{
	const uint64_t whole =
		RING_HEADER_BYTES + (uint64_t)RING_SLOT_COUNT_DEFAULT * RING_RECORD_BYTES;
	int fd = target_root_find(pid, folder, O_DIRECTORY);
	struct statvfs status;
	const char *problem = NULL;
	uint64_t part;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return "is not there";
	if (fd < 0)
		return NULL;
	if (fstatvfs(fd, &status) == 0) {
		part = (uint64_t)status.f_blocks * status.f_frsize / RING_PARTS;
		if (status.f_flag & ST_RDONLY)
			problem = "can only be read";
		else if (status.f_blocks && (uint64_t)status.f_bavail * status.f_frsize <
						    (part < whole ? part : whole))
			problem = "is full";
	}
	close(fd);
	return problem;
}

static bool explain_folder(pid_t pid, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	const char *folder = getenv(RING_DIRECTORY_VARIABLE), *problem;

	if (!folder || !folder[0])
		folder = RING_DIRECTORY_DEFAULT;
	problem = problem_of_folder(pid, folder);
	if (problem)
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"%.60s of process %d, which tells device times, %s: make room there, or "
			"name another folder by " RING_DIRECTORY_VARIABLE,
			folder, (int)pid, problem);
	return problem != NULL;
}

bool device_environment_explain(pid_t pid, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	char path[PATH_MAX];
	int found;

	if (!device_environment_library(path, sizeof(path)))
		return false;
	found = target_root_find(pid, path, 0);
	if (found >= 0)
		close(found);
	if (found == -ENOENT || found == -ENOTDIR)
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"process %d has another root (a container?), without %.120s", (int)pid,
			path);
	else if (found >= 0 && !is_mapped(pid))
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"process %d did not load %s: its NCCL has no profiler interface, or its "
			"C library or its processor is not the library's",
			(int)pid, library_name);
	else
		return explain_folder(pid, why);
	return true;
}
