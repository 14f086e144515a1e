/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA queue pairs of all ranks on this host: from the tables of processes that count
 * themselves, and by uprobes in short windows for the others. Does nothing on hosts without RDMA
 * devices. One thread.
 */
#ifndef SLOWRANK_PROBE_QUEUE_PAIRS_H
#define SLOWRANK_PROBE_QUEUE_PAIRS_H

#include "probe/job.h"
#include "probe/sources/bpf_source.h"

struct queue_pairs;

/* bpf: may be NULL (no uprobes then); outlives this. Returns 0 or -ENOMEM. */
int queue_pairs_create(const struct bpf_source *bpf, struct queue_pairs **queue_pairs)
	__attribute__((warn_unused_result));
void queue_pairs_destroy(struct queue_pairs *queue_pairs); /* NULL is fine */

/* Call it about once a second: looks at all ranks. May last as long as a window (verbs_probe.h). */
void queue_pairs_look(struct queue_pairs *queue_pairs, const struct job *job, struct host_ns now);

/* Hands over what changed since the last call; valid until the next queue_pairs_look(). */
size_t queue_pairs_take(struct queue_pairs *queue_pairs, struct message_queue_pair **out);

/* "verbs" and "bpf.verbs"; nothing where there is no RDMA device. Returns the count. */
size_t queue_pairs_states(
	struct queue_pairs *queue_pairs, struct message_source *out, size_t capacity);

#endif
