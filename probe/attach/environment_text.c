/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/environment_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENVIRONMENT_BYTES_MAX = 2 << 20 };

int environment_text_read(pid_t pid, char **text, size_t *length_bytes)
{
	char path[64], *bytes;
	size_t length = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	bytes = malloc(ENVIRONMENT_BYTES_MAX + 1);
	if (!bytes) {
		close(fd);
		return -ENOMEM;
	}
	for (;;) {
		ssize_t got = read(fd, bytes + length, ENVIRONMENT_BYTES_MAX - length);

		if (got <= 0)
			break;
		length += (size_t)got;
	}
	close(fd);
	/* The last string may lack its NUL; but one that was cut here is left out. */
	bytes[length] = '\0';
	*text = bytes;
	*length_bytes = length + (length < ENVIRONMENT_BYTES_MAX);
	return 0;
}

const char *environment_text_find(const char *text, size_t length, const char *name)
{
	size_t name_length = name ? strlen(name) : 0;

	while (name && length > 0) {
		const char *end = memchr(text, '\0', length);

		if (!end) /* cut short: what it would have said is not known */
			return NULL;
		if (strncmp(text, name, name_length) == 0 && text[name_length] == '=')
			return text + name_length + 1;
		length -= (size_t)(end - text) + 1;
		text = end + 1;
	}
	return NULL;
}
