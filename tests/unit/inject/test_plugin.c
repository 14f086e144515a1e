/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plug-in through the whole path: a process loads it with dlopen() as NCCL does (the stand-in's
 * loader), the ring source reads what it wrote. Each case is a process of its own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
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

#include "probe/sources/ring_source.h"
#include "tests/unit/inject/user_plugin.h"
#include "tests/workload/device/nccl_profiler.h"

#define HASH UINT64_C(0xfeedface12345678)
#define GPU_OFFSET INT64_C(1700000000000000000) /* device minus host */

enum { COLLECTIVES_MAX = 20000 };

struct seen {
	unsigned communicators, ended_communicators, hellos, ended;
	struct ring_communicator communicator;
	size_t collective_count;
	struct ring_source_collective collectives[COLLECTIVES_MAX];
	uint32_t deep_state;
};

static struct seen seen;
static char directory[64];

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void on_hello(void *context, pid_t pid, const struct ring_hello *hello)
{
	(void)context;
	(void)pid;
	(void)hello;
	seen.hellos++;
}

static void on_communicator(
	void *context, pid_t pid, const struct ring_communicator *communicator, bool ended)
{
	(void)context;
	(void)pid;
	seen.communicator = *communicator;
	if (ended)
		seen.ended_communicators++;
	else
		seen.communicators++;
}

static void on_collective(void *context, const struct ring_source_collective *collective)
{
	(void)context;
	if (seen.collective_count < COLLECTIVES_MAX)
		seen.collectives[seen.collective_count++] = *collective;
}

static void on_deep_state(void *context, pid_t pid, const struct ring_deep_report *report)
{
	(void)context;
	(void)pid;
	seen.deep_state = report->state;
}

static void on_ended(void *context, pid_t pid)
{
	(void)context;
	(void)pid;
	seen.ended++;
}

static const struct ring_source_callbacks callbacks = {.hello = on_hello,
	.communicator = on_communicator,
	.collective = on_collective,
	.deep_state = on_deep_state,
	.ended = on_ended};

static const struct profiler_call all_reduce = {.function = "AllReduce",
	.function_index = 1,
	.datatype = "ncclFloat32",
	.count = 1000,
	.root = 0,
	.channels = 2};

static void run_collective(struct profiler_communicator *communicator,
	const struct profiler_call *call, struct profiler_task *task)
{
	profiler_call_start(communicator, call, task);
	profiler_launch(communicator, call, task);
	profiler_launched(task);
}

/* A kernel of 1 ms of which each channel but `missing` reports; it ended when this is called. */
static void end_kernel(const struct profiler_task *task, int missing)
{
	uint64_t stop = (uint64_t)(now_ns() + GPU_OFFSET), start;

	usleep(1000);
	start = stop;
	stop = (uint64_t)(now_ns() + GPU_OFFSET);
	for (uint8_t i = 0; i < task->channels; i++) {
		void *channel = profiler_channel_start(task, i, start + 100U * i);

		if (i != missing)
			profiler_channel_stop(channel, stop - 100U * i);
	}
}

