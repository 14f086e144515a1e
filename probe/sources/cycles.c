/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/cycles.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/sources/busy_threads.h"
#include "probe/sources/clock_rate.h"
#include "probe/sources/cpu_throttles.h"
#include "probe/sources/text_file.h"
#include "probe/sources/thread_counters.h"

/* The threads of a process are looked through every so many samples, and soon after the first one. */
enum { THREADS_EVERY = 8, NUMBER_LENGTH = 64 };
/* A hypervisor may show counters that do not count: no cycle in so long is none at all. */
#define NO_CYCLES_NS 100000000

enum way { WAY_PMU = 0, WAY_REGISTER = 1, WAY_RATE = 2, WAY_NONE = 3 };

struct cycles_sampler {
	struct sampler base;
	enum way way;
	int error; /* why the counters cannot be used, of the first way */
	struct busy_threads *busy;
	struct thread_counters *counters; /* of the first two ways */
	struct clock_rate rate;
	struct cpu_throttles throttles;
	bool counts_throttles;
	unsigned samples;
};

/* The register's event, as the kernel numbers it: type and "event=0x01". */
static bool find_register(struct counted_event *event)
{
	static const char folder[] = "/sys/bus/event_source/devices/msr";
	char type[NUMBER_LENGTH], config[NUMBER_LENGTH];
	int64_t number;

	if (text_file_read_at(type, sizeof(type), "%s/type", folder) < 0 ||
		!text_parse_number(type, &number) || number < 0 || number > UINT32_MAX ||
		text_file_read_at(config, sizeof(config), "%s/events/aperf", folder) < 0 ||
		sscanf(config, "event=%" SCNx64, &event->config) != 1)
		return false;
	event->type = (uint32_t)number;
	return true;
}

static int create_counters(enum way way, struct thread_counters **counters)
{
	struct counted_event events[COUNTED_EVENTS_MAX] = {
		{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
		{PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS}};

	if (way == WAY_PMU)
		return thread_counters_create(events, 2, counters);
	return find_register(&events[0]) ? thread_counters_create(events, 1, counters) : -ENOENT;
}

static bool way_is_counted(enum way way)
{
	return way == WAY_PMU || way == WAY_REGISTER;
}

static void tell_way(struct cycles_sampler *sampler)
{
	struct sampler *base = &sampler->base;

	if (sampler->way == WAY_PMU)
		sampler_set_state(base, SOURCE_ON, "%s", "");
	else if (sampler->way == WAY_REGISTER)
		sampler_set_state(base, SOURCE_DEGRADED, "cycles only, no instructions");
	else if (sampler->way == WAY_RATE)
		sampler_set_state(base, SOURCE_DEGRADED,
			"no instructions, and cycles by the clock rate that cpufreq tells");
	else if (sampler->error == -EACCES || sampler->error == -EPERM)
		sampler_set_state(base, SOURCE_MISSING,
			"cycles of its threads may not be counted: run as root, with CAP_PERFMON, "
			"or "
			"set kernel.perf_event_paranoid to 1");
	else if (sampler->error == -EMFILE || sampler->error == -ENOMEM)
		sampler_set_state(base, SOURCE_MISSING, "cycles cannot be counted: %s",
			strerror(-sampler->error));
	else
		sampler_set_state(base, SOURCE_MISSING,
			"no counters of cycles (a guest without a PMU?), and no cpufreq");
}

/* Follows these threads, by the way that there is or the next one that works. */
static void follow(struct cycles_sampler *sampler, const pid_t *threads, size_t count)
{
	for (; way_is_counted(sampler->way); sampler->way++) {
		int error = 0;

		if (!sampler->counters)
			error = create_counters(sampler->way, &sampler->counters);
		if (error == 0)
			error = thread_counters_follow(sampler->counters, threads, count);
		if (error >= 0 || error == -ESRCH)
			break;
		if (sampler->error == 0)
			sampler->error = error;
		thread_counters_destroy(sampler->counters);
		sampler->counters = NULL;
	}
	if (sampler->way == WAY_RATE && !clock_rate_is_told())
		sampler->way = WAY_NONE;
	if (sampler->way == WAY_RATE)
		clock_rate_follow(&sampler->rate, threads[0]);
	tell_way(sampler);
}

/* False: the process is gone. */
static bool look_at_threads(struct cycles_sampler *sampler, struct host_ns now)
{
	unsigned number = sampler->samples++;
	pid_t threads[COUNTED_THREADS_MAX];
	int count;

	if (number > 1 && number % THREADS_EVERY != 0)
		return true;
	count = busy_threads_look(sampler->busy, now, threads, COUNTED_THREADS_MAX);
	if (count > 0)
		follow(sampler, threads, (size_t)count);
	return count >= 0;
}

static void add_counted(struct cycles_sampler *sampler, struct sample_list *list)
{
	struct thread_counts counts = thread_counters_read(sampler->counters);

	if (counts.values[0] == 0 && counts.counted_ns >= NO_CYCLES_NS) {
		pid_t main_thread = sampler->base.pid;

		thread_counters_destroy(sampler->counters);
		sampler->counters = NULL;
		sampler->error = -ENODATA;
		sampler->way++;
		follow(sampler, &main_thread, 1);
		return;
	}
	sample_list_add(list, METRIC_CPU_CYCLES, counts.values[0]);
	sample_list_add(list, METRIC_CPU_COUNTED_NS, counts.counted_ns);
	if (sampler->way == WAY_PMU)
		sample_list_add(list, METRIC_CPU_INSTRUCTIONS, counts.values[1]);
}

static size_t cycles_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct cycles_sampler *sampler = (struct cycles_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};
	cpu_set_t cpus;

	if (sampler->way != WAY_NONE && !look_at_threads(sampler, now))
		return 0;
	if (sampler->counters) {
		add_counted(sampler, &list);
	} else if (sampler->way == WAY_RATE) {
		clock_rate_look(&sampler->rate, base->pid);
		sample_list_add(&list, METRIC_CPU_CYCLES, sampler->rate.cycles);
		sample_list_add(&list, METRIC_CPU_COUNTED_NS, sampler->rate.counted_ns);
	}
	if (sampler->counts_throttles && sched_getaffinity(base->pid, sizeof(cpus), &cpus) == 0) {
		cpu_throttles_look(&sampler->throttles, &cpus);
		sample_list_add(&list, METRIC_CPU_THROTTLES, sampler->throttles.sum);
	}
	return list.count;
}

static void cycles_destroy(struct sampler *base)
{
	struct cycles_sampler *sampler = (struct cycles_sampler *)base;

	thread_counters_destroy(sampler->counters);
	busy_threads_destroy(sampler->busy);
	free(sampler);
}

int cycles_sampler_create(pid_t pid, uint32_t rank, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = cycles_sample, .destroy = cycles_destroy};
	struct cycles_sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return -ENOMEM;
	if (busy_threads_create(pid, &sampler->busy) < 0) {
		free(sampler);
		return -ENOMEM;
	}
	sampler_init(&sampler->base, &operations, "cycles", pid, rank);
	sampler->counts_throttles = cpu_throttles_are_counted();
	*result = &sampler->base;
	return 0;
}
