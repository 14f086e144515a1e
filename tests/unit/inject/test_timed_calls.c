/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of a process that the library comes into late, timed by events: through the GOT (read-only
 * here) and through a pointer that dlsym() gave; in groups; sends and receives; not while a graph is captured; and everything
 * as before when nobody asks any more. A second watch hears nothing of what the first left behind.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sources/ring_source.h"
#include "tests/workload/device/cuda_api.h"

#define MS INT64_C(1000000)
/* A communicator is how long its kernels take: see timed_nccl.c. */
#define COMMUNICATOR(length_ns) ((void *)(intptr_t)(length_ns))
#define ALONE COMMUNICATOR(2 * MS)
#define BY_POINTER COMMUNICATOR(3 * MS)
#define GROUPED COMMUNICATOR(1 * MS)
#define CAPTURED COMMUNICATOR(4 * MS)
#define OTHER_GROUPED COMMUNICATOR(5 * MS)
#define MESSAGES COMMUNICATOR(6 * MS)
#define SENT_ALONE COMMUNICATOR(7 * MS)
#define IN_PLACE COMMUNICATOR(8 * MS)
enum { GROUP_CALLS = 20 }; /* more than one pair of events takes */
enum { FIRST_CALLS = 16 }; /* as many as one takes */

typedef int all_reduce(const void *input, void *output, size_t count, int type, int operation,
	void *communicator, CUstream stream);
extern all_reduce ncclAllReduce;
extern int ncclBcast(
	void *buffer, size_t count, int type, int root, void *communicator, CUstream stream);
extern int ncclSend(
	const void *input, size_t count, int type, int peer, void *communicator, CUstream stream);
extern int ncclRecv(
	void *output, size_t count, int type, int peer, void *communicator, CUstream stream);
extern int ncclGroupStart(void);
extern int ncclGroupEnd(void);

all_reduce *kept_pointer; /* what a program keeps of dlsym() */

enum { KINDS = 9 };
static struct {
	uint64_t calls[KINDS]; /* by milliseconds of its kernel */
	int64_t shortest_ns[KINDS], longest_ns[KINDS];
	uint64_t early, late; /* than the host made the call, or heard of it */
	uint64_t stale;	      /* calls from before the second watch */
	int64_t again_ns;
	struct ring_timed_state state;
} seen;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void on_timed_call(void *context, const struct ring_source_timed_call *call)
{
	size_t kind = (size_t)((int64_t)call->handle / MS);
	int64_t length_ns = call->stop.value - call->start.value;

	(void)context;
	assert_true(kind < KINDS);
	assert_true(call->start.value > 0);
	assert_int_equal(call->thread_id, call->pid); /* its only thread */
	seen.calls[kind]++;
	if (length_ns < seen.shortest_ns[kind])
		seen.shortest_ns[kind] = length_ns;
	if (length_ns > seen.longest_ns[kind])
		seen.longest_ns[kind] = length_ns;
	seen.stale += call->entered.value < seen.again_ns;
	seen.early += call->start.value < call->entered.value - MS;
	seen.late += call->stop.value > now_ns() + MS;
	assert_true(call->returned.value >= call->entered.value);
	assert_true(call->launched.value >= call->entered.value);
}

static void on_timed_state(void *context, pid_t pid, const struct ring_timed_state *state)
{
	(void)context;
	(void)pid;
	seen.state = *state;
}

static int call_all(CUstream stream, CUstream captured)
{
	void *graph;
	int result = ncclAllReduce(NULL, NULL, 1, 7, 0, ALONE, stream) ||
		     kept_pointer(NULL, NULL, 1, 7, 0, BY_POINTER, stream) ||
		     ncclBcast(NULL, 1, 7, 0, IN_PLACE, stream);

	result = result || ncclGroupStart() || ncclGroupStart();
	for (int i = 0; i < GROUP_CALLS && !result; i++)
		result = ncclAllReduce(NULL, NULL, 1, 7, 0, GROUPED, stream);
	result = result || ncclGroupEnd() || ncclGroupEnd();
	result = result || ncclGroupStart() || ncclSend(NULL, 1, 7, 1, MESSAGES, stream) ||
		 ncclRecv(NULL, 1, 7, 1, MESSAGES, stream) || ncclGroupEnd() ||
		 ncclSend(NULL, 1, 7, 1, SENT_ALONE, stream);
	/* Two communicators on one stream: which kernel is whose is not known. */
	result = result || ncclGroupStart();
	for (int i = 0; i < FIRST_CALLS && !result; i++)
		result = ncclAllReduce(NULL, NULL, 1, 7, 0, OTHER_GROUPED, stream);
	result = result || ncclAllReduce(NULL, NULL, 1, 7, 0, ALONE, stream) || ncclGroupEnd();
	result = result || cuStreamBeginCapture_v2(captured, 0) ||
		 ncclAllReduce(NULL, NULL, 1, 7, 0, CAPTURED, captured) ||
		 cuStreamEndCapture(captured, &graph);
	return result || cuStreamSynchronize(stream);
}

