/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real CPU quota: the rank lives in a cgroup of its own from the start, without a quota; the
 * fault sets one that gives it less CPU than it has used so far. cgroup v1 and v2.
 */
#include "tests/workload/fault_means.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

struct throttle {
	const struct fault *fault;
	bool unified; /* cgroup v2 */
	char root[PATH_BYTES];
	char group[PATH_BYTES + 64];
};

static int write_text(const char *directory, const char *name, const char *text)
{
	char path[PATH_BYTES + 128];
	int result = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		result = -errno;
	close(fd);
	return result;
}

/* Finds where the cpu controller is mounted: v1 first, because a hybrid host has it there. */
static int find_controller(struct throttle *throttle)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;
	int result = -ENOENT;

	if (!mounts)
		return -errno;
	while ((entry = getmntent(mounts))) {
		bool v1 = strcmp(entry->mnt_type, "cgroup") == 0 && hasmntopt(entry, "cpu");
		bool v2 = strcmp(entry->mnt_type, "cgroup2") == 0 && result != 0;

		if (!v1 && !v2)
			continue;
		throttle->unified = v2;
		snprintf(throttle->root, sizeof(throttle->root), "%s", entry->mnt_dir);
		result = 0;
		if (v1)
			break;
	}
	endmntent(mounts);
	return result;
}

static int set_quota(const struct throttle *throttle, int64_t quota_us, int64_t period_us)
{
	char text[64];
	int result;

	if (throttle->unified) {
		if (quota_us < 0)
			snprintf(text, sizeof(text), "max %lld", (long long)period_us);
		else
			snprintf(text, sizeof(text), "%lld %lld", (long long)quota_us,
				(long long)period_us);
		return write_text(throttle->group, "cpu.max", text);
	}
	snprintf(text, sizeof(text), "%lld", (long long)period_us);
	result = write_text(throttle->group, "cpu.cfs_period_us", text);
	if (result)
		return result;
	snprintf(text, sizeof(text), "%lld", (long long)quota_us);
	return write_text(throttle->group, "cpu.cfs_quota_us", text);
}

static int throttle_prepare(
	const struct fault *fault, const struct fault_environment *environment, void **state)
{
	struct throttle *throttle = calloc(1, sizeof(*throttle));
	char pid[32];
	int result;

	(void)environment;
	if (!throttle)
		return -ENOMEM;
	throttle->fault = fault;
	result = find_controller(throttle);
	if (result)
		goto free_throttle;
	if (throttle->unified)
		(void)write_text(throttle->root, "cgroup.subtree_control", "+cpu");
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	snprintf(throttle->group, sizeof(throttle->group), "%s/slowrank-fault-%s", throttle->root,
		pid);
	if (mkdir(throttle->group, 0755) && errno != EEXIST) {
		result = -errno;
		goto free_throttle;
	}
	result = write_text(throttle->group, "cgroup.procs", pid);
	if (result)
		goto remove_group;
	*state = throttle;
	return 0;

remove_group:
	rmdir(throttle->group);
free_throttle:
	free(throttle);
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
	char pid[32];

	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	(void)write_text(throttle->root, "cgroup.procs", pid);
	if (rmdir(throttle->group))
		fprintf(stderr, "workload: %s: %s\n", throttle->group, strerror(errno));
	free(throttle);
}

const struct fault_means fault_means_throttle = {
	.prepare = throttle_prepare,
	.begin = throttle_begin,
	.end = throttle_end,
	.release = throttle_release,
};
