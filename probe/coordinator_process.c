/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/coordinator_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
	READY_TIMEOUT_MS = 5000,
	ARGUMENT_COUNT_MAX = 24,
	/* Several jobs may share a host: the port comes from the job's name, in a range that is
	 * outside Linux's default ephemeral ports (32768-60999). */
	PORT_FIRST = 24000,
	PORT_COUNT = 8000,
};

static uint32_t hash_text(const char *text)
{
	uint32_t hash = 2166136261u; /* FNV-1a, 32 bits */

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash;
}

/* Makes the per-user folder of sockets and locks; refuses one that another user prepared. */
static int runtime_directory(char path[64], char why[256])
{
	struct stat status;

	snprintf(path, 64, "/tmp/slowrank-%u", (unsigned)geteuid());
	if (mkdir(path, 0700) < 0 && errno != EEXIST) {
		snprintf(why, 256, "cannot make %s: %s", path, strerror(errno));
		return -errno;
	}
	if (lstat(path, &status) < 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
		(status.st_mode & 077)) {
		snprintf(why, 256, "%s is not a private folder of this user: remove it", path);
		return -EPERM;
	}
	return 0;
}

/* True when this host (this network namespace) owns the address or name. */
static bool address_is_local(const char *name)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	struct ifaddrs *interfaces = NULL;
	bool local = false;

	if (getaddrinfo(name, NULL, &hints, &found) != 0)
		return false;
	if (getifaddrs(&interfaces) != 0)
		goto out;
	for (struct addrinfo *a = found; a && !local; a = a->ai_next) {
		for (struct ifaddrs *i = interfaces; i && !local; i = i->ifa_next) {
			if (!i->ifa_addr || i->ifa_addr->sa_family != a->ai_family)
				continue;
			if (a->ai_family == AF_INET)
				local = !memcmp(&((struct sockaddr_in *)i->ifa_addr)->sin_addr,
					&((struct sockaddr_in *)a->ai_addr)->sin_addr,
					sizeof(struct in_addr));
			else if (a->ai_family == AF_INET6)
				local = !memcmp(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr,
					&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr,
					sizeof(struct in6_addr));
		}
	}
	freeifaddrs(interfaces);
out:
	freeaddrinfo(found);
	return local;
}

/* What the coordinator is called with. */
struct command_line {
	char record[128], parent[16], ready[16];
	const char *arguments[ARGUMENT_COUNT_MAX];
};

static void fill_command_line(struct command_line *line, const struct probe_options *options,
	const struct job_place *place, const char *listen_url, bool quiet_if_empty)
{
	const char **arguments = line->arguments;
	size_t count = 0;

	snprintf(line->record, sizeof(line->record), "slowrank-%s.slr", place->job_id);
	snprintf(line->parent, sizeof(line->parent), "%d", (int)getpid());
	arguments[count++] = "slowrank";
	arguments[count++] = "coordinator";
	arguments[count++] = "--listen";
	arguments[count++] = listen_url;
	arguments[count++] = "--record";
	arguments[count++] = options->record ? options->record : line->record;
	arguments[count++] = "--parent";
	arguments[count++] = line->parent;
	arguments[count++] = "--ready-fd";
	arguments[count++] = line->ready;
	arguments[count++] = "--exit-when-done";
	if (options->alerts) {
		arguments[count++] = "--alerts";
		arguments[count++] = options->alerts;
	}
	if (options->report) {
		arguments[count++] = "--report";
		arguments[count++] = options->report;
	}
	if (options->key_file) {
		arguments[count++] = "--key-file";
		arguments[count++] = options->key_file;
	}
	if (options->insecure)
		arguments[count++] = "--insecure";
	if (options->quiet)
		arguments[count++] = "--quiet";
	if (quiet_if_empty)
		arguments[count++] = "--quiet-if-empty";
	arguments[count] = NULL;
}

/* A group of its own: Ctrl-C in the terminal ends the job, and the report comes after. */
static int spawn(const struct command_line *line, pid_t *started)
{
	posix_spawnattr_t attributes;
	sigset_t none;
	int error;

	posix_spawnattr_init(&attributes);
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	error = posix_spawn(started, "/proc/self/exe", NULL, &attributes,
		(char *const *)line->arguments, environ);
	posix_spawnattr_destroy(&attributes);
	return -error;
}

