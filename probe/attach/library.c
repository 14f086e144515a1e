/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/library.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/attach/collective_table.h"
#include "probe/attach/dependencies.h"
#include "probe/attach/elf_paths.h"
#include "probe/attach/loader_cache.h"
#include "probe/attach/symbols.h"
#include "probe/attach/target_root.h"

/* Where Python packages keep NCCL and PyTorch, below an interpreter's prefix. */
static const char *const python_folders[] = {
	"lib/python3*/site-packages/nvidia/nccl/lib",
	"lib/python3*/site-packages/torch/lib",
	"lib/python3*/dist-packages/nvidia/nccl/lib",
	"lib/python3*/dist-packages/torch/lib",
	"local/lib/python3*/dist-packages/nvidia/nccl/lib",
	"local/lib/python3*/dist-packages/torch/lib",
};

enum { SCRIPT_LINE_MAX = 256, INTERPRETER_DEPTH_MAX = 4 };

struct file_list {
	struct library_file *files;
	size_t capacity, count;
};

/* Files that may hold the table's symbols. */
static bool name_matches(const char *path)
{
	const char *name = basename(path);

	for (size_t i = 0; i < ROW_LIBRARY_NR; i++) {
		const char *const *files = collective_libraries[i].files;

		for (size_t k = 0; k < ROW_LIBRARY_FILES_MAX && files[k]; k++) {
			if (fnmatch(files[k], name, 0) == 0)
				return true;
		}
	}
	return false;
}

static bool is_file(const struct stat *status, const struct library_file *file)
{
	return S_ISREG(status->st_mode) && status->st_ino == file->inode &&
	       status->st_dev == file->device;
}

int library_open(const struct library_file *file, char link[LIBRARY_LINK_LENGTH])
{
	int fd = open(file->path, O_PATH | O_CLOEXEC), error = 0;
	struct stat status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) < 0)
		error = -errno;
	else if (!is_file(&status, file))
		error = -ESTALE;
	if (error) {
		close(fd);
		return error;
	}
	snprintf(link, LIBRARY_LINK_LENGTH, "/proc/self/fd/%d", fd);
	return fd;
}

/*
 * By map_files, which is the very file that is mapped; by its name where that is not allowed. A program that is not
 * position-independent lies low: maps pads its addresses with zeros, map_files does not.
 */
static int find_mapped(pid_t pid, const char *range, const char *name, char *path)
{
	unsigned long start, end;
	int fd;

	if (sscanf(range, "%lx-%lx", &start, &end) != 2)
		return -EINVAL;
	snprintf(path, LIBRARY_PATH_LENGTH, "/proc/%d/map_files/%lx-%lx", (int)pid, start, end);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd >= 0 || (errno != EPERM && errno != EACCES))
		return fd < 0 ? -errno : fd;
	if (snprintf(path, LIBRARY_PATH_LENGTH, "/proc/%d/root%s", (int)pid, name) >=
		LIBRARY_PATH_LENGTH)
		return -ENAMETOOLONG;
	return target_root_find(pid, name, 0);
}

int library_of_mapping(pid_t pid, const char *range, const char *name, struct library_file *file)
{
	int fd = find_mapped(pid, range, name, file->path), error = 0;
	struct stat status, plain;

	if (fd < 0)
		return fd;
	if (fstat(fd, &status) < 0)
		error = -errno;
	else if (!S_ISREG(status.st_mode))
		error = -EINVAL;
	close(fd);
	if (error)
		return error;
	file->device = status.st_dev;
	file->inode = status.st_ino;
	snprintf(file->name, sizeof(file->name), "%.*s", LIBRARY_PATH_LENGTH - 1, name);
	/* A path through /proc goes when the process goes; the plain one is kept where it is the
	 * same file. */
	if (strlen(name) < sizeof(file->path) && stat(name, &plain) == 0 && is_file(&plain, file))
		snprintf(file->path, sizeof(file->path), "%s", name);
	return 0;
}

/* Adds a file once. */
static void add(struct file_list *list, const struct library_file *file)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->files[i].inode == file->inode && list->files[i].device == file->device)
			return;
	}
	if (list->count < list->capacity)
		list->files[list->count++] = *file;
}

/* A regular file; what cannot be found is left out. */
static void add_file(struct file_list *list, const char *path, const char *name)
{
	struct library_file file;
	struct stat status;

	if (strlen(path) >= LIBRARY_PATH_LENGTH || stat(path, &status) < 0 ||
		!S_ISREG(status.st_mode))
		return;
	file.device = status.st_dev;
	file.inode = status.st_ino;
	snprintf(file.path, sizeof(file.path), "%s", path);
	snprintf(file.name, sizeof(file.name), "%.*s", LIBRARY_PATH_LENGTH - 1, name);
	add(list, &file);
}

static void add_mapping(struct file_list *list, pid_t pid, const char *range, const char *name)
{
	struct library_file file;

	if (library_of_mapping(pid, range, name, &file) == 0)
		add(list, &file);
}

