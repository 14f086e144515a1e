/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches for tests: random ones that use every field, and one that looks like a training job.
 * Deterministic by seed. Included by test programs; one thread per generator.
 */
#ifndef SLOWRANK_TESTS_RANDOM_BATCH_H
#define SLOWRANK_TESTS_RANDOM_BATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/wire/message.h"

#define RANDOM_BATCH_UNUSED __attribute__((unused))

struct random_source {
	uint64_t state;
};

/* splitmix64, by Sebastiano Vigna (public domain). */
static inline uint64_t random_next(struct random_source *random)
{
	uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint64_t random_below(struct random_source *random, uint64_t limit)
{
	return random_next(random) % limit;
}

/* Any magnitude is as likely as any other, so that every width of number turns up. */
static inline uint64_t random_wide(struct random_source *random)
{
	return random_next(random) >> random_below(random, 64);
}

static inline int64_t random_length_ns(struct random_source *random)
{
	return (int64_t)(random_next(random) >> (24 + random_below(random, 40)));
}

static inline void random_text(struct random_source *random, char *out, size_t capacity)
{
	static const char *const pieces[] = {
		"a", "node-", "7", "\xc3\xa9", "\xe2\x82\xac", " ", "x"};
	size_t length = 0;

	out[0] = '\0';
	for (size_t count = random_below(random, 20); count > 0; count--) {
		const char *piece = pieces[random_below(random, 7)];

		if (length + strlen(piece) >= capacity)
			return;
		strcpy(out + length, piece);
		length += strlen(piece);
	}
}

static inline void random_activity(struct random_source *random, struct activity *activity)
{
	if (random_below(random, 3))
		return;
	if (random_below(random, 2))
		activity->preempted_ns = random_length_ns(random);
	if (random_below(random, 4) == 0)
		activity->throttled_ns = random_length_ns(random);
	if (random_below(random, 4) == 0)
		activity->block_io_ns = random_length_ns(random);
	if (random_below(random, 2))
		activity->asleep_ns = random_length_ns(random);
	if (random_below(random, 4) == 0) {
		activity->major_faults = (uint32_t)random_wide(random);
		activity->major_fault_ns = random_length_ns(random);
	}
	if (random_below(random, 2)) {
		activity->minor_faults = (uint32_t)random_wide(random);
		activity->minor_fault_ns = random_length_ns(random);
	}
	if (random_below(random, 4) == 0)
		activity->comm_call_ns = random_length_ns(random);
	if (random_below(random, 4) == 0)
		activity->host_ns = random_length_ns(random);
	if (random_below(random, 4) == 0)
		activity->collector_ns = random_length_ns(random);
}

static inline void random_step(
	struct random_source *random, struct step_entry *step, int64_t start_ns)
{
	int64_t cursor = start_ns + random_length_ns(random), length;

	step->rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX);
	step->flags = (uint32_t)random_below(random, 16);
	step->index = random_wide(random);
	step->signature = random_below(random, 3);
	step->start.value = start_ns;
	step->part_count =
		random_below(random, 4) ? random_below(random, 20) : random_below(random, 400);
	step->parts = calloc(step->part_count + 1, sizeof(*step->parts));
	for (size_t i = 0; i < step->part_count; i++) {
		struct collective_part *part = &step->parts[i];

		part->communicator_id = random_below(random, 5) * UINT64_C(0x123456789abcdef);
		part->sequence = random_below(random, 8) ? 1000 + i : random_wide(random);
		part->length_bytes = random_below(random, 2) ? 4096 : random_wide(random);
		part->arrival.value = cursor;
		part->departure.value = cursor + random_length_ns(random);
		random_activity(random, &part->before);
		random_activity(random, &part->inside);
		part->root = (int32_t)random_below(random, 3) - 1;
		part->operation = (uint8_t)random_below(random, OPERATION_NR + 3);
		part->flags = (uint8_t)random_below(random, 16);
		if (random_below(random, 4) == 0) {
			part->purpose = (uint8_t)random_below(random, PURPOSE_NR + 3);
			part->stream = (uint8_t)random_below(random, 256);
			part->peer = (uint32_t)random_below(random, 2) *
				     (uint32_t)random_below(random, UINT32_MAX);
			part->chunk = (uint32_t)random_below(random, 5);
		}
		/* Sometimes two overlap: the next arrival only has to come after this one. */
		cursor = random_below(random, 8) ? part->departure.value : part->arrival.value;
		cursor += random_length_ns(random);
	}
	step->end.value = cursor;
	length = cursor - start_ns;
	step->input_ns = length / 7;
	step->compute_ns = length / 3;
	step->host_ns = (int64_t)random_below(random, (uint64_t)(length / 4 + 1));
	step->comm_ns = length - step->input_ns - step->compute_ns - step->host_ns;
	random_activity(random, &step->tail);
	random_activity(random, &step->other_threads);
	if (random_below(random, 3) == 0)
		step->launches = (struct step_launches){.window = 1,
			.launches = (uint32_t)random_wide(random),
			.graph_launches = (uint32_t)random_wide(random),
			.silence_ns = random_length_ns(random),
			.idle_ns = random_length_ns(random),
			.wait_ns = random_length_ns(random)};
}

