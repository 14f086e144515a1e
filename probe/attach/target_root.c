/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/target_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES_MAX = 16 };

int target_root_find(pid_t pid, const char *path, int flags)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (unsigned)flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int root, found = -1;
	char link[32];

	snprintf(link, sizeof(link), "/proc/%d/root", (int)pid);
	root = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	/* EAGAIN: something was renamed or mounted meanwhile, and ".." could not be trusted. */
	for (unsigned i = 0; i < TRIES_MAX && found < 0; i++) {
		found = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
		if (found < 0 && errno != EAGAIN)
			break;
	}
	if (found < 0)
		found = -errno;
	close(root);
	return found;
}

int target_file_open(int found, int flags)
{
	struct stat status;
	char link[32];
	int fd;

	if (found < 0)
		return found;
	if (fstat(found, &status) < 0) {
		fd = -errno;
	} else if (!S_ISREG(status.st_mode)) {
		fd = -EINVAL;
	} else {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
		/* Some of the kernel's own files are regular, and wait all the same. */
		fd = open(link, flags | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	close(found);
	return fd;
}

int target_owner_read(pid_t pid, struct target_owner *owner)
{
	struct target_owner read = {0};
	char path[64], line[512];
	int found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? -ESRCH : -errno;
	while (fgets(line, sizeof(line), file)) {
		found += sscanf(line, "Uid: %*u %*u %*u %u", &read.user) == 1;
		found += sscanf(line, "Gid: %*u %*u %*u %u", &read.group) == 1;
	}
	fclose(file);
	if (found != 2)
		return -ESRCH;
	*owner = read;
	return 0;
}
