/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real CPU quota: the rank lives in a cgroup of its own from the start, without a quota; the
 * fault sets one that gives it less CPU than it has used so far. cgroup v1 and v2.
 */
#include "tests/workload/fault_means.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/workload/fault_group.h"

struct throttle {
	const struct fault *fault;
	struct fault_group group;
};

static int set_quota(const struct throttle *throttle, int64_t quota_us, int64_t period_us)
{
	char text[64];
	int result;

	if (throttle->group.unified) {
		if (quota_us < 0)
			snprintf(text, sizeof(text), "max %lld", (long long)period_us);
		else
			snprintf(text, sizeof(text), "%lld %lld", (long long)quota_us,
				(long long)period_us);
		return fault_group_write(&throttle->group, "cpu.max", text);
	}
	snprintf(text, sizeof(text), "%lld", (long long)period_us);
	result = fault_group_write(&throttle->group, "cpu.cfs_period_us", text);
	if (result)
		return result;
	snprintf(text, sizeof(text), "%lld", (long long)quota_us);
	return fault_group_write(&throttle->group, "cpu.cfs_quota_us", text);
}

static int throttle_prepare(
	const struct fault *fault, const struct fault_environment *environment, void **state)
{
	struct throttle *throttle = calloc(1, sizeof(*throttle));
	int result;

	(void)environment;
	if (!throttle)
		return -ENOMEM;
	throttle->fault = fault;
	result = fault_group_enter(&throttle->group, "cpu");
	if (result)
		free(throttle);
	else
		*state = throttle;
	return result;
}

static int throttle_begin(void *state, const struct fault_environment *environment)
{
	const struct throttle *throttle = state;
	const struct workload_options *options = environment->options;
	double nominal_ms = options->step_ms + options->compute_ms;
	double step_ms =
		environment->step_length_ms > nominal_ms ? environment->step_length_ms : nominal_ms;
	double used_ms = environment->cpu_share * step_ms;
	/* Nearly all that was used is needed again: a rank that waits for others burns little. */
	double needed_ms = used_ms > options->compute_ms ? used_ms : options->compute_ms;
	double share = needed_ms / (step_ms * (1 + throttle->fault->size_percent / 100));
	int64_t period_us = (int64_t)(throttle->fault->period_ms * 1000);

	/* The kernel's least quota is 1 ms, its longest period 1 s. */
	if (share * (double)period_us < 1000)
		period_us = share > 0.001 ? (int64_t)(1000 / share) : 1000000;
	return set_quota(throttle, (int64_t)(share * (double)period_us + 0.5), period_us);
}

static void throttle_end(void *state)
{
	if (set_quota(state, -1, 100000))
		fprintf(stderr, "workload: cannot lift the CPU quota\n");
}

static void throttle_release(void *state)
{
	struct throttle *throttle = state;

	fault_group_leave(&throttle->group);
	free(throttle);
}

const struct fault_means fault_means_throttle = {
	.prepare = throttle_prepare,
	.begin = throttle_begin,
	.end = throttle_end,
	.release = throttle_release,
};
