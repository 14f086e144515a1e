/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/output/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	TRIES_MAX = 16, /* others make and remove files at the same place, or have the same name */
	NEW_FILE_MODE = 0644, /* less the umask */
};

void output_explain(const char *path, int error, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "cannot write %.150s: %s", path,
		error == -ELOOP ? "it is reached through a link that is not root's: name the file "
				  "that the link leads to"
		: error == -ENXIO ? "nobody reads this pipe: start its reader first"
				  : strerror(-error));
}

static int refuse(const char *path, const char *what, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "%.150s %.80s: name another file", path, what);
	return -EEXIST;
}

/* Whether the regular file that is open may be taken over. Returns 0, or -EEXIST with a line in why. */
static int check_own(int fd, const struct stat *status, const char *path,
	const struct output_kind *kind, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	char what[64];

	if (status->st_nlink > 1)
		return refuse(path, "has other names, too (hard links)", why);
	if (status->st_size == 0 || kind->is_own(fd, status->st_size))
		return 0;
	snprintf(what, sizeof(what), "is there and is not %s of slowrank's", kind->name);
	return refuse(path, what, why);
}

/* Opens a device or pipe without waiting for anybody. */
static int open_stream(const struct output_place *place)
{
	int flags = O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC |
		    (place->is_descriptor ? 0 : O_NOFOLLOW);
	int fd = openat(place->folder, place->name, flags);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && !place->is_descriptor && !S_ISCHR(status.st_mode) &&
		!S_ISFIFO(status.st_mode)) {
		close(fd);
		return -EAGAIN; /* another file than that a moment ago */
	}
	if (fcntl(fd, F_SETFL, O_APPEND) < 0) {
		int error = -errno;

		close(fd);
		return error;
	}
	return fd;
}

static int open_file(const struct output_place *place, const char *path,
	const struct output_kind *kind, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	/* Not waiting: it may be a pipe by now. */
	int fd = openat(place->folder, place->name,
		O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	int error;

	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	error = fstat(fd, &status) < 0	   ? -errno
		: !S_ISREG(status.st_mode) ? -EAGAIN
					   : check_own(fd, &status, path, kind, why);
	if (!error)
		return fd;
	close(fd);
	return error;
}

static int create(const struct output_place *place)
{
	int fd = openat(place->folder, place->name,
		O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, NEW_FILE_MODE);

	return fd >= 0 ? fd : errno == EEXIST ? -EAGAIN : -errno;
}

/* What is at place: 0 and its type in *type (0 = nothing), or a negative errno. */
static int look(const struct output_place *place, mode_t *type)
{
	struct stat status;

	*type = 0;
	if (fstatat(place->folder, place->name, &status,
		    place->is_descriptor ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	*type = status.st_mode & S_IFMT;
	if (place->is_descriptor || *type == S_IFREG || *type == S_IFCHR || *type == S_IFIFO)
		return 0;
	return *type == S_IFDIR ? -EISDIR : *type == S_IFLNK ? -ELOOP : -ENOTSUP;
}

int output_file_append(const struct output_place *place, const char *path,
	const struct output_kind *kind, bool *is_file, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	int fd = -EAGAIN;

	why[0] = '\0';
	for (int tries = 0; fd == -EAGAIN && tries < TRIES_MAX; tries++) {
		mode_t type;
		int error = look(place, &type);

		*is_file = !place->is_descriptor && (type == 0 || type == S_IFREG);
		if (error)
			fd = error;
		else if (!*is_file)
			fd = open_stream(place);
		else
			fd = type ? open_file(place, path, kind, why) : create(place);
	}
	if (fd < 0 && !why[0])
		output_explain(path, fd, why);
	return fd;
}

/* A new file beside the place, under a name of its own. Returns the descriptor, or a negative errno. */
static int open_beside(const struct output_place *place, char temporary[NAME_MAX + 1])
{
	for (int tries = 0; tries < TRIES_MAX; tries++) {
		uint32_t random;
		int length, fd;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -errno;
		length = snprintf(temporary, NAME_MAX + 1, "%.240s.%08x", place->name, random);
		if (length < 0 || length > NAME_MAX)
			return -ENAMETOOLONG;
		fd = openat(place->folder, temporary,
			O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, NEW_FILE_MODE);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd : -errno;
	}
	return -EEXIST;
}

int output_replacement_begin(const char *path, const struct output_kind *kind,
	struct output_replacement *replacement, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct output_place *place = &replacement->place;
	int error = output_place_open(path, place), fd;
	mode_t type;

	why[0] = replacement->temporary[0] = '\0';
	if (error) {
		output_explain(path, error, why);
		return error;
	}
	fd = look(place, &type);
	if (!fd && type == S_IFREG && !place->is_descriptor) {
		fd = open_file(place, path, kind, why);
		if (fd >= 0) {
			close(fd);
			fd = 0;
		}
	}
	if (!fd)
		fd = type == 0 || (type == S_IFREG && !place->is_descriptor)
			     ? open_beside(place, replacement->temporary)
			     : open_stream(place);
	if (fd >= 0) {
		replacement->fd = fd;
		return 0;
	}
	if (!why[0])
		output_explain(path, fd, why);
	output_place_close(place);
	return fd;
}

int output_replacement_commit(struct output_replacement *replacement)
{
	struct output_place *place = &replacement->place;
	int error = 0;

	if (replacement->temporary[0] &&
		renameat(place->folder, replacement->temporary, place->folder, place->name) < 0) {
		error = -errno;
		(void)unlinkat(place->folder, replacement->temporary, 0);
	}
	output_place_close(place);
	return error;
}

void output_replacement_abort(struct output_replacement *replacement)
{
	if (replacement->temporary[0])
		(void)unlinkat(replacement->place.folder, replacement->temporary, 0);
	output_place_close(&replacement->place);
}
