/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that tests make by hand and push as if they had come over the wire. One thread. */
#ifndef SLOWRANK_TESTS_UNIT_COORDINATOR_MADE_BATCH_H
#define SLOWRANK_TESTS_UNIT_COORDINATOR_MADE_BATCH_H

#include "coordinator/pipeline_internal.h"

/* The batch of a probe on a host, with nothing in it; its arrays are taken from malloc(). */
struct message_batch *made_batch(uint64_t probe_id, uint64_t host_id, uint64_t number);

/* Frees a batch, the arrays in it, and the parts of its steps. */
void made_batch_release(struct message_batch *batch);

/* Ranks 0..rank_count - 1 of one host, of process 100 + rank; room for further communicators. */
void made_batch_announce(
	struct message_batch *batch, uint32_t rank_count, uint32_t communicators_per_rank);

void made_batch_add_communicator(
	struct message_batch *batch, uint32_t rank, uint64_t id, uint32_t size, uint32_t own_index);

/* At most MADE_BATCH_SOURCES_MAX. */
enum { MADE_BATCH_SOURCES_MAX = 4 };
void made_batch_add_source(
	struct message_batch *batch, const char *name, enum source_state state, const char *why);

/* Takes the batch; asserts that the pipeline accepts it. */
void made_batch_push(struct pipeline *pipeline, struct message_batch *batch, struct job_ns received,
	struct message_reply *reply);

#endif
