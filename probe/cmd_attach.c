/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank attach: watches a job that already runs, from the outside. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach_deep.h"
#include "probe/commands.h"
#include "probe/session.h"

enum { TREE_SIZE_MAX = 65536 };

static volatile int stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

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

/* Puts roots and all their descendants into tree; returns the count. */
static size_t find_tree(
	const struct probe_options *options, struct attach_process *tree, size_t capacity)
{
	struct attach_process *list = calloc(TREE_SIZE_MAX, sizeof(*list));
	size_t process_count, count = 0;

	if (!list)
		return 0;
	for (size_t i = 0; i < options->pid_count && count < capacity; i++)
		tree[count++] =
			(struct attach_process){options->pids[i], read_parent(options->pids[i])};
	process_count = list_processes(list, TREE_SIZE_MAX);
	for (size_t at = 0; at < count; at++) {
		for (size_t i = 0; i < process_count && count < capacity; i++) {
			if (list[i].parent != tree[at].pid)
				continue;
			bool known = false;
			for (size_t k = 0; k < count && !known; k++)
				known = tree[k].pid == list[i].pid;
			if (!known)
				tree[count++] = list[i];
		}
	}
	free(list);
	return count;
}

static bool all_exist(const struct probe_options *options)
{
	for (size_t i = 0; i < options->pid_count; i++) {
		if (kill(options->pids[i], 0) < 0 && errno == ESRCH) {
			fprintf(stderr, "slowrank attach: there is no process %d\n",
				(int)options->pids[i]);
			return false;
		}
	}
	return true;
}

static const char by_host_times[] =
	"the job was not started by slowrank: hosts that launch late are told, slow devices only "
	"where "
	"the host waits for its device before a collective (attach --deep sees more)";

static int watch(const struct probe_options *options, const struct attach_process *tree,
	size_t count, const struct session_job *job)
{
	struct session *session;
	struct job_place place;

	job_place_find(&place, options);
	if (session_create(options, &place, job, &session) < 0)
		return 2;
	for (size_t i = 0; i < count; i++)
		session_track(session, tree[i].pid);
	if (!options->quiet)
		fprintf(stderr,
			"slowrank: watching %zu process%s; Ctrl-C ends the watch, not the job\n",
			count, count == 1 ? "" : "es");
	session_run(session, 0, &stop);
	session_finish(session);
	session_destroy(session);
	return 0;
}

int cmd_attach(int argc, char **argv)
{
	static struct probe_options options;
	struct attach_deep_result deep;
	struct session_job job = {.attached = true, .why_no_device = by_host_times};
	struct attach_process *tree;
	bool wanted = true;
	size_t count;
	int result;

	switch (probe_options_parse_attach(&options, argc, argv)) {
	case OPTIONS_HELP:
		return 0;
	case OPTIONS_BAD:
		return 2;
	case OPTIONS_OK:
		break;
	}
	if (!all_exist(&options))
		return 2;
	tree = calloc(TREE_SIZE_MAX, sizeof(*tree));
	count = tree ? find_tree(&options, tree, TREE_SIZE_MAX) : 0;
	if (options.deep == PROBE_DEEP_ON) {
		wanted = attach_deep(&options, tree, count, &deep);
		job.loaded = deep.coverage;
		job.loaded_all = deep.rank_count && deep.loaded_count == deep.rank_count;
		if (deep.loaded_count)
			job.why_no_device = "";
	}
	if (!wanted)
		fprintf(stderr, "slowrank: nothing was loaded; without --deep the watch works from "
				"host times\n");
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	result = wanted ? watch(&options, tree, count, &job) : 2;
	free(tree);
	return result;
}
