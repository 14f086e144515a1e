/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs by uprobes, on a program that knows nothing of it and a stripped provider. Needs root and
 * a kernel with BTF; elsewhere it is skipped.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/symbols.h"
#include "probe/attach/verbs_attach.h"
#include "probe/sources/bpf_source.h"
#include "probe/sources/verbs_probe.h"

enum { RANK = 3, CAPACITY = 64, SENDS = 500, LENGTH = 1234 };

static struct bpf_source *source;
static bool single;

struct child {
	pid_t pid;
	int input;
	FILE *output;
	unsigned number, peer;
};

static void on_record(void *context, const struct event_header *event)
{
	(void)context;
	(void)event;
}

static struct library_file library_file(void)
{
	struct library_file file = {.path = STAND_IN, .name = "libibverbs.so.1"};
	struct stat status;

	assert_int_equal(stat(STAND_IN, &status), 0);
	file.device = status.st_dev;
	file.inode = status.st_ino;
	return file;
}

/* Followed before it runs; stops before its first send. */
static struct child start_child(void)
{
	char count[16], length[16], byte;
	struct child child;
	int to[2], from[2];

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	snprintf(count, sizeof(count), "%d", SENDS);
	snprintf(length, sizeof(length), "%d", LENGTH);
	child.pid = fork();
	if (child.pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		if (read(0, &byte, 1) == 1)
			execl(PROGRAM, PROGRAM, count, length, "wait", (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	child.input = to[1];
	child.output = fdopen(from[0], "r");
	assert_int_equal(bpf_source_track(source, (uint32_t)child.pid), 0);
	assert_int_equal(write(child.input, "x", 1), 1);
	assert_int_equal(fscanf(child.output, "%u %u", &child.number, &child.peer), 2);
	return child;
}

static void let_send(struct child *child)
{
	char word[8];

	assert_int_equal(write(child->input, "x", 1), 1);
	assert_int_equal(fscanf(child->output, "%7s", word), 1);
}

static void end_child(struct child *child)
{
	int status;

	close(child->input);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_int_equal(status, 0);
	fclose(child->output);
	assert_true(bpf_source_poll(source, on_record, NULL) >= 0);
}

static struct host_ns clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct host_ns){(int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
}

static struct verbs_probe *make_probe(bool always)
{
	struct verbs_probe_options options = {.processes_fd = bpf_source_processes_fd(source),
		.always = always,
		.single_uprobes = single,
		.window_ns = 20000000};
	struct library_file file = library_file();
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct verbs_probe *probe;

	if (verbs_probe_create(&options, &probe, why) < 0)
		fail_msg("%s", why);
	assert_int_equal(verbs_probe_state(probe)->state, SOURCE_MISSING);
	assert_int_equal(verbs_probe_attach_library(probe, &file), 0);
	assert_int_equal(verbs_probe_attach_library(probe, &file), 0);
	return probe;
}

static const struct message_queue_pair *find(
	const struct message_queue_pair *pairs, size_t count, uint32_t number)
{
	for (size_t i = 0; i < count; i++) {
		if (pairs[i].number == number)
			return &pairs[i];
	}
	fail_msg("queue pair %u was not seen", number);
	return NULL;
}

static void test_everything_is_counted(void **state)
{
	struct message_queue_pair pairs[CAPACITY];
	const struct message_queue_pair *sender, *receiver;
	struct verbs_probe *probe = make_probe(true);
	struct child child = start_child();
	struct verbs_place places[8];
	uint64_t timed = 0, address;
	bool independent;
	size_t count;

	(void)state;
	assert_int_equal(verbs_probe_follow(probe, child.pid, RANK), 1);
	assert_true(verbs_probe_tick(probe, clock_now()) > 0);
	assert_int_equal(verbs_probe_places(probe, places, 8), 2);
	assert_non_null(strstr(places[0].file.name, "libstand_in-rdmav34.so"));
	/* It is stripped, indeed: its variables have no names. */
	assert_int_equal(
		symbols_find_object(places[0].file.path, "state", &address, &independent), -ENOENT);
	assert_int_equal(verbs_probe_state(probe)->state, SOURCE_ON);
	let_send(&child);
	assert_true(verbs_probe_tick(probe, clock_now()) >= 0);
	count = verbs_probe_read(probe, clock_now(), pairs, CAPACITY);
	assert_int_equal(count, 2);
	sender = find(pairs, count, child.number);
	receiver = find(pairs, count, child.peer);
	assert_int_equal(sender->rank, RANK);
	assert_int_equal(sender->flags, QUEUE_PAIR_HAS_PEER);
	assert_int_equal(sender->peer_number, child.peer);
	assert_string_equal(sender->device, "stand_in_0");
	assert_int_equal(sender->posted_requests, SENDS);
	assert_int_equal(sender->posted_bytes, SENDS * LENGTH);
	assert_int_equal(sender->completed_requests, SENDS);
	assert_int_equal(sender->statuses[0], SENDS);
	assert_int_equal(sender->latency_count, SENDS);
	for (size_t i = 0; i < WIRE_QUEUE_PAIR_BUCKET_NR; i++)
		timed += sender->latency[i];
	assert_int_equal(timed, SENDS);
	assert_true(sender->latency_max_ns >= sender->latency_sum_ns / SENDS);
	assert_int_equal(receiver->received_requests, SENDS);
	assert_int_equal(receiver->received_bytes, SENDS * LENGTH);
	assert_int_equal(receiver->posted_requests, 0);
	end_child(&child);
	verbs_probe_destroy(probe);
}

/* Windows: nothing traps outside of them, and what is seen is marked as a part. */
static void test_windows(void **state)
{
	struct message_queue_pair pairs[CAPACITY];
	struct verbs_probe *probe = make_probe(false);
	struct child child = start_child();
	struct verbs_probe_cost cost;
	struct host_ns start = clock_now();

	(void)state;
	assert_int_equal(verbs_probe_follow(probe, child.pid, RANK), 1);
	assert_true(verbs_probe_tick(probe, start) >= 0); /* the first window: nothing is posted */
	verbs_probe_costs(probe, &cost);
	assert_int_equal(cost.windows, 1);
	assert_int_equal(cost.hits, 0);
	assert_true(verbs_probe_tick(probe, clock_now()) >= 0); /* too early for another */
	verbs_probe_costs(probe, &cost);
	assert_int_equal(cost.windows, 1);
	let_send(&child);
	assert_int_equal(verbs_probe_read(probe, clock_now(), pairs, CAPACITY), 0);
	assert_int_equal(verbs_probe_state(probe)->state, SOURCE_DEGRADED);
	start.value += INT64_C(2000000000);
	assert_true(verbs_probe_tick(probe, start) >= 0);
	verbs_probe_costs(probe, &cost);
	assert_int_equal(cost.windows, 2);
	assert_true(cost.open_ns >= 2 * 20000000u);
	end_child(&child);
	verbs_probe_destroy(probe);
}

static void test_library_of_another_kind(void **state)
{
	struct verbs_library library = {.create_cq = 4711};
	struct verbs_place place;

	(void)state;
	assert_int_equal(verbs_library_read("/bin/sh", &library), -ENOEXEC);
	assert_int_equal(verbs_library_read("/nonexistent", &library), -ENOENT);
	assert_int_equal(library.create_cq, 4711);
	assert_int_equal(verbs_place_find(getpid(), 4711, &place), -ENOENT);
	assert_int_equal(verbs_place_find(getpid(), (uint64_t)(uintptr_t)&place, &place), -ENOENT);
	assert_int_equal(verbs_place_find(getpid(), (uint64_t)(uintptr_t)on_record, &place), 0);
	assert_non_null(strstr(place.file.name, "unit_verbs_test_probe"));
}

static int start(void **state)
{
	(void)state;
	single = false;
	return 0;
}

static int start_single(void **state)
{
	(void)state;
	single = true;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_everything_is_counted, start),
		cmocka_unit_test_setup(test_everything_is_counted, start_single),
		cmocka_unit_test_setup(test_windows, start),
		cmocka_unit_test(test_library_of_another_kind),
	};
	struct bpf_source_options options = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	int failed;

	if (bpf_source_create(&options, &source, why) < 0) {
		printf("skipped: %s\n", why);
		return 77;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	bpf_source_destroy(source);
	return failed;
}
