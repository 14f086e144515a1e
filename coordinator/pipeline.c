/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/join/assembly.h"
#include "analysis/join/device_clock.h"
#include "analysis/judge/judge.h"
#include "coordinator/asked_looks.h"
#include "coordinator/deep_looks.h"
#include "coordinator/output/alert_gate.h"
#include "coordinator/pipeline_hang.h"
#include "coordinator/pipeline_internal.h"
#include "coordinator/plausible.h"
#include "coordinator/probe_table.h"
#include "coordinator/queue_pair_table.h"
#include "coordinator/rank_owner.h"
#include "coordinator/rank_table.h"
#include "coordinator/step_packer.h"
#include "probe/wire/decode.h"

enum {
	PROBES_PER_RANK_MAX = 16, /* restarts, of each of its ranks' probes */
	QUEUE_PAIRS_PER_RANK = 32,
	INTRODUCE_MS = 600000, /* how often: a record may begin anywhere, once it is thinned */
};

struct pipeline {
	void (*on_stage)(void *context, enum pipeline_stage stage);
	void *stage_context;
	int (*keep)(void *context);
	void *keep_context;
	void (*on_backlog)(void *context, bool late, int64_t latest_ns);
	void *backlog_context;
	struct backlog backlog;
	void (*on_missing)(void *context, uint32_t count, uint32_t world_size, const char *which);
	void *missing_context;
	struct job_ns missing_since; /* 0 = none is missing */
	struct rank_table ranks;
	struct probe_table probes;
	struct queue_pair_table queue_pairs;
	struct assembly assembly;
	struct step_packer packer;
	struct step_grid grid;
	struct device_clocks device_clocks;
	struct judge *judge;
	struct alert_gate alerts;
	struct pipeline_hang hang;
	struct deep_looks deep_looks;
	struct asked_looks asked_looks;
	struct report_model model;
	struct job_cost costs[COSTS_MAX];
	struct report_rank *report_ranks;
	size_t report_rank_capacity;
	char job_id[STEP_NAME_LENGTH_MAX + 1];
	int64_t unix_offset_ns; /* of the reference host */
	bool unix_offset_known;
	bool one_job;
	bool unproven; /* batches may be anybody's */
	bool enqueue_only;
	uint32_t world_size; /* as probes of the world tell it */
	bool finished;
	uint64_t frames, frames_refused;
	uint64_t steps_implausible;
};

int pipeline_create(const struct pipeline_options *options, struct pipeline **result)
{
	struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
	struct judge_options judge_options = {alert_gate_verdict, NULL};
	int error;

	if (!pipeline)
		return -ENOMEM;
	pipeline->alerts =
		(struct alert_gate){.on_verdict = options->on_verdict, .context = options->context};
	judge_options.context = &pipeline->alerts;
	rank_table_init(&pipeline->ranks);
	probe_table_init(&pipeline->probes);
	queue_pair_table_init(&pipeline->queue_pairs);
	assembly_init(&pipeline->assembly, &pipeline->ranks.streams);
	grid_init(&pipeline->grid);
	device_clocks_init(&pipeline->device_clocks);
	error = judge_create(&judge_options, &pipeline->judge);
	if (error < 0) {
		free(pipeline);
		return error;
	}
	*result = pipeline;
	return 0;
}

void pipeline_destroy(struct pipeline *pipeline)
{
	if (!pipeline)
		return;
	judge_destroy(pipeline->judge);
	alert_gate_fini(&pipeline->alerts);
	pipeline_hang_fini(&pipeline->hang);
	asked_looks_fini(&pipeline->asked_looks);
	grid_fini(&pipeline->grid);
	device_clocks_fini(&pipeline->device_clocks);
	assembly_fini(&pipeline->assembly);
	step_packer_fini(&pipeline->packer);
	rank_table_fini(&pipeline->ranks);
	probe_table_fini(&pipeline->probes);
	queue_pair_table_fini(&pipeline->queue_pairs);
	free(pipeline->report_ranks);
	free(pipeline);
}

void pipeline_watch_stages(struct pipeline *pipeline,
	void (*on_stage)(void *context, enum pipeline_stage stage), void *context)
{
	pipeline->on_stage = on_stage;
	pipeline->stage_context = context;
}

