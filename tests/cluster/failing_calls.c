/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program: the n-th of its own calls to take memory or to write fails, once. Calls of libraries
 * are not counted. FAIL_CALL: n, from 1; 0: none. FAIL_LOG: a file that gets a line when that call fails, and one
 * at the end with the number of calls. A program that has failing_calls_begin() is counted from there on, when
 * FAIL_LATE is set.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void failing_calls_begin(void);

static uintptr_t own_begin, own_end; /* of the program's code; 0: nothing is counted */
static unsigned long counted, to_fail;

static void log_line(const char *what, unsigned long number)
{
	const char *path = getenv("FAIL_LOG");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
	char line[64];
	int length = snprintf(line, sizeof(line), "%s %lu\n", what, number);

	if (fd < 0)
		return;
	(void)!syscall(SYS_write, fd, line, (size_t)length);
	close(fd);
}

void failing_calls_begin(void)
{
	char program[512] = "", line[1024], path[512];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t begin, end;
	char rights[8];

	if (!maps || length <= 0)
		abort();
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %511s", &begin, &end, rights, path) ==
				4 &&
			rights[2] == 'x' && strcmp(path, program) == 0)
			own_begin = begin, own_end = end;
	}
	fclose(maps);
	to_fail = getenv("FAIL_CALL") ? strtoul(getenv("FAIL_CALL"), NULL, 10) : 0;
}

static __attribute__((constructor)) void start(void)
{
	if (!getenv("FAIL_LATE"))
		failing_calls_begin();
}

static __attribute__((destructor)) void end(void)
{
	own_end = 0;
	log_line("calls", counted);
}

static bool fails(const void *caller, const char *name)
{
	uintptr_t from = (uintptr_t)caller;

	if (from < own_begin || from >= own_end ||
		__atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED) != to_fail)
		return false;
	log_line(name, to_fail);
	return true;
}

#define FAIL(name, error, result)                                                                  \
	do {                                                                                       \
		if (fails(__builtin_return_address(0), name)) {                                    \
			errno = error;                                                             \
			return result;                                                             \
		}                                                                                  \
	} while (0)

void *malloc(size_t size)
{
	FAIL("malloc", ENOMEM, NULL);
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	FAIL("calloc", ENOMEM, NULL);
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	FAIL("realloc", ENOMEM, NULL);
	return __libc_realloc(old, size);
}

char *strdup(const char *text)
{
	char *copy;

	FAIL("strdup", ENOMEM, NULL);
	copy = __libc_malloc(strlen(text) + 1);
	return copy ? strcpy(copy, text) : NULL;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
	FAIL("write", ENOSPC, -1);
	return syscall(SYS_write, fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	FAIL("writev", ENOSPC, -1);
	return syscall(SYS_writev, fd, pieces, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	FAIL("pwrite", ENOSPC, -1);
	return syscall(SYS_pwrite64, fd, bytes, length, offset);
}

int ftruncate(int fd, off_t length)
{
	FAIL("ftruncate", EIO, -1);
	return (int)syscall(SYS_ftruncate, fd, length);
}

int fsync(int fd)
{
	FAIL("fsync", EIO, -1);
	return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	FAIL("fdatasync", EIO, -1);
	return (int)syscall(SYS_fdatasync, fd);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	FAIL("mmap", ENOMEM, MAP_FAILED);
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

int epoll_create1(int flags)
{
	FAIL("epoll_create1", EMFILE, -1);
	return (int)syscall(SYS_epoll_create1, flags);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	FAIL("epoll_ctl", ENOSPC, -1);
	return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}
