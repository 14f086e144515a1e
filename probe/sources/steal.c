/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/steal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct steal_sampler {
	struct sampler base;
	struct cpu_times *times, *own_times; /* own: NULL where they are shared */
	int64_t stolen_ns, wanted_ns;
};

static void tell_state(struct sampler *sampler, int error)
{
	if (error == 0)
		sampler_set_state(sampler, SOURCE_ON, "%s", "");
	else if (error == -ENODATA)
		sampler_set_state(sampler, SOURCE_MISSING,
			"no CPU time was stolen since this guest booted: its hypervisor may not "
			"tell");
	else if (error == -ENOTSUP)
		sampler_set_state(
			sampler, SOURCE_MISSING, "/proc/stat has no stolen time of single CPUs");
	else
		sampler_set_state(
			sampler, SOURCE_MISSING, "/proc/stat cannot be read: %s", strerror(-error));
}

static size_t steal_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct steal_sampler *sampler = (struct steal_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};
	int64_t stolen_ns, wanted_ns;
	cpu_set_t cpus;
	int error;

	if (sched_getaffinity(base->pid, sizeof(cpus), &cpus) < 0) {
		if (errno != ESRCH)
			sampler_set_state(base, SOURCE_MISSING,
				"which CPUs the rank may use cannot be read: %s", strerror(errno));
		return 0;
	}
	error = cpu_times_look(sampler->times, now, &cpus, &stolen_ns, &wanted_ns);
	tell_state(base, error);
	if (error < 0)
		return 0;
	sampler->stolen_ns += stolen_ns;
	sampler->wanted_ns += wanted_ns;
	sample_list_add(&list, METRIC_CPU_STOLEN_NS, sampler->stolen_ns);
	sample_list_add(&list, METRIC_CPU_WANTED_NS, sampler->wanted_ns);
	return list.count;
}

static void steal_destroy(struct sampler *base)
{
	struct steal_sampler *sampler = (struct steal_sampler *)base;

	cpu_times_destroy(sampler->own_times);
	free(sampler);
}

int steal_sampler_create(pid_t pid, uint32_t rank, struct cpu_times *times, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = steal_sample, .destroy = steal_destroy};
	struct steal_sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return -ENOMEM;
	if (!times && cpu_times_create(&sampler->own_times) < 0) {
		free(sampler);
		return -ENOMEM;
	}
	sampler_init(&sampler->base, &operations, "steal", pid, rank);
	sampler->times = times ? times : sampler->own_times;
	*result = &sampler->base;
	return 0;
}
