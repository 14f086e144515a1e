/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe/attach/target_root.h"

enum { COPY_BYTES = 1 << 16 };

static const long proc_magic = 0x9fa0; /* PROC_SUPER_MAGIC, linux/magic.h */

/* Written by position: the process may move the offset of a descriptor that it shares. */
static int copy(const char *path, int to)
{
	static char bytes[COPY_BYTES];
	int from = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	ssize_t got = 1, put;

	if (from < 0)
		return -errno;
	for (off_t at = 0; got > 0 && !error; at += got) {
		got = read(from, bytes, sizeof(bytes));
		put = got > 0 ? pwrite(to, bytes, (size_t)got, at) : got;
		if (put != got || got < 0)
			error = put < 0 ? -errno : -EIO;
	}
	close(from);
	return error;
}

/* -EOPNOTSUPP: descriptors of the process cannot be had here. */
static int take_descriptor(pid_t pid, int32_t number)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), taken, error;

	if (process < 0)
		return errno == ESRCH ? -ESRCH : -EOPNOTSUPP;
	taken = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	error = errno;
	close(process);
	if (taken < 0)
		return error == ENOSYS || error == EPERM ? -EOPNOTSUPP : -error;
	return taken;
}

/*
 * The number may be of any file by now, also of one that only we may write. Seals are asked for
 * first: the kernel answers that itself, while the process may answer fstat() (FUSE), or not. Only a
 * memory file that allows seals has none: other files of tmpfs have F_SEAL_SEAL.
 */
static int check_memory_file(int fd, const struct target_owner *owner)
{
	struct stat status;

	if (fcntl(fd, F_GET_SEALS) != 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
		status.st_nlink != 0 || status.st_size != 0 || status.st_uid != owner->user)
		return -EBADF;
	return 0;
}

static int fill_memory_file(
	pid_t pid, int32_t memory_fd, const char *path, const struct target_owner *owner)
{
	int fd = take_descriptor(pid, memory_fd), error;

	if (fd < 0)
		return fd;
	error = check_memory_file(fd, owner);
	if (!error)
		error = copy(path, fd);
	if (!error && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		error = -errno;
	close(fd);
	return error;
}

static bool sees_proc(pid_t pid)
{
	int folder = target_root_find(pid, "/proc", O_DIRECTORY);
	struct statfs status;
	bool sees;

	if (folder < 0)
		return false;
	sees = fstatfs(folder, &status) == 0 && (long)status.f_type == proc_magic;
	close(folder);
	return sees;
}

/* From here on the kernel asks what this user may do with files. False without the right to that. */
static bool act_as(const struct target_owner *owner)
{
	(void)setfsgid(owner->group);
	(void)setfsuid(owner->user);
	return (uid_t)setfsuid((uid_t)-1) == owner->user;
}

static void act_as_ourselves(void)
{
	(void)act_as(&(struct target_owner){geteuid(), getegid()});
}

static const char *copy_name(const struct load_file *file)
{
	return strrchr(file->path, '/') + 1;
}

/* A folder where programs may lie: containers forbid them in /dev/shm. */
static int find_folder(pid_t pid, const char *path)
{
	int folder = target_root_find(pid, path, O_DIRECTORY);
	struct statvfs status;

	if (folder >= 0 && (fstatvfs(folder, &status) < 0 || (status.f_flag & ST_NOEXEC))) {
		close(folder);
		return -EACCES;
	}
	return folder;
}

static int copy_into_folder(
	const char *path, const struct target_owner *owner, struct load_file *file)
{
	struct stat status = {0};
	int fd = -1, error = -EPERM;

	if (act_as(owner)) {
		fd = openat(file->folder, copy_name(file),
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
		error = fd < 0 ? -errno : 0;
	}
	act_as_ourselves();
	if (error)
		return error;
	if (fstat(fd, &status) < 0 || fchmod(fd, 0755) < 0)
		error = -errno;
	file->device = status.st_dev;
	file->inode = status.st_ino;
	if (!error)
		error = copy(path, fd);
	close(fd);
	return error;
}

static int copy_into_root(pid_t pid, const char *path, const char *name,
	const struct target_owner *owner, struct load_file *file)
{
	static const char *const folders[] = {"/dev/shm", "/tmp", "/var/tmp", "/run", ""};
	int error = -ENOENT;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(file->path, sizeof(file->path), "%s/%d-%.60s", folders[i], (int)pid, name);
		file->folder = find_folder(pid, folders[i][0] ? folders[i] : "/");
		error = file->folder;
		if (file->folder < 0)
			continue;
		error = copy_into_folder(path, owner, file);
		if (!error)
			return 0;
		load_file_remove(file);
	}
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
	struct target_owner owner;
	int error = target_owner_read(pid, &owner);

	*file = (struct load_file){.folder = -1};
	if (error)
		return error;
	if (memory_fd >= 0 && sees_proc(pid)) {
		spell(memory_fd, file->path, sizeof(file->path));
		error = fill_memory_file(pid, memory_fd, path, &owner);
		if (error != -EOPNOTSUPP)
			return error;
	}
	return copy_into_root(pid, path, name, &owner, file);
}

void load_file_remove(struct load_file *file)
{
	struct stat status;

	if (file->folder < 0)
		return;
	if (fstatat(file->folder, copy_name(file), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		status.st_dev == file->device && status.st_ino == file->inode)
		(void)unlinkat(file->folder, copy_name(file), 0);
	close(file->folder);
	file->folder = -1;
	file->inode = 0;
}
