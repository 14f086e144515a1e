/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/harness.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

enum { SKIPPED = 77, NOTES = 16 };

volatile int64_t *harness_notes;
static int child_reads = -1, child_writes = -1;

int64_t clock_ns(int clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void spin_ns(int64_t wall_ns)
{
	int64_t end = clock_ns(CLOCK_MONOTONIC) + wall_ns;

	while (clock_ns(CLOCK_MONOTONIC) < end)
		;
}

void sleep_ns(int64_t ns)
{
	struct timespec time = {ns / 1000000000, ns % 1000000000};

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
}

void pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		abort();
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

static void attach_calls(struct bpf_source *source)
{
	struct library_file library = {0};
	struct stat status;
	size_t skipped;
	Dl_info info;
	void *address;

	memcpy(&address, &(void *){(void *)&during_call}, sizeof(address));
	assert_true(dladdr(address, &info) != 0);
	/* The variable may be a copy in the program: the file is found by a function then. */
	int (*barrier)(test_communicator) = MPI_Barrier;
	memcpy(&address, &barrier, sizeof(address));
	assert_true(dladdr(address, &info) != 0);
	assert_int_equal(stat(info.dli_fname, &status), 0);
	library.device = status.st_dev;
	library.inode = status.st_ino;
	snprintf(library.path, sizeof(library.path), "%s", info.dli_fname);
	snprintf(library.name, sizeof(library.name), "%s", info.dli_fname);
	assert_int_equal(bpf_source_attach_library(source, &library, true, &skipped), 17);
	assert_int_equal(skipped, 0);
}

void harness_open(struct harness *harness, size_t ring_bytes)
{
	struct bpf_source_options options = {
		.collectives = true, .sched = true, .faults = true, .ring_bytes = ring_bytes};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	int error = bpf_source_create(&options, &harness->source, why);

	if (error == -EPERM || error == -ENOTSUP) {
		printf("skipped: %s\n", why);
		exit(SKIPPED);
	}
	if (error)
		fail_msg("bpf_source_create: %s", why);
	attach_calls(harness->source);
}

void harness_close(struct harness *harness)
{
	bpf_source_destroy(harness->source);
	harness->source = NULL;
}

int harness_set_up(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	if (!harness)
		return -1;
	harness->records = calloc(RECORDS_MAX, sizeof(*harness->records));
	harness_notes = mmap(NULL, NOTES * sizeof(*harness_notes), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!harness->records || harness_notes == MAP_FAILED)
		return -1;
	harness_open(harness, 0);
	*state = harness;
	return 0;
}

int harness_tear_down(void **state)
{
	struct harness *harness = *state;

	harness_close(harness);
	free(harness->records);
	free(harness);
	return 0;
}

static void read_byte(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		abort();
}

static void write_byte(int fd)
{
	if (write(fd, "x", 1) != 1)
		abort();
}

void child_wait(void)
{
	write_byte(child_writes);
	read_byte(child_reads);
}

pid_t harness_start(struct harness *harness, void (*work)(void))
{
	int down[2], up[2];
	pid_t child;

	assert_int_equal(pipe(down), 0);
	assert_int_equal(pipe(up), 0);
	harness->record_count = 0;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(down[1]);
		close(up[0]);
		child_reads = down[0];
		child_writes = up[1];
		child_wait();
		work();
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	harness->to_child = down[1];
	harness->from_child = up[0];
	assert_int_equal(bpf_source_track(harness->source, (uint32_t)child), 0);
	harness_wait_for_child(harness);
	return child;
}

void harness_wait_for_child(struct harness *harness)
{
	read_byte(harness->from_child);
}

void harness_let_go(struct harness *harness)
{
	write_byte(harness->to_child);
}

static void keep_record(void *context, const struct event_header *header)
{
	struct harness *harness = context;

	assert_true(header->length_bytes <= RECORD_BYTES_MAX);
	if (harness->record_count < RECORDS_MAX)
		memcpy(harness->records[harness->record_count++].bytes, header,
			header->length_bytes);
}

void harness_finish(struct harness *harness, pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(harness->to_child);
	close(harness->from_child);
	assert_true(bpf_source_poll(harness->source, keep_record, harness) >= 0);
}

pid_t harness_run(struct harness *harness, void (*work)(void))
{
	pid_t child = harness_start(harness, work);

	harness_let_go(harness);
	harness_finish(harness, child);
	return child;
}

const void *harness_find(
	const struct harness *harness, enum event_kind kind, pid_t pid, size_t number)
{
	for (size_t i = 0; i < harness->record_count; i++) {
		const struct event_header *header = (const void *)harness->records[i].bytes;

		if (header->kind == kind && header->pid == (uint32_t)pid && number-- == 0)
			return header;
	}
	return NULL;
}

size_t harness_count(const struct harness *harness, enum event_kind kind, pid_t pid)
{
	size_t count = 0;

	while (harness_find(harness, kind, pid, count))
		count++;
	return count;
}

const struct event_collective *harness_collective(
	const struct harness *harness, pid_t pid, size_t number)
{
	const struct event_collective *event = harness_find(harness, EVENT_COLLECTIVE, pid, number);

	assert_non_null(event);
	return event;
}
