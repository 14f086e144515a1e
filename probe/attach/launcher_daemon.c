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
#include "probe/attach/process_stat.h"

enum { ANCESTORS_MAX = 64, COMMAND_BYTES_MAX = 4096 };

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
	struct process_stat stat;
	pid_t pid = rank;

	for (int i = 0; i < ANCESTORS_MAX; i++) {
		bool has = true;
		int error = process_stat_read(pid, &stat);

		if (!error && i > 0)
			error = has_variable(pid, rank_variable, &has);
		if (error)
			return error;
		if (!has) {
			*daemon = (struct launcher_daemon){pid, stat.start_ticks};
			return 0;
		}
		if (stat.parent <= 1) /* an orphan's ancestors are not known */
			return -ENOENT;
		pid = stat.parent;
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
