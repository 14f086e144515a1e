/* SPDX-License-Identifier: Apache-2.0 */
/* A deep look into a process that launches kernels: on, off, and giving way to another profiler. */
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
#include "tests/workload/device/stream.h"

#define KERNEL_NAME                                                                                \
	"a_kernel_whose_name_is_longer_than_one_piece_of_the_ring_so_that_it_takes_two_"           \
	"of_them_to_be_told_in_full"

extern int cuptiSubscribe(void **subscriber, void *callback, void *user);

static struct {
	size_t kernels, named, launched, copies;
	uint64_t copied_bytes;
	int64_t shortest_ns;
	uint32_t state, states[8];
} seen;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void on_kernel(void *context, const struct ring_source_kernel *kernel)
{
	int64_t length_ns = kernel->stop.value - kernel->start.value;

	(void)context;
	seen.kernels++;
	seen.named += strcmp(kernel->name, KERNEL_NAME) == 0;
	seen.launched += kernel->launch.value && kernel->launch.value <= kernel->start.value &&
			 kernel->start.value - kernel->launch.value < INT64_C(1000000000);
	if (length_ns < seen.shortest_ns)
		seen.shortest_ns = length_ns;
	assert_true(llabs(kernel->stop.value - now_ns()) < INT64_C(20000000000));
}

static void on_copy(void *context, const struct ring_source_memcpy *copy)
{
	(void)context;
	seen.copies++;
	seen.copied_bytes += copy->length_bytes;
}

static void on_deep_state(void *context, pid_t pid, const struct ring_deep_report *report)
{
	(void)context;
	(void)pid;
	seen.state = report->state;
	seen.states[report->state % 8]++;
}

static void sleep_code(void *const *arguments)
{
	(void)arguments;
	device_pass_time(1000000);
}

static int child_main(int with_other)
{
	static const struct device_function function = {KERNEL_NAME, sleep_code, 0, {0}};
	void *library = dlopen(INJECT_LIBRARY, RTLD_NOW), *symbol, *other;
	int64_t end_ns = now_ns() + INT64_C(4000000000);
	int (*start)(void);
	char from[100] = {0}, to[100];
	CUstream stream;

	symbol = library ? dlsym(library, "InitializeInjection") : NULL;
	memcpy(&start, &symbol, sizeof(symbol));
	if (!symbol || (with_other && cuptiSubscribe(&other, NULL, NULL)) || cuInit(0) ||
		start() != 1 || cuStreamCreate(&stream, 1))
		return 1;
	while (now_ns() < end_ns) {
		if (cuLaunchKernel(&function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) ||
			cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
				sizeof(to), stream) ||
			cuStreamSynchronize(stream))
			return 2;
	}
	return 0;
}

static void run(int with_other)
{
	const struct ring_source_callbacks callbacks = {
		.kernel = on_kernel, .memcpy = on_copy, .deep_state = on_deep_state};
	char directory[] = "/tmp/slowrank-test-deep.XXXXXX";
	struct ring_source *source;
	bool asked = false;
	int status;
	pid_t child, done = 0;

	memset(&seen, 0, sizeof(seen));
	seen.shortest_ns = INT64_MAX;
	assert_non_null(mkdtemp(directory));
	setenv(RING_DIRECTORY_VARIABLE, directory, 1);
	child = fork();
	if (child == 0)
		_exit(child_main(with_other));
	assert_int_equal(ring_source_create(directory, &callbacks, NULL, &source), 0);
	assert_int_equal(ring_source_add_process(source, child), 0);
	while (!done) {
		ring_source_poll(source, (struct host_ns){now_ns()}, SIZE_MAX);
		if (!asked)
			asked = ring_source_request_deep(source, child,
					RING_DEEP_KERNELS | RING_DEEP_COPIES | RING_DEEP_LAUNCHES,
					(struct host_ns){now_ns() + INT64_C(1000000000)},
					NULL) == 0;
		usleep(1000);
		done = waitpid(child, &status, WNOHANG);
	}
	ring_source_poll(source, (struct host_ns){now_ns()}, SIZE_MAX);
	ring_source_destroy(source);
	assert_int_equal(done, child);
	assert_int_equal(status, 0);
	assert_true(asked);
	assert_int_equal(rmdir(directory), 0);
}

static void kernels_are_seen_then_it_ends(void **state)
{
	(void)state;
	run(0);
	assert_int_equal(seen.states[RING_DEEP_ON], 1);
	assert_int_equal(seen.states[RING_DEEP_OFF], 1);
	assert_int_equal(seen.state, RING_DEEP_OFF);
	assert_in_range(seen.kernels, 3, 1000); /* 1 s of kernels of 1 ms or more */
	assert_int_equal(seen.named, seen.kernels);
	assert_true(seen.shortest_ns >= 990000);
	/* A switch in the middle of one may cut it off from its launch or its copy. */
	assert_in_range(seen.launched, seen.kernels - 2, seen.kernels);
	assert_in_range(seen.copies, seen.kernels - 2, seen.kernels + 2);
	assert_int_equal(seen.copied_bytes, 100 * seen.copies);
}

static void another_profiler_goes_first(void **state)
{
	(void)state;
	run(1);
	assert_int_equal(seen.state, RING_DEEP_OTHER_SUBSCRIBER);
	assert_int_equal(seen.states[RING_DEEP_ON], 0);
	assert_int_equal(seen.kernels, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_are_seen_then_it_ends),
		cmocka_unit_test(another_profiler_goes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
