/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampler reads counters of one rank's process, once a second or more seldom. All samplers
 * share this interface; cgroup.h, psi.h, procfs.h, tcp.h and nic.h make them. For one thread.
 *
 * Counters only grow, also when the rank is moved to another cgroup or closes its sockets: they
 * count from the sampler's first look. What cannot be measured gives no sample and is named in
 * the state; a sample of 0 always means that it was looked at.
 */
#ifndef SLOWRANK_PROBE_SOURCES_SAMPLER_H
#define SLOWRANK_PROBE_SOURCES_SAMPLER_H

#include <sys/types.h>

#include "probe/wire/message.h"

enum { SAMPLER_SAMPLES_MAX = 8 }; /* no sampler gives more at once */

struct sampler;

/* For those who make samplers: the first member of their struct. */
struct sampler_operations {
	size_t (*sample)(struct sampler *sampler, struct host_ns now, struct metric_sample *out,
		size_t capacity);
	void (*destroy)(struct sampler *sampler);
};

struct sampler {
	const struct sampler_operations *operations;
	pid_t pid;
	uint32_t rank;
	struct message_source state; /* as of the last sample */
};

/*
 * Takes one sample of each metric: writes at most capacity of them and returns how many. 0 when
 * the process is gone or nothing is measurable.
 */
static inline size_t sampler_sample(
	struct sampler *sampler, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	return sampler->operations->sample(sampler, now, out, capacity);
}

/* What it sees: valid from its creation on, until it is destroyed. */
static inline const struct message_source *sampler_state(const struct sampler *sampler)
{
	return &sampler->state;
}

static inline void sampler_destroy(struct sampler *sampler) /* NULL is fine */
{
	if (sampler)
		sampler->operations->destroy(sampler);
}

/* For those who make samplers. */
void sampler_init(struct sampler *sampler, const struct sampler_operations *operations,
	const char *name, pid_t pid, uint32_t rank);
void sampler_set_state(struct sampler *sampler, enum source_state state, const char *why, ...)
	__attribute__((format(printf, 3, 4)));

/* Adds one sample to out, if there is room. */
struct sample_list {
	struct metric_sample *out;
	size_t capacity;
	size_t count;
	uint32_t rank;
	struct host_ns now;
};
void sample_list_add(struct sample_list *list, enum metric metric, int64_t value);

/*
 * A counter that only grows, made from one that may be exchanged for another or start anew: a
 * new or smaller value becomes the next base and adds nothing.
 */
struct growing_counter {
	int64_t last;
	bool has_last;
};
int64_t growing_counter_step(struct growing_counter *counter, int64_t value);

#endif
