/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

static const long proc_magic = 0x9fa0; /* PROC_SUPER_MAGIC, linux/magic.h */

static int copy(const char *path, int to)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	struct stat status;
	ssize_t sent;

	if (from < 0)
		return -errno;
	if (fstat(from, &status) < 0)
		error = -errno;
	for (off_t left = error ? 0 : status.st_size; left > 0 && !error; left -= sent) {
		sent = sendfile(to, from, NULL, (size_t)left);
		if (sent <= 0)
			error = sent < 0 ? -errno : -EIO;
	}
	close(from);
	return error;
}

/* Writes into the process's memory file; only when the number is still of that file. */
static int fill_memory_file(pid_t pid, int32_t memory_fd, const char *path, const char *name)
{
	char link[64], target[LOAD_PATH_BYTES], wanted[LOAD_PATH_BYTES];
	ssize_t length;
	int fd, error;

	snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, memory_fd);
	length = readlink(link, target, sizeof(target) - 1);
	if (length < 0)
		return -errno;
	target[length] = '\0';
	snprintf(wanted, sizeof(wanted), "/memfd:%s", name);
	if (strncmp(target, wanted, strlen(wanted)) != 0)
		return -EBADF;
	fd = open(link, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = copy(path, fd);
	close(fd);
	return error;
}

static bool sees_proc(pid_t pid)
{
	struct statfs status;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root/proc", (int)pid);
	return statfs(path, &status) == 0 && (long)status.f_type == proc_magic;
}

static int copy_into_root(pid_t pid, const char *path, const char *name, struct load_file *file)
{
	static const char *const folders[] = {"/dev/shm", "/tmp", "/var/tmp", "/run", ""};
	int error = -ENOENT;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(file->path, sizeof(file->path), "%s/%d-%.60s", folders[i], (int)pid, name);
		snprintf(file->to_remove, sizeof(file->to_remove), "/proc/%d/root%s", (int)pid,
			file->path);
		int fd = open(file->to_remove, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0755);

		if (fd < 0) {
			error = -errno;
			continue;
		}
		error = copy(path, fd);
		if (!error && fchmod(fd, 0755) < 0)
			error = -errno;
		close(fd);
		if (!error)
			return 0;
		(void)unlink(file->to_remove);
	}
	file->to_remove[0] = '\0';
	return error;
}

/*
 * The loader of the process compares paths before it opens a file, and numbers of descriptors are
 * used again: so each time the path is spelt in another way that means the same.
 */
static void spell(int32_t memory_fd, char *path, size_t bytes)
{
	enum { VARIED = 24 };
	struct timespec now;
	size_t length = (size_t)snprintf(path, bytes, "/proc/self/");

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (unsigned i = 0; i < VARIED; i++)
		length += (size_t)snprintf(
			path + length, bytes - length, now.tv_nsec >> (i + 6) & 1 ? "./" : "//");
	snprintf(path + length, bytes - length, "fd/%d", memory_fd);
}

int load_file_provide(
	pid_t pid, const char *path, const char *name, int32_t memory_fd, struct load_file *file)
{
	int error;

	*file = (struct load_file){.path = ""};
	if (memory_fd >= 0 && sees_proc(pid)) {
		spell(memory_fd, file->path, sizeof(file->path));
		error = fill_memory_file(pid, memory_fd, path, name);
		if (!error)
			return 0;
	}
	return copy_into_root(pid, path, name, file);
}

void load_file_remove(const struct load_file *file)
{
	if (file->to_remove[0])
		(void)unlink(file->to_remove);
}
