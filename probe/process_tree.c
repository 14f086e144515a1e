/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TREE_SIZE_MAX = 65536 };

/* The parent of a process, or -1 when it is gone. */
static pid_t read_parent(pid_t pid)
{
	char path[64], text[512];
	int parent = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	if (fgets(text, sizeof(text), file)) {
		/* The name is in brackets and may hold anything, brackets too. */
		char *after = strrchr(text, ')');

		if (!after || sscanf(after + 1, " %*c %d", &parent) != 1)
			parent = -1;
	}
	fclose(file);
	return (pid_t)parent;
}

static size_t list_processes(struct attach_process *list, size_t capacity)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	size_t count = 0;

	while (directory && (entry = readdir(directory)) && count < capacity) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid_t pid = (pid_t)atoi(entry->d_name);
		list[count++] = (struct attach_process){pid, read_parent(pid)};
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
		tree[count++] = (struct attach_process){roots[i], read_parent(roots[i])};
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
