/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/launcher_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach/environment_text.h"

enum { ANCESTORS_MAX = 64, COMMAND_BYTES_MAX = 4096 };

/* Fields 4 and 22 of /proc/PID/stat, behind the name in brackets. */
static int read_stat(pid_t pid, pid_t *parent, uint64_t *start_ticks)
{
	char path[64], line[1024];
	const char *after = NULL;
	unsigned long long start;
	int found;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -ENOENT;
	if (fgets(line, sizeof(line), file))
		after = strrchr(line, ')');
	fclose(file);
	if (!after ||
		sscanf(after,
			") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
			"%*d %llu",
			&found, &start) != 2)
		return -ENOENT;
	*parent = (pid_t)found;
	*start_ticks = start;
	return 0;
}

static int has_variable(pid_t pid, const char *name, bool *has)
{
	size_t length;
	char *text;
	int error = environment_text_read(pid, &text, &length);

	if (error)
		return error == -ESRCH ? -ENOENT : error;
	*has = environment_text_find(text, length, name) != NULL;
	free(text);
	return 0;
}

int launcher_daemon_find(pid_t rank, const char *rank_variable, struct launcher_daemon *daemon)
{
	pid_t pid = rank, parent;
	uint64_t start_ticks;

	for (int i = 0; i < ANCESTORS_MAX; i++) {
		bool has = true;
		int error = read_stat(pid, &parent, &start_ticks);

		if (!error && i > 0)
			error = has_variable(pid, rank_variable, &has);
		if (error)
			return error;
		if (!has) {
			*daemon = (struct launcher_daemon){pid, start_ticks};
			return 0;
		}
		if (parent <= 1) /* an orphan's ancestors are not known */
			return -ENOENT;
		pid = parent;
	}
	return -ENOENT;
}

int launcher_daemon_control_port(pid_t daemon, char *text, size_t capacity)
{
	char path[64], command[COMMAND_BYTES_MAX + 1];
	const char *name, *end, *value = NULL;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)daemon);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	length = read(fd, command, COMMAND_BYTES_MAX);
	close(fd);
	if (length <= 0)
		return -ENOENT;
	command[length] = '\0';
	end = command + length;
	name = strrchr(command, '/') ? strrchr(command, '/') + 1 : command;
	if (strcmp(name, "hydra_pmi_proxy") != 0)
		return -ENOENT;
	for (const char *word = command; word < end; word += strlen(word) + 1) {
		if (strcmp(word, "--control-port") == 0 && word + strlen(word) + 1 < end)
			value = word + strlen(word) + 1;
	}
	if (!value || !strchr(value, ':'))
		return -ENOENT;
	if (strlen(value) >= capacity)
		return -ENAMETOOLONG;
	memcpy(text, value, strlen(value) + 1);
	return 0;
}
