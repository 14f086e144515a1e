/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samplers of all ranks on this host as one source of metric samples. One thread.
 */
#ifndef SLOWRANK_PROBE_SAMPLERS_H
#define SLOWRANK_PROBE_SAMPLERS_H

#include "probe/job.h"

struct samplers;

/* sources: enum probe_source bits; those of samplers count. Returns 0 or -ENOMEM. */
int samplers_create(unsigned sources, struct samplers **samplers)
	__attribute__((warn_unused_result));
/* A process that ran before: what only the rights of the start can open is opened now. */
void samplers_open(struct samplers *samplers, pid_t pid);
void samplers_destroy(struct samplers *samplers); /* NULL is fine */

/* A turn of the probe's loop. */
struct samplers_turn {
	struct host_ns now;
	bool due;    /* a sample of all, as once a second */
	bool slower; /* steps have become longer */
	bool unseen; /* by the kernel side: counters stand in for what it would have timed */
};

/*
 * What to sample now, enum probe_source bits: all but sockets where that is due. Where steps have become longer,
 * counters that stand in for the kernel side five times a second, for a second, so that why a host is late is
 * known when it is to be told of; and who uses a GPU is asked with each sample for a while. Such hurries keep
 * within a share of a core.
 */
unsigned samplers_due(struct samplers *samplers, const struct samplers_turn *turn);

/* What that sample cost, CPU time. */
void samplers_done(struct samplers *samplers, int64_t cost_ns);

/* Takes one sample of every rank that lives. sources: of these, if asked for at all. */
void samplers_sample(
	struct samplers *samplers, const struct job *job, unsigned sources, struct host_ns now);

/* Hands over the samples since the last call; they stay valid until the next samplers_sample(). */
size_t samplers_take(struct samplers *samplers, struct metric_sample **samples);

/* The worst state of each sampler over the ranks. Returns the count. */
size_t samplers_states(
	const struct samplers *samplers, struct message_source *out, size_t capacity);

#endif