/* Starts `slowrank coordinator` with the lock held through lock_fd; waits until it listens. */
static int start(struct command_line *line, int lock_fd, pid_t *started, char why[256])
{
	int pipe_fds[2], error;
	char byte;

	/* The lock and the write end of the pipe are meant to be inherited. */
	if (pipe(pipe_fds) < 0)
		return -errno;
	fcntl(pipe_fds[0], F_SETFD, FD_CLOEXEC);
	fcntl(lock_fd, F_SETFD, 0);
	snprintf(line->ready, sizeof(line->ready), "%d", pipe_fds[1]);
	error = spawn(line, started);
	close(pipe_fds[1]);
	if (error) {
		close(pipe_fds[0]);
		snprintf(why, 256, "cannot start the coordinator: %s", strerror(-error));
		return error;
	}
	struct pollfd waiter = {.fd = pipe_fds[0], .events = POLLIN};
	bool listening =
		poll(&waiter, 1, READY_TIMEOUT_MS) == 1 && read(pipe_fds[0], &byte, 1) == 1;
	close(pipe_fds[0]);
	if (!listening) {
		snprintf(why, 256, "the coordinator of this job did not start");
		kill(*started, SIGTERM);
		waitpid(*started, NULL, 0);
		*started = 0;
		return -ECONNREFUSED;
	}
	return 0;
}

int coordinator_process_ensure(const struct probe_options *options, const struct job_place *place,
	bool quiet_if_empty, char url[COORDINATOR_URL_LENGTH], struct coordinator_child *child,
	char why[256])
{
	char directory[64], listen_url[COORDINATOR_URL_LENGTH];
	int result;

	*child = (struct coordinator_child){0};
	if (options->coordinator) {
		if (options->record || options->report || options->alerts)
			fprintf(stderr,
				"slowrank: the coordinator at %s writes record, report and alerts; "
				"--record, --report and --alerts do nothing here\n",
				options->coordinator);
		snprintf(url, COORDINATOR_URL_LENGTH, "%s", options->coordinator);
		return 0;
	}
	result = runtime_directory(directory, why);
	if (result < 0)
		return result;
	if (place->several_hosts) {
		unsigned port = PORT_FIRST + hash_text(place->job_id) % PORT_COUNT;

		if (!place->leader_address[0]) {
			snprintf(why, 256,
				"the job has several hosts and none is known to all: name the "
				"coordinator with --coordinator tcp://HOST:PORT");
			return -EINVAL;
		}
		snprintf(url, COORDINATOR_URL_LENGTH, "tcp://%s:%u", place->leader_address, port);
		snprintf(listen_url, sizeof(listen_url), "%s", url);
		if (!address_is_local(place->leader_address))
			return 0;
	} else {
		snprintf(child->socket_path, sizeof(child->socket_path), "%s/%s.sock", directory,
			place->job_id);
		snprintf(url, COORDINATOR_URL_LENGTH, "ipc://%s/%s.sock", directory, place->job_id);
		snprintf(listen_url, sizeof(listen_url), "%s", url);
	}
	snprintf(
		child->lock_path, sizeof(child->lock_path), "%s/%s.lock", directory, place->job_id);
	int lock_fd = open(child->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock_fd < 0) {
		snprintf(why, 256, "cannot open %s: %s", child->lock_path, strerror(errno));
		return -errno;
	}
	/* Somebody else holds it: that coordinator is, or will be, there; the uplink retries. */
	if (flock(lock_fd, LOCK_EX | LOCK_NB) == 0) {
		struct command_line line;

		fill_command_line(&line, options, place, listen_url, quiet_if_empty);
		result = start(&line, lock_fd, &child->pid, why);
		child->is_ours = result == 0;
		if (result < 0)
			unlink(child->lock_path);
	}
	close(lock_fd);
	return result;
}

bool coordinator_process_ended(struct coordinator_child *child)
{
	siginfo_t info = {0};

	if (!child->is_ours)
		return false;
	if (!child->pid)
		return true;
	if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
		return false;
	child->pid = 0;
	fprintf(stderr,
		"slowrank: the coordinator of this job ended early (%s %d); the job goes on, but "
		"without alerts, and its record ends here\n",
		info.si_code == CLD_EXITED ? "exit status" : "signal", info.si_status);
	return true;
}

void coordinator_process_wait(struct coordinator_child *child, int timeout_ms)
{
	struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	int waited_ms;

	for (waited_ms = 0; child->pid > 0 && waited_ms < timeout_ms; waited_ms += 10) {
		if (waitpid(child->pid, NULL, WNOHANG) != 0)
			child->pid = 0;
		else
			nanosleep(&pause, NULL);
	}
	if (child->pid > 0) {
		kill(child->pid, SIGTERM);
		nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
		waitpid(child->pid, NULL, WNOHANG);
	}
	if (child->is_ours) {
		unlink(child->lock_path);
		unlink(child->socket_path);
	}
}
