/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/fault_group.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 64 };

static int write_text(const char *directory, const char *name, const char *text)
{
	char path[FAULT_GROUP_PATH_BYTES + 256];
	int result = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		result = -errno;
	close(fd);
	return result;
}

/* Finds where a controller is mounted: v1 first, because a hybrid host has it there. */
static int find_controller(struct fault_group *group, const char *controller)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;
	int result = -ENOENT;

	if (!mounts)
		return -errno;
	while ((entry = getmntent(mounts))) {
		bool v1 = strcmp(entry->mnt_type, "cgroup") == 0 && hasmntopt(entry, controller);
		bool v2 = strcmp(entry->mnt_type, "cgroup2") == 0 && result != 0;

		if (!v1 && !v2)
			continue;
		group->unified = v2;
		snprintf(group->root, sizeof(group->root), "%s", entry->mnt_dir);
		result = 0;
		if (v1)
			break;
	}
	endmntent(mounts);
	return result;
}

int fault_group_enter(struct fault_group *group, const char *controller)
{
	char text[NAME_BYTES];
	int result = find_controller(group, controller);

	if (result)
		return result;
	snprintf(text, sizeof(text), "+%s", controller);
	if (group->unified)
		(void)write_text(group->root, "cgroup.subtree_control", text);
	snprintf(text, sizeof(text), "%ld", (long)getpid());
	snprintf(group->path, sizeof(group->path), "%s/slowrank-fault-%s", group->root, text);
	if (mkdir(group->path, 0755) && errno != EEXIST)
		return -errno;
	result = write_text(group->path, "cgroup.procs", text);
	if (result)
		rmdir(group->path);
	return result;
}

void fault_group_leave(const struct fault_group *group)
{
	char pid[NAME_BYTES];

	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	(void)write_text(group->root, "cgroup.procs", pid);
	if (rmdir(group->path))
		fprintf(stderr, "workload: %s: %s\n", group->path, strerror(errno));
}

int fault_group_write(const struct fault_group *group, const char *name, const char *text)
{
	return write_text(group->path, name, text);
}

int fault_group_read(const struct fault_group *group, const char *name, char *text, size_t size)
{
	char path[FAULT_GROUP_PATH_BYTES + 256];
	int result = 0, fd;
	ssize_t length;

	snprintf(path, sizeof(path), "%s/%s", group->path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, text, size - 1);
	if (length < 0)
		result = -errno;
	else
		text[length] = '\0';
	close(fd);
	return result;
}