void pipeline_keep_first(struct pipeline *pipeline, int (*keep)(void *context), void *context)
{
	pipeline->keep = keep;
	pipeline->keep_context = context;
}

void pipeline_watch_backlog(struct pipeline *pipeline,
	void (*on_backlog)(void *context, bool late, int64_t latest_ns), void *context)
{
	pipeline->on_backlog = on_backlog;
	pipeline->backlog_context = context;
}

void pipeline_watch_missing(struct pipeline *pipeline,
	void (*on_missing)(void *context, uint32_t count, uint32_t world_size, const char *which),
	void *context)
{
	pipeline->on_missing = on_missing;
	pipeline->missing_context = context;
}

void pipeline_watch_sheets(struct pipeline *pipeline,
	void (*on_sheet)(
		void *context, const struct gate_sheet *sheet, const struct explanation *why),
	void *context)
{
	judge_watch_sheets(pipeline->judge, on_sheet, context);
}

void pipeline_watch_steps(struct pipeline *pipeline,
	void (*on_step)(void *context, const struct judged_step *step), void *context)
{
	judge_watch_steps(pipeline->judge, on_step, context);
}

int64_t pipeline_unix_offset_ns(const struct pipeline *pipeline)
{
	return pipeline->unix_offset_ns;
}

void pipeline_serve_one_job(struct pipeline *pipeline, const char *job_id)
{
	pipeline->one_job = true;
	message_job_id(pipeline->job_id, job_id ? job_id : "");
}

void pipeline_doubt_restarts(struct pipeline *pipeline)
{
	pipeline->unproven = true;
}

static void begin_stage(const struct pipeline *pipeline, enum pipeline_stage stage)
{
	if (pipeline->on_stage)
		pipeline->on_stage(pipeline->stage_context, stage);
}

static int refuse(struct pipeline *pipeline, struct message_reply *reply, const char *why)
{
	pipeline->frames_refused++;
	reply->accepted = 0;
	snprintf(reply->why, sizeof(reply->why), "%s", why);
	return PIPELINE_REFUSED;
}

/* No frame of this job's: it counts nowhere. */
static int refuse_other_job(
	const struct pipeline *pipeline, const char *job_id, struct message_reply *reply)
{
	reply->accepted = 0;
	reply->directives[reply->directive_count++] =
		(struct message_directive){.kind = DIRECTIVE_OTHER_JOB};
	snprintf(reply->why, sizeof(reply->why),
		"this coordinator serves the job %s, and not %s: a job has one of its own, or "
		"give all its parts the same --job NAME",
		pipeline->job_id, job_id);
	return PIPELINE_REFUSED;
}

/*
 * What a batch says of its host's clock counts with the first of its steps, so that the order of frames
 * is not seen; and at once where no step hangs on it: on the reference, or before the first one (started:
 * the clocks were set for it).
 */
static struct stream_stamps take_stamps(struct host_entry *host, const struct message_batch *batch,
	struct job_ns received, bool started)
{
	const struct stream_stamps stamps = {
		.pending = true,
		.sent = batch->sent,
		.received = received,
		.previous_sent = batch->previous_sent,
		.previous_reply_received = batch->previous_reply_received,
		.previous_received = batch->previous_received,
		.previous_reply_sent = batch->previous_reply_sent,
	};

	if (host->clock.fixed || !started || !host->clock.has_high)
		assembly_take_stamps(&host->clock, &stamps);
	return stamps;
}

static bool has_displaced(
	const struct pipeline *pipeline, const struct probe_entry *probe, struct job_ns received)
{
	return rank_owner_is_heard(probe_table_find(&pipeline->probes, probe->displaced), received);
}

/* What is left of the probe of an earlier start, if anything, is not waited for. */
static void replace_owner(struct pipeline *pipeline, const struct message_batch *batch,
	const struct message_rank *message, struct probe_entry *probe, struct job_ns received)
{
	const struct rank_entry *rank = message->rank < pipeline->ranks.streams.rank_capacity
						? &pipeline->ranks.ranks[message->rank]
						: NULL;

	if (rank && rank->owned && rank->probe_id != batch->probe_id &&
		message->restarts > rank->restarts) {
		probe_table_replace(&pipeline->probes, rank->probe_id);
		if (!has_displaced(pipeline, probe, received))
			probe->displaced = rank->probe_id;
	}
}

