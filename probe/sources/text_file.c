/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_LENGTH = 512 };

int text_file_read_fd(int fd, char *buffer, size_t capacity)
{
	size_t used = 0;

	while (used < capacity - 1) {
		ssize_t length = pread(fd, buffer + used, capacity - 1 - used, (off_t)used);

		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0)
			return -errno;
		if (length == 0)
			break;
		used += (size_t)length;
	}
	buffer[used] = '\0';
	return 0;
}

int text_file_read(const char *path, char *buffer, size_t capacity)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), result;

	if (fd < 0)
		return -errno;
	result = text_file_read_fd(fd, buffer, capacity);
	close(fd);
	return result;
}

int text_file_read_at(char *buffer, size_t capacity, const char *format, ...)
{
	char path[PATH_LENGTH];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	return text_file_read(path, buffer, capacity);
}

bool text_parse_number(const char *text, int64_t *value)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno || end == text)
		return false;
	*value = number;
	return true;
}

bool text_find_number(const char *text, const char *key, int64_t *value)
{
	size_t length = strlen(key);
	int64_t number;

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) != 0 || (line[length] != ' ' && line[length] != '='))
			continue;
		if (!text_parse_number(line + length + 1, &number) || number < 0)
			return false;
		*value = number;
		return true;
	}
	return false;
}
