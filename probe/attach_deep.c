/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach_deep.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "probe/attach/load.h"
#include "probe/device_environment.h"

static const char library_name[] = "libslowrank_inject.so";

enum { LINE_BYTES = 4608, LINES_MAX = 1 << 17, PROCESSES_MAX = 1024 };

/* Of one process: loaded, there already (-EALREADY), no GPU's libraries (-ENODEV), or why not. */
struct answer {
	pid_t pid;
	int32_t error;
	int64_t longest_ns;
	char why[LOAD_WHY_BYTES];
};

struct attach_deep {
	int loader; /* the socket to it; -1: there is none */
	char why_none[WIRE_DETAIL_LENGTH_MAX + 1];
	size_t asked_count;
	pid_t asked[PROCESSES_MAX];
	pid_t last;
	size_t loaded_count, there_count, failed_count;
	int64_t longest_ns;
	char why[LOAD_WHY_BYTES]; /* the last failure */
};

/* It has the libraries of a GPU mapped. */
static bool has_device(pid_t pid)
{
	static const char *const names[] = {"/libcuda.so", "/libnccl.so", "/librccl.so",
		"/libtorch_cuda.so", "/libamdhip64.so"};
	char path[64], line[LINE_BYTES];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	for (size_t i = 0; file && !found && i < LINES_MAX && fgets(line, sizeof(line), file);
		i++) {
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			found |= strstr(line, names[k]) != NULL;
	}
	if (file)
		fclose(file);
	return found;
}

/* Consent: asked for on a terminal; elsewhere the option is enough, and it is said. */
static bool is_wanted(const struct probe_options *options)
{
	char answer[16] = "";
	bool ask = !options->yes && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);

	fprintf(stderr,
		"slowrank: --deep loads %s into each rank, as soon as it calls NCCL or RCCL: "
		"one thread of it is stopped for about a millisecond (ptrace) and makes a thread "
		"that opens the library, which stays there until the process ends%s",
		library_name, ask ? ".\n" : "\n");
	if (!ask)
		return true;
	fprintf(stderr, "slowrank: go on? [y/N] ");
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	return answer[0] == 'y' || answer[0] == 'Y';
}