static bool tells_of_world(const struct pipeline *pipeline, const struct message_batch *batch)
{
	uint32_t end = pipeline->world_size ? pipeline->world_size : STEP_RANK_COUNT_MAX;

	for (size_t i = 0; i < batch->rank_count; i++) {
		if (batch->ranks[i].rank < end)
			return true;
	}
	for (size_t i = 0; i < batch->step_count; i++) {
		if ((batch->packed_steps ? batch->packed_steps[i].rank : batch->steps[i].rank) <
			end)
			return true;
	}
	return false;
}

static void note_world(struct pipeline *pipeline, const struct message_batch *batch,
	struct probe_entry *probe, struct job_ns received)
{
	if (!probe->of_world)
		probe->of_world = tells_of_world(pipeline, batch) &&
				  !has_displaced(pipeline, probe, received);
	for (size_t i = 0; i < batch->rank_count && probe->of_world; i++) {
		if (batch->ranks[i].world_size > pipeline->world_size)
			pipeline->world_size = batch->ranks[i].world_size;
	}
}

bool pipeline_probe_is_of_world(const struct pipeline *pipeline, uint64_t probe_id)
{
	const struct probe_entry *probe = probe_table_find(&pipeline->probes, probe_id);

	return probe && probe->of_world;
}

static int take_ranks(struct pipeline *pipeline, const struct message_batch *batch,
	struct probe_entry *probe, uint32_t host, struct job_ns received)
{
	int error = 0;

	for (size_t i = 0; i < batch->rank_count && error == 0; i++) {
		replace_owner(pipeline, batch, &batch->ranks[i], probe, received);
		error = rank_table_announce(&pipeline->ranks, &batch->ranks[i], host);
		if (error == 0) {
			struct rank_entry *rank = &pipeline->ranks.ranks[batch->ranks[i].rank];

			if (!rank->owned)
				rank->announced = received;
			rank->owned = true;
			rank->probe_id = batch->probe_id;
			error = judge_process(
				pipeline->judge, batch->ranks[i].rank, batch->ranks[i].pid);
		}
	}
	for (size_t i = 0; i < batch->communicator_count && error == 0; i++) {
		const struct message_communicator *message = &batch->communicators[i];
		bool first;

		error = rank_table_communicator(
			&pipeline->ranks, message->rank, &message->communicator, &first);
		if (error == 0 && first)
			error = assembly_note_communicator(
				&pipeline->assembly, message->communicator.id, message->rank);
	}
	return error;
}

/* Of each rank that the batch announces. */
static void note_stamps(
	struct pipeline *pipeline, const struct message_batch *batch, struct job_ns received)
{
	const struct rank_stamp stamp = {
		.valid = batch->sent.value != 0,
		.number = batch->number,
		.sent = batch->sent,
		.high_ns = received.value - batch->sent.value,
		.unix_offset_ns = batch->unix_offset_ns,
	};

	for (size_t i = 0; i < batch->rank_count; i++)
		rank_table_stamp(&pipeline->ranks, batch->ranks[i].rank, &stamp);
}

static int take_measurable(struct pipeline *pipeline, const struct message_batch *batch,
	const struct held_steps *held, uint32_t evidence_mask)
{
	int error = 0;

	for (unsigned i = 0; i < EVIDENCE_SOURCE_NR && batch->source_count; i++)
		judge_missing(pipeline->judge, (enum evidence_source)(1u << i),
			probe_table_why(&pipeline->probes, probe_table_evidence[i]));
	for (size_t i = 0; i < batch->rank_count && error == 0; i++)
		error = judge_measurable(pipeline->judge, batch->ranks[i].rank, evidence_mask);
	for (size_t i = 0; i < held->step_count && error == 0; i++)
		error = judge_measurable(pipeline->judge, held->steps[i].rank, evidence_mask);
	return error;
}

static int take_kernels(struct pipeline *pipeline, const struct kernel_profile *profile,
	const struct clock_fit *clock, struct job_ns received)
{
	const struct deep_answer answer = deep_answer_of_kernels(profile);
	const struct job_ns start = clock_fit_to_job(clock, profile->start);
	const struct job_ns stop = clock_fit_to_job(clock, profile->stop);

	if (asked_looks_has(profile->request))
		return asked_looks_take_kernels(
			&pipeline->asked_looks, profile, start, stop, received);
	deep_looks_answer(&pipeline->deep_looks, &answer, received);
	return judge_kernel_profile(pipeline->judge, profile, start, stop);
}

