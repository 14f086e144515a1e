/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/detached.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/relay.h"
#include "probe/session.h"

enum {
	MESSAGES_BYTES = 1 << 20, /* what may wait for a reader of standard error */
	OLD_KERNEL_FILES = 4096,  /* closed one by one where there is no close_range() */
};

static int stop; /* never set here: the job's end ends the session */

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
		    &(struct session_job){.why_no_device = detached->why_no_device},
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

void detached_watch(const struct detached *detached)
{
	struct relay_options relay = {.target = detached->target,
		.gate = detached->gate,
		.unfinished = detached->unfinished};
	int messages[2];

	setsid();
	signal(SIGCHLD, SIG_DFL); /* ignored, it would take the probe's status */
	if (pipe2(messages, O_CLOEXEC) < 0) {
		fprintf(stderr, "slowrank: %s; the job is not watched\n", strerror(errno));
		_exit(1);
	}
	(void)fcntl(messages[1], F_SETPIPE_SZ, MESSAGES_BYTES);
	(void)fcntl(messages[1], F_SETFL, O_NONBLOCK);
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
	relay_run(&relay);
	_exit(0);
}
