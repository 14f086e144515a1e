/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/statfs.h>
#include <sys/uio.h>

#include "probe/attach/confined.h"
#include "tests/fuzz/fuzz.h"

enum { SEPARATOR = 0xff };

static const uint8_t *all;
static size_t all_length;

void foreign_begin(const uint8_t *bytes, size_t length)
{
	all = bytes;
	all_length = length;
}

void foreign_end(void)
{
	all = NULL;
}

/* The content of the first file whose name the path ends in; false: there is none. */
static bool find(const char *path, const uint8_t **content, size_t *content_length)
{
	size_t path_length = strlen(path);

	for (size_t at = 0; at < all_length;) {
		const uint8_t *file = all + at, *end = memchr(file, SEPARATOR, all_length - at);
		size_t length = end ? (size_t)(end - file) : all_length - at;
		const uint8_t *line_end = memchr(file, '\n', length);
		size_t name_length = line_end ? (size_t)(line_end - file) : 0;

		if (name_length > 0 && name_length <= path_length &&
			memcmp(path + path_length - name_length, file, name_length) == 0) {
			*content = line_end + 1;
			*content_length = length - name_length - 1;
			return true;
		}
		at += length + 1;
	}
	return false;
}

size_t foreign_words(const char *file, char *words[FOREIGN_WORDS_MAX + 1], char **text)
{
	const uint8_t *content = NULL;
	size_t length = 0, count = 0;

	(void)find(file, &content, &length);
	*text = calloc(1, length + 1);
	fuzz_require(*text != NULL);
	if (length)
		memcpy(*text, content, length);
	for (size_t at = 0; at < length && count < FOREIGN_WORDS_MAX; at += strlen(*text + at) + 1)
		words[count++] = *text + at;
	words[count] = NULL;
	return count;
}

/* Descriptors of this process are what they are. */
static bool is_foreign(const char *path)
{
	return all && strncmp(path, "/proc/self/fd/", strlen("/proc/self/fd/")) != 0;
}

static int open_content(const char *path)
{
	char unused[FUZZ_PATH_LENGTH];
	const uint8_t *content;
	size_t length;

	if (find(path, &content, &length))
		return fuzz_file(content, length, unused);
	errno = ENOENT;
	return -1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list arguments;
	int mode;

	va_start(arguments, flags);
	mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
	va_end(arguments);
	return is_foreign(path) ? open_content(path) : __real_open(path, flags, mode);
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
	int fd;

	if (!is_foreign(path))
		return __real_fopen(path, mode);
	fd = open_content(path);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

ssize_t __real_readlink(const char *path, char *target, size_t capacity);
ssize_t __wrap_readlink(const char *path, char *target, size_t capacity);
ssize_t __wrap_readlink(const char *path, char *target, size_t capacity)
{
	const uint8_t *content;
	size_t length;

	if (!is_foreign(path))
		return __real_readlink(path, target, capacity);
	if (!find(path, &content, &length)) {
		errno = ENOENT;
		return -1;
	}
	length = length < capacity ? length : capacity;
	memcpy(target, content, length);
	return (ssize_t)length;
}

/* Any folder is there. */
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
	return is_foreign(path) ? 0 : __real_access(path, mode);
}

char *__real_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved)
{
	if (!is_foreign(path))
		return __real_realpath(path, resolved);
	snprintf(resolved, PATH_MAX, "%s", path);
	return resolved;
}

int __real_fstatfs(int fd, struct statfs *status);
int __wrap_fstatfs(int fd, struct statfs *status);
int __wrap_fstatfs(int fd, struct statfs *status)
{
	int result = __real_fstatfs(fd, status);

	if (all)
		status->f_type = CGROUP2_SUPER_MAGIC;
	return result;
}

/* Memory of the other process: the file "mem" is its beginning, and all there is. */
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	uintptr_t at = (uintptr_t)remote->iov_base;
	const uint8_t *content;
	size_t length;

	(void)pid;
	(void)flags;
	fuzz_require(local_count == 1 && remote_count == 1 && local->iov_len == remote->iov_len);
	if (!all || !find("mem", &content, &length) || at > length ||
		local->iov_len > length - at) {
		errno = EFAULT;
		return -1;
	}
	memcpy(local->iov_base, content + at, local->iov_len);
	return (ssize_t)local->iov_len;
}

/* A child for each input takes longer than the work, and what a sanitizer finds there would not be seen here. */
int __wrap_confined_call(int (*work)(void *state), void *state, size_t bytes);
int __wrap_confined_call(int (*work)(void *state), void *state, size_t bytes)
{
	(void)bytes;
	return work(state);
}
