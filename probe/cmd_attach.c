/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank attach: watches a job that already runs, from the outside. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/attach_deep.h"
#include "probe/commands.h"
#include "probe/process_tree.h"
#include "probe/session.h"

static volatile int stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
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
	struct session_job job = {.attached = true, .why_no_device = by_host_times};
	struct attach_process *tree;
	size_t count;
	int result = 0;

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
	count = process_tree_find(options.pids, options.pid_count, &tree);
	if (options.deep == PROBE_DEEP_ON) {
		result = attach_deep_create(&options, &job.deep);
		job.why_no_device = "";
	}
	if (result == -ECANCELED)
		fprintf(stderr, "slowrank: nothing was loaded; without --deep the watch works from "
				"host times\n");
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	result = result ? 2 : watch(&options, tree, count, &job);
	attach_deep_destroy(job.deep);
	free(tree);
	return result;
}
