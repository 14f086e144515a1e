/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real CPU contention: the rank is pinned to one core, on which the fault injector, a process
 * outside the job, runs CPU hogs. The other ranks leave that core.
 */
#include "tests/workload/fault_means.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct contention {
	const struct fault *fault;
	const char *injector_path;
	uint32_t hog_count;
	char name[48];
};

static int set_cores(bool only, bool all, uint32_t core)
{
	long core_count = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t cores;

	CPU_ZERO(&cores);
	for (uint32_t i = 0; i < (uint32_t)core_count && i < CPU_SETSIZE; i++) {
		if (all || (i == core) == only)
			CPU_SET(i, &cores);
	}
	return sched_setaffinity(0, sizeof(cores), &cores) ? -errno : 0;
}

int fault_leave_core(uint32_t core)
{
	return sysconf(_SC_NPROCESSORS_ONLN) < 2 ? 0 : set_cores(false, false, core);
}

int fault_use_all_cores(void)
{
	return set_cores(false, true, 0);
}

static int contention_prepare(
	const struct fault *fault, const struct fault_environment *environment, void **state)
{
	struct contention *contention;

	if (!environment->options->injector_path) {
		fprintf(stderr, "workload: contention needs --injector\n");
		return -EINVAL;
	}
	contention = calloc(1, sizeof(*contention));
	if (!contention)
		return -ENOMEM;
	contention->fault = fault;
	contention->injector_path = environment->options->injector_path;
	contention->hog_count = fault->hog_count;
	snprintf(contention->name, sizeof(contention->name), "r%u-%d", environment->rank, getpid());
	*state = contention;
	return 0;
}

static int contention_begin(void *state, const struct fault_environment *environment)
{
	struct contention *contention = state;
	double size = contention->fault->size_percent;
	char command[128];
	int result = set_cores(true, false, contention->fault->core);

	if (result)
		return result;
	(void)environment;
	/* Measured: a step grows by about 10 % with each hog, and the other ranks, on fewer cores
	 * now, are held up too: with less than four, the rank hardly stands out. */
	if (contention->hog_count == 0)
		contention->hog_count = size < 55 ? 4 : 5;
	snprintf(command, sizeof(command), "hog %s core=%u count=%u", contention->name,
		contention->fault->core, contention->hog_count);
	return injector_request(contention->injector_path, command);
}

static void contention_end(void *state)
{
	const struct contention *contention = state;
	char command[128];

	snprintf(command, sizeof(command), "stop %s", contention->name);
	if (injector_request(contention->injector_path, command) || fault_use_all_cores())
		fprintf(stderr, "workload: cannot end the contention\n");
}

const struct fault_means fault_means_contention = {
	.prepare = contention_prepare,
	.begin = contention_begin,
	.end = contention_end,
	.release = free,
};
