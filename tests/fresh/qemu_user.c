// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into tests that qemu-user runs (arm64.sh), for what that lacks: openat2(), as far as these tests need it; and the
 * kernel's own lines of /proc/PID/stat, where qemu-user makes up one of its own process that others do not see. It knows that
 * file as /proc/PID, not as /proc//PID.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { PATH_BYTES = 64 };

static const char *kernels_own(const char *path, char own[PATH_BYTES])
{
	size_t length = strlen(path);

	if (strncmp(path, "/proc/", 6) || length < 12 || length > PATH_BYTES - 2 ||
		strcmp(path + length - 5, "/stat"))
		return path;
	snprintf(own, PATH_BYTES, "/proc//%s", path + 6);
	return own;
}

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int openat(int folder, const char *path, int flags, ...)
{
	int (*real)(int, const char *, int, ...) = next("openat");
	char own[PATH_BYTES];
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = va_arg(rest, mode_t);
	va_end(rest);
	return real(folder, kernels_own(path, own), flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = va_arg(rest, mode_t);
	va_end(rest);
	return openat(AT_FDCWD, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = next("fopen");
	char own[PATH_BYTES];

	return real(kernels_own(path, own), mode);
}

/* In the process's own root all is found as ever; in another one links are not followed at the end. */
static int open_in_root(int root, const char *path, const struct open_how *how)
{
	struct stat given, own;

	if (fstat(root, &given) == 0 && stat("/", &own) == 0 && given.st_ino == own.st_ino &&
		given.st_dev == own.st_dev)
		return openat(root, path, (int)how->flags);
	return openat(root, path + strspn(path, "/"), (int)how->flags | O_NOFOLLOW);
}

long syscall(long number, ...)
{
	long (*real)(long, ...) = next("syscall");
	uintptr_t words[6];
	va_list rest;

	va_start(rest, number);
	for (size_t i = 0; i < 6; i++)
		words[i] = va_arg(rest, uintptr_t);
	va_end(rest);
	if (number == SYS_openat2)
		return open_in_root((int)words[0], (const char *)words[1], (const void *)words[2]);
	return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
