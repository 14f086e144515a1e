/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "probe/wire/encode_steps.h"
#include "probe/wire/format.h"
#include "probe/wire/kernel_profiles.h"
#include "probe/wire/queue_pairs.h"
#include "probe/wire/stack_profiles.h"

/* A start and a length, the start counted from the one before. */
static void put_span(struct wire_packer *packer, int64_t start_ns, int64_t end_ns, int64_t *cursor)
{
	int64_t start = wire_quanta(start_ns);
	int64_t end = wire_quanta(end_ns);

	wire_pack_signed(packer, start - *cursor);
	wire_pack_unsigned(packer, end > start ? (uint64_t)(end - start) : 0);
	*cursor = start;
}

static void put_header(struct wire_packer *packer, const struct message_batch *batch)
{
	const struct message_counters *counters = &batch->counters;

	wire_pack_unsigned(packer, WIRE_TYPE_BATCH);
	wire_pack_unsigned(packer, WIRE_VERSION);
	wire_pack_unsigned(packer, batch->probe_id);
	wire_pack_unsigned(packer, batch->number);
	wire_pack_unsigned(packer, batch->host_id);
	wire_pack_time(packer, batch->sent.value);
	wire_pack_array(packer, WIRE_PREVIOUS_FIELDS);
	wire_pack_time(packer, batch->previous_sent.value);
	wire_pack_time(packer, batch->previous_reply_received.value);
	wire_pack_time(packer, batch->previous_received.value);
	wire_pack_time(packer, batch->previous_reply_sent.value);
	wire_pack_unsigned(packer, batch->final);
	wire_pack_string(packer, batch->job_id, sizeof(batch->job_id));
	wire_pack_signed(packer, batch->unix_offset_ns);
	wire_pack_array(packer, WIRE_COUNTERS_FIELDS);
	wire_pack_unsigned(packer, counters->events);
	wire_pack_unsigned(packer, counters->dropped);
	wire_pack_unsigned(packer, counters->steps_incomplete);
	wire_pack_unsigned(packer, counters->batches_spooled);
	wire_pack_unsigned(packer, counters->batches_lost);
	wire_pack_unsigned(packer, counters->cpu_ns);
	wire_pack_unsigned(packer, counters->resident_bytes);
}

static void put_sources(struct wire_packer *packer, const struct message_batch *batch)
{
	wire_pack_array(packer, batch->source_count);
	for (size_t i = 0; i < batch->source_count; i++) {
		const struct message_source *source = &batch->sources[i];

		wire_pack_array(packer, WIRE_SOURCE_FIELDS);
		wire_pack_string(packer, source->name, sizeof(source->name));
		wire_pack_unsigned(packer, source->state);
		wire_pack_string(packer, source->why, sizeof(source->why));
	}
}

static int put_ranks(struct wire_packer *packer, const struct message_batch *batch)
{
	wire_pack_array(packer, batch->rank_count);
	for (size_t i = 0; i < batch->rank_count; i++) {
		const struct message_rank *rank = &batch->ranks[i];

		if (rank->rank >= STEP_RANK_COUNT_MAX)
			return -EINVAL;
		wire_pack_array(
			packer, WIRE_RANK_FIELDS + (rank->restarts ? WIRE_RANK_LATER_FIELDS : 0));
		wire_pack_unsigned(packer, rank->rank);
		wire_pack_unsigned(packer, rank->world_size);
		wire_pack_unsigned(packer, rank->local_rank);
		wire_pack_unsigned(packer, rank->pid);
		wire_pack_unsigned(packer, rank->exited);
		wire_pack_signed(packer, rank->exit_code);
		wire_pack_string(packer, rank->host, sizeof(rank->host));
		wire_pack_string(packer, rank->program, sizeof(rank->program));
		if (rank->restarts)
			wire_pack_unsigned(packer, rank->restarts);
	}
	return 0;
}

