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

/* Whether steps have become longer, before each look: who uses a GPU is then asked more often for a while. */
void samplers_follow(struct samplers *samplers, bool slower, struct host_ns now);

/* Takes one sample of every rank that lives. sources: of these, if asked for at all. */
void samplers_sample(
	struct samplers *samplers, const struct job *job, unsigned sources, struct host_ns now);

/* Hands over the samples since the last call; they stay valid until the next samplers_sample(). */
size_t samplers_take(struct samplers *samplers, struct metric_sample **samples);

/* The worst state of each sampler over the ranks. Returns the count. */
size_t samplers_states(
	const struct samplers *samplers, struct message_source *out, size_t capacity);

#endif
