/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bpf/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/attach/collective_table.h"

enum { ANSWER_TIMEOUT_MS = 20000, SKIPPED = 77 };

int harness_check(void)
{
	struct bpf_source *source;
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	signal(SIGPIPE, SIG_IGN);
	if (geteuid() != 0) {
		puts("skipped: needs root");
		return SKIPPED;
	}
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0) {
		puts("skipped: this kernel has no BTF");
		return SKIPPED;
	}
	/* Root without the right to load programs, as in a container. */
	int error = bpf_source_create(&(struct bpf_source_options){0}, &source, why);
	if (error == -EPERM) {
		printf("skipped: %s\n", why);
		return SKIPPED;
	}
	if (error == 0)
		bpf_source_destroy(source);
	return 0;
}

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* ---- ranks ---- */

struct rank rank_start(void)
{
	int orders[2], answers[2];
	struct rank rank;

	assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
	assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
	rank.pid = fork();
	assert_true(rank.pid >= 0);
	if (rank.pid == 0) {
		dup2(orders[0], STDIN_FILENO);
		dup2(answers[1], STDOUT_FILENO);
		execl(TOLD_RANK, "told_rank", (char *)NULL);
		_exit(127);
	}
	close(orders[0]);
	close(answers[1]);
	rank.orders = orders[1];
	rank.answers = answers[0];
	assert_int_equal(rank_answer(&rank), 0);
	return rank;
}

static void send_order(const struct rank *rank, const char *format, va_list arguments)
{
	char line[256];
	int length = vsnprintf(line, sizeof(line) - 1, format, arguments);

	assert_in_range(length, 1, sizeof(line) - 2);
	line[length] = '\n';
	assert_int_equal(write(rank->orders, line, (size_t)length + 1), length + 1);
}

void rank_order(const struct rank *rank, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	send_order(rank, format, arguments);
	va_end(arguments);
}

int64_t rank_answer(const struct rank *rank)
{
	struct pollfd wait = {.fd = rank->answers, .events = POLLIN};
	char line[64];
	size_t length = 0;

	do {
		if (poll(&wait, 1, ANSWER_TIMEOUT_MS) != 1 ||
			read(rank->answers, line + length, 1) != 1)
			fail_msg("process %d gave no answer", (int)rank->pid);
	} while (line[length++] != '\n' && length < sizeof(line));
	line[length - 1] = '\0';
	return strtoll(line, NULL, 10);
}

int64_t rank_do(const struct rank *rank, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	send_order(rank, format, arguments);
	va_end(arguments);
	return rank_answer(rank);
}

void rank_end(struct rank *rank)
{
	close(rank->orders);
	close(rank->answers);
	if (waitpid(rank->pid, NULL, WNOHANG) != 0)
		return; /* ended by itself, and its number may be another's */
	kill(rank->pid, SIGKILL);
	waitpid(rank->pid, NULL, 0);
}

int64_t run_delay_ns(pid_t pid)
{
	char path[64];
	long long on_cpu, delay = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lld %lld", &on_cpu, &delay), 2);
	fclose(file);
	return delay;
}

/* ---- events ---- */

static void on_event(void *context, const struct event_header *event)
{
	struct harness *harness = context;

	if (harness->used_bytes + event->length_bytes > HARNESS_EVENT_BYTES_MAX)
		fail_msg("more events than a test expects");
	memcpy(harness->bytes + harness->used_bytes, event, event->length_bytes);
	harness->used_bytes += event->length_bytes;
	harness->count++;
}

void harness_start(struct harness *harness, const struct bpf_source_options *options)
{
	enum { TOLD_ROWS = 19 };
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct library_file library = {0};
	struct stat status;
	size_t skipped = 0;

	*harness = (struct harness){.bytes = malloc(HARNESS_EVENT_BYTES_MAX)};
	assert_non_null(harness->bytes);
	if (bpf_source_create(options, &harness->source, why) < 0)
		fail_msg("%s", why);
	if (!options->collectives)
		return;
	assert_int_equal(stat(TOLD_MPI, &status), 0);
	library.device = status.st_dev;
	library.inode = status.st_ino;
	snprintf(library.path, sizeof(library.path), "%s", TOLD_MPI);
	snprintf(library.name, sizeof(library.name), "%s", TOLD_MPI);
	assert_int_equal(
		bpf_source_attach_library(harness->source, &library, true, &skipped), TOLD_ROWS);
	assert_int_equal(skipped, 0);
	/* Once per file. */
	assert_int_equal(bpf_source_attach_library(harness->source, &library, true, &skipped), 0);
}

void harness_end(struct harness *harness)
{
	bpf_source_destroy(harness->source);
	free(harness->bytes);
	*harness = (struct harness){0};
}

void harness_collect(struct harness *harness)
{
	assert_true(bpf_source_poll(harness->source, on_event, harness) >= 0);
}

void harness_clear(struct harness *harness)
{
	harness_collect(harness);
	harness->used_bytes = 0;
	harness->count = 0;
}

const void *harness_find(const struct harness *harness, uint16_t kind, pid_t pid, size_t number)
{
	for (size_t at = 0; at < harness->used_bytes;) {
		const struct event_header *event = (const void *)(harness->bytes + at);

		if (event->kind == kind && (pid == 0 || event->pid == (uint32_t)pid) &&
			number-- == 0)
			return event;
		at += event->length_bytes;
	}
	return NULL;
}

size_t harness_count(const struct harness *harness, uint16_t kind, pid_t pid)
{
	size_t count = 0;

	for (size_t at = 0; at < harness->used_bytes;) {
		const struct event_header *event = (const void *)(harness->bytes + at);

		count += event->kind == kind && (pid == 0 || event->pid == (uint32_t)pid);
		at += event->length_bytes;
	}
	return count;
}

uint16_t row_of(const char *symbol)
{
	for (size_t row = 0; row < collective_row_count; row++) {
		if (strcmp(collective_rows[row].symbol, symbol) == 0)
			return (uint16_t)row;
	}
	fail_msg("no row for %s", symbol);
	return 0;
}