static int put_communicators(struct wire_packer *packer, const struct message_batch *batch)
{
	wire_pack_array(packer, batch->communicator_count);
	for (size_t i = 0; i < batch->communicator_count; i++) {
		const struct message_communicator *entry = &batch->communicators[i];

		if (entry->rank >= STEP_RANK_COUNT_MAX)
			return -EINVAL;
		wire_pack_array(packer, WIRE_COMMUNICATOR_FIELDS);
		wire_pack_unsigned(packer, entry->rank);
		wire_pack_unsigned(packer, entry->communicator.id);
		wire_pack_unsigned(packer, entry->communicator.size);
		wire_pack_unsigned(packer, entry->communicator.own_index);
	}
	return 0;
}

static int put_intervals(
	struct wire_packer *packer, const struct message_batch *batch, int64_t cursor)
{
	wire_pack_array(packer, batch->interval_count);
	for (size_t i = 0; i < batch->interval_count; i++) {
		const struct off_cpu_interval *interval = &batch->intervals[i];

		if (interval->rank >= STEP_RANK_COUNT_MAX)
			return -EINVAL;
		wire_pack_array(packer, WIRE_INTERVAL_FIELDS);
		wire_pack_unsigned(packer, interval->rank);
		wire_pack_unsigned(packer, interval->thread_id);
		put_span(packer, interval->start.value, interval->end.value, &cursor);
		wire_pack_unsigned(packer, interval->other_pid);
		wire_pack_unsigned(packer, interval->reason);
		wire_pack_string(packer, interval->other_name, sizeof(interval->other_name));
	}
	return 0;
}

static int put_samples(
	struct wire_packer *packer, const struct message_batch *batch, int64_t cursor)
{
	wire_pack_array(packer, batch->sample_count);
	for (size_t i = 0; i < batch->sample_count; i++) {
		const struct metric_sample *sample = &batch->samples[i];
		int64_t time = wire_quanta(sample->time.value);

		if (sample->rank >= STEP_RANK_COUNT_MAX)
			return -EINVAL;
		wire_pack_array(packer, WIRE_SAMPLE_FIELDS);
		wire_pack_unsigned(packer, sample->rank);
		wire_pack_unsigned(packer, sample->metric);
		wire_pack_signed(packer, time - cursor);
		wire_pack_signed(packer, sample->value);
		cursor = time;
	}
	return 0;
}

static bool has_signs(const struct message_stall *stall)
{
	return stall->io_bytes || stall->acted_ms;
}

static bool is_stall(const struct message_stall *stall)
{
	return stall->operation || stall->threads || stall->over_ms || stall->wait_channel[0] ||
	       has_signs(stall);
}

/* Times of stalls count from the call's, so that a list of them stays short. */
static void put_stall(
	struct wire_packer *packer, const struct message_stall *stall, int64_t arrival)
{
	wire_pack_unsigned(packer, stall->communicator_id);
	wire_pack_unsigned(packer, stall->sequence);
	wire_pack_signed(
		packer, stall->operation ? wire_quanta(stall->launched.value) - arrival : 0);
	wire_pack_unsigned(packer, stall->calls);
	wire_pack_unsigned(packer, stall->operation);
	wire_pack_unsigned(packer, stall->started);
	wire_pack_unsigned(packer, stall->threads);
	wire_pack_unsigned(packer, stall->cpu_ms);
	wire_pack_unsigned(packer, stall->over_ms);
	wire_pack_string(packer, stall->wait_channel, sizeof(stall->wait_channel));
	if (!has_signs(stall))
		return;
	wire_pack_unsigned(packer, stall->io_bytes);
	wire_pack_unsigned(packer, stall->acted_ms);
}