static int take_stacks(struct pipeline *pipeline, const struct stack_profile *profile,
	const struct clock_fit *clock, struct job_ns received)
{
	const struct deep_answer answer = deep_answer_of_stacks(profile);
	const struct job_ns start = clock_fit_to_job(clock, profile->start);
	const struct job_ns stop = clock_fit_to_job(clock, profile->stop);

	if (asked_looks_has(profile->request))
		return asked_looks_take_stacks(
			&pipeline->asked_looks, profile, start, stop, received);
	deep_looks_answer(&pipeline->deep_looks, &answer, received);
	return judge_stack_profile(pipeline->judge, profile, start, stop);
}

static int take_looks(struct pipeline *pipeline, const struct message_batch *batch,
	const struct clock_fit *clock, struct job_ns received)
{
	int error = 0;

	for (size_t i = 0; i < batch->kernel_profile_count && error == 0; i++)
		error = take_kernels(pipeline, &batch->kernel_profiles[i], clock, received);
	for (size_t i = 0; i < batch->stack_profile_count && error == 0; i++)
		error = take_stacks(pipeline, batch->stack_profiles[i], clock, received);
	return error;
}

enum { SAMPLES_AT_ONCE = 64 };

static int take_evidence(
	struct pipeline *pipeline, const struct message_batch *batch, const struct clock_fit *clock)
{
	int error = 0;

	for (size_t i = 0; i < batch->interval_count && error == 0; i++)
		error = judge_interval(pipeline->judge, &batch->intervals[i],
			clock_fit_to_job(clock, batch->intervals[i].start));
	for (size_t i = 0; i < batch->sample_count && error == 0; i++) {
		size_t left = batch->sample_count - i;

		if (i % SAMPLES_AT_ONCE == 0)
			judge_expect_samples(pipeline->judge, &batch->samples[i],
				left < SAMPLES_AT_ONCE ? left : SAMPLES_AT_ONCE);
		error = judge_sample(pipeline->judge, &batch->samples[i],
			clock_fit_to_job(clock, batch->samples[i].time));
		if (error == 0)
			error = queue_pair_table_sample(&pipeline->queue_pairs, &batch->samples[i]);
	}
	return error;
}

static int take_queue_pairs(
	struct pipeline *pipeline, const struct message_batch *batch, const struct clock_fit *clock)
{
	int error = 0;

	for (size_t i = 0; i < batch->queue_pair_count && error == 0; i++) {
		const struct message_queue_pair *pair = &batch->queue_pairs[i];
		struct job_ns time = clock_fit_to_job(clock, pair->time);
		struct link_sample sample;
		bool has_sample;

		error = queue_pair_table_take(
			&pipeline->queue_pairs, pair, time, &sample, &has_sample);
		if (error == 0 && has_sample)
			error = judge_link(pipeline->judge, &sample, time);
	}
	return error;
}

/* The batch's steps as they are kept, whichever way they came. */
static int hold_steps(
	struct pipeline *pipeline, const struct message_batch *batch, struct held_steps **held)
{
	const struct packed_step *packed = batch->packed_steps;
	int error = 0;

	if (!packed)
		error = step_packer_pack(
			&pipeline->packer, batch->steps, batch->step_count, &packed);
	return error < 0 ? error : held_steps_create(packed, batch->step_count, held);
}

static int take_steps(struct pipeline *pipeline, struct held_steps *held, uint32_t host)
{
	int error = 0;

	for (size_t i = 0; i < held->step_count && error == 0; i++) {
		const struct packed_step *step = &held->steps[i];

		pipeline->enqueue_only |= (step->part_flags & PART_ENQUEUE_ONLY) != 0;
		if (!plausible_step(step)) {
			pipeline->steps_implausible++;
			continue;
		}
		error = rank_table_queue(&pipeline->ranks, held, step, host);
		if (error == 0)
			assembly_note_entry(&pipeline->assembly, step);
	}
	return error;
}

