/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ring of a process is: in the process's own mounts, under its own number. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/attach/target_root.h"
#include "probe/ring/ring_writer.h"
#include "probe/sources/ring_source_internal.h"

enum { ENTRIES_MAX = 65536 };

/* The process's number in its own namespace: the last of NSpid. */
static pid_t own_pid(pid_t pid)
{
	char path[64], line[512], *last = NULL, *state = NULL;
	pid_t result = pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return pid;
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		for (char *word = strtok_r(line + 6, " \t\n", &state); word;
			word = strtok_r(NULL, " \t\n", &state))
			last = word;
		if (last)
			result = (pid_t)strtol(last, NULL, 10);
		break;
	}
	fclose(file);
	return result;
}

/* What can be learnt only while the process lives. */
static int open_directory(struct ring_process *process, const char *directory)
{
	struct target_owner owner;
	struct stat folder;

	if (process->directory_fd >= 0)
		return 0;
	if (target_owner_read(process->pid, &owner) == 0)
		process->owner = owner.user;
	process->inner_pid = own_pid(process->pid);
	process->directory_fd = target_root_find(process->pid, directory, O_DIRECTORY);
	if (process->directory_fd < 0)
		return process->directory_fd;
	if (fstat(process->directory_fd, &folder) == 0) {
		process->folder_device = folder.st_dev;
		process->folder_inode = folder.st_ino;
	}
	return 0;
}

static int open_file(int directory_fd, const char *name, int flags)
{
	int found = openat(directory_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return found < 0 ? -errno : target_file_open(found, flags);
}

/* What it is on, and its number there; a file system that a process answers for is not asked. */
static int file_of(int fd, struct statx *file)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, file) ? -errno : 0;
}

/*
 * The process's own descriptor of the ring: whoever may trace it may have that, also where only the user may open the file
 * to write. Its number may be of any file by now. Returns a descriptor or a negative errno.
 */
static int take_descriptor(pid_t pid, int ring)
{
	struct statx wanted, found;
	int32_t number = 0;
	int process, taken;

	if (pread(ring, &number, sizeof(number), offsetof(struct ring_header, descriptor)) !=
			sizeof(number) ||
		number <= 0)
		return -EACCES;
	process = (int)syscall(SYS_pidfd_open, pid, 0);
	if (process < 0)
		return -errno;
	taken = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	close(process);
	if (taken < 0)
		return -EACCES;
	if (file_of(ring, &wanted) == 0 && file_of(taken, &found) == 0 &&
		wanted.stx_ino == found.stx_ino && wanted.stx_dev_major == found.stx_dev_major &&
		wanted.stx_dev_minor == found.stx_dev_minor)
		return taken;
	close(taken);
	return -EACCES;
}

/* Takes over fd. */
static int open_foreign_ring(struct ring_process *process, int fd)
{
	int writable = take_descriptor(process->pid, fd), result;

	if (writable < 0) {
		close(fd);
		return writable;
	}
	result = ring_reader_open_by(fd, writable, &process->reader);
	close(writable);
	return result;
}

static int open_ring(struct ring_process *process)
{
	int fd = open_file(process->directory_fd, process->file_name, O_RDWR);
	bool foreign = fd == -EACCES;
	struct ring_identity identity;
	struct target_owner owner;
	struct stat status;
	int result;

	if (target_owner_read(process->pid, &owner) == 0)
		process->owner = owner.user;
	if (foreign)
		fd = open_file(process->directory_fd, process->file_name, O_RDONLY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status) || status.st_uid != process->owner) {
		close(fd);
		return -EPERM;
	}
	result = foreign ? open_foreign_ring(process, fd) : ring_reader_open(fd, &process->reader);
	if (result)
		return result == -EAGAIN ? -ENOENT : result;
	ring_reader_identity(process->reader, &identity);
	if (identity.pid == process->inner_pid && identity.start_time == process->start_time)
		return 0;
	ring_reader_close(process->reader);
	process->reader = NULL;
	return -EBADMSG;
}

/*
 * True when no file came to the folder since it was last read. The kernel stamps changes by a
 * coarse clock: a change of the last second may hide another one.
 */
static bool is_unchanged(struct ring_process *process, const struct stat *folder)
{
	return process->directory_seen.tv_sec == folder->st_mtim.tv_sec &&
	       process->directory_seen.tv_nsec == folder->st_mtim.tv_nsec;
}

static void remember_folder(struct ring_process *process, const struct stat *folder)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec > folder->st_mtim.tv_sec + 1)
		process->directory_seen = folder->st_mtim;
}

/* UID.PID.START_TIME. The user's number may differ between user namespaces: the owner is compared. */
static bool parse_name(const char *name, uint64_t *pid, uint64_t *start_time)
{
	size_t prefix = strlen(RING_FILE_PREFIX);
	char *end;

	if (strncmp(name, RING_FILE_PREFIX, prefix) != 0 || strlen(name) >= RING_SOURCE_NAME_BYTES)
		return false;
	(void)strtoull(name + prefix, &end, 10);
	if (*end != '.')
		return false;
	*pid = strtoull(end + 1, &end, 10);
	if (*end != '.')
		return false;
	*start_time = strtoull(end + 1, &end, 10);
	return *end == '\0';
}