static inline void random_lists(struct random_source *random, struct message_batch *batch)
{
	batch->rank_count = random_below(random, 5);
	batch->ranks = calloc(batch->rank_count + 1, sizeof(*batch->ranks));
	for (size_t i = 0; i < batch->rank_count; i++) {
		struct message_rank *rank = &batch->ranks[i];

		rank->rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX);
		rank->world_size = (uint32_t)random_wide(random);
		rank->local_rank = random_below(random, 2) ? STEP_RANK_UNKNOWN : (uint32_t)i;
		rank->pid = (uint32_t)random_wide(random);
		rank->exited = (uint8_t)random_below(random, 2);
		rank->exit_code = (int32_t)random_next(random);
		random_text(random, rank->host, sizeof(rank->host));
		random_text(random, rank->program, sizeof(rank->program));
		rank->restarts = i % 2 ? (uint32_t)i : 0;
	}
	batch->communicator_count = random_below(random, 5);
	batch->communicators = calloc(batch->communicator_count + 1, sizeof(*batch->communicators));
	for (size_t i = 0; i < batch->communicator_count; i++) {
		struct message_communicator *entry = &batch->communicators[i];

		entry->rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX);
		entry->communicator.id = random_wide(random);
		entry->communicator.size = (uint32_t)random_wide(random);
		entry->communicator.own_index = (uint32_t)random_wide(random);
	}
	batch->source_count = random_below(random, 5);
	batch->sources = calloc(batch->source_count + 1, sizeof(*batch->sources));
	for (size_t i = 0; i < batch->source_count; i++) {
		random_text(random, batch->sources[i].name, sizeof(batch->sources[i].name));
		random_text(random, batch->sources[i].why, sizeof(batch->sources[i].why));
		batch->sources[i].state = (uint8_t)random_below(random, 5);
	}
}

static inline void random_evidence(struct random_source *random, struct message_batch *batch)
{
	batch->interval_count = random_below(random, 8);
	batch->intervals = calloc(batch->interval_count + 1, sizeof(*batch->intervals));
	for (size_t i = 0; i < batch->interval_count; i++) {
		struct off_cpu_interval *interval = &batch->intervals[i];

		interval->rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX);
		interval->thread_id = (uint32_t)random_wide(random);
		interval->start.value = batch->sent.value - random_length_ns(random);
		interval->end.value = interval->start.value + random_length_ns(random);
		interval->other_pid = (uint32_t)random_wide(random);
		interval->reason = (uint8_t)random_below(random, OFF_CPU_NR);
		random_text(random, interval->other_name, sizeof(interval->other_name));
	}
	batch->sample_count = random_below(random, 8);
	batch->samples = calloc(batch->sample_count + 1, sizeof(*batch->samples));
	for (size_t i = 0; i < batch->sample_count; i++) {
		struct metric_sample *sample = &batch->samples[i];

		sample->rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX);
		sample->metric = (uint16_t)random_below(random, METRIC_NR);
		sample->time.value = batch->sent.value - random_length_ns(random);
		sample->value = (int64_t)random_wide(random) * (random_below(random, 2) ? 1 : -1);
	}
}

