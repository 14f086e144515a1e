/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/detached.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/memory_apart.h"
#include "probe/process_tree.h"
#include "probe/relay.h"

enum {
	MESSAGES_BYTES = 1 << 20, /* what may wait for a reader of standard error */
	OLD_KERNEL_FILES = 4096,  /* closed one by one where there is no close_range() */
};

static volatile int stop;      /* of the watch; the end of a job that was started ends it, too */
static volatile pid_t watcher; /* the probe of an attach */
static int watch_ended;	       /* what the relay of an attach waits for */

/* The descriptor that a path names ("--alerts >(command)" of a shell does), or -1. */
static int named_descriptor(const char *path)
{
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};

	if (path && strcmp(path, "/dev/stdout") == 0)
		return STDOUT_FILENO;
	for (size_t i = 0; path && i < sizeof(folders) / sizeof(folders[0]); i++) {
		size_t length = strlen(folders[i]);

		if (strncmp(path, folders[i], length) == 0 && path[length] >= '0' &&
			path[length] <= '9')
			return atoi(path + length);
	}
	return -1;
}

static void close_range_of(int first, int last)
{
	if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
	for (int fd = first; fd <= last && fd < OLD_KERNEL_FILES; fd++)
		close(fd);
}

static int compare(const void *one, const void *other)
{
	return *(const int *)one - *(const int *)other;
}

/* Lets go of the command's files: a pipe to its launcher, or to its reader, ends with the command. */
static void keep_only(int *kept, size_t count)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), next = STDERR_FILENO + 1;
	bool keep_stdout = false;

	for (size_t i = 0; i < count; i++)
		keep_stdout = keep_stdout || kept[i] == STDOUT_FILENO;
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		if (!keep_stdout)
			dup2(null, STDOUT_FILENO);
	}
	qsort(kept, count, sizeof(kept[0]), compare);
	for (size_t i = 0; i < count; i++) {
		if (kept[i] < next)
			continue;
		close_range_of(next, kept[i] - 1);
		next = kept[i] + 1;
	}
	close_range_of(next, INT32_MAX);
}

/* What is said after it goes nowhere. */
static void let_go_of_messages(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0)
		dup2(null, STDERR_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

static void probe(const struct detached *detached)
{
	const struct probe_options *options = detached->options;
	int kept[] = {detached->gate->opening_fd, named_descriptor(options->alerts),
		named_descriptor(options->report), named_descriptor(options->record)};
	struct session *session = NULL;

	setsid();
	signal(SIGPIPE, SIG_IGN);
	keep_only(kept, sizeof(kept) / sizeof(kept[0]));
	if (session_create(options, detached->place,
		    &(struct session_job){
			    .why_no_device = detached->why_no_device, .hold = detached->hold},
		    &session) == 0) {
		session_track(session, detached->target);
		session_prepare_command(session, options->command);
	}
	if (!start_gate_open(detached->gate) && session)
		session_started_late(session, detached->target);
	if (session) {
		session_run(session, detached->target, &stop);
		session_finish(session);
		let_go_of_messages();
		session_destroy(session);
	}
}

/* Returns the ends of the pipe that probe and coordinator write to without waiting for its reader. */
static int open_messages(int messages[2])
{
	if (pipe2(messages, O_CLOEXEC) < 0) {
		fprintf(stderr, "slowrank: %s; the job is not watched\n", strerror(errno));
		return -1;
	}
	(void)fcntl(messages[1], F_SETPIPE_SZ, MESSAGES_BYTES);
	(void)fcntl(messages[1], F_SETFL, O_NONBLOCK);
	return 0;
}

void detached_watch(const struct detached *detached)
{
	struct relay_options relay = {
		.gate = detached->gate, .hold = detached->hold, .unfinished = detached->unfinished};
	int messages[2];

	setsid();
	memory_apart(0);
	signal(SIGCHLD, SIG_DFL); /* ignored, it would take the probe's status */
	if (open_messages(messages) < 0)
		_exit(1);
	relay.probe = fork();
	if (relay.probe == 0) {
		dup2(messages[1], STDERR_FILENO);
		probe(detached);
		_exit(0);
	}
	if (relay.probe < 0)
		fprintf(stderr, "slowrank: %s; the job is not watched\n", strerror(errno));
	keep_only((int[]){messages[0]}, 1);
	relay.messages = messages[0];
	relay.target = (int)syscall(SYS_pidfd_open, detached->target, 0);
	if (relay.target < 0 && errno == ESRCH) /* it has ended: what can be read at once */
		relay.target = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)relay_run(&relay);
	_exit(0);
}

