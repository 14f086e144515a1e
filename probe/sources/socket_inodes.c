/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/socket_inodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return (a > b) - (a < b);
}

int socket_inodes_read(pid_t pid, struct socket_inodes *inodes)
{
	char path[64], link[64];
	size_t looked = 0;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	directory = opendir(path);
	if (!directory)
		return errno == ENOENT ? -ESRCH : -errno;
	inodes->count = 0;
	inodes->cut = false;
	for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
		ssize_t length;

		if (entry->d_name[0] == '.')
			continue;
		if (looked++ == SOCKET_DESCRIPTORS_MAX || inodes->count == SOCKET_INODES_MAX) {
			inodes->cut = true;
			break;
		}
		length = readlinkat(dirfd(directory), entry->d_name, link, sizeof(link) - 1);
		if (length <= 8 || memcmp(link, "socket:[", 8) != 0)
			continue;
		link[length] = '\0';
		inodes->inodes[inodes->count++] = (uint32_t)strtoul(link + 8, NULL, 10);
	}
	closedir(directory);
	qsort(inodes->inodes, inodes->count, sizeof(inodes->inodes[0]), compare);
	return 0;
}

bool socket_inodes_has(const struct socket_inodes *inodes, uint32_t inode)
{
	return bsearch(&inode, inodes->inodes, inodes->count, sizeof(inodes->inodes[0]), compare) !=
	       NULL;
}
