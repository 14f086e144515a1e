/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/samplers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/options.h"
#include "probe/socket_looks.h"
#include "probe/sources/cgroup.h"
#include "probe/sources/cpu_times.h"
#include "probe/sources/cycles.h"
#include "probe/sources/launcher_delays.h"
#include "probe/sources/nvml.h"
#include "probe/sources/procfs.h"
#include "probe/sources/psi.h"
#include "probe/sources/rdma.h"
#include "probe/sources/steal.h"
#include "probe/sources/tcp.h"

struct kind {
	const char *name;
	unsigned source;
	int (*create)(pid_t pid, uint32_t rank, struct sampler **sampler);
};

static const struct kind kinds[] = {
	{"cgroup", PROBE_SOURCE_CGROUP, cgroup_sampler_create},
	{"psi", PROBE_SOURCE_PSI, psi_sampler_create},
	{"procfs", PROBE_SOURCE_PROCFS, procfs_sampler_create},
	{"tcp", PROBE_SOURCE_TCP, NULL},     /* shares the tables of sockets, */
	{"steal", PROBE_SOURCE_STEAL, NULL}, /* this one the times of CPUs */
	{"cycles", PROBE_SOURCE_CYCLES, cycles_sampler_create},
	{"rdma", PROBE_SOURCE_RDMA, rdma_sampler_create},
	{"nvml", PROBE_SOURCE_NVML, NULL}, /* and this one the hurry */
};

enum {
	KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]),
	RANKS_MAX = 4096,
	SAMPLES_MAX = WIRE_SAMPLES_PER_BATCH_MAX,
};

/* Other work on a GPU shows in the driver's times within two seconds. */
#define GPU_HURRY_NS INT64_C(4000000000)
#define GPU_HURRY_INTERVAL_NS INT64_C(10000000000)
static const double gpu_hurry_share = 0.002;

/* What says why a host is late, where the kernel side does not, beside what looks at sockets take. */
#define STAND_INS (PROBE_SOURCE_CGROUP | PROBE_SOURCE_NVML)
#define COUNTER_HURRY_NS INT64_C(1000000000)
#define COUNTER_HURRY_INTERVAL_NS INT64_C(5000000000)
/* A block of the analysis; less what a turn of the probe's loop may come early. */
#define HURRIED_NS INT64_C(190000000)
static const double counter_hurry_share = 0.001;

struct rank_samplers {
	pid_t pid;
	struct sampler *samplers[KIND_COUNT]; /* NULL: not asked for, or no memory */
};

struct samplers {
	unsigned sources;
	struct tcp_tables *tcp_tables;
	struct cpu_times *cpu_times;
	struct hurry gpu_hurry, counter_hurry;
	struct host_ns sampled; /* last, in a hurry or not */
	struct job_rank *found; /* RANKS_MAX of them, scratch */
	size_t rank_count;
	struct rank_samplers *ranks;
	size_t sample_count;
	bool taken;
	struct metric_sample *samples;
};

int samplers_create(unsigned sources, struct samplers **result)
{
	struct samplers *samplers = calloc(1, sizeof(*samplers));

	if (!samplers)
		return -ENOMEM;
	samplers->sources = sources;
	hurry_init(&samplers->gpu_hurry, GPU_HURRY_NS, gpu_hurry_share, GPU_HURRY_INTERVAL_NS);
	hurry_init(&samplers->counter_hurry, COUNTER_HURRY_NS, counter_hurry_share,
		COUNTER_HURRY_INTERVAL_NS);
	samplers->found = calloc(RANKS_MAX, sizeof(*samplers->found));
	samplers->ranks = calloc(RANKS_MAX, sizeof(*samplers->ranks));
	samplers->samples = calloc(SAMPLES_MAX, sizeof(*samplers->samples));
	if (!samplers->found || !samplers->ranks || !samplers->samples ||
		tcp_tables_create(&samplers->tcp_tables) < 0 ||
		cpu_times_create(&samplers->cpu_times) < 0) {
		samplers_destroy(samplers);
		return -ENOMEM;
	}
	*result = samplers;
	return 0;
}

void samplers_open(struct samplers *samplers, pid_t pid)
{
	if (samplers->sources & PROBE_SOURCE_TCP)
		tcp_tables_open(samplers->tcp_tables, pid);
}

static void rank_fini(struct rank_samplers *rank)
{
	for (size_t i = 0; i < KIND_COUNT; i++)
		sampler_destroy(rank->samplers[i]);
}

void samplers_destroy(struct samplers *samplers)
{
	if (!samplers)
		return;
	for (size_t i = 0; i < samplers->rank_count; i++)
		rank_fini(&samplers->ranks[i]);
	tcp_tables_destroy(samplers->tcp_tables);
	cpu_times_destroy(samplers->cpu_times);
	free(samplers->found);
	free(samplers->ranks);
	free(samplers->samples);
	free(samplers);
}

static struct sampler *create_sampler(
	struct samplers *samplers, const struct kind *kind, const struct job_rank *rank)
{
	struct sampler *sampler = NULL;
	int error;