/* Analyses every job step that is complete by now. */
static int analyse(struct pipeline *pipeline, bool finish)
{
	for (;;) {
		int result;

		begin_stage(pipeline, PIPELINE_STAGE_ASSEMBLE);
		result = assembly_next(&pipeline->assembly, finish, &pipeline->grid);
		if (pipeline->assembly.clock.unix_offset_known)
			pipeline->unix_offset_ns = pipeline->assembly.clock.unix_offset_ns;
		if (result <= 0)
			return result;
		begin_stage(pipeline, PIPELINE_STAGE_JUDGE);
		result = device_clocks_align(&pipeline->device_clocks, &pipeline->grid);
		if (result == 0)
			result = judge_step(pipeline->judge, &pipeline->grid);
		begin_stage(pipeline, PIPELINE_STAGE_ASSEMBLE);
		assembly_advance(&pipeline->assembly);
		if (result < 0)
			return result;
	}
}

static int take_parts_of_batch(struct pipeline *pipeline, const struct message_batch *batch,
	struct probe_entry *probe, struct held_steps *held, uint32_t host, struct job_ns received)
{
	const struct clock_fit *clock = &pipeline->ranks.streams.hosts[host].clock;
	int error = take_ranks(pipeline, batch, probe, host, received);

	note_stamps(pipeline, batch, received);
	if (error == 0)
		error = take_measurable(pipeline, batch, held, probe->evidence_mask);
	if (error == 0)
		error = take_evidence(pipeline, batch, clock);
	if (error == 0)
		error = take_looks(pipeline, batch, clock, received);
	if (error == 0)
		error = take_queue_pairs(pipeline, batch, clock);
	if (error == 0)
		error = take_steps(pipeline, held, host);
	return error < 0 ? error : pipeline_hang_take(&pipeline->hang, batch, held, clock);
}

static int take_batch(struct pipeline *pipeline, const struct message_batch *batch,
	struct probe_entry *probe, struct job_ns received)
{
	struct held_steps *held;
	uint32_t host;
	int error;

	probe_table_update(&pipeline->probes, probe,
		batch); /* no memory: the last one is the last all the same */
	error = rank_table_host(&pipeline->ranks, batch->host_id, &host);
	if (error == 0)
		error = hold_steps(pipeline, batch, &held);
	if (error < 0)
		return error;
	held->batch.stamps = take_stamps(&pipeline->ranks.streams.hosts[host], batch, received,
		pipeline->assembly.clock.fixed);
	if (!pipeline->job_id[0])
		memcpy(pipeline->job_id, batch->job_id, sizeof(pipeline->job_id));
	if (!pipeline->unix_offset_known) {
		pipeline->unix_offset_known = true;
		pipeline->unix_offset_ns =
			batch->unix_offset_ns - pipeline->ranks.streams.hosts[host].clock.offset_ns;
	}
	error = take_parts_of_batch(pipeline, batch, probe, held, host, received);
	held_steps_unref(held);
	return error;
}

/* What the reply asks of the probe; a double's too: the first reply was lost. */
static void ask(
	const struct pipeline *pipeline, struct probe_entry *probe, struct message_reply *reply)
{
	int64_t since_ns = reply->received.value - probe->introduced.value;
	bool known = probe->introduced.value != 0; /* its first batch tells, anyway */
	bool due = known && since_ns >= INTRODUCE_MS * INT64_C(1000000);

	if (!known || due)
		probe->introduced = reply->received;
	if (due || (probe->gap_number && probe->gap_number == reply->number))
		reply->directives[reply->directive_count++] =
			(struct message_directive){.kind = DIRECTIVE_INTRODUCE};
	deep_looks_fill(&pipeline->deep_looks, reply);
	asked_looks_fill(&pipeline->asked_looks, reply);
}

void pipeline_ask(struct pipeline *pipeline, const struct message_question *question,
	struct job_ns received, struct message_answer *answer)
{
	if (question->job_id[0] && pipeline->job_id[0] &&
		strcmp(question->job_id, pipeline->job_id) != 0) {
		answer->state = ANSWER_OTHER_JOB;
		snprintf(
			answer->why, sizeof(answer->why), "it serves the job %s", pipeline->job_id);
		return;
	}
	asked_looks_question(&pipeline->asked_looks, question, &pipeline->ranks, &pipeline->probes,
		received, answer);
}

/* The whole batch: what a probe says of its other ranks came with it, and it is told why. */
static int refuse_foreign_rank(
	struct pipeline *pipeline, uint32_t rank, struct message_reply *reply)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	snprintf(why, sizeof(why),
		"another probe watches rank %u already, on %.40s: end one of the two, or give each "
		"job "
		"a coordinator of its own",
		rank, pipeline->ranks.ranks[rank].host_name);
	return refuse(pipeline, reply, why);
}

