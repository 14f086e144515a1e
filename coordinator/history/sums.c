/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each struct has one function that goes through its fields: it writes them, or reads them. Numbers are 8 bytes,
 * little-endian (zstd packs what they have in common); docs/record.md.
 */
#include "coordinator/history/sums.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "probe/wire/format.h"
#include "probe/wire/frame.h"

enum { SUMS_VERSION = 1 };

struct pass {
	uint8_t *out; /* NULL: it reads */
	const uint8_t *in;
	size_t at, length;
	bool failed;
};

static uint64_t pass_number(struct pass *pass, uint64_t value, uint64_t most)
{
	if (pass->length - pass->at < sizeof(value))
		pass->failed = true;
	if (pass->failed)
		return 0;
	if (pass->out)
		frame_put_u64(pass->out + pass->at, value);
	else
		value = frame_get_u64(pass->in + pass->at);
	pass->at += sizeof(value);
	if (value > most && !pass->out) {
		pass->failed = true;
		return 0;
	}
	return value;
}

/* A version only appends: what an earlier program did not write is left as it is. */
static bool has_more(const struct pass *pass)
{
	return !pass->failed && (pass->out || pass->at < pass->length);
}

/* No further from the clock's zero than what ranks send, so that a difference of two is one, too. */
static int64_t pass_time(struct pass *pass, int64_t time_ns)
{
	time_ns = (int64_t)pass_number(pass, (uint64_t)time_ns, UINT64_MAX);
	if (time_ns >= -WIRE_TIME_NS_MAX && time_ns <= WIRE_TIME_NS_MAX)
		return time_ns;
	pass->failed = true;
	return 0;
}

static double pass_real(struct pass *pass, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bits = pass_number(pass, bits, UINT64_MAX);
	memcpy(&value, &bits, sizeof(bits));
	return isfinite(value) ? value : 0;
}

/* A length, and the text; cut to its place, and without control characters. */
static void pass_text(struct pass *pass, char *text, size_t capacity)
{
	size_t length = (size_t)pass_number(
		pass, pass->out ? strnlen(text, capacity - 1) : 0, capacity - 1);

	if (pass->failed || pass->length - pass->at < length) {
		pass->failed = true;
		return;
	}
	if (pass->out)
		memcpy(pass->out + pass->at, text, length);
	else
		memcpy(text, pass->in + pass->at, length);
	pass->at += length;
	if (pass->out)
		return;
	memset(text + length, 0, capacity - length);
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = '?';
	}
}

/* Of unsigned fields, by what fits; of signed ones, of times of the job's clock and of doubles. */
#define NUMBER(pass, field)                                                                        \
	((field) = (__typeof__(field))pass_number(pass, (uint64_t)(field), (__typeof__(field))-1))
#define UP_TO(pass, field, most)                                                                   \
	((field) = (__typeof__(field))pass_number(pass, (uint64_t)(field), most))
#define SIGNED(pass, field)                                                                        \
	((field) = (__typeof__(field))pass_number(pass, (uint64_t)(field), UINT64_MAX))
#define TIME(pass, field) ((field).value = pass_time(pass, (field).value))
#define REAL(pass, field) ((field) = pass_real(pass, field))

static void pass_evidence(struct pass *pass, struct verdict *verdict)
{
	UP_TO(pass, verdict->evidence_count, VERDICT_EVIDENCE_MAX);
	for (uint32_t i = 0; i < verdict->evidence_count && !pass->failed; i++) {
		struct verdict_evidence *evidence = &verdict->evidence[i];

		NUMBER(pass, evidence->kind);
		REAL(pass, evidence->overlap_ms_per_step);
		REAL(pass, evidence->control_ms_per_step);
		pass_text(pass, evidence->detail, sizeof(evidence->detail));
	}
	UP_TO(pass, verdict->rejected_count, VERDICT_EVIDENCE_MAX);
	for (uint32_t i = 0; i < verdict->rejected_count && !pass->failed; i++) {
		NUMBER(pass, verdict->rejected[i].kind);
		pass_text(pass, verdict->rejected[i].why, sizeof(verdict->rejected[i].why));
	}
}

static void pass_verdict_ranks(struct pass *pass, struct verdict *verdict)
{
	uint32_t victims;

	UP_TO(pass, verdict->rank_count, VERDICT_RANKS_MAX);
	for (uint32_t i = 0; i < verdict->rank_count && !pass->failed; i++)
		NUMBER(pass, verdict->ranks[i]);
	NUMBER(pass, verdict->more_ranks);
	NUMBER(pass, verdict->victim_count);
	victims = verdict->victim_count < VERDICT_VICTIMS_MAX ? verdict->victim_count
							      : VERDICT_VICTIMS_MAX;
	for (uint32_t i = 0; i < victims && !pass->failed; i++)
		NUMBER(pass, verdict->victims[i]);
	UP_TO(pass, verdict->pairs.count, VERDICT_PAIRS_MAX);
	for (uint32_t i = 0; i < verdict->pairs.count && !pass->failed; i++) {
		NUMBER(pass, verdict->pairs.list[i].from);
		NUMBER(pass, verdict->pairs.list[i].to);
	}
}

