/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault injector: a process beside the job that does on request what must come from outside
 * of it. One command per connection on a unix socket, answered by "ok" or by what went wrong:
 *     hog NAME core=N count=N      start CPU hogs pinned to a core
 *     stop NAME                    end them
 *     shape HOST rate_kbit=N       run SHAPE_COMMAND shape HOST N
 *     unshape HOST                 run SHAPE_COMMAND unshape HOST
 * Ends all that it started at SIGTERM or SIGINT.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOGS_MAX = 256, NAME_BYTES = 64, COMMAND_BYTES = 256 };

struct hog {
	pid_t pid; /* 0 = free */
	char name[NAME_BYTES];
};

struct injector {
	const char *socket_path;
	const char *shape_command;
	int listener;
	int connection; /* of the command in progress */
	struct hog hogs[HOGS_MAX];
};

static volatile sig_atomic_t stop_wanted;

static void on_signal(int number)
{
	(void)number;
	stop_wanted = 1;
}

/* The hog itself: never returns. Ends with the injector, whatever ends that. */
static void run_hog(uint32_t core, pid_t parent)
{
	cpu_set_t cores;
	volatile uint64_t counter = 0;

	CPU_ZERO(&cores);
	CPU_SET(core, &cores);
	(void)prctl(PR_SET_NAME, "fault_hog");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_IGN); /* ctrl-C reaches the injector, which ends the hogs */
	if (getppid() != parent || sched_setaffinity(0, sizeof(cores), &cores))
		_exit(1);
	for (;;)
		counter++;
}

static void stop_hogs(struct injector *injector, const char *name)
{
	for (size_t i = 0; i < HOGS_MAX; i++) {
		struct hog *hog = &injector->hogs[i];

		if (hog->pid == 0 || (name && strcmp(hog->name, name) != 0))
			continue;
		kill(hog->pid, SIGKILL);
		waitpid(hog->pid, NULL, 0);
		hog->pid = 0;
	}
}

static int start_hogs(struct injector *injector, const char *name, uint32_t core, uint32_t count)
{
	pid_t parent = getpid();

	if (core >= CPU_SETSIZE || core >= (uint32_t)sysconf(_SC_NPROCESSORS_CONF))
		return -ERANGE;
	for (size_t i = 0; i < HOGS_MAX && count > 0; i++) {
		struct hog *hog = &injector->hogs[i];

		if (hog->pid != 0)
			continue;
		hog->pid = fork();
		if (hog->pid == 0) {
			/* A connection left open here would keep its client waiting. */
			close(injector->connection);
			close(injector->listener);
			run_hog(core, parent);
		}
		if (hog->pid < 0) {
			int result = -errno;

			hog->pid = 0;
			stop_hogs(injector, name);
			return result;
		}
		snprintf(hog->name, sizeof(hog->name), "%s", name);
		count--;
	}
	if (count > 0) {
		stop_hogs(injector, name);
		return -ENOSPC;
	}
	return 0;
}

static int run_shape(const struct injector *injector, char *const argv[])
{
	extern char **environ;
	pid_t pid;
	int status;
	int result;

	if (!injector->shape_command)
		return -ENOTSUP;
	result = posix_spawn(&pid, injector->shape_command, NULL, NULL, argv, environ);
	if (result)
		return -result;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* Reads a name that is fit for a file and a command line. */
static bool good_name(const char *name)
{
	return name[0] != '\0' && name[0] != '-' &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789.-_")] == '\0';
}

static int do_command(struct injector *injector, const char *command)
{
	char name[NAME_BYTES] = "";
	char number[32];
	unsigned int core;
	unsigned int count;
	char *shape[] = {(char *)(uintptr_t)injector->shape_command, NULL, name, NULL, NULL};

	if (sscanf(command, "hog %63s core=%u count=%u", name, &core, &count) == 3 &&
		good_name(name))
		return start_hogs(injector, name, core, count);
	if (sscanf(command, "stop %63s", name) == 1 && good_name(name)) {
		stop_hogs(injector, name);
		return 0;
	}
	if (sscanf(command, "shape %63s rate_kbit=%u", name, &core) == 2 && good_name(name)) {
		snprintf(number, sizeof(number), "%u", core);
		shape[1] = (char *)(uintptr_t) "shape";
		shape[3] = number;
		return run_shape(injector, shape);
	}
	if (sscanf(command, "unshape %63s", name) == 1 && good_name(name)) {
		shape[1] = (char *)(uintptr_t) "unshape";
		return run_shape(injector, shape);
	}
	return -EINVAL;
}

static void serve_one(struct injector *injector)
{
	struct timeval limit = {.tv_sec = 2};
	char command[COMMAND_BYTES] = "";
	char answer[COMMAND_BYTES + 64];
	int result;
	int fd = accept4(injector->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	injector->connection = fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (recv(fd, command, sizeof(command) - 1, MSG_WAITALL) >= 0) {
		result = do_command(injector, command);
		if (result)
			snprintf(answer, sizeof(answer), "%s\n", strerror(-result));
		else
			snprintf(answer, sizeof(answer), "ok\n");
		(void)send(fd, answer, strlen(answer), MSG_NOSIGNAL);
	}
	close(fd);
}

static int listen_at(const char *path, int *listener)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int result;
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64)) {
		result = -errno;
		close(fd);
		return result;
	}
	*listener = fd;
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"socket", required_argument, NULL, 's'},
		{"shape-command", required_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
	static struct injector injector;
	struct sigaction action = {.sa_handler = on_signal};
	int code;
	int result;

	while ((code = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (code == 's')
			injector.socket_path = optarg;
		else if (code == 'c')
			injector.shape_command = optarg;
		else
			return 2;
	}
	if (!injector.socket_path || optind < argc) {
		fprintf(stderr, "usage: %s --socket PATH [--shape-command PROGRAM]\n", argv[0]);
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	result = listen_at(injector.socket_path, &injector.listener);
	if (result) {
		fprintf(stderr, "fault_injector: %s: %s\n", injector.socket_path,
			strerror(-result));
		return 1;
	}
	while (!stop_wanted) {
		struct pollfd ready = {.fd = injector.listener, .events = POLLIN};

		if (poll(&ready, 1, 500) > 0)
			serve_one(&injector);
	}
	stop_hogs(&injector, NULL);
	unlink(injector.socket_path);
	close(injector.listener);
	return 0;
}