static int put_open_calls(
	struct wire_packer *packer, const struct message_batch *batch, int64_t cursor)
{
	wire_pack_array(packer, batch->open_call_count);
	for (size_t i = 0; i < batch->open_call_count; i++) {
		const struct message_open_call *call = &batch->open_calls[i];
		int64_t arrival = wire_quanta(call->arrival.value);

		if (call->rank >= STEP_RANK_COUNT_MAX)
			return -EINVAL;
		bool stall = is_stall(&call->stall);
		bool more = stall || call->kind || call->state || call->reason || call->where[0];

		size_t fields = WIRE_OPEN_CALL_FIELDS;

		if (more)
			fields += WIRE_OPEN_CALL_LATER_FIELDS;
		if (stall)
			fields += WIRE_STALL_FIELDS;
		if (has_signs(&call->stall))
			fields += WIRE_STALL_LATER_FIELDS;
		wire_pack_array(packer, fields);
		wire_pack_unsigned(packer, call->rank);
		wire_pack_unsigned(packer, call->communicator_id);
		wire_pack_unsigned(packer, call->sequence);
		wire_pack_signed(packer, arrival - cursor);
		wire_pack_unsigned(packer, call->operation);
		wire_pack_unsigned(packer, call->flags);
		wire_pack_unsigned(packer, call->peer);
		if (more) {
			wire_pack_unsigned(packer, call->kind);
			wire_pack_unsigned(packer, call->state);
			wire_pack_unsigned(packer, call->reason);
			wire_pack_string(packer, call->where, sizeof(call->where));
		}
		if (stall)
			put_stall(packer, &call->stall, arrival);
		cursor = arrival;
	}
	return 0;
}

static bool counts_within_limits(const struct message_batch *batch)
{
	return batch->rank_count <= WIRE_RANKS_PER_BATCH_MAX &&
	       batch->communicator_count <= WIRE_COMMUNICATORS_PER_BATCH_MAX &&
	       batch->interval_count <= WIRE_INTERVALS_PER_BATCH_MAX &&
	       batch->sample_count <= WIRE_SAMPLES_PER_BATCH_MAX &&
	       batch->source_count <= WIRE_SOURCES_MAX &&
	       batch->queue_pair_count <= WIRE_QUEUE_PAIRS_PER_BATCH_MAX &&
	       batch->open_call_count <= WIRE_OPEN_CALLS_PER_BATCH_MAX &&
	       batch->kernel_profile_count <= WIRE_KERNEL_PROFILES_PER_BATCH_MAX &&
	       batch->stack_profile_count <= WIRE_STACK_PROFILES_PER_BATCH_MAX;
}

int wire_encode_batch(const struct message_batch *batch, struct wire_buffer *buffer)
{
	struct wire_packer packer;
	int64_t base = wire_quanta(batch->sent.value);
	int error;

	buffer->length = 0;
	if (!counts_within_limits(batch))
		return -EMSGSIZE;
	wire_pack_start(&packer, buffer);
	/* The last fields are there when they, or one behind them, hold something. */
	size_t later_fields = batch->stack_profile_count    ? 4
			      : batch->kernel_profile_count ? 3
			      : batch->open_call_count	    ? 2
			      : batch->queue_pair_count	    ? 1
							    : 0;

	wire_pack_array(&packer, WIRE_BATCH_FIELDS + later_fields);
	put_header(&packer, batch);
	put_sources(&packer, batch);
	error = put_ranks(&packer, batch);
	if (!error)
		error = put_communicators(&packer, batch);
	if (!error)
		error = wire_pack_steps(&packer, batch->steps, batch->step_count, base);
	if (!error)
		error = put_intervals(&packer, batch, base);
	if (!error)
		error = put_samples(&packer, batch, base);
	if (!error && later_fields > 0)
		error = wire_pack_queue_pairs(&packer, batch, base);
	if (!error && later_fields > 1)
		error = put_open_calls(&packer, batch, base);
	if (!error && later_fields > 2)
		error = wire_pack_kernel_profiles(&packer, batch, base);
	if (!error && later_fields > 3)
		error = wire_pack_stack_profiles(&packer, batch, base);
	if (error) {
		buffer->length = 0;
		return error;
	}
	return wire_pack_finish(&packer);
}

/* The first one also where readers of one directive look for it. */
static void put_directives(struct wire_packer *packer, const struct message_reply *reply)
{
	wire_pack_array(packer, reply->directive_count);
	for (size_t i = 0; i < reply->directive_count; i++) {
		const struct message_directive *directive = &reply->directives[i];

		wire_pack_array(packer, WIRE_DIRECTIVE_FIELDS);
		wire_pack_unsigned(packer, directive->kind);
		wire_pack_unsigned(packer, directive->rank);
		wire_pack_unsigned(packer, directive->steps);
		wire_pack_unsigned(packer, directive->limit_ms);
		wire_pack_unsigned(packer, directive->request);
	}
}

