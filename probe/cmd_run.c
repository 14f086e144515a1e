/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slowrank run: starts a job and watches it.
 *
 * Started by hand, or by srun, this process stays the command's parent, and does nothing else: it passes
 * signals on, reaps what is left to it (as a container's first process, every orphan), and ends as the
 * command ended. Started by another launcher, as one rank, it becomes the command itself (exec): the
 * launcher then sees its own process; and so it does where the command is a launcher that will start a
 * slowrank with each rank. The probe is a detached process in both cases, and nothing that
 * happens to it happens to the job.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/commands.h"
#include "probe/detached.h"
#include "probe/device_environment.h"
#include "probe/launcher_wrap.h"
#include "probe/relay.h"
#include "probe/task_room.h"
#include "probe/verbs_environment.h"

enum {
	END_LIMIT_MS = 880, /* from the command's end; the relay needs less: */
	RELAY_MORE_MS = END_LIMIT_MS - RELAY_LIMIT_MS,
	EXIT_NOT_FOUND = 127, /* as shells have it */
	EXIT_NOT_EXECUTABLE = 126,
};

static char why_no_device[WIRE_DETAIL_LENGTH_MAX + 1];

/* Runs the command in this process. Does not return on success. */
static int become(char **command)
{
	execvp(command[0], command);
	fprintf(stderr, "slowrank: cannot run %s: %s\n", command[0], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/*
 * Inside a launcher: the relay is a grandchild, so that the command never sees a child it did not
 * make; then this process becomes the command.
 */
static int run_as_rank(struct detached *detached)
{
	pid_t child;

	detached->target = getpid();
	child = fork();
	if (child == 0) {
		if (fork() == 0)
			detached_watch(detached);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	else
		fprintf(stderr, "slowrank: %s; the job is not watched\n", strerror(errno));
	start_gate_wait(detached->gate);
	return become(detached->options->command);
}

/* What the command and the relay find as this process found it. */
struct inherited {
	sigset_t mask;
	void (*on_child)(int);
};

static void restore(const struct inherited *inherited)
{
	signal(SIGCHLD, inherited->on_child);
	sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

static pid_t start_command(const struct detached *detached, const struct inherited *inherited)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	start_gate_wait(detached->gate);
	restore(inherited);
	_exit(become(detached->options->command));
}

static pid_t start_relay(const struct detached *detached, const struct inherited *inherited)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	restore(inherited);
	detached_watch(detached);
}

struct supervisor {
	pid_t command, relay; /* 0 once it has ended */
	int status;	      /* of the command, as shells have it */
	int killed_by;	      /* the signal that ended the command, or 0 */
	int64_t deadline_ms;  /* to end; 0: the command runs */
	struct end_hold *hold;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Takes all that have ended, whoever started them. */
static void reap(struct supervisor *supervisor)
{
	siginfo_t info = {0};

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid) {
		if (info.si_pid == supervisor->command) {
			supervisor->command = 0;
			supervisor->deadline_ms = now_ms() + END_LIMIT_MS;
			supervisor->killed_by = info.si_code == CLD_EXITED ? 0 : info.si_status;
			supervisor->status = info.si_status + (supervisor->killed_by ? 128 : 0);
			if (supervisor->status)
				end_hold_refuse(supervisor->hold);
		} else if (info.si_pid == supervisor->relay) {
			supervisor->relay = 0;
		}
		info.si_pid = 0;
	}
}

/* Signals are passed on; the terminal sends its own (SI_KERNEL) to the command as well. */
static void take_signal(const struct supervisor *supervisor, const siginfo_t *info)
{
	int number = info->si_signo;

	if (number == SIGCHLD)
		return;
	if (!supervisor->command && number != SIGCONT && number != SIGWINCH)
		end_hold_refuse(supervisor->hold);
	if (supervisor->command && info->si_code != SI_KERNEL)
		kill(supervisor->command, number);
}

static bool time_is_up(struct supervisor *supervisor)
{
	int64_t until_ms = end_hold_until_ms(supervisor->hold) + RELAY_MORE_MS;

	if (!supervisor->deadline_ms || now_ms() < supervisor->deadline_ms)
		return false;
	if (until_ms <= supervisor->deadline_ms)
		return true;
	supervisor->deadline_ms = until_ms;
	return false;
}

/* Until the command has ended, and the relay with it or soon after. */
static void supervise(struct supervisor *supervisor, const sigset_t *signals)
{
	while (supervisor->command || supervisor->relay) {
		siginfo_t info;

		if (time_is_up(supervisor))
			break;
		int64_t wait_ms = supervisor->deadline_ms - now_ms();
		struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000};

		if (wait_ms < 0)
			wait = (struct timespec){0};
		int number = sigtimedwait(signals, &info, supervisor->deadline_ms ? &wait : NULL);

		reap(supervisor);
		if (number > 0)
			take_signal(supervisor, &info);
	}
	if (supervisor->relay)
		kill(supervisor->relay, SIGKILL);
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
	raise(number); /* a container's first process goes on */
}

static int run_by_hand(struct detached *detached)
{
	static const int taken[] = {
		SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
	struct supervisor supervisor = {.hold = detached->hold};
	struct inherited inherited;
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		sigaddset(&signals, taken[i]);
	sigprocmask(SIG_BLOCK, &signals, &inherited.mask);
	inherited.on_child = signal(SIGCHLD, SIG_DFL); /* ignored, it would take the status */
	supervisor.command = start_command(detached, &inherited);
	if (supervisor.command < 0) {
		fprintf(stderr, "slowrank: cannot start a process: %s\n", strerror(errno));
		return 1;
	}
	detached->target = supervisor.command;
	supervisor.relay = start_relay(detached, &inherited);
	if (supervisor.relay < 0) {
		fprintf(stderr, "slowrank: %s; the job is not watched\n", strerror(errno));
		supervisor.relay = 0;
	}
	start_gate_leave(detached->gate);
	supervise(&supervisor, &signals);
	if (supervisor.killed_by)
		end_by_signal(supervisor.killed_by);
	return supervisor.status;
}

int cmd_run(int argc, char **argv)
{
	static struct probe_options options;
	char why_no_verbs[WIRE_DETAIL_LENGTH_MAX + 1]; /* the source says it, too */
	char unfinished[DETACHED_TEXT_LENGTH], why_no_room[TASK_ROOM_WHY_LENGTH];
	struct job_place place;
	struct start_gate gate;
	struct detached detached = {.options = &options,
		.place = &place,
		.why_no_device = why_no_device,
		.gate = &gate};
	int error;

	switch (probe_options_parse_run(&options, argc, argv)) {
	case OPTIONS_HELP:
		return 0;
	case OPTIONS_BAD:
		return 2;
	case OPTIONS_OK:
		break;
	}
	if (launcher_wrap(&options))
		return become(options.command);
	options.terminal = isatty(STDERR_FILENO);
	job_place_find(&place, &options);
	if (!task_room_suffices(place.probes_here, why_no_room)) {
		if (place.first_here)
			fprintf(stderr, "slowrank: %s; the job is not watched\n", why_no_room);
		return become(options.command);
	}
	(void)device_environment_set(&options, why_no_device);
	(void)verbs_environment_set(&(struct verbs_environment){0}, &options, why_no_verbs);
	error = start_gate_create(&gate);
	if (error < 0) {
		fprintf(stderr, "slowrank: %s; the job is not watched\n", strerror(-error));
		return become(options.command);
	}
	if (place.may_outlive)
		return run_as_rank(&detached);
	if (!options.quiet) {
		detached_say_unfinished(&options, &place, unfinished);
		detached.unfinished = unfinished;
	}
	if (place.is_slurm_task && place.several_hosts)
		detached.hold = end_hold_create();
	return run_by_hand(&detached);
}