/*
 * Who has the key may say anything, and what is said of a rank, a probe or a host takes memory: none is believed
 * beyond what a job of this size can have.
 */
static bool is_too_much(struct pipeline *pipeline, const struct message_batch *batch, char *why)
{
	const struct rank_table *ranks = &pipeline->ranks;
	uint32_t limit = rank_table_limit(ranks, batch->rank_count ? batch->ranks->world_size : 0);

	pipeline->queue_pairs.most = (size_t)limit * QUEUE_PAIRS_PER_RANK;
	if (pipeline->queue_pairs.most > QUEUE_PAIRS_MAX)
		pipeline->queue_pairs.most = QUEUE_PAIRS_MAX;
	if (!pipeline->one_job) /* a record holds what was believed; a trace says nothing of its world */
		return false;
	if (batch->rank_end > limit)
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"it speaks of rank %u, and this job can have %u ranks (see "
			"docs/operations.md, Limits)",
			batch->rank_end - 1, limit);
	else if (pipeline->probes.map.count >= (size_t)limit * PROBES_PER_RANK_MAX &&
		 !probe_table_find(&pipeline->probes, batch->probe_id))
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"this job had %zu probes: no other one is heard",
			pipeline->probes.map.count);
	else
		return false;
	return true;
}

/* Tells when the coordinator falls behind the job, and when it has caught up. */
static void note_backlog(struct pipeline *pipeline, struct probe_entry *probe,
	const struct message_batch *batch, struct job_ns received)
{
	enum backlog_change change;

	if (!batch->sent.value)
		return;
	change = backlog_take(
		&pipeline->backlog, &probe->backlog, batch->sent, received, batch->final != 0);
	if (change != BACKLOG_SAME && pipeline->on_backlog)
		pipeline->on_backlog(pipeline->backlog_context, change == BACKLOG_BEGAN,
			pipeline->backlog.most_ns);
}

/* Launchers start ranks within seconds of each other; a node that comes later still joins. */
static void note_missing(struct pipeline *pipeline, struct job_ns received)
{
	const struct rank_table *ranks = &pipeline->ranks;
	char which[80];
	uint32_t count;

	if (ranks->streams.known_count >= ranks->streams.world_size || !pipeline->on_missing) {
		pipeline->missing_since.value = 0;
		return;
	}
	if (!pipeline->missing_since.value)
		pipeline->missing_since = received;
	if (received.value - pipeline->missing_since.value < INT64_C(1000000) * PIPELINE_MISSING_MS)
		return;
	count = rank_table_missing(ranks, which, sizeof(which));
	pipeline->on_missing(pipeline->missing_context, count, ranks->streams.world_size, which);
	pipeline->on_missing = NULL; /* it is said */
}

void pipeline_limit_alerts(struct pipeline *pipeline, const struct alert_limits *limits)
{
	pipeline->alerts.limits = *limits;
}

/* What was held back may have become worse, or have lasted long enough. */
static void look_at_alerts(struct pipeline *pipeline)
{
	size_t count;
	const struct verdict *verdicts = judge_verdicts(pipeline->judge, &count);

	alert_gate_look(&pipeline->alerts, verdicts, count);
}

