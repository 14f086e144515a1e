/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/coordinator_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/runtime_directory.h"

extern char **environ;

enum {
	READY_TIMEOUT_MS = 5000,
	ARGUMENT_COUNT_MAX = 41,
	RESTARTS_MAX = 5,      /* of a coordinator that does not run for */
	RUNS_WELL_MS = 600000, /* any more before it is killed again */
	/* Several jobs may share a host: the port comes from the job's name, in a range that is
	 * outside Linux's default ephemeral ports (32768-60999). */
	PORT_FIRST = 24000,
	PORT_COUNT = 8000,
	/* Where a port is taken, the next of the sequence; the steps are such that two jobs with one
	 * port in common do not follow each other. */
	PORT_ATTEMPTS = 4,
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint32_t hash_text(const char *text)
{
	uint32_t hash = 2166136261u; /* FNV-1a, 32 bits */

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash;
}

/* Names of this host may lead to any address of its loopback interface. */
static bool is_loopback(const struct sockaddr *address)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;

	return (address->sa_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == 127) ||
	       (address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr));
}

/* True when this host (this network namespace) owns the address or name. */
static bool address_is_local(const char *name)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	struct ifaddrs *interfaces = NULL;
	char host[HOST_NAME_MAX + 1] = "";
	bool local = false;

	gethostname(host, sizeof(host) - 1);
	if (strcmp(name, host) == 0)
		return true;
	if (getaddrinfo(name, NULL, &hints, &found) != 0)
		return false;
	if (getifaddrs(&interfaces) != 0)
		goto out;
	for (struct addrinfo *a = found; a && !local; a = a->ai_next) {
		local = is_loopback(a->ai_addr);
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

/* continues: the one before was killed, and nobody waits for this one. */
static void fill_command_line(struct command_line *line, const struct probe_options *options,
	const struct job_place *place, const struct coordinator_child *child, bool continues)
{
	const struct alert_settings *alerts = &options->alert_settings;
	const struct {
		const char *flag, *value; /* NULL: left out */
	} values[] = {
		{"--listen", child->listen_url},
		{"--record", options->record ? options->record : line->record},
		{"--overflow", child->overflow_path},
		{"--record-max", options->record_max},
		{"--job", place->job_id},
		{"--parent", line->parent},
		{"--ready-fd", continues ? NULL : line->ready},
		{"--alerts", options->alerts},
		{"--report", options->report},
		{"--http", options->http},
		{"--key-file", options->key_file},
		{"--munge-socket", options->munge_socket},
		{"--config", alerts->file},
		{"--alert-slowdown", alerts->slowdown},
		{"--alert-after", alerts->after},
		{"--silent-imbalance", alerts->imbalance},
	};
	const char **arguments = line->arguments;
	size_t count = 0;

	job_place_record(place, line->record);
	snprintf(line->parent, sizeof(line->parent), "%d", (int)getpid());
	arguments[count++] = "slowrank";
	arguments[count++] = "coordinator";
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (!values[i].value)
			continue;
		arguments[count++] = values[i].flag;
		arguments[count++] = values[i].value;
	}
	arguments[count++] = "--exit-when-done";
	if (options->insecure)
		arguments[count++] = "--insecure";
	if (options->quiet)
		arguments[count++] = "--quiet";
	if (options->terminal)
		arguments[count++] = "--terminal";
	if (continues)
		arguments[count++] = "--continue";
	if (child->quiet_if_empty)
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
	char byte = '\0';

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
	if (poll(&waiter, 1, READY_TIMEOUT_MS) == 1)
		(void)!read(pipe_fds[0], &byte, 1);
	close(pipe_fds[0]);
	if (byte == '0') {
		snprintf(
			why, 256, "somebody else listens at the address of this job's coordinator");
		waitpid(*started, NULL, 0);
		*started = 0;
		return -EADDRINUSE;
	}
	if (byte != '1') {
		snprintf(why, 256, "the coordinator of this job did not start");
		kill(*started, SIGKILL); /* it may be one that makes no progress */
		waitpid(*started, NULL, 0);
		*started = 0;
		return -ECONNREFUSED;
	}
	return 0;
}

static unsigned port_of(const struct job_place *place, unsigned attempt)
{
	uint32_t hash = hash_text(place->job_id);
	uint32_t step = 1 + hash / PORT_COUNT % (PORT_COUNT - 1);

	return PORT_FIRST + (hash + attempt % PORT_ATTEMPTS * step) % PORT_COUNT;
}