/* A process without a ring that looks into the same folder. */
static bool looks_there(const struct ring_process *process, const struct ring_process *reader)
{
	return !process->reader && process->directory_fd >= 0 &&
	       process->folder_device == reader->folder_device &&
	       process->folder_inode == reader->folder_inode;
}

static void take_name(
	const struct ring_look *look, const struct ring_process *reader, const char *name)
{
	uint64_t pid, start_time;

	if (!parse_name(name, &pid, &start_time))
		return;
	for (size_t i = 0; i < look->count; i++) {
		struct ring_process *process = look->processes[i];

		if (!looks_there(process, reader) || (uint64_t)process->inner_pid != pid ||
			process->start_time != start_time)
			continue;
		memcpy(process->file_name, name, strlen(name) + 1);
		process->found = open_ring(process);
	}
}

/* Reads the folder of a process for all processes that have the same. */
static int read_folder(struct ring_process *reader, const struct ring_look *look)
{
	const struct dirent *entry;
	struct stat status;
	DIR *folder;
	int fd;

	if (fstat(reader->directory_fd, &status))
		return -errno;
	fd = openat(reader->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	folder = fdopendir(fd);
	if (!folder) {
		int result = -errno;

		close(fd);
		return result;
	}
	for (size_t i = 0; i < look->count; i++) {
		struct ring_process *process = look->processes[i];

		if (!looks_there(process, reader))
			continue;
		process->look = look->number;
		process->found = -ENOENT;
		process->file_name[0] = '\0';
	}
	for (unsigned i = 0; i < ENTRIES_MAX && (entry = readdir(folder)); i++)
		take_name(look, reader, entry->d_name);
	closedir(folder);
	for (size_t i = 0; i < look->count; i++) {
		/* One with a name is there, if not yet whole. */
		if (looks_there(look->processes[i], reader) && !look->processes[i]->file_name[0])
			remember_folder(look->processes[i], &status);
	}
	return reader->found;
}

int ring_process_find(
	struct ring_process *process, const char *directory, const struct ring_look *look)
{
	struct stat status;
	int result;

	if (process->look == look->number)
		return process->found;
	if (process->directory_fd >= 0 && fstat(process->directory_fd, &status) == 0 &&
		is_unchanged(process, &status))
		return -ENOENT;
	result = open_directory(process, directory);
	return result ? result : read_folder(process, look);
}

bool ring_process_has_ended(const struct ring_process *process)
{
	uint64_t start_time;
	char pid[16];
	int result;

	snprintf(pid, sizeof(pid), "%d", (int)process->pid);
	result = ring_start_time(-1, pid, &start_time);
	if (result == 0 && start_time != process->start_time)
		return true;
	/* A zombie still has its stat; its mappings are gone with its address space. */
	if (result == 0) {
		char path[64], target[8];

		snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
		return readlink(path, target, sizeof(target)) < 0 && errno == ENOENT;
	}
	return result == -ENOENT || result == -ESRCH;
}

void ring_process_unlink(struct ring_process *process)
{
	if (process->directory_fd < 0)
		return;
	(void)unlinkat(process->directory_fd, process->file_name, 0);
}

void ring_process_close_directory(struct ring_process *process)
{
	close(process->directory_fd);
	process->directory_fd = -1;
}

/* Dead for sure: made in our process namespace, and no such process with this start is there. */
static bool is_stale(int directory_fd, const char *name)
{
	struct ring_process process = {.directory_fd = -1};
	struct ring_reader *reader;
	struct ring_identity identity;
	struct stat status;
	int fd = open_file(directory_fd, name, O_RDWR);

	if (fd < 0 || ring_reader_open(fd, &reader))
		return false;
	ring_reader_identity(reader, &identity);
	ring_reader_close(reader);
	process.pid = identity.pid;
	process.start_time = identity.start_time;
	return stat("/proc/self/ns/pid", &status) == 0 &&
	       identity.pid_namespace == (uint64_t)status.st_ino && identity.pid > 0 &&
	       ring_process_has_ended(&process);
}

void ring_process_clean_stale(const char *directory)
{
	DIR *folder = opendir(directory);
	const struct dirent *entry;

	if (!folder)
		return;
	for (unsigned i = 0; i < ENTRIES_MAX && (entry = readdir(folder)); i++) {
		if (strncmp(entry->d_name, RING_FILE_PREFIX, strlen(RING_FILE_PREFIX)) == 0 &&
			is_stale(dirfd(folder), entry->d_name))
			(void)unlinkat(dirfd(folder), entry->d_name, 0);
	}
	closedir(folder);
}
