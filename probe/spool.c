/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/spool.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "probe/wire/frame.h"

enum {
	FILES_MAX = 256,     /* of one name: probes of a job on a host, and what is left of them */
	ENTRIES_MAX = 10000, /* of the folder that are looked at */
	LEFT_S = 15 * 60,    /* what nobody came for in that time is removed */
	HEADER_BYTES = 64,   /* magic 8, epoch 8, read position 8, crc 4, zeros */
	HEADER_USED_BYTES = 28,
};

static const char MAGIC[8] = "srspool", ENDING[] = ".spool";
#define SPOOL_FRAME_MAGIC UINT32_C(0xf153c1c1)

/*
 * Behind the header the file is a ring: positions only grow, and their remainder by bytes_max is the offset. A
 * frame has its position in its head: one of an earlier turn is not taken for one of this.
 */
struct spool {
	char *folder, *name;
	uint64_t epoch;
	int fd; /* -1 while there is no file */
	char file[NAME_MAX + 1];
	size_t count;
	uint64_t read_position, newest_position, write_position;
	uint64_t second_position; /* behind the oldest one, since it was looked at */
	size_t bytes_max;
};

/* One stretch of the ring that does not cross its end. */
static size_t stretch(const struct spool *spool, uint64_t position, size_t length)
{
	size_t until_end = spool->bytes_max - (size_t)(position % spool->bytes_max);

	return length < until_end ? length : until_end;
}

static off_t offset_of(const struct spool *spool, uint64_t position)
{
	return (off_t)(HEADER_BYTES + position % spool->bytes_max);
}

