/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/runtime_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NAMES_MAX = 32
}; /* in /tmp: as many folders must be made by somebody else to be in the way */

/* Opens a folder that nobody but this user can write to or enter. Never follows a link at its end. */
static int open_private(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & 077))
		return fd;
	close(fd);
	return -EPERM;
}

static int make_private(const char *path)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	return open_private(path);
}

static int open_below(const char *parent, bool is_private, char path[RUNTIME_DIRECTORY_LENGTH])
{
	int length, fd;

	if (!parent || parent[0] != '/')
		return -ENOENT;
	length = snprintf(path, RUNTIME_DIRECTORY_LENGTH, "%s/slowrank", parent);
	if (length >= RUNTIME_DIRECTORY_LENGTH)
		return -ENAMETOOLONG;
	if (!is_private) {
		fd = open_private(parent);
		if (fd < 0)
			return fd;
		close(fd);
	}
	return make_private(path);
}

/*
 * /run/slowrank of root; $XDG_RUNTIME_DIR/slowrank where that folder is private, too: of root in a container whose
 * own folders cannot be written to.
 */
static int open_of_system(char path[RUNTIME_DIRECTORY_LENGTH])
{
	int fd = geteuid() == 0 ? open_below("/run", true, path) : -ENOENT;

	return fd < 0 ? open_below(getenv("XDG_RUNTIME_DIR"), false, path) : fd;
}

static void temporary_name(char path[RUNTIME_DIRECTORY_LENGTH], int number)
{
	if (number)
		snprintf(path, RUNTIME_DIRECTORY_LENGTH, "/tmp/slowrank-%u-%d", (unsigned)geteuid(),
			number);
	else
		snprintf(path, RUNTIME_DIRECTORY_LENGTH, "/tmp/slowrank-%u", (unsigned)geteuid());
}

/*
 * One that is there before one that could be made: a name that its owner gives up while a job
 * starts does not part the job's probes.
 */
static int open_temporary(char path[RUNTIME_DIRECTORY_LENGTH])
{
	static int (*const ways[])(const char *path) = {open_private, make_private};
	int fd = -ENOENT;

	for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
		for (int number = 0; number < NAMES_MAX; number++) {
			temporary_name(path, number);
			fd = ways[way](path);
			if (fd >= 0)
				return fd;
		}
	}
	return fd;
}

int runtime_directory_open_on_disk(char path[RUNTIME_DIRECTORY_LENGTH])
{
	return open_temporary(path);
}

int runtime_directory_open(char path[RUNTIME_DIRECTORY_LENGTH], char why[256])
{
	int fd = open_of_system(path);

	if (fd < 0)
		fd = open_temporary(path);
	if (fd < 0)
		snprintf(why, 256,
			"no private folder for sockets can be made (the last tried is %s); set "
			"XDG_RUNTIME_DIR to a folder of your own with mode 0700, or remove that "
			"one",
			path);
	return fd;
}
