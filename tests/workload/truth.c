/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/truth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TRUTH_BUFFER_BYTES = 1 << 20, TRUTH_LINE_BYTES = 2048 };

struct truth {
	int fd;
	size_t length;
	char buffer[TRUTH_BUFFER_BYTES];
};

int truth_create(const char *path, struct truth **truth)
{
	struct truth *made = calloc(1, sizeof(*made));
	int result;

	if (!made)
		return -ENOMEM;
	made->fd = -1;
	if (path) {
		made->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
		if (made->fd < 0) {
			result = -errno;
			free(made);
			return result;
		}
	}
	*truth = made;
	return 0;
}

void truth_destroy(struct truth *truth)
{
	if (!truth)
		return;
	truth_flush(truth);
	if (truth->fd >= 0)
		close(truth->fd);
	free(truth);
}

void truth_add(struct truth *truth, const char *format, ...)
{
	va_list arguments;
	int length;

	if (truth->fd < 0)
		return;
	if (truth->length + TRUTH_LINE_BYTES > TRUTH_BUFFER_BYTES)
		truth_flush(truth);
	va_start(arguments, format);
	length = vsnprintf(truth->buffer + truth->length, TRUTH_LINE_BYTES - 1, format, arguments);
	va_end(arguments);
	if (length < 0 || length >= TRUTH_LINE_BYTES - 1) {
		fprintf(stderr, "workload: a line of the truth log is too long: left out\n");
		return;
	}
	truth->length += (size_t)length;
	truth->buffer[truth->length++] = '\n';
}

void truth_flush(struct truth *truth)
{
	size_t done = 0;

	/* One write of whole lines: with O_APPEND it is not torn by other ranks. */
	while (truth->fd >= 0 && done < truth->length) {
		ssize_t written = write(truth->fd, truth->buffer + done, truth->length - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0) {
			perror("workload: truth log");
			break;
		}
		done += (size_t)written;
	}
	truth->length = 0;
}