static void pass_where(struct pass *pass, struct verdict_where *where)
{
	pass_text(pass, where->text, sizeof(where->text));
	UP_TO(pass, where->frame_count, VERDICT_FRAMES_MAX);
	for (uint32_t i = 0; i < where->frame_count && !pass->failed; i++)
		pass_text(pass, where->frames[i], sizeof(where->frames[i]));
	REAL(pass, where->ms_per_step);
	REAL(pass, where->control_ms_per_step);
	NUMBER(pass, where->ordinal);
	UP_TO(pass, where->operation, OPERATION_NR - 1);
}

static void pass_verdict(struct pass *pass, struct verdict *verdict)
{
	UP_TO(pass, verdict->id, SUMS_VERDICTS_MAX - 1);
	UP_TO(pass, verdict->verdict_class, VERDICT_CLASS_NR - 1);
	NUMBER(pass, verdict->cause);
	UP_TO(pass, verdict->ended, 1);
	UP_TO(pass, verdict->on_device, 1);
	pass_verdict_ranks(pass, verdict);
	REAL(pass, verdict->slowdown);
	NUMBER(pass, verdict->period.steps);
	REAL(pass, verdict->period.slowdown);
	REAL(pass, verdict->sure.confidence);
	REAL(pass, verdict->sure.share_explained);
	NUMBER(pass, verdict->first_step);
	NUMBER(pass, verdict->last_step);
	TIME(pass, verdict->onset);
	TIME(pass, verdict->end);
	TIME(pass, verdict->alert);
	REAL(pass, verdict->sure.clock_error_us);
	pass_evidence(pass, verdict);
	NUMBER(pass, verdict->hang.communicator_id);
	NUMBER(pass, verdict->hang.sequence);
	NUMBER(pass, verdict->hang.entered);
	NUMBER(pass, verdict->hang.members);
	UP_TO(pass, verdict->hang.operation, OPERATION_NR - 1);
	if (has_more(pass)) /* not of a program that knew no stacks */
		pass_where(pass, &verdict->where);
	if (has_more(pass)) /* nor that nothing was measured any more */
		NUMBER(pass, verdict->sure.unmeasured_since);
}

static void pass_totals(struct pass *pass, struct job_totals *totals)
{
	NUMBER(pass, totals->steps);
	NUMBER(pass, totals->steps_incomplete);
	NUMBER(pass, totals->steps_contradictory);
	REAL(pass, totals->step_ms_median);
	REAL(pass, totals->step_ms_ideal);
	REAL(pass, totals->slowdown);
	REAL(pass, totals->time_ns);
	REAL(pass, totals->ideal_ns);
	REAL(pass, totals->wasted_rank_seconds);
	REAL(pass, totals->clock_error_us);
	TIME(pass, totals->first_start);
	TIME(pass, totals->last_end);
}

static void pass_costs(struct pass *pass, struct sums_job *job)
{
	UP_TO(pass, job->cost_count, COSTS_MAX);
	for (size_t i = 0; i < job->cost_count && !pass->failed; i++) {
		struct job_cost *cost = &job->costs[i];

		UP_TO(pass, cost->of, COST_NR - 1);
		UP_TO(pass, cost->number, cost->of == COST_PHASE ? PHASE_NR - 1 : UINT32_MAX);
		NUMBER(pass, cost->other);
		NUMBER(pass, cost->node_count);
		REAL(pass, cost->step_ms);
		REAL(pass, cost->slowdown);
		REAL(pass, cost->share);
		REAL(pass, cost->wasted_rank_seconds);
	}
}

static void pass_sources(struct pass *pass, struct sums_job *job)
{
	UP_TO(pass, job->source_count, WIRE_SOURCES_MAX);
	for (size_t i = 0; i < job->source_count && !pass->failed; i++) {
		struct report_source *source = &job->sources[i];

		pass_text(pass, source->source.name, sizeof(source->source.name));
		UP_TO(pass, source->source.state, SOURCE_MISSING);
		pass_text(pass, source->source.why, sizeof(source->source.why));
		NUMBER(pass, source->probe_count);
		NUMBER(pass, source->on_count);
	}
}

static void pass_job(struct pass *pass, struct sums_job *job)
{
	struct message_counters *counters = &job->counters;

	pass_text(pass, job->job_id, sizeof(job->job_id));
	NUMBER(pass, job->world_size);
	NUMBER(pass, job->node_count);
	UP_TO(pass, job->enqueue_only, 1);
	SIGNED(pass, job->unix_offset_ns);
	pass_totals(pass, &job->totals);
	pass_costs(pass, job);
	NUMBER(pass, counters->events);
	NUMBER(pass, counters->dropped);
	NUMBER(pass, counters->steps_incomplete);
	NUMBER(pass, counters->batches_spooled);
	NUMBER(pass, counters->batches_lost);
	NUMBER(pass, counters->cpu_ns);
	NUMBER(pass, counters->resident_bytes);
	REAL(pass, job->probe_cpu_percent);
	NUMBER(pass, job->frames);
	NUMBER(pass, job->frames_refused);
	pass_sources(pass, job);
}