void coordinator_process_url(
	const struct job_place *place, unsigned attempt, char url[COORDINATOR_URL_LENGTH])
{
	bool is_ipv6 = strchr(place->leader_address, ':') != NULL;

	snprintf(url, COORDINATOR_URL_LENGTH, "tcp://%s%s%s:%u", is_ipv6 ? "[" : "",
		place->leader_address, is_ipv6 ? "]" : "", port_of(place, attempt));
}

void coordinator_process_where(
	const struct job_place *place, unsigned attempts, const char *url, char where[256])
{
	if (attempts == 1)
		snprintf(where, 256, "%s", url);
	else
		snprintf(where, 256,
			"%.100s, port %u, %u, %u or %u (one of them must be open there to this "
			"host, and slowrank run there: else see --coordinator)",
			place->leader_address, port_of(place, 0), port_of(place, 1),
			port_of(place, 2), port_of(place, 3));
}

/* Nobody listens there now, at any address of this host; IPv4's are among those of IPv6. */
static bool port_is_free(unsigned port, bool *ipv6)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)port),
		.sin6_addr = in6addr_any};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	const int on = 1;
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_free;

	*ipv6 = fd >= 0;
	if (fd < 0)
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	is_free = *ipv6 ? bind(fd, (struct sockaddr *)&in6, sizeof(in6)) == 0
			: bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0;
	close(fd);
	return is_free;
}

/*
 * At all addresses of this host, since not every probe comes by the same network; and at the first port that
 * is free, also by the time the coordinator listens.
 */
static int start_at_free_port(struct command_line *line, const struct job_place *place, int lock_fd,
	struct coordinator_child *child, char url[COORDINATOR_URL_LENGTH], char why[256])
{
	bool ipv6;

	for (unsigned attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
		unsigned port = port_of(place, attempt);
		int error;

		if (!port_is_free(port, &ipv6))
			continue;
		snprintf(child->listen_url, sizeof(child->listen_url), "tcp://%s:%u",
			ipv6 ? "[::]" : "*", port);
		coordinator_process_url(place, attempt, url);
		error = start(line, lock_fd, &child->pid, why);
		if (error != -EADDRINUSE)
			return error;
	}
	snprintf(why, 256,
		"all ports of this job's coordinator are taken on this host (%u, %u, %u, %u): "
		"start one with 'slowrank coordinator', and name it with --coordinator "
		"tcp://HOST:PORT",
		port_of(place, 0), port_of(place, 1), port_of(place, 2), port_of(place, 3));
	return -EADDRINUSE;
}