/* The rest of the loading process's life: it ends with the session, which has the other end. */
_Noreturn static void load_all(int session, const char *path)
{
	pid_t pid;

	(void)prctl(PR_SET_NAME, "slowrank-load");
	signal(SIGINT, SIG_IGN); /* the session's affair */
	while (recv(session, &pid, sizeof(pid), 0) == (ssize_t)sizeof(pid)) {
		struct answer answer = {.pid = pid, .error = -ENODEV};
		struct load_report report = {0};

		if (has_device(pid)) {
			answer.error = load_library(
				pid, path, library_name, "slowrank_inject_start", &report);
			answer.longest_ns = report.longest_ns;
			snprintf(answer.why, sizeof(answer.why), "%s", report.why);
		}
		if (send(session, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

static int start_loader(const char *path)
{
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	fflush(NULL);
	child = fork();
	if (child < 0) {
		int error = -errno;

		close(ends[0]);
		close(ends[1]);
		return error;
	}
	if (child == 0) {
		close(ends[0]);
		load_all(ends[1], path);
	}
	close(ends[1]);
	return ends[0];
}

/* Nothing will be loaded. */
static void say_none(struct attach_deep *deep, const char *why)
{
	snprintf(deep->why_none, sizeof(deep->why_none), "%s", why);
	fprintf(stderr, "slowrank: %s\n", why);
}

int attach_deep_create(const struct probe_options *options, struct attach_deep **result)
{
	struct attach_deep *deep = calloc(1, sizeof(*deep));
	char path[PATH_MAX];

	if (!deep)
		return -ENOMEM;
	deep->loader = -1;
	if (!device_environment_library(path, sizeof(path))) {
		say_none(deep, "libslowrank_inject.so is not beside slowrank: nothing was loaded");
	} else if (!is_wanted(options)) {
		free(deep);
		return -ECANCELED;
	} else {
		deep->loader = start_loader(path);
		if (deep->loader < 0)
			say_none(deep, "attach --deep could not start a process that loads");
	}
	*result = deep;
	return 0;
}

void attach_deep_destroy(struct attach_deep *deep)
{
	if (deep && deep->loader >= 0)
		close(deep->loader);
	free(deep);
}

int attach_deep_descriptor(const struct attach_deep *deep)
{
	return deep ? deep->loader : -1;
}

static size_t find(const struct attach_deep *deep, pid_t pid)
{
	size_t i = 0;

	while (i < deep->asked_count && deep->asked[i] != pid)
		i++;
	return i;
}

void attach_deep_called(struct attach_deep *deep, pid_t pid)
{
	if (!deep || deep->loader < 0 || deep->last == pid)
		return;
	deep->last = pid;
	if (find(deep, pid) < deep->asked_count || deep->asked_count == PROCESSES_MAX)
		return;
	/* Where the socket is full, a later call asks again. */
	if (send(deep->loader, &pid, sizeof(pid), MSG_DONTWAIT | MSG_NOSIGNAL) ==
		(ssize_t)sizeof(pid))
		deep->asked[deep->asked_count++] = pid;
	else
		deep->last = 0;
}

void attach_deep_ended(struct attach_deep *deep, pid_t pid)
{
	size_t place = deep ? find(deep, pid) : 0;

	if (!deep || place == deep->asked_count)
		return;
	deep->asked[place] = deep->asked[--deep->asked_count];
	deep->last = 0;
}

static void take_answer(struct attach_deep *deep, const struct answer *answer)
{
	if (answer->error == -ENODEV)
		return;
	if (answer->longest_ns > deep->longest_ns)
		deep->longest_ns = answer->longest_ns;
	if (answer->error == 0 || answer->error == -EALREADY) {
		deep->loaded_count++;
		deep->there_count += answer->error == -EALREADY;
		return;
	}
	deep->failed_count++;
	snprintf(deep->why, sizeof(deep->why), "%s", answer->why);
	fprintf(stderr, "slowrank: %s\n", answer->why);
}

void attach_deep_poll(struct attach_deep *deep)
{
	struct answer answer;
	ssize_t got = 0;

	while (deep && deep->loader >= 0) {
		got = recv(deep->loader, &answer, sizeof(answer), MSG_DONTWAIT);
		if (got != (ssize_t)sizeof(answer))
			break;
		answer.why[sizeof(answer.why) - 1] = '\0';
		for (char *at = answer.why; (at = strpbrk(at, "\r\n")); at++)
			*at = '?'; /* names in it are the process's: it says one line */
		take_answer(deep, &answer);
	}
	if (!deep || deep->loader < 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	close(deep->loader);
	deep->loader = -1;
	say_none(deep, "attach --deep: the process that loads ended too early");
}

void attach_deep_state(const struct attach_deep *deep, struct message_source *out)
{
	size_t count = deep->loaded_count + deep->failed_count;

	snprintf(out->name, sizeof(out->name), "device.attach");
	out->state = count && !deep->failed_count && !*deep->why_none ? SOURCE_ON : SOURCE_DEGRADED;
	if (*deep->why_none)
		snprintf(out->why, sizeof(out->why), "%s", deep->why_none);
	else if (!count)
		snprintf(out->why, sizeof(out->why),
			"attach --deep loaded nothing: no process with a GPU's libraries made a "
			"collective call, sent or received yet");
	else if (deep->there_count == count)
		snprintf(out->why, sizeof(out->why),
			"in the process already, from attach --deep or slowrank run: %zu ranks",
			count);
	else if (!deep->failed_count)
		snprintf(out->why, sizeof(out->why),
			"loaded into the process by attach --deep: %zu ranks, longest stop %.2f ms",
			count, (double)deep->longest_ns / 1e6);
	else
		snprintf(out->why, sizeof(out->why),
			"loaded into the process by attach --deep: %zu of %zu ranks; %.120s",
			deep->loaded_count, count, deep->why);
}
