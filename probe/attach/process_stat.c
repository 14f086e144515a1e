/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/process_stat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int process_stat_read(pid_t pid, struct process_stat *stat)
{
	char path[64], line[1024], state;
	const char *after = NULL;
	unsigned long long start;
	int parent;
	FILE *file;

	*stat = (struct process_stat){0};
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -ENOENT;
	if (fgets(line, sizeof(line), file))
		after = strrchr(
			line, ')'); /* the name in brackets may hold anything, brackets too */
	fclose(file);
	/* Fields 3, 4 and 22. */
	if (!after ||
		sscanf(after,
			") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
			"%*d %llu",
			&state, &parent, &start) != 3)
		return -ENOENT;
	*stat = (struct process_stat){state, (pid_t)parent, start};
	return 0;
}
