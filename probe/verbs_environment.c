/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/verbs_environment.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "probe/device_environment.h"
#include "probe/ring/container_starter.h"

static const char preload_variable[] = "LD_PRELOAD", verbs_variable[] = "SLOWRANK_VERBS";
static const char library_name[] = "libslowrank_verbs.so";

static bool has_device(const char *folder)
{
	DIR *directory = opendir(folder ? folder : "/sys/class/infiniband");
	struct dirent *entry;
	bool found = false;

	while (directory && !found && (entry = readdir(directory)))
		found = entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return found;
}

/* Beside the other in-process library. */
static bool find_library(const char *wanted, char *path, size_t capacity)
{
	size_t length;
	char *slash;

	if (wanted) {
		length = (size_t)snprintf(path, capacity, "%s", wanted);
		return length < capacity && access(path, R_OK) == 0;
	}
	if (!device_environment_library(path, capacity))
		return false;
	slash = strrchr(path, '/');
	length = (size_t)(slash + 1 - path);
	if (length + sizeof(library_name) > capacity)
		return false;
	memcpy(path + length, library_name, sizeof(library_name));
	return access(path, R_OK) == 0;
}

/*
 * The loader of programs for another processor (of 32 bits) complains of a library that is not for it, in each process. By
 * $PLATFORM it finds one of its own, where there is one under each name that the token has here: the kernel's, and
 * what glibc makes of it. It stands before the name, so that a shell that takes it for an empty variable does no harm.
 */
static void name_by_platform(char *path, size_t capacity)
{
	static const char token[] = "$PLATFORM/";
	static const char *const names[] = {"x86_64", "haswell", "xeon_phi", "i686"};
	const char *own = (const char *)getauxval(AT_PLATFORM);
	char *file = strrchr(path, '/') + 1, tried[PATH_MAX];

	if (!own || strcmp(own, names[0]) != 0 || strlen(path) + sizeof(token) > capacity)
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int length = snprintf(tried, sizeof(tried), "%.*s%s/%s", (int)(file - path), path,
			names[i], file);

		if (length >= (int)sizeof(tried) || access(tried, R_OK))
			return;
	}
	memmove(file + sizeof(token) - 1, file, strlen(file) + 1);
	memcpy(file, token, sizeof(token) - 1);
}

/* The loader takes spaces and colons as ends of names (ld.so(8)). */
static bool in_list(const char *list, const char *path)
{
	size_t wanted = strlen(path);

	while (*list) {
		size_t length = strcspn(list, " :");

		if (length == wanted && strncmp(list, path, length) == 0)
			return true;
		list += length;
		list += strspn(list, " :");
	}
	return false;
}

/* The user's libraries come first: ours must see what they leave of libibverbs. */
static bool append(const char *path)
{
	const char *before = getenv(preload_variable);
	size_t length = (before ? strlen(before) : 0) + strlen(path) + 2;
	char *list;
	bool set;

	if (!before || !*before)
		return setenv(preload_variable, path, 1) == 0;
	if (in_list(before, path))
		return true;
	list = malloc(length);
	if (!list)
		return false;
	snprintf(list, length, "%s:%s", before, path);
	set = setenv(preload_variable, list, 1) == 0;
	free(list);
	return set;
}

static bool starts_container(char *const *command)
{
	for (; command && *command; command++) {
		if (is_container_starter(*command))
			return true;
	}
	return false;
}

bool verbs_environment_set(const struct verbs_environment *environment,
	const struct probe_options *options, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	char path[PATH_MAX];
	const char *problem = NULL;

	if (options->verbs == PROBE_VERBS_OFF) {
		/* For the library that CUDA or NCCL may load all the same. */
		setenv(verbs_variable, "off", 1);
		problem = "counting in the job is switched off (--verbs off)";
	} else if (!(options->sources & PROBE_SOURCE_RDMA)) {
		setenv(verbs_variable, "off", 1);
		problem = "not asked for";
	} else if (!has_device(environment->device_folder)) {
		problem = "this host has no RDMA device";
	} else if (!find_library(environment->library, path, sizeof(path))) {
		problem = "libslowrank_verbs.so is not beside slowrank";
	} else if (starts_container(options->command)) {
		problem = "the command starts a container, where libslowrank_verbs.so is not";
	} else if (strpbrk(path, " :")) {
		problem = "the path of libslowrank_verbs.so has a space or colon, which LD_PRELOAD "
			  "cannot name";
	} else {
		name_by_platform(path, sizeof(path));
		if (!append(path))
			problem = "no memory";
	}
	snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "%s", problem ? problem : "");
	return !problem;
}
