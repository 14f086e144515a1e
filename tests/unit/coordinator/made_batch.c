/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/coordinator/made_batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

struct message_batch *made_batch(uint64_t probe_id, uint64_t host_id, uint64_t number)
{
	struct message_batch *batch = calloc(1, sizeof(*batch));

	assert_non_null(batch);
	batch->probe_id = probe_id;
	batch->host_id = host_id;
	batch->number = number;
	return batch;
}

void made_batch_release(struct message_batch *batch)
{
	for (size_t i = 0; i < batch->step_count; i++)
		free(batch->steps[i].parts);
	free(batch->steps);
	free(batch->ranks);
	free(batch->communicators);
	free(batch->sources);
	free(batch->intervals);
	free(batch->samples);
	free(batch->queue_pairs);
	free(batch->open_calls);
	free(batch->kernel_profiles);
	for (size_t i = 0; i < batch->stack_profile_count; i++)
		stack_profile_destroy(batch->stack_profiles[i]);
	free(batch->stack_profiles);
	free(batch);
}

void made_batch_announce(
	struct message_batch *batch, uint32_t rank_count, uint32_t communicators_per_rank)
{
	batch->ranks = calloc(rank_count, sizeof(*batch->ranks));
	batch->communicators =
		calloc((size_t)rank_count * communicators_per_rank, sizeof(*batch->communicators));
	assert_true(batch->ranks && batch->communicators);
	for (uint32_t r = 0; r < rank_count; r++)
		batch->ranks[batch->rank_count++] = (struct message_rank){
			.rank = r, .world_size = rank_count, .pid = 100 + r, .host = "node0"};
}

void made_batch_add_communicator(
	struct message_batch *batch, uint32_t rank, uint64_t id, uint32_t size, uint32_t own_index)
{
	batch->communicators[batch->communicator_count++] =
		(struct message_communicator){rank, {id, size, own_index}};
}

void made_batch_add_source(
	struct message_batch *batch, const char *name, enum source_state state, const char *why)
{
	struct message_source *source;

	if (!batch->sources)
		batch->sources = calloc(MADE_BATCH_SOURCES_MAX, sizeof(*batch->sources));
	assert_true(batch->sources && batch->source_count < MADE_BATCH_SOURCES_MAX);
	source = &batch->sources[batch->source_count++];
	source->state = (uint8_t)state;
	snprintf(source->name, sizeof(source->name), "%s", name);
	snprintf(source->why, sizeof(source->why), "%s", why);
}

void made_batch_push(struct pipeline *pipeline, struct message_batch *batch, struct job_ns received,
	struct message_reply *reply)
{
	assert_int_equal(pipeline_push_batch(pipeline, batch, made_batch_release, received, reply),
		PIPELINE_ACCEPTED);
}