static inline void random_kernel_profiles(struct random_source *random, struct message_batch *batch)
{
	batch->kernel_profile_count = random_below(random, 3) ? 0 : random_below(random, 4);
	batch->kernel_profiles =
		calloc(batch->kernel_profile_count + 1, sizeof(*batch->kernel_profiles));
	for (size_t i = 0; i < batch->kernel_profile_count; i++) {
		struct kernel_profile *profile = &batch->kernel_profiles[i];

		profile->rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX);
		profile->start.value = (int64_t)random_below(random, 1u << 30) * 100;
		profile->stop.value =
			profile->start.value + (int64_t)random_below(random, 1u << 20) * 100;
		profile->kernel_count = random_below(random, 1u << 20);
		profile->kernel_ns = random_length_ns(random);
		profile->busy_ns = random_length_ns(random);
		profile->copy_ns = random_length_ns(random);
		profile->copy_bytes = random_wide(random);
		profile->invalid = random_below(random, 5);
		profile->result = (uint8_t)random_below(random, LOOK_RESULT_NR);
		profile->request = (uint32_t)random_wide(random);
		profile->steps = (uint32_t)random_below(random, 1000);
		profile->idle_ns = random_length_ns(random);
		profile->copy_count = random_below(random, 1u << 20);
		profile->synchronise_ns = random_length_ns(random);
		profile->dropped = random_wide(random);
		profile->launches_a_second = (uint32_t)random_below(random, 2) * 38000;
		for (size_t b = 0; b < KERNEL_LAUNCH_BUCKET_NR; b++)
			profile->launches[b] = random_below(random, 1000);
		profile->sum_count = random_below(random, KERNEL_PROFILE_KERNELS_MAX + 1);
		for (size_t k = 0; k < profile->sum_count; k++) {
			snprintf(profile->sums[k].name, sizeof(profile->sums[k].name), "kernel_%u",
				(unsigned)random_below(random, 1000));
			profile->sums[k].count = random_below(random, 100000);
			profile->sums[k].time_ns = random_length_ns(random);
		}
	}
}

/* Names, one after the other: the first one is empty. */
static inline void random_names(struct random_source *random, struct stack_profile *profile)
{
	uint32_t at = 1;

	while (at < profile->text_length) {
		random_text(random, profile->text + at, profile->text_length - at);
		at += (uint32_t)strlen(profile->text + at) + 1;
	}
}

static inline uint32_t random_name_at(
	struct random_source *random, const struct stack_profile *profile)
{
	uint32_t at = (uint32_t)random_below(random, profile->text_length);

	while (at > 0 && profile->text[at - 1])
		at--;
	return at;
}