/* Rights of the page in which the GOT has the function. */
static bool got_is_read_only(all_reduce *const *entry)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512], rights[8] = "";

	while (file && fgets(line, sizeof(line), file)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 &&
			(uintptr_t)entry >= start && (uintptr_t)entry < end)
			break;
	}
	if (file)
		fclose(file);
	return strncmp(rights, "r--", 3) == 0;
}

all_reduce *const relocated = ncclAllReduce; /* read-only after relocation, as the GOT here */

/* As it is in memory now: somebody else changes it, the constant too. */
static bool is_still(all_reduce *const *pointer, const void *real)
{
	return *(void *const volatile *)(const void *)pointer == real;
}

static int child_main(void)
{
	void *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), *library, *symbol, *real;
	int64_t end_ns = now_ns() + INT64_C(6500000000);
	bool changed = false;
	CUstream stream, captured;
	int (*start)(void);

	real = nccl ? dlsym(nccl, "ncclAllReduce") : NULL;
	memcpy(&kept_pointer, &real, sizeof(real));
	if (!real || cuInit(0) || cuStreamCreate(&stream, 1) || cuStreamCreate(&captured, 1) ||
		call_all(stream, captured))
		return 1;
	library = dlopen(INJECT_LIBRARY, RTLD_NOW);
	symbol = library ? dlsym(library, "slowrank_inject_start") : NULL;
	memcpy(&start, &symbol, sizeof(symbol));
	if (!symbol || start())
		return 2;
	while (now_ns() < end_ns) {
		if (call_all(stream, captured))
			return 3;
		changed |= !is_still(&kept_pointer, real) && !is_still(&relocated, real);
	}
	if (!changed)
		return 4;
	if (!is_still(&kept_pointer, real) || !is_still(&relocated, real))
		return 5; /* not put back */
	return got_is_read_only(&relocated) ? 0 : 6;
}

static void watch(pid_t child)
{
	const struct ring_source_callbacks callbacks = {
		.timed_call = on_timed_call, .timed_state = on_timed_state};
	int64_t begun_ns = now_ns();
	struct ring_source *source;
	pid_t done = 0;
	int status;

	assert_int_equal(ring_source_create(NULL, &callbacks, NULL, &source), 0);
	assert_int_equal(ring_source_add_process(source, child), 0);
	while (!done) {
		int64_t age_ns = now_ns() - begun_ns;

		/* As two watches that go on renewing, and then are killed. */
		if (!seen.again_ns && age_ns > 3000 * MS)
			seen.again_ns = now_ns();
		if (age_ns < 2000 * MS || (age_ns > 3000 * MS && age_ns < 5000 * MS))
			(void)!ring_source_time_calls(
				source, child, (struct host_ns){now_ns() + 500 * MS});
		ring_source_poll(source, (struct host_ns){now_ns()}, SIZE_MAX);
		usleep(1000);
		done = waitpid(child, &status, WNOHANG);
	}
	ring_source_poll(source, (struct host_ns){now_ns()}, SIZE_MAX);
	ring_source_destroy(source);
	assert_int_equal(done, child);
	assert_int_equal(status, 0);
}

static void check_lengths(size_t kind, int64_t expected_ns)
{
	assert_true(seen.calls[kind] >= 5); /* 20 where nothing else runs */
	print_message("%zu: %lu calls, %.3f to %.3f ms\n", kind, (unsigned long)seen.calls[kind],
		(double)seen.shortest_ns[kind] / 1e6, (double)seen.longest_ns[kind] / 1e6);
	assert_true(seen.shortest_ns[kind] >= expected_ns - 100000);
	assert_true(seen.shortest_ns[kind] <= expected_ns + MS);
}

static void calls_are_timed(void **state)
{
	char directory[] = "/tmp/slowrank-test-timed.XXXXXX";
	pid_t child;

	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		seen.shortest_ns[i] = INT64_MAX;
	assert_non_null(mkdtemp(directory));
	setenv(RING_DIRECTORY_VARIABLE, directory, 1);
	child = fork();
	if (child == 0)
		_exit(child_main());
	watch(child);
	assert_int_equal(rmdir(directory), 0);
	check_lengths(1, GROUP_CALLS * MS);
	check_lengths(2, 2 * MS);
	check_lengths(3, 3 * MS);
	check_lengths(6, 12 * MS);
	check_lengths(7, 7 * MS);
	check_lengths(8, 8 * MS);
	assert_int_equal(seen.calls[4], 0); /* captured: cuStreamEndCapture() was well */
	assert_int_equal(seen.calls[5], 0);
	/* None of the mixed groups; each watch was cut off. */
	assert_in_range(seen.calls[2], seen.calls[3], seen.calls[3] + 2);
	assert_int_equal(seen.stale, 0);
	assert_int_equal(seen.early, 0);
	assert_int_equal(seen.late, 0);
	assert_true(seen.state.pointers >= 6); /* the GOT's, both kept ones */
	assert_true(seen.state.spent_ns > 0);
	assert_true(seen.state.timed > 0 && seen.state.captured > 0 && seen.state.failed > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_timed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