int pipeline_push_batch(struct pipeline *pipeline, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received,
	struct message_reply *reply)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct probe_entry *probe;
	uint32_t rank;
	int error;

	*reply = (struct message_reply){
		.probe_id = batch->probe_id,
		.number = batch->number,
		.received = received,
		.accepted = 1,
	};
	if (pipeline->one_job && pipeline->job_id[0] &&
		strcmp(pipeline->job_id, batch->job_id) != 0) {
		error = refuse_other_job(pipeline, batch->job_id, reply);
		goto done;
	}
	if (rank_owner_conflicts(&pipeline->ranks, &pipeline->probes, batch, received,
		    !pipeline->unproven, &rank)) {
		probe_table_hear(&pipeline->probes, batch->probe_id, received);
		error = refuse_foreign_rank(pipeline, rank, reply);
		goto done;
	}
	if (is_too_much(pipeline, batch, why)) {
		error = refuse(pipeline, reply, why);
		goto done;
	}
	error = probe_table_get(&pipeline->probes, batch->probe_id, &probe);
	if (error < 0)
		goto done;
	probe->last_received = received;
	if (probe_entry_has(probe, batch->number)) {
		ask(pipeline, probe, reply);
		error = PIPELINE_DUPLICATE;
		goto done;
	}
	error = pipeline->keep ? pipeline->keep(pipeline->keep_context) : 0;
	if (error < 0)
		goto done;
	probe_entry_take(probe, batch->number);
	probe->last_taken = received;
	pipeline->frames++;
	forget_implausible_stamps(batch, received);
	note_backlog(pipeline, probe, batch, received);
	begin_stage(pipeline, PIPELINE_STAGE_TAKE);
	error = take_batch(pipeline, batch, probe, received);
	note_world(pipeline, batch, probe, received);
	note_missing(pipeline, received);
	if (error == 0)
		error = analyse(pipeline, false);
	begin_stage(pipeline, PIPELINE_STAGE_IDLE);
	if (error == 0)
		error = pipeline_hang_look(&pipeline->hang, &pipeline->ranks, &pipeline->probes,
			pipeline->judge, assembly_job_now(&pipeline->assembly, received), received);
	if (error == 0) {
		look_at_alerts(pipeline);
		deep_looks_plan(&pipeline->deep_looks, pipeline->judge, &pipeline->ranks, received);
		ask(pipeline, probe, reply);
	}
done:
	release(batch);
	return error;
}

int pipeline_push(struct pipeline *pipeline, const void *bytes, size_t length,
	struct job_ns received, struct message_reply *reply)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct message_batch *batch;
	int error;

	memset(reply, 0, sizeof(*reply));
	reply->received = received;
	begin_stage(pipeline, PIPELINE_STAGE_DECODE);
	error = wire_decode_packed_batch(bytes, length, &batch, why);
	if (error == -ENOMEM)
		return error;
	if (error < 0)
		return refuse(pipeline, reply, why);
	return pipeline_push_batch(pipeline, batch, message_batch_destroy, received, reply);
}

bool pipeline_complete(const struct pipeline *pipeline)
{
	return pipeline->probes.map.count > 0 &&
	       pipeline->probes.final_count == pipeline->probes.map.count;
}

int pipeline_finish(struct pipeline *pipeline)
{
	int error;

	if (pipeline->finished)
		return 0;
	pipeline->finished = true;
	error = analyse(pipeline, true);
	if (error == 0)
		error = judge_finish(pipeline->judge);
	look_at_alerts(pipeline);
	return error;
}

/* Splits a rank's time in collectives as its judged instances were split. */
static void fill_rank(const struct pipeline *pipeline, uint32_t number, struct report_rank *report)
{
	const struct rank_entry *rank = &pipeline->ranks.ranks[number];
	struct judge_rank_totals judged = judge_rank_totals(pipeline->judge, number);
	int64_t inside_ns = judged.wait_ns + judged.transfer_ns;
	double wait_share = inside_ns > 0 ? (double)judged.wait_ns / (double)inside_ns : 0;
	int64_t wait_ns = (int64_t)(wait_share * (double)rank->comm_ns);

	*report = (struct report_rank){
		.totals = {.rank = number,
			.role = judged.role,
			.steps = judged.steps,
			.phase_ns = {[PHASE_INPUT] = rank->input_ns,
				[PHASE_COMPUTE] = rank->compute_ns,
				[PHASE_HOST] = rank->host_ns,
				[PHASE_COMM_WAIT] = wait_ns,
				[PHASE_COMM_TRANSFER] = rank->comm_ns - wait_ns},
			.own_excess_ns = judged.own_excess_ns,
			.inherited_ns = judged.inherited_ns},
		.pid = rank->pid,
		.exited = pipeline->ranks.streams.ranks[number].exited,
		.exit_code = rank->exit_code,
		.host = rank->host_name,
		.stall = pipeline_hang_stall(&pipeline->hang, number),
	};
}

/* Few ranks were looked at: each look finds its rank, which are in order. */
static struct report_rank *find_report_rank(
	const struct pipeline *pipeline, uint32_t number, uint32_t count)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (pipeline->report_ranks[middle].totals.rank < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && pipeline->report_ranks[low].totals.rank == number
		       ? &pipeline->report_ranks[low]
		       : NULL;
}