static inline struct stack_profile *random_stack_profile(struct random_source *random)
{
	struct stack_profile *profile = stack_profile_create(
		&(struct stack_profile){.rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX),
			.request = (uint32_t)random_wide(random),
			.result = (uint8_t)random_below(random, STACK_RESULT_NR + 2),
			.python_minor = (uint8_t)random_below(random, 15),
			.steps = (uint32_t)random_wide(random),
			.looks = (uint32_t)random_wide(random),
			.incomplete = (uint32_t)random_wide(random),
			.cost_ns = random_length_ns(random),
			.node_count = 1 + (uint32_t)random_below(random, 40),
			.sum_count = (uint32_t)random_below(random, 30),
			.thread_count = 1 + (uint32_t)random_below(random, 5),
			.segment_count = 1 + (uint32_t)random_below(random, 5),
			.text_length = 1 + (uint32_t)random_below(random, 200)});

	profile->start.value = (int64_t)random_below(random, 1u << 30) * 100;
	profile->stop.value = profile->start.value + (int64_t)random_below(random, 1u << 20) * 100;
	random_text(random, profile->why, sizeof(profile->why));
	random_names(random, profile);
	for (uint32_t i = 0; i < profile->node_count; i++)
		profile->nodes[i] = (struct stack_node){
			.parent = i && random_below(random, 4) ? (uint32_t)random_below(random, i)
							       : STACK_NODE_NONE,
			.function = random_name_at(random, profile),
			.file = random_name_at(random, profile),
			.line = (int32_t)random_below(random, 3) *
				(int32_t)random_below(random, INT32_MAX / 2),
			.kind = (uint8_t)random_below(random, 6)};
	for (uint32_t i = 0; i < profile->thread_count; i++) {
		struct stack_thread_info *thread = &profile->threads[i];

		thread->pid = (int32_t)random_below(random, INT32_MAX);
		thread->tid = (int32_t)random_below(random, INT32_MAX);
		thread->role = (uint8_t)random_below(random, 4);
		random_text(random, thread->name, sizeof(thread->name));
		thread->cpu_ns = random_below(random, 3) ? random_length_ns(random) : -1;
		thread->blocked_ns = random_below(random, 3) ? random_length_ns(random) : -1;
		thread->major_faults = random_below(random, 3) ? (int64_t)i : -1;
	}
	for (uint32_t i = 0; i < profile->segment_count; i++)
		profile->segments[i] =
			(struct stack_segment){.communicator_id = random_wide(random),
				.ordinal = (uint32_t)random_wide(random),
				.operation = (uint8_t)random_below(random, OPERATION_NR),
				.inside = (uint8_t)random_below(random, 2)};
	for (uint32_t i = 0; i < profile->sum_count; i++)
		profile->sums[i] = (struct stack_sum){
			.node = (uint32_t)random_below(random, profile->node_count),
			.thread = (uint32_t)random_below(random, profile->thread_count),
			.segment = (uint32_t)random_below(random, profile->segment_count),
			.state = (uint8_t)random_below(random, 12),
			.looks = (uint32_t)random_wide(random),
			.steps = (uint32_t)random_wide(random),
			.time_ns = random_length_ns(random)};
	return profile;
}

static inline void random_stack_profiles(struct random_source *random, struct message_batch *batch)
{
	batch->stack_profile_count =
		random_below(random, 4)
			? 0
			: random_below(random, WIRE_STACK_PROFILES_PER_BATCH_MAX + 1);
	batch->stack_profiles =
		calloc(batch->stack_profile_count + 1, sizeof(struct stack_profile *));
	for (size_t i = 0; i < batch->stack_profile_count; i++)
		batch->stack_profiles[i] = random_stack_profile(random);
}

static inline void random_queue_pairs(struct random_source *random, struct message_batch *batch)
{
	batch->queue_pair_count = random_below(random, 2) ? random_below(random, 6) : 0;
	batch->queue_pairs = calloc(batch->queue_pair_count + 1, sizeof(*batch->queue_pairs));
	for (size_t i = 0; i < batch->queue_pair_count; i++) {
		struct message_queue_pair *pair = &batch->queue_pairs[i];
		uint64_t *numbers = &pair->posted_requests;

		pair->rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX);
		pair->number = (uint32_t)random_wide(random);
		pair->peer_number = (uint32_t)random_wide(random);
		pair->time.value = batch->sent.value - random_length_ns(random);
		pair->flags = (uint16_t)random_wide(random);
		pair->own_lid = (uint16_t)random_wide(random);
		pair->peer_lid = (uint16_t)random_wide(random);
		pair->port = (uint8_t)random_wide(random);
		pair->type = (uint8_t)random_wide(random);
		pair->retry_count = (uint8_t)random_wide(random);
		pair->timeout = (uint8_t)random_wide(random);
		for (size_t b = 0; b < WIRE_GID_BYTES; b++) {
			pair->own_gid[b] = (uint8_t)random_wide(random);
			pair->peer_gid[b] = (uint8_t)random_wide(random);
		}
		random_text(random, pair->device, sizeof(pair->device));
		while (numbers < pair->statuses)
			*numbers++ = random_wide(random);
		for (size_t n = random_below(random, 8); n > 0; n--) {
			pair->statuses[random_below(random, WIRE_QUEUE_PAIR_STATUS_NR)] =
				random_wide(random);
			pair->latency[random_below(random, WIRE_QUEUE_PAIR_BUCKET_NR)] =
				random_wide(random);
		}
	}
}

