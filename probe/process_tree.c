/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/attach/process_stat.h"

enum { TREE_SIZE_MAX = 65536 };

static struct attach_process with_parent(pid_t pid)
{
	struct process_stat stat;

	(void)process_stat_read(pid, &stat);
	return (struct attach_process){pid, stat.parent}; /* 0: it is gone */
}

static size_t list_processes(struct attach_process *list, size_t capacity)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	size_t count = 0;

	while (directory && (entry = readdir(directory)) && count < capacity) {
		if (isdigit((unsigned char)entry->d_name[0]))
			list[count++] = with_parent((pid_t)atoi(entry->d_name));
	}
	if (directory)
		closedir(directory);
	return count;
}

size_t process_tree_find(const pid_t *roots, size_t root_count, struct attach_process **result)
{
	struct attach_process *list = calloc(TREE_SIZE_MAX, sizeof(*list));
	struct attach_process *tree = calloc(TREE_SIZE_MAX, sizeof(*tree));
	size_t process_count, count = 0;

	*result = tree;
	if (!list || !tree)
		goto out;
	for (size_t i = 0; i < root_count && count < TREE_SIZE_MAX; i++)
		tree[count++] = with_parent(roots[i]);
	process_count = list_processes(list, TREE_SIZE_MAX);
	for (size_t at = 0; at < count; at++) {
		for (size_t i = 0; i < process_count && count < TREE_SIZE_MAX; i++) {
			if (list[i].parent != tree[at].pid)
				continue;
			bool known = false;
			for (size_t k = 0; k < count && !known; k++)
				known = tree[k].pid == list[i].pid;
			if (!known)
				tree[count++] = list[i];
		}
	}
out:
	free(list);
	return count;
}

bool process_has_ended(pid_t pid)
{
	struct pollfd process = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	bool ended = process.fd < 0 && errno == ESRCH;

	if (process.fd < 0)
		return ended;
	ended = poll(&process, 1, 0) > 0;
	close(process.fd);
	return ended;
}
