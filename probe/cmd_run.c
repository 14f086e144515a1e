/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slowrank run: starts a job and watches it.
 *
 * Started by hand, or by srun, this process stays the command's parent: it passes signals on and exits
 * with the command's status. Started by another launcher, as one rank, it becomes the command itself (exec)
 * and leaves the probe to a detached child: the launcher then sees its own process, whatever
 * happens to the probe.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/commands.h"
#include "probe/device_environment.h"
#include "probe/session.h"
#include "probe/verbs_environment.h"

enum {
	PREPARE_TIMEOUT_MS = 20000, /* a probe that takes longer is given up; the job starts */
	EXIT_NOT_FOUND = 127,	    /* as shells have it */
	EXIT_NOT_EXECUTABLE = 126,
};

static int stop; /* never set here: the job's end ends the session */
static char why_no_device[WIRE_DETAIL_LENGTH_MAX + 1];

/* Runs the command in this process. Does not return on success. */
static int become(char **command)
{
	execvp(command[0], command);
	fprintf(stderr, "slowrank: cannot run %s: %s\n", command[0], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* The whole life of a detached probe beside the process it was forked from. */
static void detached_probe(const struct probe_options *options, const struct job_place *place,
	pid_t target, int ready_fd)
{
	struct session *session = NULL;

	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (session_create(options, place, &(struct session_job){.why_no_device = why_no_device},
		    &session) == 0) {
		session_prepare_command(session, options->command);
		session_track(session, target);
	}
	if (write(ready_fd, "r", 1) < 0)
		fprintf(stderr, "slowrank: %s\n", strerror(errno));
	close(ready_fd);
	if (session) {
		session_run(session, target, &stop);
		session_finish(session);
		session_destroy(session);
	}
}

/*
 * Inside a launcher: the probe goes to a grandchild, so that the command never sees a child it
 * did not make; then this process becomes the command.
 */
static int run_as_rank(const struct probe_options *options, const struct job_place *place)
{
	int ready[2];
	pid_t self = getpid(), child;
	char byte;

	if (pipe(ready) == 0) {
		child = fork();
		if (child == 0) {
			close(ready[0]);
			setsid();
			if (fork() == 0)
				detached_probe(options, place, self, ready[1]);
			_exit(0);
		}
		close(ready[1]);
		if (child > 0)
			waitpid(child, NULL, 0);
		struct pollfd waiter = {.fd = ready[0], .events = POLLIN};
		if (poll(&waiter, 1, PREPARE_TIMEOUT_MS) != 1 || read(ready[0], &byte, 1) != 1)
			fprintf(stderr,
				"slowrank: the probe is not ready; the job starts without it\n");
		close(ready[0]);
	}
	return become(options->command);
}

/* Starts the command, held back until go_fd is closed with a byte written. */
static pid_t start_held(char **command, int go[2], const sigset_t *old_mask)
{
	pid_t child = fork();
	char byte;

	if (child != 0)
		return child;
	close(go[1]);
	/* End of file without the byte: the parent died before it was ready. Run all the same. */
	while (read(go[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(go[0]);
	sigprocmask(SIG_SETMASK, old_mask, NULL);
	_exit(become(command));
}

struct forwarder {
	int signal_fd;
	pid_t child;
};

/* Passes signals on. The terminal sends its own (SI_KERNEL) to the command as well. */
static void *forward_signals(void *argument)
{
	struct forwarder *forwarder = argument;
	struct signalfd_siginfo info;

	while (read(forwarder->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_code != SI_KERNEL)
			kill(forwarder->child, (int)info.ssi_signo);
	}
	return NULL;
}

/* The child's exit status; *killed_by is the signal that ended it, or 0. */
static int wait_for(pid_t child, int *killed_by)
{
	siginfo_t info = {0};

	*killed_by = 0;
	while (waitid(P_PID, (id_t)child, &info, WEXITED) < 0) {
		if (errno != EINTR)
			return 1;
	}
	if (info.si_code == CLD_EXITED)
		return info.si_status;
	*killed_by = info.si_status;
	return 128 + info.si_status;
}

/* Ends as the command ended: by the signal that killed it, without a core dump of our own. */
static void end_by_signal(int number)
{
	struct rlimit no_core = {0, 0};
	sigset_t one;

	setrlimit(RLIMIT_CORE, &no_core);
	sigemptyset(&one);
	sigaddset(&one, number);
	signal(number, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	raise(number);
}

static int run_by_hand(const struct probe_options *options, const struct job_place *place)
{
	static const int forwarded[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
	struct session *session = NULL;
	struct forwarder forwarder;
	pthread_t thread;
	sigset_t mask, old_mask;
	int go[2], status, killed_by;

	sigemptyset(&mask);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&mask, forwarded[i]);
	sigprocmask(SIG_BLOCK, &mask, &old_mask);
	if (pipe2(go, O_CLOEXEC) < 0 ||
		(forwarder.child = start_held(options->command, go, &old_mask)) < 0) {
		fprintf(stderr, "slowrank: cannot start a process: %s\n", strerror(errno));
		return 1;
	}
	close(go[0]);
	forwarder.signal_fd = signalfd(-1, &mask, SFD_CLOEXEC);
	bool forwarding = forwarder.signal_fd >= 0 &&
			  pthread_create(&thread, NULL, forward_signals, &forwarder) == 0;
	if (session_create(options, place, &(struct session_job){.why_no_device = why_no_device},
		    &session) == 0) {
		session_prepare_command(session, options->command);
		session_track(session, forwarder.child);
	}
	if (write(go[1], "g", 1) < 0)
		fprintf(stderr, "slowrank: %s\n", strerror(errno));
	close(go[1]);
	if (session)
		session_run(session, forwarder.child, &stop);
	status = wait_for(forwarder.child, &killed_by);
	if (session) {
		session_finish(session);
		session_destroy(session);
	}
	if (forwarding) {
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	if (killed_by)
		end_by_signal(killed_by);
	return status;
}

int cmd_run(int argc, char **argv)
{
	static struct probe_options options;
	char why_no_verbs[WIRE_DETAIL_LENGTH_MAX + 1]; /* the source says it, too */
	struct job_place place;

	switch (probe_options_parse_run(&options, argc, argv)) {
	case OPTIONS_HELP:
		return 0;
	case OPTIONS_BAD:
		return 2;
	case OPTIONS_OK:
		break;
	}
	job_place_find(&place, &options);
	job_place_warn(&options);
	(void)device_environment_set(&options, why_no_device);
	(void)verbs_environment_set(&(struct verbs_environment){0}, &options, why_no_verbs);
	return place.may_outlive ? run_as_rank(&options, &place) : run_by_hand(&options, &place);
}
