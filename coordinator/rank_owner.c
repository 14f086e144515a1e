/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/rank_owner.h"

#include "probe/wire/packed_steps.h"

struct question {
	const struct rank_table *ranks;
	const struct probe_table *probes;
	const struct message_batch *batch;
	struct job_ns received;
	bool proven;
};

/* The launcher started the rank again, and so has ended the process that its owner watched. */
static bool is_started_again(const struct question *question, uint32_t number)
{
	const struct message_batch *batch = question->batch;

	for (size_t i = 0; i < batch->rank_count && question->proven; i++) {
		if (batch->ranks[i].rank == number &&
			batch->ranks[i].restarts > question->ranks->ranks[number].restarts)
			return true;
	}
	return false;
}

bool rank_owner_is_heard(const struct probe_entry *probe, struct job_ns received)
{
	return probe && received.value - probe->last_received.value <
				RANK_OWNER_SILENCE_MS * INT64_C(1000000);
}

static bool is_held(const struct question *question, uint32_t number)
{
	const struct rank_entry *rank = &question->ranks->ranks[number];
	const struct probe_entry *owner;

	if (!rank->owned || rank->probe_id == question->batch->probe_id ||
		question->ranks->streams.ranks[number].exited)
		return false;
	owner = probe_table_find(question->probes, rank->probe_id);
	return rank_owner_is_heard(owner, question->received) && !owner->final &&
	       !is_started_again(question, number);
}

/* Of count structs, each of stride bytes, that begin with or have a rank at `first`. */
static bool any_held(const struct question *question, const uint32_t *first, size_t stride,
	size_t count, uint32_t *rank)
{
	const char *at = (const char *)first;
	uint32_t latest = STEP_RANK_UNKNOWN; /* mostly the same one again */

	for (size_t i = 0; i < count; i++, at += stride) {
		uint32_t number = *(const uint32_t *)(const void *)at;

		if (number == latest || number >= question->ranks->streams.rank_capacity)
			continue;
		latest = number;
		if (is_held(question, number)) {
			*rank = number;
			return true;
		}
	}
	return false;
}

#define ANY_HELD(array, count)                                                                     \
	((count) && any_held(&question, &(array)->rank, sizeof(*(array)), count, rank))

bool rank_owner_conflicts(const struct rank_table *ranks, const struct probe_table *probes,
	const struct message_batch *batch, struct job_ns received, bool proven, uint32_t *rank)
{
	const struct question question = {ranks, probes, batch, received, proven};

	for (size_t i = 0; i < batch->stack_profile_count; i++) {
		if (ANY_HELD(batch->stack_profiles[i], 1))
			return true;
	}

	return ANY_HELD(batch->ranks, batch->rank_count) ||
	       ANY_HELD(batch->communicators, batch->communicator_count) ||
	       (batch->packed_steps ? ANY_HELD(batch->packed_steps, batch->step_count)
				    : ANY_HELD(batch->steps, batch->step_count)) ||
	       ANY_HELD(batch->intervals, batch->interval_count) ||
	       ANY_HELD(batch->samples, batch->sample_count) ||
	       ANY_HELD(batch->queue_pairs, batch->queue_pair_count) ||
	       ANY_HELD(batch->open_calls, batch->open_call_count) ||
	       ANY_HELD(batch->kernel_profiles, batch->kernel_profile_count);
}
