/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/spool.h"

/* The file is a ring: positions only grow, and their remainder by bytes_max is the offset. */
struct spool {
	char *folder;
	int fd; /* -1 while there is no file */
	size_t count;
	uint64_t read_position;
	uint64_t write_position;
	size_t bytes_max;
};

int spool_create(const char *folder, size_t bytes_max, struct spool **spool)
{
	struct spool *made;

	if (!folder || !bytes_max)
		return -EINVAL;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->folder = strdup(folder);
	if (!made->folder) {
		free(made);
		return -ENOMEM;
	}
	made->fd = -1;
	made->bytes_max = bytes_max;
	*spool = made;
	return 0;
}

void spool_destroy(struct spool *spool)
{
	if (!spool)
		return;
	if (spool->fd >= 0)
		close(spool->fd);
	free(spool->folder);
	free(spool);
}

static int open_nameless(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
	char path[4096];
	int length;

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -errno;
	/* A file system without O_TMPFILE: make a file and take its name away. */
	length = snprintf(path, sizeof(path), "%s/slowrank-spool-XXXXXX", folder);
	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

/* One stretch of the ring that does not cross its end. */
static size_t stretch(const struct spool *spool, uint64_t position, size_t length)
{
	size_t until_end = spool->bytes_max - (size_t)(position % spool->bytes_max);

	return length < until_end ? length : until_end;
}

static int write_at(struct spool *spool, uint64_t position, const void *bytes, size_t length)
{
	const char *next = bytes;

	while (length) {
		ssize_t written = pwrite(spool->fd, next, stretch(spool, position, length),
			(off_t)(position % spool->bytes_max));

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		next += written;
		position += (uint64_t)written;
		length -= (size_t)written;
	}
	return 0;
}

static int read_at(struct spool *spool, uint64_t position, void *bytes, size_t length)
{
	char *next = bytes;

	while (length) {
		ssize_t got = pread(spool->fd, next, stretch(spool, position, length),
			(off_t)(position % spool->bytes_max));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EIO;
		next += got;
		position += (uint64_t)got;
		length -= (size_t)got;
	}
	return 0;
}

int spool_push(struct spool *spool, const void *bytes, size_t length)
{
	uint32_t head = (uint32_t)length;
	uint64_t used = spool->write_position - spool->read_position;
	int error;

	if (length > UINT32_MAX || length + sizeof(head) > spool->bytes_max - used)
		return -ENOBUFS;
	if (spool->fd < 0) {
		int fd = open_nameless(spool->folder);

		if (fd < 0)
			return fd;
		spool->fd = fd;
	}
	error = write_at(spool, spool->write_position, &head, sizeof(head));
	if (!error)
		error = write_at(spool, spool->write_position + sizeof(head), bytes, length);
	if (error)
		return error;
	spool->write_position += sizeof(head) + length;
	spool->count++;
	return 0;
}

static void make_empty(struct spool *spool)
{
	spool->count = 0;
	spool->read_position = 0;
	spool->write_position = 0;
	/* Should this fail, the file only stays as large as it is. */
	(void)!ftruncate(spool->fd, 0);
}

int spool_pop(struct spool *spool, void **bytes, size_t *length)
{
	uint64_t used = spool->write_position - spool->read_position;
	uint32_t head = 0;
	void *taken;

	if (!spool->count)
		return -ENODATA;
	if (read_at(spool, spool->read_position, &head, sizeof(head)) ||
		head > used - sizeof(head)) {
		make_empty(spool);
		return -EIO;
	}
	taken = malloc(head ? head : 1);
	if (!taken)
		return -ENOMEM;
	if (read_at(spool, spool->read_position + sizeof(head), taken, head)) {
		free(taken);
		make_empty(spool);
		return -EIO;
	}
	spool->read_position += sizeof(head) + head;
	if (--spool->count == 0)
		make_empty(spool);
	*bytes = taken;
	*length = head;
	return 0;
}

size_t spool_count(const struct spool *spool)
{
	return spool->count;
}
