/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/dependencies.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "probe/attach/elf_paths.h"
#include "probe/attach/loader_cache.h"

enum { DEPENDENCIES_MAX = 256, RUN_PATHS_LENGTH = 16384 };

struct dependency {
	uint64_t device, inode;
	char path[PATH_MAX];
};

struct search {
	const char *environment;
	/* Run paths of all files so far. The loader is choosier about whose holds for whom; a
	 * library too many is no harm here. */
	char run_paths[RUN_PATHS_LENGTH];
	size_t count; /* index 0 is the program */
	struct dependency *found;
	/* The name being looked for in the loader's cache. */
	const char *name;
	bool hit;
};

/* Adds a file of the name once; true when it is there. */
static bool add(struct search *search, const char *path)
{
	struct dependency *next = &search->found[search->count];
	struct stat status;

	if (stat(path, &status) < 0 || !S_ISREG(status.st_mode))
		return false;
	for (size_t i = 0; i < search->count; i++) {
		if (search->found[i].inode == status.st_ino &&
			search->found[i].device == status.st_dev)
			return true;
	}
	if (search->count == DEPENDENCIES_MAX + 1 ||
		snprintf(next->path, sizeof(next->path), "%s", path) >= (int)sizeof(next->path))
		return true;
	next->device = status.st_dev;
	next->inode = status.st_ino;
	search->count++;
	return true;
}

static bool add_from_folders(struct search *search, const char *folders, const char *name)
{
	char path[PATH_MAX];

	while (folders && *folders) {
		size_t length = strcspn(folders, ":;");

		if (length > 0 && length + strlen(name) + 2 < sizeof(path)) {
			snprintf(path, sizeof(path), "%.*s/%s", (int)length, folders, name);
			if (add(search, path))
				return true;
		}
		folders += length;
		folders += *folders != '\0';
	}
	return false;
}

static void on_cached(void *context, const char *library)
{
	struct search *search = context;
	const char *slash = strrchr(library, '/');

	/* The first of a name: the cache lists the best for this machine first. */
	if (!search->hit && strcmp(slash ? slash + 1 : library, search->name) == 0)
		search->hit = add(search, library);
}

static void on_run_paths(void *context, const char *folders)
{
	struct search *search = context;
	size_t used = strlen(search->run_paths);

	if (used + strlen(folders) + 2 < sizeof(search->run_paths))
		snprintf(
			search->run_paths + used, sizeof(search->run_paths) - used, "%s:", folders);
}

static void on_needed(void *context, const char *name)
{
	struct search *search = context;

	if (strchr(name, '/')) {
		add(search, name);
		return;
	}
	if (add_from_folders(search, search->environment, name) ||
		add_from_folders(search, search->run_paths, name))
		return;
	search->name = name;
	search->hit = false;
	loader_cache_visit("/etc/ld.so.cache", on_cached, search);
	if (!search->hit)
		add_from_folders(search, "/lib64:/usr/lib64:/lib:/usr/lib", name);
}

void dependencies_visit(const char *program, const char *environment,
	void (*visit)(void *context, const char *library), void *context)
{
	struct search *search = calloc(1, sizeof(*search));

	if (!search)
		return;
	search->environment = environment;
	search->found = calloc(DEPENDENCIES_MAX + 1, sizeof(*search->found));
	if (search->found && add(search, program)) {
		for (size_t i = 0; i < search->count; i++) {
			elf_paths_visit(search->found[i].path, on_run_paths, search);
			elf_needed_visit(search->found[i].path, on_needed, search);
			if (i > 0)
				visit(context, search->found[i].path);
		}
	}
	free(search->found);
	free(search);
}