static void pass_ranks(struct pass *pass, struct sums_ranks *ranks)
{
	UP_TO(pass, ranks->count, SUMS_RANKS_MAX);
	for (size_t i = 0; i < ranks->count && !pass->failed; i++) {
		struct sums_rank *rank = &ranks->ranks[i];

		UP_TO(pass, rank->totals.rank, STEP_RANK_COUNT_MAX - 1);
		NUMBER(pass, rank->totals.role);
		NUMBER(pass, rank->totals.steps);
		for (int phase = 0; phase < PHASE_NR; phase++)
			SIGNED(pass, rank->totals.phase_ns[phase]);
		SIGNED(pass, rank->totals.own_excess_ns);
		SIGNED(pass, rank->totals.inherited_ns);
		NUMBER(pass, rank->pid);
		UP_TO(pass, rank->exited, 1);
		SIGNED(pass, rank->exit_code);
		pass_text(pass, rank->host, sizeof(rank->host));
		rank->known = true;
	}
}

struct sums_rank sums_of_rank(const struct report_rank *rank)
{
	struct sums_rank sums = {.totals = rank->totals,
		.known = true,
		.pid = rank->pid,
		.exited = rank->exited,
		.exit_code = rank->exit_code};

	snprintf(sums.host, sizeof(sums.host), "%s", rank->host ? rank->host : "");
	return sums;
}

struct sums_job sums_of_job(const struct report_model *model)
{
	struct sums_job sums = {.world_size = model->world_size,
		.node_count = model->node_count,
		.enqueue_only = model->enqueue_only != 0,
		.unix_offset_ns = model->unix_offset_ns,
		.totals = model->totals,
		.cost_count = model->cost_count,
		.counters = model->counters,
		.probe_cpu_percent = model->probe_cpu_percent,
		.frames = model->frames,
		.frames_refused = model->frames_refused};

	snprintf(sums.job_id, sizeof(sums.job_id), "%s", model->job_id ? model->job_id : "");
	if (model->cost_count)
		memcpy(sums.costs, model->costs, model->cost_count * sizeof(sums.costs[0]));
	sums.source_count =
		model->source_count < WIRE_SOURCES_MAX ? model->source_count : WIRE_SOURCES_MAX;
	if (sums.source_count)
		memcpy(sums.sources, model->sources, sums.source_count * sizeof(sums.sources[0]));
	return sums;
}

static struct pass begin_put(uint8_t *bytes)
{
	struct pass pass = {.out = bytes, .length = SUMS_BYTES_MAX};

	(void)pass_number(&pass, SUMS_VERSION, SUMS_VERSION);
	return pass;
}

/* Fields that a later program of this version appends are passed over. */
static struct pass begin_get(const uint8_t *bytes, size_t length)
{
	struct pass pass = {.in = bytes, .length = length};

	if (pass_number(&pass, 0, SUMS_VERSION) != SUMS_VERSION)
		pass.failed = true;
	return pass;
}

static size_t end_put(const struct pass *pass)
{
	assert(!pass->failed); /* SUMS_BYTES_MAX is for the largest */
	return pass->at;
}

/* What is written is not changed by it. */
size_t sums_put_verdict(const struct verdict *verdict, uint8_t *bytes)
{
	struct pass pass = begin_put(bytes);
	struct verdict copy = *verdict;

	pass_verdict(&pass, &copy);
	return end_put(&pass);
}

size_t sums_put_job(const struct sums_job *job, uint8_t *bytes)
{
	struct pass pass = begin_put(bytes);
	struct sums_job copy = *job;

	pass_job(&pass, &copy);
	return end_put(&pass);
}

size_t sums_put_ranks(struct sums_ranks *ranks, uint8_t *bytes)
{
	struct pass pass = begin_put(bytes);

	pass_ranks(&pass, ranks);
	return end_put(&pass);
}

int sums_get_verdict(const uint8_t *bytes, size_t length, struct verdict *verdict)
{
	struct pass pass = begin_get(bytes, length);

	*verdict = (struct verdict){0};
	pass_verdict(&pass, verdict);
	return pass.failed || !verdict->id ? -EBADMSG : 0;
}

int sums_get_job(const uint8_t *bytes, size_t length, struct sums_job *job)
{
	struct pass pass = begin_get(bytes, length);

	*job = (struct sums_job){0};
	pass_job(&pass, job);
	return pass.failed ? -EBADMSG : 0;
}

int sums_get_ranks(const uint8_t *bytes, size_t length, struct sums_ranks *ranks)
{
	struct pass pass = begin_get(bytes, length);

	memset(ranks, 0, sizeof(*ranks));
	pass_ranks(&pass, ranks);
	return pass.failed ? -EBADMSG : 0;
}