/* The newest that was done; one that was asked for by hand only where the judge has none. */
static void fill_looks(struct pipeline *pipeline, uint32_t count)
{
	const struct judge_looks *asked = pipeline->asked_looks.kernels;
	const struct kernel_profile *look;
	struct report_rank *rank;

	for (size_t i = 0; (look = judge_look(pipeline->judge, i)); i++) {
		rank = find_report_rank(pipeline, look->rank, count);
		if (rank && look->result == LOOK_DONE &&
			(!rank->look || rank->look->stop.value < look->stop.value))
			rank->look = look;
	}
	for (size_t i = 0; asked && i < asked->count; i++) {
		const struct kept_look *newest = looks_newest(
			asked, asked->kept[i]->profile.rank, INT64_MIN, INT64_MAX, true);

		rank = newest ? find_report_rank(pipeline, newest->profile.rank, count) : NULL;
		if (rank && !rank->look)
			rank->look = &newest->profile;
	}
}

static uint32_t fill_ranks(struct pipeline *pipeline)
{
	uint32_t count = 0;

	if (pipeline->ranks.streams.known_count > pipeline->report_rank_capacity) {
		size_t capacity = pipeline->ranks.streams.rank_capacity;
		struct report_rank *grown =
			realloc(pipeline->report_ranks, capacity * sizeof(*grown));

		if (!grown)
			return 0; /* a report without the table of ranks is better than none */
		pipeline->report_ranks = grown;
		pipeline->report_rank_capacity = capacity;
	}
	for (uint32_t r = 0; r < pipeline->ranks.streams.end; r++) {
		if (pipeline->ranks.streams.ranks[r].known)
			fill_rank(pipeline, r, &pipeline->report_ranks[count++]);
	}
	fill_looks(pipeline, count);
	return count;
}

/* Which ranks of the world are not there, and which were not from the start. */
static void fill_absent(const struct pipeline *pipeline, struct report_model *model)
{
	const struct rank_table *ranks = &pipeline->ranks;
	struct job_ns first = {INT64_MAX}, latest = {INT64_MIN};

	for (uint32_t rank = 0; rank < ranks->streams.end; rank++) {
		const struct rank_entry *entry = &ranks->ranks[rank];

		if (!entry->owned)
			continue;
		first.value =
			entry->announced.value < first.value ? entry->announced.value : first.value;
		latest.value = entry->announced.value > latest.value ? entry->announced.value
								     : latest.value;
	}
	rank_table_missing(ranks, model->missing_ranks, sizeof(model->missing_ranks));
	model->late_ranks[0] = '\0';
	model->late_count = 0;
	if (latest.value <= first.value)
		return;
	model->late_s = (double)(latest.value - first.value) / 1e9;
	first.value += INT64_C(1000000) * PIPELINE_MISSING_MS;
	model->late_count =
		rank_table_late(ranks, first, model->late_ranks, sizeof(model->late_ranks));
}

const struct report_model *pipeline_report(struct pipeline *pipeline)
{
	struct report_model *model = &pipeline->model;

	model->job_id = pipeline->job_id;
	model->rank_count = fill_ranks(pipeline);
	model->ranks = pipeline->report_ranks;
	model->world_size = pipeline->ranks.streams.world_size;
	fill_absent(pipeline, model);
	model->node_count = 0;
	for (size_t h = 0; h < pipeline->ranks.streams.host_count; h++)
		model->node_count += pipeline->ranks.streams.hosts[h].rank_count > 0;
	model->unix_offset_ns = pipeline->unix_offset_ns;
	judge_job_totals(pipeline->judge, &model->totals);
	model->totals.steps_incomplete += pipeline->steps_implausible;
	model->verdicts = judge_verdicts(pipeline->judge, &model->verdict_count);
	model->stacks = judge_stacks(pipeline->judge);
	model->asked_stacks = pipeline->asked_looks.stacks;
	model->alerts = &pipeline->alerts;
	model->cost_count = judge_costs(pipeline->judge, pipeline->costs);
	model->costs = pipeline->costs;
	probe_table_report(&pipeline->probes, model);
	queue_pair_table_report(&pipeline->queue_pairs, model);
	model->frames = pipeline->frames;
	model->frames_refused = pipeline->frames_refused;
	model->enqueue_only = pipeline->enqueue_only;
	return model;
}