/* The job's coordinator, on this host: started by whoever gets the lock. Closes directory_fd. */
static int start_if_first(const struct probe_options *options, const struct job_place *place,
	int directory_fd, char url[COORDINATOR_URL_LENGTH], struct coordinator_child *child,
	char why[256])
{
	int result = 0;
	int lock_fd = openat(directory_fd, strrchr(child->lock_path, '/') + 1,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	close(directory_fd);
	if (lock_fd < 0) {
		snprintf(why, 256, "cannot open %s: %s", child->lock_path, strerror(errno));
		return -errno;
	}
	/* Somebody else holds it: that coordinator is, or will be, there; the uplink retries. */
	if (flock(lock_fd, LOCK_EX | LOCK_NB) == 0) {
		struct command_line line;

		snprintf(child->listen_url, sizeof(child->listen_url), "%s", url);
		fill_command_line(&line, options, place, child, false);
		if (place->several_hosts)
			result = start_at_free_port(&line, place, lock_fd, child, url, why);
		else
			result = start(&line, lock_fd, &child->pid, why);
		child->is_ours = result == 0;
		child->started_ms = now_ms();
		if (result < 0) {
			unlink(child->lock_path);
			unlink(child->socket_path);
		}
	}
	close(lock_fd);
	return result;
}

int coordinator_process_ensure(const struct probe_options *options, const struct job_place *place,
	bool quiet_if_empty, char url[COORDINATOR_URL_LENGTH], unsigned *attempts,
	struct coordinator_child *child, char why[256])
{
	char directory[RUNTIME_DIRECTORY_LENGTH], name[sizeof(place->job_id)];
	int directory_fd;

	*child = (struct coordinator_child){.quiet_if_empty = quiet_if_empty};
	*attempts = 1;
	if (options->coordinator) {
		const struct alert_settings *alerts = &options->alert_settings;

		if (options->record || options->record_max || options->report || options->alerts ||
			options->http || alerts->slowdown || alerts->after || alerts->imbalance)
			fprintf(stderr,
				"slowrank: the coordinator at %s writes record, report and alerts, "
				"and "
				"serves; options for these do nothing here\n",
				options->coordinator);
		snprintf(url, COORDINATOR_URL_LENGTH, "%s", options->coordinator);
		return 0;
	}
	if (place->several_hosts) {
		if (!place->leader_address[0]) {
			snprintf(why, 256,
				"the job has several hosts and none is known to all: name the "
				"coordinator with --coordinator tcp://HOST:PORT");
			return -EINVAL;
		}
		*attempts = PORT_ATTEMPTS;
		coordinator_process_url(place, 0, url);
		if (!address_is_local(place->leader_address))
			return 0;
	}
	directory_fd = runtime_directory_open(directory, why);
	if (directory_fd < 0)
		return directory_fd;
	if (place->alone[0]) /* the address of a socket is short */
		snprintf(name, sizeof(name), "%.39s.%s", place->job_id, place->alone);
	else
		snprintf(name, sizeof(name), "%s", place->job_id);
	snprintf(child->lock_path, sizeof(child->lock_path), "%s/%s.lock", directory, name);
	snprintf(child->overflow_path, sizeof(child->overflow_path), "%s/%s.overflow", directory,
		name);
	if (!place->several_hosts) {
		snprintf(child->socket_path, sizeof(child->socket_path), "%s/%s.sock", directory,
			name);
		snprintf(url, COORDINATOR_URL_LENGTH, "ipc://%s/%s.sock", directory, name);
	}
	return start_if_first(options, place, directory_fd, url, child, why);
}

/* At the same place, with the lock that the one before held. Does not wait for it. */
static int start_again(struct coordinator_child *child, const struct probe_options *options,
	const struct job_place *place)
{
	int lock_fd = open(child->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct command_line line;
	int error = 0;

	if (lock_fd < 0)
		return -errno;
	if (flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
		error = -errno;
	fill_command_line(&line, options, place, child, true);
	fcntl(lock_fd, F_SETFD, 0);
	if (!error)
		error = spawn(&line, &child->pid);
	close(lock_fd);
	child->started_ms = now_ms();
	return error;
}

bool coordinator_process_ended(struct coordinator_child *child, const struct probe_options *options,
	const struct job_place *place)
{
	siginfo_t info = {0};
	bool again;

	if (!child->is_ours)
		return false;
	if (!child->pid)
		return true;
	if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
		return false;
	child->pid = 0;
	if (now_ms() - child->started_ms >= RUNS_WELL_MS)
		child->restarts = 0;
	/* One that ended by itself was told to, or has said why. */
	again = info.si_code != CLD_EXITED && child->restarts++ < RESTARTS_MAX &&
		start_again(child, options, place) == 0;
	fprintf(stderr, "slowrank: the coordinator of this job ended early (%s %d); %s\n",
		info.si_code == CLD_EXITED ? "exit status" : "signal", info.si_status,
		again ? "it is started again, and goes on with its record"
		      : "the job goes on, but without alerts, and its record ends here");
	return !again;
}

void coordinator_process_wait(struct coordinator_child *child, const struct probe_options *options,
	const struct job_place *place, int timeout_ms)
{
	struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	siginfo_t info = {0};
	int waited_ms;

	for (waited_ms = 0; child->pid > 0 && waited_ms < timeout_ms; waited_ms += 10) {
		if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
			(info.si_pid && info.si_code == CLD_EXITED)) {
			waitpid(child->pid, NULL, WNOHANG);
			child->pid = 0;
		} else if (!info.si_pid || !coordinator_process_ended(child, options, place)) {
			nanosleep(&pause, NULL);
		}
		info.si_pid = 0;
	}
	if (child->pid > 0) {
		kill(child->pid, SIGTERM);
		nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
		waitpid(child->pid, NULL, WNOHANG);
	}
	coordinator_process_leave(child);
}

void coordinator_process_leave(struct coordinator_child *child)
{
	if (child->is_ours) {
		unlink(child->lock_path);
		unlink(child->socket_path);
		if (!child->pid) /* of one that was killed too often */
			unlink(child->overflow_path);
	}
}
