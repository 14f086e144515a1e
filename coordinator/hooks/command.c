/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/hooks/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100 /* how often it is asked whether the worker ends */ };

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* A file in memory with the event, at its begin. Returns the descriptor or a negative errno. */
static int open_input(const struct hook_event *event)
{
	int fd = memfd_create("incident", MFD_CLOEXEC), error;

	if (fd < 0)
		return -errno;
	if (pwrite(fd, event->json, event->json_length, 0) == (ssize_t)event->json_length)
		return fd;
	error = errno ? -errno : -EIO;
	close(fd);
	return error;
}

/* The environment and the event's variables. NULL: no memory; the caller frees it, and not what is in it. */
static char **make_environment(const struct hook_event *event)
{
	char **made;
	size_t count = 0;

	while (environ[count])
		count++;
	made = malloc((count + HOOK_VARIABLES + 1) * sizeof(*made));
	if (!made)
		return NULL;
	memcpy(made, environ, count * sizeof(*made));
	memcpy(made + count, event->variables, (HOOK_VARIABLES + 1) * sizeof(*made));
	return made;
}

/* Signals as a program finds them, and no descriptor but the first three. */
static int spawn(const char *text, char **environment, int input, pid_t *pid)
{
	const char *const words[] = {"sh", "-c", text, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int error;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(
		&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawn_file_actions_init(&actions);
	error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	if (!error)
		error = posix_spawn_file_actions_addopen(
			&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (!error)
		error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	if (!error)
		error = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
	if (!error)
		error = posix_spawn(
			pid, "/bin/sh", &actions, &attributes, (char *const *)words, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -error;
}

static int start(const struct hook_command *command, const struct hook_event *event, pid_t *pid)
{
	char **environment = make_environment(event);
	int input, error;

	if (!environment)
		return -ENOMEM;
	input = open_input(event);
	error = input < 0 ? input : spawn(command->text, environment, input, pid);
	if (input >= 0)
		close(input);
	free(environment);
	return error;
}

/* Waits for its end, and kills its session where that does not come. True: it was killed. */
static bool wait_for(
	const struct hook_command *command, struct hook_worker *worker, pid_t pid, siginfo_t *how)
{
	int64_t end_ms = now_ms() + (command->limit_ms ? command->limit_ms : HOOK_COMMAND_MS);
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd waited = {.fd = fd, .events = POLLIN};
	bool killed = false;

	while (fd < 0 || poll(&waited, 1, LOOK_MS) <= 0) {
		if (fd >= 0 && now_ms() < end_ms && !hook_worker_is_late(worker))
			continue;
		killed = true;
		kill(-pid, SIGKILL);
		break;
	}
	if (fd >= 0)
		close(fd);
	while (waitid(P_PID, (id_t)pid, how, WEXITED) < 0 && errno == EINTR)
		;
	return killed;
}

static void tell(struct hook_command *command, const char *what, int number)
{
	if (!command->told)
		fprintf(stderr,
			"slowrank: the command of --on-incident %s %d (told once; metrics count "
			"them)\n",
			what, number);
	command->told = true;
}

bool hook_command_deliver(void *context, struct hook_worker *worker, const struct hook_event *event)
{
	struct hook_command *command = context;
	siginfo_t how = {0};
	pid_t pid;
	int error = start(command, event, &pid);

	if (error) {
		tell(command, "cannot be started: error", -error);
		return false;
	}
	if (wait_for(command, worker, pid, &how))
		tell(command, "took too long, and was killed: process", (int)pid);
	else if (how.si_code != CLD_EXITED)
		tell(command, "ended by signal", how.si_status);
	else if (how.si_status)
		tell(command, "ended with exit status", how.si_status);
	return how.si_code == CLD_EXITED && how.si_status == 0;
}
