/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank attach: watches a job that already runs, from the outside. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/attach_deep.h"
#include "probe/commands.h"
#include "probe/detached.h"
#include "probe/process_tree.h"
#include "probe/task_room.h"

static bool all_run(const struct probe_options *options)
{
	for (size_t i = 0; i < options->pid_count; i++) {
		pid_t pid = options->pids[i];

		if (!process_has_ended(pid))
			continue;
		if (kill(pid, 0) < 0 && errno == ESRCH)
			fprintf(stderr, "slowrank attach: there is no process %d\n", (int)pid);
		else
			fprintf(stderr,
				"slowrank attach: process %d has ended, and its parent has not "
				"asked how\n",
				(int)pid);
		return false;
	}
	return true;
}

static const char by_host_times[] =
	"the job was not started by slowrank: hosts that launch late are told, slow devices only "
	"where "
	"the host waits for its device before a collective (attach --deep sees more)";

static int watch(const struct probe_options *options, const struct session_job *job)
{
	struct job_place place;
	char unfinished[DETACHED_TEXT_LENGTH], why_no_room[TASK_ROOM_WHY_LENGTH];
	struct detached detached = {.options = options, .place = &place};

	job_place_find(&place, options);
	if (!task_room_suffices(place.probes_here, why_no_room)) {
		fprintf(stderr, "slowrank: %s; the job is not watched\n", why_no_room);
		return 2;
	}
	if (!options->quiet) {
		detached_say_unfinished(options, &place, unfinished);
		detached.unfinished = unfinished;
	}
	return detached_attach(&detached, job);
}

int cmd_attach(int argc, char **argv)
{
	static struct probe_options options;
	struct session_job job = {.attached = true, .why_no_device = by_host_times};
	struct attach_process *tree;
	int result = 0;

	switch (probe_options_parse_attach(&options, argc, argv)) {
	case OPTIONS_HELP:
		return 0;
	case OPTIONS_BAD:
		return 2;
	case OPTIONS_OK:
		break;
	}
	if (!all_run(&options))
		return 2;
	options.terminal = isatty(STDERR_FILENO);
	job.process_count = process_tree_find(options.pids, options.pid_count, &tree);
	job.processes = tree;
	if (options.deep == PROBE_DEEP_ON) {
		result = attach_deep_create(&options, &job.deep);
		job.why_no_device = "";
	}
	if (result == -ECANCELED)
		fprintf(stderr, "slowrank: nothing was loaded; without --deep the watch works from "
				"host times\n");
	result = result ? 2 : watch(&options, &job);
	attach_deep_destroy(job.deep);
	free(tree);
	return result;
}