static void on_signal(int number)
{
	int error = errno;

	(void)number;
	stop = 1;
	if (watcher > 0) {
		kill(watcher, SIGTERM);
		(void)!write(watch_ended, "", 1);
	}
	errno = error;
}

/* Whoever stops the attach, also by kill -9, ends the watch; and the files of its caller with it. */
static void begin_attach(const struct probe_options *options, const struct session_job *job,
	pid_t first, pid_t parent)
{
	int kept[] = {watch_ended, attach_deep_descriptor(job->deep),
		named_descriptor(options->alerts), named_descriptor(options->report),
		named_descriptor(options->record)};

	setsid();
	memory_apart(first);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		stop = 1;
	keep_only(kept, sizeof(kept) / sizeof(kept[0]));
}

static int attached_probe(const struct detached *detached, const struct session_job *job)
{
	struct session *session;

	if (session_create(detached->options, detached->place, job, &session) < 0)
		return 2;
	for (size_t i = 0; i < job->process_count; i++)
		session_track(session, job->processes[i].pid);
	if (!detached->options->quiet)
		fprintf(stderr,
			"slowrank: watching %zu process%s; Ctrl-C ends the watch, not the job\n",
			job->process_count, job->process_count == 1 ? "" : "es");
	session_run(session, 0, &stop);
	(void)!write(watch_ended, "", 1);
	session_finish(session);
	let_go_of_messages();
	session_destroy(session);
	return 0;
}

int detached_attach(const struct detached *detached, const struct session_job *job)
{
	struct relay_options relay = {.unfinished = detached->unfinished};
	struct sigaction action = {.sa_handler = on_signal};
	pid_t parent = getpid();
	int messages[2], watching[2];

	signal(SIGCHLD, SIG_DFL);
	if (open_messages(messages) < 0 || pipe2(watching, O_CLOEXEC) < 0)
		return 2;
	watch_ended = watching[1];
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	relay.probe = fork();
	if (relay.probe < 0) {
		fprintf(stderr, "slowrank: %s; the job is not watched\n", strerror(errno));
		return 2;
	}
	if (relay.probe == 0) {
		dup2(messages[1], STDERR_FILENO);
		begin_attach(detached->options, job, job->process_count ? job->processes->pid : 0,
			parent);
		_exit(attached_probe(detached, job));
	}
	watcher = relay.probe;
	if (stop) /* before there was one to pass it on to */
		on_signal(0);
	close(messages[1]);
	relay.messages = messages[0];
	relay.target = watching[0];
	return relay_run(&relay);
}

void detached_say_unfinished(const struct probe_options *options, const struct job_place *place,
	char text[DETACHED_TEXT_LENGTH])
{
	const char *how = getpid() == 1 ? "slowrank ends with this process; what was recorded"
					: "it is made in the background";
	char record[128];

	job_place_record(place, record);
	if (options->coordinator)
		snprintf(text, DETACHED_TEXT_LENGTH,
			"slowrank: the coordinator at %s did not take all in time; the rest is "
			"sent in the background\n",
			options->coordinator);
	else
		snprintf(text, DETACHED_TEXT_LENGTH,
			"slowrank: the report is not ready; %s: slowrank report %s\n", how,
			options->record ? options->record : record);
}
