/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/procfs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe/sources/text_file.h"

enum { STAT_LENGTH = 2048 };

struct process_stat {
	int64_t minor_faults, major_faults, cpu_ticks;
};

/* /proc/PID/stat, proc(5): after the name in brackets (which may hold anything) come the state
 * and numbers; minflt is field 10, majflt 12, utime 14, stime 15. */
static bool parse_stat(const char *text, struct process_stat *stat)
{
	const char *after_name = strrchr(text, ')');
	int64_t user, system;

	if (!after_name || sscanf(after_name + 1,
				   " %*c %*d %*d %*d %*d %*d %*u %" SCNd64 " %*u %" SCNd64
				   " %*u %" SCNd64 " %" SCNd64,
				   &stat->minor_faults, &stat->major_faults, &user, &system) != 4)
		return false;
	return user >= 0 && system >= 0 && !__builtin_add_overflow(user, system, &stat->cpu_ticks);
}

/* The process's CPU clock has ns where /proc/PID/stat has ticks of 10 ms. */
static bool read_cpu_clock(pid_t pid, int64_t *cpu_ns)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
		return false;
	*cpu_ns = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
	return true;
}

static size_t procfs_sample(
	struct sampler *sampler, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = sampler->rank, .now = now};
	char text[STAT_LENGTH];
	struct process_stat stat;
	int64_t cpu_ns, tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
	int error = text_file_read_at(text, sizeof(text), "/proc/%d/stat", (int)sampler->pid);

	if (error == -ENOENT || error == -ESRCH)
		return 0; /* gone */
	if (error < 0 || !parse_stat(text, &stat)) {
		sampler_set_state(sampler, SOURCE_MISSING, "/proc/PID/stat cannot be read: %s",
			error < 0 ? strerror(-error) : "unknown format");
		return 0;
	}
	if (!read_cpu_clock(sampler->pid, &cpu_ns) &&
		__builtin_mul_overflow(stat.cpu_ticks, tick_ns, &cpu_ns))
		cpu_ns = INT64_MAX;
	sample_list_add(&list, METRIC_PROCESS_CPU_NS, cpu_ns);
	sample_list_add(&list, METRIC_PROCESS_MAJOR_FAULTS, stat.major_faults);
	sample_list_add(&list, METRIC_PROCESS_MINOR_FAULTS, stat.minor_faults);
	return list.count;
}

static void procfs_destroy(struct sampler *sampler)
{
	free(sampler);
}

int procfs_sampler_create(pid_t pid, uint32_t rank, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = procfs_sample, .destroy = procfs_destroy};
	struct sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return -ENOMEM;
	sampler_init(sampler, &operations, "procfs", pid, rank);
	*result = sampler;
	return 0;
}