static inline void random_stall(struct random_source *random, struct message_open_call *call)
{
	struct message_stall *stall = &call->stall;

	stall->threads = 1 + (uint32_t)random_below(random, 1000);
	stall->cpu_ms = random_wide(random);
	stall->over_ms = random_wide(random);
	random_text(random, stall->wait_channel, sizeof(stall->wait_channel));
	if (random_below(random, 2)) { /* as earlier versions write it, else */
		stall->io_bytes = random_wide(random);
		stall->acted_ms = (uint32_t)random_wide(random);
	}
	if (random_below(random, 2))
		return;
	stall->communicator_id = random_wide(random);
	stall->sequence = random_wide(random);
	stall->launched.value = call->arrival.value + random_length_ns(random);
	stall->calls = (uint32_t)random_wide(random);
	stall->operation = (uint8_t)(1 + random_below(random, OPERATION_NR - 1));
	stall->started = (uint8_t)random_below(random, 2);
}

static inline void random_open_calls(struct random_source *random, struct message_batch *batch)
{
	batch->open_call_count = random_below(random, 2) ? random_below(random, 6) : 0;
	batch->open_calls = calloc(batch->open_call_count + 1, sizeof(*batch->open_calls));
	for (size_t i = 0; i < batch->open_call_count; i++) {
		struct message_open_call *call = &batch->open_calls[i];

		call->rank = (uint32_t)random_below(random, STEP_RANK_COUNT_MAX);
		call->peer = (uint32_t)random_wide(random);
		call->communicator_id = random_wide(random);
		call->sequence = random_wide(random);
		call->arrival.value = batch->sent.value - random_length_ns(random);
		call->operation = (uint8_t)random_below(random, OPERATION_NR);
		call->flags = (uint8_t)random_below(random, 8);
		if (random_below(random, 3) == 0)
			continue; /* as earlier versions write it */
		call->kind = (uint8_t)random_below(random, OPEN_CALL_KIND_NR);
		call->state = (uint8_t)random_below(random, 128);
		call->reason = (uint8_t)random_below(random, OFF_CPU_NR);
		random_text(random, call->where, sizeof(call->where));
		if (random_below(random, 2))
			random_stall(random, call);
	}
}

RANDOM_BATCH_UNUSED static void random_batch_init(struct message_batch *batch, uint64_t seed)
{
	struct random_source random = {seed};
	int64_t cursor;

	*batch = (struct message_batch){0};
	batch->probe_id = random_next(&random);
	batch->number = random_wide(&random);
	batch->host_id = random_next(&random);
	batch->sent.value = (INT64_C(1) << 50) + random_length_ns(&random);
	if (random_below(&random, 2)) {
		batch->previous_sent.value = batch->sent.value - random_length_ns(&random);
		batch->previous_reply_received.value = batch->sent.value;
		batch->previous_received.value = random_length_ns(&random);
		batch->previous_reply_sent.value = random_length_ns(&random);
	}
	batch->final = (uint8_t)random_below(&random, 2);
	random_text(&random, batch->job_id, sizeof(batch->job_id));
	batch->unix_offset_ns = (int64_t)(random_next(&random) >> 4) - (INT64_C(1) << 58);
	batch->counters = (struct message_counters){random_wide(&random), random_wide(&random),
		random_wide(&random), random_wide(&random), random_wide(&random),
		random_wide(&random), random_wide(&random)};
	random_lists(&random, batch);
	random_evidence(&random, batch);
	batch->step_count = random_below(&random, 12);
	batch->steps = calloc(batch->step_count + 1, sizeof(*batch->steps));
	cursor = batch->sent.value - random_length_ns(&random);
	for (size_t i = 0; i < batch->step_count; i++) {
		random_step(&random, &batch->steps[i], cursor);
		if (random_below(&random, 2))
			cursor = batch->steps[i].end.value;
	}
	random_queue_pairs(&random, batch);
	random_kernel_profiles(&random, batch);
	random_open_calls(&random, batch);
	random_stack_profiles(&random, batch);
}