int library_find_in_process(pid_t pid, struct library_file *files, size_t capacity, size_t *count)
{
	struct file_list list = {files, capacity, 0};
	char path[64], line[PATH_MAX + 128], executable[PATH_MAX];
	ssize_t length;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	length = readlink(path, executable, sizeof(executable) - 1);
	executable[length > 0 ? length : 0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	while (fgets(line, sizeof(line), maps)) {
		char range[64], permissions[8];
		int name_at = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%63s %7s %*s %*s %*s %n", range, permissions, &name_at) < 2 ||
			name_at == 0 || line[name_at] != '/' || permissions[2] != 'x')
			continue;
		if (name_matches(line + name_at) || strcmp(line + name_at, executable) == 0)
			add_mapping(&list, pid, range, line + name_at);
	}
	fclose(maps);
	*count = list.count;
	return 0;
}

/* Adds the files of a folder that match. */
static void add_folder(struct file_list *list, const char *folder)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	char path[PATH_MAX];

	while (directory && (entry = readdir(directory))) {
		if (!name_matches(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		add_file(list, path, path);
	}
	if (directory)
		closedir(directory);
}

static void add_folders(struct file_list *list, const char *folders)
{
	char folder[PATH_MAX];

	while (folders && *folders) {
		size_t length = strcspn(folders, ":;");

		if (length > 0 && length < sizeof(folder)) {
			memcpy(folder, folders, length);
			folder[length] = '\0';
			add_folder(list, folder);
		}
		folders += length;
		folders += *folders != '\0';
	}
}

static void on_loader_entry(void *context, const char *path)
{
	if (name_matches(path))
		add_file(context, path, path);
}

/* Also a library with another name, when the table's symbols are in it (a static NCCL). */
static void on_dependency(void *context, const char *path)
{
	if (name_matches(path) || symbols_has_rows(path))
		add_file(context, path, path);
}

static void on_run_path(void *context, const char *folders)
{
	add_folders(context, folders);
}

/* The packages of a Python interpreter at prefix/bin/python. */
static void add_python(struct file_list *list, const char *interpreter)
{
	char prefix[PATH_MAX], pattern[PATH_MAX + 64];
	glob_t found;

	snprintf(prefix, sizeof(prefix), "%s", interpreter);
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(prefix, '/');

		if (!slash)
			return;
		*slash = '\0';
	}
	for (size_t i = 0; i < sizeof(python_folders) / sizeof(python_folders[0]); i++) {
		snprintf(pattern, sizeof(pattern), "%s/%s", prefix, python_folders[i]);
		if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
			for (size_t k = 0; k < found.gl_pathc; k++)
				add_folder(list, found.gl_pathv[k]);
			globfree(&found);
		}
	}
}

/* Finds what a word of a command names, as a shell would. */
static bool resolve_word(const char *word, char path[PATH_MAX])
{
	const char *folders = getenv("PATH");

	if (strchr(word, '/')) {
		snprintf(path, PATH_MAX, "%s", word);
		return access(path, X_OK) == 0;
	}
	while (folders && *folders && *word && *word != '-') {
		size_t length = strcspn(folders, ":");

		snprintf(path, PATH_MAX, "%.*s/%s", (int)length, folders, word);
		struct stat status;
		if (access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode))
			return true;
		folders += length;
		folders += *folders != '\0';
	}
	return false;
}

static void add_program(struct file_list *list, const char *path, int depth)
{
	char line[SCRIPT_LINE_MAX] = "", interpreter[PATH_MAX], word[SCRIPT_LINE_MAX];
	char real[PATH_MAX];
	const char *name = basename(path);
	int fd, used = 0;

	if (strncmp(name, "python", 6) == 0 || strncmp(name, "torchrun", 8) == 0) {
		add_python(list, path);
		if (realpath(path, real))
			add_python(list, real);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t length = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (length < 4)
		return;
	if (memcmp(line, "\177ELF", 4) == 0) {
		add_file(list, path, path);
		elf_paths_visit(path, on_run_path, list);
		dependencies_visit(path, getenv("LD_LIBRARY_PATH"), on_dependency, list);
		return;
	}
	/* A script: its interpreter, and the word after it ("#!/usr/bin/env python3"). */
	if (line[0] != '#' || line[1] != '!' || depth >= INTERPRETER_DEPTH_MAX)
		return;
	line[strcspn(line, "\n")] = '\0';
	for (const char *at = line + 2; sscanf(at, " %255s%n", word, &used) == 1; at += used) {
		if (resolve_word(word, interpreter))
			add_program(list, interpreter, depth + 1);
	}
}

int library_find_for_command(
	char *const argv[], struct library_file *files, size_t capacity, size_t *count)
{
	struct file_list list = {files, capacity, 0};
	char path[PATH_MAX];

	for (size_t i = 0; argv[i]; i++) {
		if (resolve_word(argv[i], path))
			add_program(&list, path, 0);
	}
	add_folders(&list, getenv("LD_LIBRARY_PATH"));
	loader_cache_visit("/etc/ld.so.cache", on_loader_entry, &list);
	*count = list.count;
	return 0;
}
