/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user's own profiler plug-in behind ours costs beyond itself: ns per event of a collective (call,
 * task, two channels), with one that does nothing and without. Prints one JSON object. Compared against:
 * the budget of 100 ns.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/ring/ring_layout.h"
#include "tests/workload/device/nccl_profiler.h"

enum { ROUNDS = 400, BURST = 500, CHANNELS = 2, EVENTS = 2 + CHANNELS };

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double burst(struct profiler_communicator *communicator)
{
	static const struct profiler_call call = {.function = "AllReduce",
		.function_index = 1,
		.datatype = "ncclFloat32",
		.count = 1000,
		.channels = CHANNELS};
	int64_t begin = now_ns();

	for (int i = 0; i < BURST; i++) {
		struct profiler_task task;

		profiler_call_start(communicator, &call, &task);
		profiler_launch(communicator, &call, &task);
		profiler_launched(&task);
		for (uint8_t channel = 0; channel < CHANNELS; channel++)
			profiler_channel_stop(profiler_channel_start(&task, channel, 5), 6);
	}
	return (double)(now_ns() - begin) / (BURST * EVENTS);
}

/* In a process of its own: a library is loaded once. The best tenth: others share the cores. */
static double event_ns_p10(const char *user)
{
	double *best = mmap(
		NULL, sizeof(*best), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static double event_ns[ROUNDS];
	pid_t child = fork();

	if (child == 0) {
		struct profiler_communicator communicator;

		if (user)
			setenv(RING_USER_PLUGIN_VARIABLE, user, 1);
		profiler_begin(&communicator, 1, 0, 2);
		for (int i = 0; i < ROUNDS; i++)
			event_ns[i] = burst(&communicator);
		profiler_end(&communicator);
		qsort(event_ns, ROUNDS, sizeof(double), compare);
		*best = communicator.context ? event_ns[ROUNDS / 10] : -1;
		exit(0);
	}
	waitpid(child, NULL, 0);
	return *best;
}

int main(void)
{
	char directory[] = "/dev/shm/slowrank-bench.XXXXXX";
	double alone, chained;

	if (!mkdtemp(directory))
		return 1;
	setenv(RING_DIRECTORY_VARIABLE, directory, 1);
	setenv("NCCL_PROFILER_PLUGIN", INJECT_LIBRARY, 1);
	alone = event_ns_p10(NULL);
	chained = event_ns_p10(USER_PLUGIN);
	printf("{\"benchmark\": \"chain\", \"alone_ns_p10\": %.1f, \"chained_ns_p10\": %.1f, "
	       "\"chain_ns\": %.1f, \"budget_ns\": 100}\n",
		alone, chained, chained - alone);
	rmdir(directory);
	return 0;
}