/* Frees what random_batch_init() and job_batch_init() made. */
RANDOM_BATCH_UNUSED static void random_batch_fini(struct message_batch *batch)
{
	for (size_t i = 0; i < batch->step_count; i++)
		free(batch->steps[i].parts);
	for (size_t i = 0; i < batch->stack_profile_count; i++)
		stack_profile_destroy(batch->stack_profiles[i]);
	free(batch->stack_profiles);
	free(batch->steps);
	free(batch->ranks);
	free(batch->communicators);
	free(batch->sources);
	free(batch->intervals);
	free(batch->samples);
	free(batch->queue_pairs);
	free(batch->kernel_profiles);
	free(batch->open_calls);
	*batch = (struct message_batch){0};
}

struct job_batch {
	uint32_t rank_count;
	size_t steps_per_rank;
	size_t collectives_per_step;
	int64_t step_ns;
	uint64_t activity_percent; /* of segments that were preempted or had page faults */
	bool varying_lengths;	   /* a third of the payloads differ from call to call */
};

/*
 * A hybrid-parallel job as one probe sees it: collectives on a world, a tensor-parallel and a
 * pipeline communicator, segments and durations spread over the step, times with ns noise.
 */
RANDOM_BATCH_UNUSED static void job_batch_init(
	struct message_batch *batch, const struct job_batch *job, uint64_t seed)
{
	struct random_source random = {seed};
	int64_t share_ns = job->step_ns / (int64_t)job->collectives_per_step;

	*batch = (struct message_batch){0};
	batch->probe_id = random_next(&random);
	batch->number = 1000;
	batch->host_id = random_next(&random);
	batch->sent.value = INT64_C(86400) * 1000000000;
	strcpy(batch->job_id, "job-4711");
	batch->step_count = job->rank_count * job->steps_per_rank;
	batch->steps = calloc(batch->step_count + 1, sizeof(*batch->steps));
	for (size_t i = 0; i < batch->step_count; i++) {
		struct step_entry *step = &batch->steps[i];
		size_t number = i / job->rank_count;
		int64_t cursor =
			batch->sent.value - INT64_C(2000000000) + (int64_t)number * job->step_ns;

		step->rank = (uint32_t)(i % job->rank_count);
		step->index = 100000 + number;
		step->signature = UINT64_C(0xfeedfacecafebeef);
		step->start.value = cursor;
		step->end.value = cursor + job->step_ns;
		step->part_count = job->collectives_per_step;
		step->parts = calloc(step->part_count + 1, sizeof(*step->parts));
		for (size_t j = 0; j < step->part_count; j++) {
			struct collective_part *part = &step->parts[j];
			int64_t half = share_ns / 2;

			part->communicator_id = UINT64_C(0x8877665544332211) * (1 + j % 3);
			part->sequence = 6400000 + number * (step->part_count / 3 + 1) + j / 3;
			part->length_bytes = UINT64_C(1) << (10 + j % 16);
			if (job->varying_lengths && j % 3 == 0)
				part->length_bytes = 1 + random_below(&random, 100000000);
			part->root = j % 16 == 5 ? 0 : STEP_ROOT_NONE;
			part->operation = (uint8_t)(1 + j % 5);
			cursor += half / 2 + (int64_t)random_below(&random, (uint64_t)half);
			part->arrival.value = cursor;
			cursor += half / 2 + (int64_t)random_below(&random, (uint64_t)half);
			part->departure.value = cursor;
			if (random_below(&random, 100) < job->activity_percent) {
				part->before.preempted_ns = half / 4;
				part->before.minor_faults = 3;
				part->before.minor_fault_ns = 2100;
			}
		}
		step->input_ns = job->step_ns / 20;
		step->compute_ns = job->step_ns / 2;
		step->host_ns = job->step_ns / 10;
		step->comm_ns = job->step_ns - step->input_ns - step->compute_ns - step->host_ns;
		step->other_threads.asleep_ns = 3 * job->step_ns;
		step->other_threads.preempted_ns = job->step_ns / 100;
	}
}

#endif