static int write_at(struct spool *spool, uint64_t position, const void *bytes, size_t length)
{
	const char *next = bytes;

	while (length) {
		ssize_t written = pwrite(spool->fd, next, stretch(spool, position, length),
			offset_of(spool, position));

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
			offset_of(spool, position));

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

static int write_header(struct spool *spool)
{
	uint8_t header[HEADER_BYTES] = {0};

	memcpy(header, MAGIC, sizeof(MAGIC));
	frame_put_u64(header + 8, spool->epoch);
	frame_put_u64(header + 16, spool->read_position);
	frame_put_u32(header + 24, (uint32_t)crc32(0, header, 24));
	if (pwrite(spool->fd, header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return -EIO;
	return 0;
}

static int read_header(struct spool *spool)
{
	uint8_t header[HEADER_USED_BYTES];

	if (pread(spool->fd, header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
		memcmp(header, MAGIC, sizeof(MAGIC)) != 0 ||
		frame_get_u32(header + 24) != (uint32_t)crc32(0, header, 24) ||
		frame_get_u64(header + 8) != spool->epoch)
		return -EBADMSG;
	spool->read_position = frame_get_u64(header + 16);
	return 0;
}

/* A whole frame, malloc'ed. Returns 0, -ENOMEM, or -EIO where there is none. */
static int read_frame(struct spool *spool, uint64_t position, void **bytes, size_t *length)
{
	uint8_t head[FRAME_HEAD_BYTES];
	uint64_t used = position - spool->read_position;
	uint32_t found;
	void *taken;

	if (used + sizeof(head) > spool->bytes_max ||
		read_at(spool, position, head, sizeof(head)) ||
		frame_get_u32(head) != SPOOL_FRAME_MAGIC || frame_get_u64(head + 12) != position)
		return -EIO;
	found = frame_get_u32(head + 4);
	if (found > spool->bytes_max - used - sizeof(head))
		return -EIO;
	taken = malloc(found ? found : 1);
	if (!taken)
		return -ENOMEM;
	if (read_at(spool, position + sizeof(head), taken, found) ||
		frame_get_u32(head + 8) != frame_crc(head, taken, found)) {
		free(taken);
		return -EIO;
	}
	*bytes = taken;
	*length = found;
	return 0;
}

/* Finds all that is whole, from the oldest on. */
static void count_frames(struct spool *spool)
{
	size_t length;
	void *bytes;

	spool->write_position = spool->read_position;
	while (read_frame(spool, spool->write_position, &bytes, &length) == 0) {
		free(bytes);
		spool->newest_position = spool->write_position;
		spool->write_position += FRAME_HEAD_BYTES + length;
		spool->count++;
	}
}

/* Opens a file that is there, where nobody holds it. Returns the descriptor, or a negative errno. */
static int open_left(int folder, const char *file)
{
	int fd = openat(folder, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 &&
		S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_nlink == 1)
		return fd;
	close(fd);
	return -EBUSY;
}

/* Of any name: nobody comes for it any more. */
static void remove_if_old(int folder, const char *file)
{
	int fd = open_left(folder, file);
	struct stat status;

	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0 && time(NULL) - status.st_mtime > LEFT_S)
		(void)unlinkat(folder, file, 0);
	close(fd);
}

static bool ends_as_spool(const char *file)
{
	size_t length = strlen(file), ending = sizeof(ENDING) - 1;

	return length > ending && strcmp(file + length - ending, ENDING) == 0;
}

static void remove_old(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!entries) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (int i = 0; i < ENTRIES_MAX && (entry = readdir(entries)); i++) {
		if (ends_as_spool(entry->d_name))
			remove_if_old(folder, entry->d_name);
	}
	closedir(entries);
}

static int open_folder(const struct spool *spool)
{
	int fd = open(spool->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int name_file(struct spool *spool, int number)
{
	int length =
		snprintf(spool->file, sizeof(spool->file), "%s.%d%s", spool->name, number, ENDING);

	return length < 0 || (size_t)length >= sizeof(spool->file) ? -ENAMETOOLONG : 0;
}

static void close_file(struct spool *spool, int folder)
{
	(void)unlinkat(folder, spool->file, 0);
	close(spool->fd); /* and the lock with it */
	spool->fd = -1;
}

static void look_at_left(struct spool *spool, bool takes_over)
{
	int folder = open_folder(spool);

	if (folder < 0)
		return;
	remove_old(folder);
	for (int number = 0; number < FILES_MAX && spool->fd < 0 && !name_file(spool, number);
		number++) {
		spool->fd = open_left(folder, spool->file);
		if (spool->fd < 0)
			continue;
		if (takes_over && read_header(spool) == 0)
			count_frames(spool);
		if (!spool->count)
			close_file(spool, folder);
	}
	close(folder);
}

/* -EEXIST: another one's. */
static int make_numbered(struct spool *spool, int folder, int number)
{
	struct stat status;
	int error = name_file(spool, number);

	if (error)
		return error;
	spool->fd = openat(
		folder, spool->file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (spool->fd < 0)
		return -errno;
	if (flock(spool->fd, LOCK_EX | LOCK_NB) == 0 && fstat(spool->fd, &status) == 0 &&
		status.st_nlink == 1) {
		error = write_header(spool);
		if (error)
			close_file(spool, folder);
		return error;
	}
	/* Somebody takes it for one that is left, and removes it. */
	close(spool->fd);
	spool->fd = -1;
	return -EEXIST;
}

static int make_file(struct spool *spool)
{
	int folder = open_folder(spool), error = folder < 0 ? folder : -EEXIST;

	for (int number = 0; number < FILES_MAX && error == -EEXIST; number++)
		error = make_numbered(spool, folder, number);
	if (folder >= 0)
		close(folder);
	return error;
}

int spool_create(const struct spool_options *options, struct spool **spool)
{
	struct spool *made;

	if (!options->folder || !options->name || !options->bytes_max)
		return -EINVAL;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->fd = -1;
	made->folder = strdup(options->folder);
	made->name = strdup(options->name);
	if (!made->folder || !made->name) {
		spool_destroy(made);
		return -ENOMEM;
	}
	made->epoch = options->epoch;
	made->bytes_max = options->bytes_max;
	look_at_left(made, options->takes_over);
	*spool = made;
	return 0;
}

void spool_destroy(struct spool *spool)
{
	int folder;

	if (!spool)
		return;
	if (spool->fd >= 0) {
		folder = open_folder(spool);
		close_file(spool, folder);
		if (folder >= 0)
			close(folder);
	}
	free(spool->folder);
	free(spool->name);
	free(spool);
}

int spool_push(struct spool *spool, const void *bytes, size_t length)
{
	uint64_t used = spool->write_position - spool->read_position;
	uint8_t head[FRAME_HEAD_BYTES];
	int error = 0;

	if (length > UINT32_MAX || length + sizeof(head) > spool->bytes_max - used)
		return -ENOBUFS;
	if (spool->fd < 0)
		error = make_file(spool);
	frame_write_head(head, SPOOL_FRAME_MAGIC, spool->write_position, bytes, length);
	if (!error)
		error = write_at(spool, spool->write_position + sizeof(head), bytes, length);
	if (!error)
		error = write_at(spool, spool->write_position, head, sizeof(head));
	if (error)
		return error;
	spool->newest_position = spool->write_position;
	spool->write_position += sizeof(head) + length;
	spool->count++;
	return 0;
}

static void make_empty(struct spool *spool)
{
	spool->count = 0;
	spool->read_position = spool->write_position;
	/* Should these fail, the file stays as large as it is, and whoever takes it over sends again. */
	(void)write_header(spool);
	(void)!ftruncate(spool->fd, HEADER_BYTES);
}

static int peek(struct spool *spool, uint64_t position, void **bytes, size_t *length)
{
	int error = spool->count ? read_frame(spool, position, bytes, length) : -ENODATA;

	if (error == -EIO)
		make_empty(spool);
	return error;
}

int spool_peek(struct spool *spool, void **bytes, size_t *length)
{
	int error = peek(spool, spool->read_position, bytes, length);

	if (!error)
		spool->second_position = spool->read_position + FRAME_HEAD_BYTES + *length;
	return error;
}

int spool_peek_newest(struct spool *spool, void **bytes, size_t *length)
{
	return peek(spool, spool->newest_position, bytes, length);
}

void spool_drop(struct spool *spool)
{
	assert(spool->count && spool->second_position > spool->read_position);
	if (--spool->count == 0) {
		make_empty(spool);
		return;
	}
	spool->read_position = spool->second_position;
	(void)write_header(spool);
}

size_t spool_count(const struct spool *spool)
{
	return spool->count;
}