/* Runs body in a process of its own and reads its ring until it has ended; tend, if not NULL, each time. */
static int run_tended(
	const char *version, int (*body)(void), void (*tend)(struct ring_source *source))
{
	struct ring_source *source;
	int64_t deadline = now_ns() + INT64_C(20000000000);
	int pipe_ends[2], status;
	pid_t child;
	char go;

	memset(&seen, 0, sizeof(seen));
	setenv("NCCL_PROFILER_PLUGIN", INJECT_LIBRARY, 1);
	setenv(RING_DIRECTORY_VARIABLE, directory, 1);
	setenv("SLOWRANK_STAND_IN_PROFILER", version, 1);
	assert_int_equal(pipe(pipe_ends), 0);
	child = fork();
	if (child == 0) {
		close(pipe_ends[1]);
		_exit(read(pipe_ends[0], &go, 1) == 1 ? body() : 99);
	}
	close(pipe_ends[0]);
	assert_int_equal(ring_source_create(directory, &callbacks, NULL, &source), 0);
	assert_int_equal(ring_source_add_process(source, child), 0);
	assert_int_equal(write(pipe_ends[1], "g", 1), 1);
	close(pipe_ends[1]);
	while (!seen.ended && now_ns() < deadline) {
		ring_source_poll(source, (struct host_ns){now_ns()}, SIZE_MAX);
		if (tend)
			tend(source);
		usleep(200);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(seen.ended, 1);
	ring_source_destroy(source);
	assert_int_equal(rmdir(directory), 0); /* the ring is gone with its process */
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int run_job(const char *version, int (*body)(void))
{
	return run_tended(version, body, NULL);
}

/* Behind ours: it got its communicator, the four calls and their kernels, in order, and ours only ours. */
static bool is_told_all(struct user_plugin *(*get)(void), int version)
{
	const struct user_plugin *user = get();

	return user->begun == 1 && user->ended == 1 && user->wrong == 0 && user->started[1] == 4 &&
	       user->stopped[1] == 4 && user->started[6] == (version >= 4 ? 8 : 0) &&
	       user->stopped[6] == user->started[6] && user->states == user->started[6] &&
	       user->started[9] == (version >= 5 ? 4 : 0) &&
	       user->with_parent[1] == user->started[9] &&
	       user->with_parent[6] == user->started[6] && user->started[0] == 0;
}

static int check_user(int version)
{
	const char *path = getenv(RING_USER_PLUGIN_VARIABLE);
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
	struct user_plugin *(*get)(void) = library ? (struct user_plugin * (*)(void))
							     dlsym(library, "user_plugin_state")
						   : NULL;

	if (!path)
		return 0;
	if (!get)
		return 3;
	if (strstr(path, "user4")) /* it has no calls, whatever NCCL has */
		version = 4;
	return is_told_all(get, version) ? 0 : 4;
}

static int body_three(void)
{
	struct profiler_communicator communicator;
	struct profiler_task task;
	int kept, version;

	profiler_begin(&communicator, HASH, 3, 8);
	if (!communicator.loaded || !communicator.context)
		return 1;
	for (int i = 0; i < 3; i++) {
		errno = 1234;
		run_collective(&communicator, &all_reduce, &task);
		end_kernel(&task, -1);
		kept = errno;
		if (kept != 1234)
			return 2;
	}
	usleep(1200000); /* the helper's passive bounds */
	run_collective(&communicator, &all_reduce, &task);
	end_kernel(&task, -1);
	version = profiler_version();
	profiler_end(&communicator);
	return check_user(version);
}

static void check_three(bool device)
{
	assert_int_equal(seen.hellos, 1);
	assert_int_equal(seen.communicators, 1);
	assert_int_equal(seen.ended_communicators, 1);
	assert_int_equal(seen.communicator.hash, HASH);
	assert_int_equal(seen.communicator.rank, 3);
	assert_int_equal(seen.collective_count, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct ring_source_collective *collective = &seen.collectives[i];

		assert_int_equal(collective->communicator, HASH);
		assert_int_equal(collective->sequence, i);
		assert_int_equal(collective->function, RING_FUNCTION_ALL_REDUCE);
		assert_int_equal(collective->length_bytes, 4000);
		assert_int_equal(collective->datatype, 7);
		assert_int_equal(collective->rank, 3);
		assert_true(collective->enqueue.value > 0);
		assert_int_equal(collective->flags, device ? 0 : RING_COLLECTIVE_NO_DEVICE);
		assert_int_equal(collective->channels_seen, device ? 2 : 0);
	}
	if (!device)
		return;
	/* The clock came from the events alone: the last has times, and they lie as they were. */
	const struct ring_source_collective *last = &seen.collectives[3];
	int64_t length_ns = last->device_stop.value - last->device_start.value;

	assert_true(last->clock_error_ns < 100000000);
	assert_true(length_ns >= 1000000 && length_ns < 1000000000);
	assert_true(last->device_start.value + last->clock_error_ns >= last->enqueue.value);
}

static void every_version(void **state)
{
	const char *version = *state;

	assert_int_equal(run_job(version, body_three), 0);
	check_three(version[0] >= '4');
}

struct with_user {
	const char *version, *plugin; /* of NCCL, and of the user */
	bool device;
};

/* Both see everything; what the user's plug-in knows decides what NCCL tells. */
static void a_user_plugin_sees_what_ours_sees(void **state)
{
	const struct with_user *with = *state;
	int result;

	setenv(RING_USER_PLUGIN_VARIABLE, with->plugin, 1);
	result = run_job(with->version, body_three);
	unsetenv(RING_USER_PLUGIN_VARIABLE);
	assert_int_equal(result, 0);
	check_three(with->device);
}

static int body_destroyed_early(void)
{
	struct profiler_communicator communicator, next;
	struct profiler_task task;
	void *channel;

	profiler_begin(&next, HASH + 1, 0, 2); /* keeps the plug-in loaded */
	profiler_begin(&communicator, HASH, 0, 2);
	run_collective(&communicator, &all_reduce, &task);
	channel = profiler_channel_start(&task, 0, (uint64_t)(now_ns() + GPU_OFFSET));
	profiler_end(&communicator);
	profiler_channel_stop(channel, (uint64_t)(now_ns() + GPU_OFFSET));
	profiler_channel_stop(profiler_channel_start(&task, 1, 5), 6);
	/* The same place, another communicator: the late events must not be its. */
	profiler_begin(&communicator, HASH + 2, 0, 2);
	run_collective(&communicator, &all_reduce, &task);
	profiler_channel_stop(channel, (uint64_t)(now_ns() + GPU_OFFSET));
	profiler_end(&communicator);
	profiler_end(&next);
	return 0;
}

static void a_communicator_ends_before_its_events(void **state)
{
	(void)state;
	assert_int_equal(run_job("6", body_destroyed_early), 0);
	assert_int_equal(seen.collective_count, 2);
	assert_int_equal(seen.collectives[0].communicator, HASH);
	assert_int_equal(seen.collectives[1].communicator, HASH + 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(seen.collectives[i].flags, RING_COLLECTIVE_INCOMPLETE);
		assert_int_equal(seen.collectives[i].channels_seen, 0);
		assert_int_equal(seen.collectives[i].device_stop.value, 0);
	}
	assert_int_equal(seen.communicators, 3);
	assert_int_equal(seen.ended_communicators, 3);
}

static int body_fork(void)
{
	struct profiler_communicator communicator;
	struct profiler_task task;
	int status;
	pid_t child;

	profiler_begin(&communicator, HASH, 0, 2);
	run_collective(&communicator, &all_reduce, &task);
	child = fork();
	if (child == 0) {
		struct profiler_communicator own;

		end_kernel(&task, -1); /* not ours */
		run_collective(&communicator, &all_reduce, &task);
		profiler_begin(&own, HASH + 1, 0, 2);
		profiler_end(&own);
		_exit(own.context ? 1 : 0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 1;
	child = fork();
	if (child == 0)
		_exit(execlp("true", "true", NULL));
	if (waitpid(child, &status, 0) != child || status != 0)
		return 2;
	end_kernel(&task, -1);
	profiler_end(&communicator);
	return 0;
}

static void a_forked_child_is_quiet(void **state)
{
	(void)state;
	assert_int_equal(run_job("5", body_fork), 0);
	assert_int_equal(seen.communicators, 1);
	assert_int_equal(seen.collective_count, 1);
	assert_int_equal(seen.collectives[0].channels_seen, 2);
}

static int body_early_exit(void)
{
	struct profiler_communicator communicator;
	struct profiler_task task;

	profiler_begin(&communicator, HASH, 0, 2);
	run_collective(&communicator, &all_reduce, &task);
	end_kernel(&task, -1);
	run_collective(&communicator, &all_reduce, &task);
	exit(7); /* with destructors, the helper running, the communicator alive */
}

static void an_early_exit_keeps_its_status(void **state)
{
	(void)state;
	assert_int_equal(run_job("6", body_early_exit), 7);
	assert_int_equal(seen.collective_count, 1);
}

static int body_no_directory(void)
{
	struct profiler_communicator communicator;
	struct profiler_task task;

	setenv(RING_DIRECTORY_VARIABLE, "/nonexistent", 1);
	profiler_begin(&communicator, HASH, 0, 2);
	if (!communicator.loaded || communicator.context)
		return 1;
	run_collective(&communicator, &all_reduce, &task);
	profiler_end(&communicator);
	return task.event || task.api ? 2 : 0;
}

static void without_shared_memory_nothing_is_asked_for(void **state)
{
	(void)state;
	assert_int_equal(run_job("6", body_no_directory), 0);
	assert_int_equal(seen.communicators, 0);
}

static struct {
	struct profiler_communicator communicator;
	bool over; /* atomic */
	unsigned unwatched;
} busy;

static void *call_on(void *unused)
{
	struct profiler_task task;

	while (!__atomic_load_n(&busy.over, __ATOMIC_RELAXED)) {
		run_collective(&busy.communicator, &all_reduce, &task);
		busy.unwatched += !task.event;
		for (uint8_t i = 0; task.event && i < task.channels; i++)
			profiler_channel_stop(profiler_channel_start(&task, i, 5), 6);
	}
	return unused;
}

static int body_others_begin(void)
{
	struct profiler_communicator other;
	pthread_t thread;

	profiler_begin(&busy.communicator, HASH, 0, 2);
	if (pthread_create(&thread, NULL, call_on, NULL))
		return 1;
	for (unsigned i = 0; i < 500; i++) {
		profiler_begin(&other, HASH + 1 + i, 0, 2);
		profiler_end(&other);
	}
	__atomic_store_n(&busy.over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	profiler_end(&busy.communicator);
	return busy.unwatched ? 2 : 0;
}

/* NCCL has one mask for all. */
static void others_that_begin_hide_no_calls(void **state)
{
	(void)state;
	assert_int_equal(run_job("6", body_others_begin), 0);
}

/* More in flight than there are places, then more records than the ring holds while none reads. */
static int body_full(void)
{
	static struct profiler_task tasks[2000];
	struct profiler_communicator communicator;

	profiler_begin(&communicator, HASH, 0, 2);
	for (size_t i = 0; i < 2000; i++)
		run_collective(&communicator, &all_reduce, &tasks[i]);
	for (size_t i = 0; i < 2000; i++) {
		for (uint8_t channel = 0; channel < 2; channel++)
			profiler_channel_stop(profiler_channel_start(&tasks[i], channel, 5), 6);
	}
	profiler_end(&communicator);
	return 0;
}

static void more_than_fits_is_counted(void **state)
{
	(void)state;
	assert_int_equal(run_job("6", body_full), 0);
	assert_int_equal(seen.collective_count, 1024);
	assert_int_equal(seen.communicator.dropped, 2000 - 1024);
}

static int body_zero_stamps(void)
{
	struct profiler_communicator communicator;
	struct profiler_call send = {.function = "Send",
		.datatype = "ncclBfloat16",
		.count = 10,
		.root = 1,
		.point_to_point = true,
		.channels = 2};
	struct profiler_task task;

	profiler_begin(&communicator, HASH, 0, 2);
	run_collective(&communicator, &send, &task);
	profiler_channel_stop(profiler_channel_start(&task, 0, 0), 0);
	profiler_channel_stop(profiler_channel_start(&task, 1, (uint64_t)(now_ns() + GPU_OFFSET)),
		(uint64_t)(now_ns() + GPU_OFFSET));
	run_collective(&communicator, &send, &task);
	end_kernel(&task, -1);
	profiler_end(&communicator);
	return 0;
}

static void zero_stamps_are_not_used(void **state)
{
	(void)state;
	assert_int_equal(run_job("6", body_zero_stamps), 0);
	assert_int_equal(seen.collective_count, 2);
	assert_int_equal(seen.collectives[0].channels_seen, 1);
	assert_true(seen.collectives[0].flags & RING_COLLECTIVE_INCOMPLETE);
	assert_int_equal(seen.collectives[0].function, RING_FUNCTION_SEND);
	assert_int_equal(seen.collectives[0].length_bytes, 20);
	assert_int_equal(seen.collectives[0].root, 1);
	assert_int_equal(seen.collectives[0].sequence, 0);
	assert_int_equal(seen.collectives[1].sequence, 1);
	assert_int_equal(seen.collectives[1].flags, RING_COLLECTIVE_SEQUENCE_COUNTED);
}

/* Calls until one is watched, or is not; false after 5 s. sequence: of that call. */
static bool call_until(struct profiler_communicator *communicator, bool watched, uint64_t *sequence)
{
	for (int i = 0; i < 1000; i++) {
		struct profiler_task task;

		*sequence = communicator->sequences[1];
		run_collective(communicator, &all_reduce, &task);
		if (task.event)
			end_kernel(&task, -1);
		if (watched == (task.event != NULL))
			return true;
		usleep(5000);
	}
	return false;
}

static int body_paused(void)
{
	struct profiler_communicator communicator;
	uint64_t sequence;
	int result = 1;

	profiler_begin(&communicator, HASH, 0, 2);
	if (call_until(&communicator, true, &sequence) &&
		call_until(&communicator, false, &sequence) &&
		call_until(&communicator, true, &sequence))
		result = sequence >= 4 ? 0 : 2;
	profiler_end(&communicator);
	return result;
}

/* After three calls a pause of half a second. */
static void pause_once(struct ring_source *source)
{
	static int64_t since_ns;

	if (seen.collective_count < 3)
		since_ns = now_ns();
	ring_source_pause(
		source, seen.collective_count >= 3 && now_ns() - since_ns < INT64_C(500000000));
}

/* NCCL does nothing for a library that rests, and goes on numbering. */
static void a_pause_asks_nccl_for_nothing(void **state)
{
	(void)state;
	assert_int_equal(run_tended("6", body_paused, pause_once), 0);
	assert_in_range(seen.collective_count, 3, COLLECTIVES_MAX - 1);
	assert_true(seen.collectives[seen.collective_count - 1].sequence >= seen.collective_count);
}

int main(void)
{
	static const struct with_user with[] = {
		{"2", USER_PLUGINS "user2.so", false}, {"3", USER_PLUGINS "user3.so", false},
		{"4", USER_PLUGINS "user4.so", true}, {"5", USER_PLUGINS "user5.so", true},
		{"6", USER_PLUGINS "user6.so", true}, {"6", USER_PLUGINS "user5.so", true},
		{"6", USER_PLUGINS "user4.so", true},
		{"6", USER_PLUGINS "user3.so",
			false}, /* NCCL translates, which knows no device times */
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(every_version, "2"),
		cmocka_unit_test_prestate(every_version, "3"),
		cmocka_unit_test_prestate(every_version, "4"),
		cmocka_unit_test_prestate(every_version, "5"),
		cmocka_unit_test_prestate(every_version, "6"),
		cmocka_unit_test_prestate(a_user_plugin_sees_what_ours_sees, (void *)&with[0]),
		cmocka_unit_test_prestate(a_user_plugin_sees_what_ours_sees, (void *)&with[1]),
		cmocka_unit_test_prestate(a_user_plugin_sees_what_ours_sees, (void *)&with[2]),
		cmocka_unit_test_prestate(a_user_plugin_sees_what_ours_sees, (void *)&with[3]),
		cmocka_unit_test_prestate(a_user_plugin_sees_what_ours_sees, (void *)&with[4]),
		cmocka_unit_test_prestate(a_user_plugin_sees_what_ours_sees, (void *)&with[5]),
		cmocka_unit_test_prestate(a_user_plugin_sees_what_ours_sees, (void *)&with[6]),
		cmocka_unit_test_prestate(a_user_plugin_sees_what_ours_sees, (void *)&with[7]),
		cmocka_unit_test(a_communicator_ends_before_its_events),
		cmocka_unit_test(a_forked_child_is_quiet),
		cmocka_unit_test(an_early_exit_keeps_its_status),
		cmocka_unit_test(without_shared_memory_nothing_is_asked_for),
		cmocka_unit_test(others_that_begin_hide_no_calls),
		cmocka_unit_test(more_than_fits_is_counted),
		cmocka_unit_test(zero_stamps_are_not_used),
		cmocka_unit_test(a_pause_asks_nccl_for_nothing),
	};
	int result;

	strcpy(directory, "/tmp/slowrank-test-inject.XXXXXX");
	if (!mkdtemp(directory))
		return 1;
	result = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(directory);
	return result;
}