	if (!(samplers->sources & kind->source))
		return NULL;
	if (kind->source == PROBE_SOURCE_TCP)
		error = tcp_sampler_create(rank->pid, rank->rank, samplers->tcp_tables, &sampler);
	else if (kind->source == PROBE_SOURCE_STEAL)
		error = steal_sampler_create(rank->pid, rank->rank, samplers->cpu_times, &sampler);
	else if (kind->source == PROBE_SOURCE_NVML)
		error = nvml_sampler_create(rank->pid, rank->rank, &samplers->gpu_hurry, &sampler);
	else
		error = kind->create(rank->pid, rank->rank, &sampler);
	return error < 0 ? NULL : sampler;
}

static struct rank_samplers *find_or_add(struct samplers *samplers, const struct job_rank *job_rank)
{
	struct rank_samplers *rank;

	for (size_t i = 0; i < samplers->rank_count; i++) {
		if (samplers->ranks[i].pid == job_rank->pid)
			return &samplers->ranks[i];
	}
	if (samplers->rank_count == RANKS_MAX)
		return NULL;
	rank = &samplers->ranks[samplers->rank_count++];
	*rank = (struct rank_samplers){.pid = job_rank->pid};
	for (size_t i = 0; i < KIND_COUNT; i++)
		rank->samplers[i] = create_sampler(samplers, &kinds[i], job_rank);
	return rank;
}

/* Read all the time, for the job's segments; here as counters, like the rest of /proc. */
static void sample_launchers(
	struct samplers *samplers, const struct job_rank *rank, struct host_ns now)
{
	struct sample_list list = {.out = samplers->samples + samplers->sample_count,
		.capacity = SAMPLES_MAX - samplers->sample_count,
		.rank = rank->rank,
		.now = now};
	struct launcher_delay sum;

	if (!rank->delays || !launcher_delays_are_known(rank->delays))
		return;
	sum = launcher_delays_sum(rank->delays);
	sample_list_add(&list, METRIC_LAUNCHERS_CPU_NS, sum.cpu_ns);
	sample_list_add(&list, METRIC_LAUNCHERS_QUEUED_NS, sum.queued_ns);
	samplers->sample_count += list.count;
}

unsigned samplers_due(struct samplers *samplers, const struct samplers_turn *turn)
{
	bool hurried =
		hurry_follow(&samplers->counter_hurry, turn->slower && turn->unseen, turn->now);

	(void)hurry_follow(&samplers->gpu_hurry, turn->slower, turn->now);
	if (!turn->due && (!hurried || turn->now.value - samplers->sampled.value < HURRIED_NS))
		return 0;
	samplers->sampled = turn->now;
	return turn->due ? ~(unsigned)SOCKET_LOOK_SOURCES : (unsigned)STAND_INS;
}

void samplers_done(struct samplers *samplers, int64_t cost_ns)
{
	hurry_looked(&samplers->counter_hurry, cost_ns);
}

void samplers_sample(
	struct samplers *samplers, const struct job *job, unsigned sources, struct host_ns now)
{
	size_t count = job_ranks(job, samplers->found, RANKS_MAX);

	if (samplers->taken) {
		samplers->sample_count = 0;
		samplers->taken = false;
	}
	for (size_t i = 0; i < count; i++) {
		struct rank_samplers *rank;

		if (samplers->found[i].exited)
			continue;
		rank = find_or_add(samplers, &samplers->found[i]);
		for (size_t k = 0; rank && k < KIND_COUNT; k++) {
			if (!rank->samplers[k] || !(sources & kinds[k].source))
				continue;
			samplers->sample_count += sampler_sample(rank->samplers[k], now,
				samplers->samples + samplers->sample_count,
				SAMPLES_MAX - samplers->sample_count);
		}
		if (samplers->sources & sources & PROBE_SOURCE_PROCFS)
			sample_launchers(samplers, &samplers->found[i], now);
	}
}

size_t samplers_take(struct samplers *samplers, struct metric_sample **samples)
{
	*samples = samplers->samples;
	if (samplers->taken)
		return 0;
	samplers->taken = true;
	return samplers->sample_count;
}

size_t samplers_states(const struct samplers *samplers, struct message_source *out, size_t capacity)
{
	size_t count = 0;

	for (size_t k = 0; k < KIND_COUNT && count < capacity; k++) {
		struct message_source *state = &out[count++];
		bool asked = samplers->sources & kinds[k].source, found = false;

		*state = (struct message_source){.state = asked ? SOURCE_MISSING : SOURCE_OFF};
		snprintf(state->why, sizeof(state->why), "%s",
			asked ? "no rank was found to look at" : "not asked for");
		/* The worst of the ranks; the numbers of the states grow with the badness. */
		for (size_t i = 0; i < samplers->rank_count; i++) {
			const struct sampler *sampler = samplers->ranks[i].samplers[k];

			if (!sampler || (found && sampler_state(sampler)->state <= state->state))
				continue;
			*state = *sampler_state(sampler);
			found = true;
		}
		snprintf(state->name, sizeof(state->name), "%s", kinds[k].name);
	}
	return count;
}