int wire_encode_reply(const struct message_reply *reply, struct wire_buffer *buffer)
{
	static const struct message_directive none = {.kind = DIRECTIVE_NONE};
	const struct message_directive *first =
		reply->directive_count ? &reply->directives[0] : &none;
	struct wire_packer packer;

	buffer->length = 0;
	if (reply->directive_count > WIRE_DIRECTIVES_MAX)
		return -EMSGSIZE;
	wire_pack_start(&packer, buffer);
	wire_pack_array(&packer, WIRE_REPLY_FIELDS + (reply->directive_count > 0));
	wire_pack_unsigned(&packer, WIRE_TYPE_REPLY);
	wire_pack_unsigned(&packer, WIRE_VERSION);
	wire_pack_unsigned(&packer, reply->probe_id);
	wire_pack_unsigned(&packer, reply->number);
	wire_pack_time(&packer, reply->received.value);
	wire_pack_time(&packer, reply->reply_sent.value);
	wire_pack_unsigned(&packer, reply->accepted);
	wire_pack_unsigned(&packer, first->kind);
	wire_pack_unsigned(&packer, first->rank);
	wire_pack_unsigned(&packer, first->steps);
	wire_pack_string(&packer, reply->why, sizeof(reply->why));
	if (reply->directive_count)
		put_directives(&packer, reply);
	return wire_pack_finish(&packer);
}

int wire_encode_question(const struct message_question *question, struct wire_buffer *buffer)
{
	struct wire_packer packer;

	buffer->length = 0;
	if (question->rank >= STEP_RANK_COUNT_MAX)
		return -EINVAL;
	wire_pack_start(&packer, buffer);
	wire_pack_array(&packer, WIRE_QUESTION_FIELDS);
	wire_pack_unsigned(&packer, WIRE_TYPE_QUESTION);
	wire_pack_unsigned(&packer, WIRE_VERSION);
	wire_pack_unsigned(&packer, question->asker_id);
	wire_pack_unsigned(&packer, question->kind);
	wire_pack_unsigned(&packer, question->rank);
	wire_pack_unsigned(&packer, question->steps);
	wire_pack_unsigned(&packer, question->limit_ms);
	wire_pack_string(&packer, question->job_id, sizeof(question->job_id));
	return wire_pack_finish(&packer);
}

int wire_encode_answer(const struct message_answer *answer, struct wire_buffer *buffer)
{
	struct stack_profile *stacks = answer->stacks;
	const struct message_batch looks = {.kernel_profile_count = answer->kernels != NULL,
		.kernel_profiles = answer->kernels,
		.stack_profile_count = stacks != NULL,
		.stack_profiles = &stacks};
	struct wire_packer packer;
	int error;

	buffer->length = 0;
	wire_pack_start(&packer, buffer);
	wire_pack_array(&packer, WIRE_ANSWER_FIELDS);
	wire_pack_unsigned(&packer, WIRE_TYPE_ANSWER);
	wire_pack_unsigned(&packer, WIRE_VERSION);
	wire_pack_unsigned(&packer, answer->asker_id);
	wire_pack_unsigned(&packer, answer->state);
	wire_pack_string(&packer, answer->why, sizeof(answer->why));
	wire_pack_string(&packer, answer->host, sizeof(answer->host));
	wire_pack_unsigned(&packer, answer->pid);
	error = wire_pack_kernel_profiles(&packer, &looks, 0);
	if (!error)
		error = wire_pack_stack_profiles(&packer, &looks, 0);
	if (!error)
		error = wire_pack_finish(&packer);
	if (!error && buffer->length > WIRE_ANSWER_LENGTH_MAX)
		error = -EMSGSIZE;
	if (error)
		buffer->length = 0;
	return error;
}
