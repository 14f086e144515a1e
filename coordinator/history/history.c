/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/history/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/arena.h"
#include "probe/wire/frame.h"

/* Of what is kept whole around an incident: from before its begin, for what was usual, to behind its end. */
static const int64_t span_before_ns = INT64_C(660) * 1000000000;
static const int64_t span_after_ns = INT64_C(60) * 1000000000;

enum { GAP_BYTES = 24 };

void history_fini(struct history *history)
{
	free(history->saved_ranks);
	free(history->then_ranks);
	free(history->told);
	free(history->ids);
	free(history->saved_as);
	free(history->ranks);
	free(history->scratch);
	free(history->spans);
	alert_gate_fini(&history->alerts);
	*history = (struct history){0};
}

static int grow_ranks(struct history *history, size_t count)
{
	size_t capacity = history->rank_capacity;
	int error = array_grow(
		(void **)&history->then_ranks, &capacity, count, sizeof(struct sums_rank));

	if (!error)
		error = array_grow((void **)&history->saved_ranks, &history->rank_capacity, count,
			sizeof(struct sums_rank));
	return error;
}

static struct sums_ranks *scratch(struct history *history)
{
	if (!history->scratch)
		history->scratch = malloc(sizeof(*history->scratch));
	return history->scratch;
}

static int take_verdict(struct history *history, const struct record_frame *frame)
{
	struct verdict verdict;
	int error = sums_get_verdict(frame->bytes, frame->length, &verdict);

	if (!error)
		error = array_grow((void **)&history->told, &history->told_capacity, verdict.id,
			sizeof(struct verdict));
	if (error)
		return error;
	history->told[verdict.id - 1] = verdict;
	if (verdict.id > history->told_count)
		history->told_count = verdict.id;
	return 0;
}

static int note_ranks(struct history *history, const struct report_model *now)
{
	int error = 0;

	for (uint32_t i = 0; i < now->rank_count && !error; i++) {
		const struct report_rank *rank = &now->ranks[i];

		error = grow_ranks(history, rank->totals.rank + (size_t)1);
		if (!error)
			history->then_ranks[rank->totals.rank] = sums_of_rank(rank);
	}
	return error;
}

static int take_ranks(struct history *history, const struct record_frame *frame)
{
	struct sums_ranks *ranks = scratch(history);
	int error = ranks ? sums_get_ranks(frame->bytes, frame->length, ranks) : -ENOMEM;

	for (size_t i = 0; !error && i < ranks->count; i++) {
		error = grow_ranks(history, ranks->ranks[i].totals.rank + (size_t)1);
		if (!error)
			history->saved_ranks[ranks->ranks[i].totals.rank] = ranks->ranks[i];
	}
	return error;
}

static int note_then(struct history *history, const struct report_model *now)
{
	history->then = sums_of_job(now);
	history->complete = true;
	return note_ranks(history, now);
}

static int take_gap(struct history *history, const struct record_frame *frame)
{
	const uint8_t *payload = frame->bytes;
	bool any_batch = history->any_batch;
	struct report_stretch gap;
	struct report_stretch *last =
		history->stretch_count ? &history->stretches[history->stretch_count - 1] : NULL;

	if (frame->length < GAP_BYTES)
		return -EBADMSG;
	gap = (struct report_stretch){.batches = frame_get_u64(payload),
		.first = {(int64_t)frame_get_u64(payload + 8)},
		.last = {(int64_t)frame_get_u64(payload + 16)}};
	if (last && (!history->any_batch || history->stretch_count == HISTORY_STRETCHES_MAX)) {
		last->batches += gap.batches;
		last->last = gap.last;
	} else {
		history->stretches[history->stretch_count++] = gap;
	}
	history->thinned = true;
	history->any_batch = history->complete = false;
	history->then = (struct sums_job){0};
	if (history->then_ranks)
		memset(history->then_ranks, 0, history->rank_capacity * sizeof(struct sums_rank));
	return any_batch ? HISTORY_GAP : 0;
}

int history_take(struct history *history, const struct record_frame *frame,
	const struct report_model *(*now)(void *context), void *context)
{
	int error;

	if (frame->kind == RECORD_GAP)
		return take_gap(history, frame);
	if (frame->kind == RECORD_BATCH) {
		history->any_batch = true;
		history->complete = false;
	}
	if (!history->thinned)
		return 0; /* the batches say it all */
	switch (frame->kind) {
	case RECORD_VERDICT:
		return take_verdict(history, frame);
	case RECORD_RANKS:
		return take_ranks(history, frame);
	case RECORD_JOB:
		error = sums_get_job(frame->bytes, frame->length, &history->saved);
		return error ? error : note_then(history, now(context));
	default:
		return 0;
	}
}

/* Of a damaged record: the others are numbered anew. */
static void close_holes(struct history *history)
{
	size_t count = 0;

	for (size_t i = 0; i < history->told_count; i++) {
		if (!history->told[i].id)
			continue;
		history->told[count] = history->told[i];
		history->told[count].id = (uint32_t)count + 1;
		count++;
	}
	history->told_count = count;
}

int history_end(struct history *history, const struct report_model *now)
{
	close_holes(history);
	return history->thinned && history->complete ? note_then(history, now) : 0;
}

static bool is_same_incident(const struct verdict *one, const struct verdict *other)
{
	return one->verdict_class == other->verdict_class && one->rank_count == other->rank_count &&
	       !memcmp(one->ranks, other->ranks, one->rank_count * sizeof(one->ranks[0]));
}

static int grow_ids(struct history *history, size_t count)
{
	return array_grow((void **)&history->ids, &history->id_count, count, sizeof(*history->ids));
}

uint64_t history_steps_before(const struct history *history)
{
	return history->saved.totals.steps - history->then.totals.steps;
}

/* The told verdict that one of the pipeline's is; it is as that one is now. */
static void tell_as(struct history *history, const struct verdict *own, uint32_t id)
{
	struct verdict *told = &history->told[id - 1], before = *told;

	*told = *own;
	told->id = id;
	told->first_step += history_steps_before(history);
	told->last_step += history_steps_before(history);
	if (told->sure.unmeasured_since)
		told->sure.unmeasured_since += history_steps_before(history);
	if (id <= history->told_before) { /* its begin is not in the batches */
		told->first_step = before.first_step;
		told->onset = before.onset;
		told->alert = before.alert;
	}
}

int history_go_on(struct history *history, const struct report_model *now)
{
	if (!history->thinned)
		return 0;
	close_holes(history);
	history->told_before = history->told_count;
	if (grow_ids(history, now->verdict_count))
		return -ENOMEM;
	for (size_t t = 0; t < history->told_count; t++) {
		struct verdict *told = &history->told[t];
		bool found = told->ended != 0;

		for (size_t i = 0; i < now->verdict_count && !found; i++) {
			const struct verdict *own = &now->verdicts[i];

			found = !own->ended && !history->ids[own->id - 1] &&
				is_same_incident(own, told);
			if (found)
				history->ids[own->id - 1] = told->id;
		}
		told->ended |= !found;
	}
	return 0;
}

const struct verdict *history_tell(struct history *history, const struct verdict *own)
{
	uint32_t id;

	if (!history->thinned)
		return own;
	if (grow_ids(history, own->id))
		return own;
	id = history->ids[own->id - 1];
	if (!id) {
		if (history->told_count + 1 >= SUMS_VERDICTS_MAX ||
			array_grow((void **)&history->told, &history->told_capacity,
				history->told_count + 1, sizeof(struct verdict)))
			return own;
		id = (uint32_t)++history->told_count;
		history->ids[own->id - 1] = id;
		history->told[id - 1] = (struct verdict){0};
	}
	tell_as(history, own, id);
	return &history->told[id - 1];
}

static uint64_t plus(uint64_t saved, uint64_t now, uint64_t then)
{
	return saved + (now - then);
}

static int64_t plus_ns(int64_t saved, int64_t now, int64_t then)
{
	return (int64_t)plus((uint64_t)saved, (uint64_t)now, (uint64_t)then);
}

static struct report_rank add_rank(
	const struct sums_rank *saved, const struct sums_rank *then, const struct report_rank *now)
{
	struct report_rank rank = now ? *now : (struct report_rank){0};
	struct rank_totals *totals = &rank.totals;

	if (!totals->steps)
		totals->role = saved->totals.role;
	if (!rank.pid) { /* nobody has said since who it is */
		rank.pid = saved->pid;
		rank.exited = saved->exited;
		rank.exit_code = saved->exit_code;
	}
	if (!rank.host || !*rank.host)
		rank.host = saved->host;
	if (!saved->known)
		return rank;
	totals->rank = saved->totals.rank;
	totals->steps = plus(saved->totals.steps, totals->steps, then->totals.steps);
	for (int phase = 0; phase < PHASE_NR; phase++)
		totals->phase_ns[phase] = plus_ns(saved->totals.phase_ns[phase],
			totals->phase_ns[phase], then->totals.phase_ns[phase]);
	totals->own_excess_ns = plus_ns(
		saved->totals.own_excess_ns, totals->own_excess_ns, then->totals.own_excess_ns);
	totals->inherited_ns = plus_ns(
		saved->totals.inherited_ns, totals->inherited_ns, then->totals.inherited_ns);
	return rank;
}

/* Those of the report and those that were saved, by rank. */
static int add_ranks(struct history *history, struct report_model *model)
{
	size_t most = model->rank_count + history->rank_capacity;
	struct report_rank *ranks = realloc(history->ranks, (most + 1) * sizeof(*ranks));
	static const struct sums_rank none;
	uint32_t count = 0, i = 0;

	if (!ranks)
		return -ENOMEM;
	history->ranks = ranks;
	for (size_t r = 0; r < history->rank_capacity || i < model->rank_count; r++) {
		const struct report_rank *now =
			i < model->rank_count && model->ranks[i].totals.rank == r ? &model->ranks[i]
										  : NULL;
		const struct sums_rank *saved =
			r < history->rank_capacity ? &history->saved_ranks[r] : &none;

		i += now != NULL;
		if (now || saved->known)
			ranks[count++] = add_rank(saved,
				r < history->rank_capacity ? &history->then_ranks[r] : &none, now);
	}
	model->ranks = ranks;
	model->rank_count = count;
	return 0;
}

/* A number that holds for the job's steps until now, of one for each part of them. */
static double mean_of(double saved, double now, uint64_t saved_steps, uint64_t now_steps)
{
	uint64_t steps = saved_steps + now_steps;

	return steps ? (saved * (double)saved_steps + now * (double)now_steps) / (double)steps : 0;
}

static void add_totals(const struct history *history, struct job_totals *totals)
{
	const struct job_totals *saved = &history->saved.totals, *then = &history->then.totals;
	uint64_t more = totals->steps - then->steps;

	totals->step_ms_median =
		mean_of(saved->step_ms_median, totals->step_ms_median, saved->steps, more);
	totals->step_ms_ideal =
		mean_of(saved->step_ms_ideal, totals->step_ms_ideal, saved->steps, more);
	totals->steps = saved->steps + more;
	totals->steps_incomplete =
		plus(saved->steps_incomplete, totals->steps_incomplete, then->steps_incomplete);
	totals->steps_contradictory = plus(
		saved->steps_contradictory, totals->steps_contradictory, then->steps_contradictory);
	totals->time_ns += saved->time_ns - then->time_ns;
	totals->ideal_ns += saved->ideal_ns - then->ideal_ns;
	totals->slowdown = totals->ideal_ns > 0 ? totals->time_ns / totals->ideal_ns : 1;
	totals->wasted_rank_seconds += saved->wasted_rank_seconds - then->wasted_rank_seconds;
	if (!more || totals->clock_error_us < saved->clock_error_us)
		totals->clock_error_us = saved->clock_error_us;
	if (saved->steps)
		totals->first_start = saved->first_start;
	if (saved->steps && (!more || totals->last_end.value < saved->last_end.value))
		totals->last_end = saved->last_end;
}

/* The same part of the job in another list; NULL: it is not in it. */
static const struct job_cost *same_cost(
	const struct job_cost *costs, size_t count, const struct job_cost *cost)
{
	for (size_t i = 0; i < count; i++) {
		const struct job_cost *one = &costs[i];

		if (one->of == cost->of && one->number == cost->number &&
			one->other == cost->other && one->node_count == cost->node_count)
			return one;
	}
	return NULL;
}

/* What the job's steps would have taken less. */
static double gain_ns(const struct job_cost *cost, double time_ns)
{
	return cost && cost->slowdown > 1 ? time_ns * (1 - 1 / cost->slowdown) : 0;
}

static void add_cost(const struct history *history, const struct report_model *model,
	double time_ns, struct job_cost *cost)
{
	const struct sums_job *saved = &history->saved, *then = &history->then;
	const struct job_cost *before = same_cost(saved->costs, saved->cost_count, cost);
	const struct job_cost *own = same_cost(then->costs, then->cost_count, cost);
	const struct job_cost *latest = same_cost(model->costs, model->cost_count, cost);
	double more_time = time_ns - then->totals.time_ns, all = model->totals.time_ns;
	double gain = gain_ns(before, saved->totals.time_ns) +
		      (gain_ns(latest, time_ns) - gain_ns(own, then->totals.time_ns));

	if (more_time <= 0) {
		if (before)
			*cost = *before;
		return;
	}
	if (gain < 0)
		gain = 0;
	if (gain >= all)
		gain = 0.99 * all;
	cost->slowdown = all > 0 ? all / (all - gain) : 1;
	cost->step_ms = model->totals.steps ? (all - gain) / (double)model->totals.steps / 1e6 : 0;
	cost->share = ((before ? before->share : 0) * saved->totals.time_ns +
			      (latest ? latest->share : 0) * more_time) /
		      (saved->totals.time_ns + more_time);
	cost->wasted_rank_seconds = (before ? before->wasted_rank_seconds : 0) +
				    (latest ? latest->wasted_rank_seconds : 0) -
				    (own ? own->wasted_rank_seconds : 0);
}

/* All that were saved, and where there is room, those that the pipeline found since. */
static void add_costs(struct history *history, struct report_model *model, double time_ns)
{
	const struct sums_job *saved = &history->saved;
	bool more = time_ns > history->then.totals.time_ns;
	size_t count = saved->cost_count;

	memcpy(history->costs, saved->costs, count * sizeof(history->costs[0]));
	for (size_t i = 0; more && i < model->cost_count && count < COSTS_MAX; i++) {
		if (!same_cost(saved->costs, saved->cost_count, &model->costs[i]))
			history->costs[count++] = model->costs[i];
	}
	for (size_t i = 0; i < count; i++)
		add_cost(history, model, time_ns, &history->costs[i]);
	model->costs = history->costs;
	model->cost_count = count;
}

static void add_job(const struct history *history, struct report_model *model)
{
	const struct sums_job *saved = &history->saved, *then = &history->then;
	struct message_counters *counters = &model->counters;

	if (!model->job_id || !*model->job_id)
		model->job_id = saved->job_id;
	if (model->world_size < saved->world_size)
		model->world_size = saved->world_size;
	if (model->node_count < saved->node_count)
		model->node_count = saved->node_count;
	if (saved->totals.steps) /* verdicts were told by it */
		model->unix_offset_ns = saved->unix_offset_ns;
	if (model->source_count < saved->source_count) { /* they are told when they change */
		model->sources = saved->sources;
		model->source_count = saved->source_count;
	}
	model->enqueue_only |= saved->enqueue_only;
	counters->events = plus(saved->counters.events, counters->events, then->counters.events);
	counters->dropped =
		plus(saved->counters.dropped, counters->dropped, then->counters.dropped);
	counters->steps_incomplete = plus(saved->counters.steps_incomplete,
		counters->steps_incomplete, then->counters.steps_incomplete);
	counters->batches_spooled = plus(saved->counters.batches_spooled, counters->batches_spooled,
		then->counters.batches_spooled);
	counters->batches_lost = plus(
		saved->counters.batches_lost, counters->batches_lost, then->counters.batches_lost);
	counters->cpu_ns = plus(saved->counters.cpu_ns, counters->cpu_ns, then->counters.cpu_ns);
	if (counters->resident_bytes < saved->counters.resident_bytes)
		counters->resident_bytes = saved->counters.resident_bytes;
	if (model->probe_cpu_percent < saved->probe_cpu_percent)
		model->probe_cpu_percent = saved->probe_cpu_percent;
	model->frames = plus(saved->frames, model->frames, then->frames);
	model->frames_refused =
		plus(saved->frames_refused, model->frames_refused, then->frames_refused);
}

/* As they were told; those of a pipeline that went on, as they are now. */
static void add_verdicts(struct history *history, struct report_model *model)
{
	for (size_t i = 0; i < model->verdict_count && i < history->id_count; i++) {
		if (history->ids[i])
			tell_as(history, &model->verdicts[i], history->ids[i]);
	}
	if (model->alerts) {
		alert_gate_fini(&history->alerts);
		history->alerts.limits = model->alerts->limits;
		for (size_t i = 0; i < history->told_count; i++)
			alert_gate_verdict(
				&history->alerts, VERDICT_EVENT_ALERT, &history->told[i]);
		model->alerts = &history->alerts;
	}
	model->verdicts = history->told;
	model->verdict_count = history->told_count;
}

int history_report(struct history *history, struct report_model *model)
{
	double time_ns = model->totals.time_ns;
	int error;

	if (!history->thinned)
		return 0;
	error = add_ranks(history, model);
	if (error)
		return error;
	add_job(history, model);
	add_totals(history, &model->totals);
	add_costs(history, model, time_ns);
	add_verdicts(history, model);
	model->summed = history->stretches;
	model->summed_count = history->stretch_count;
	return 0;
}

int history_save_sums(struct history *history, const struct report_model *model,
	struct record_writer *writer, struct job_ns now)
{
	uint8_t *bytes = malloc(SUMS_BYTES_MAX);
	struct sums_ranks *ranks = scratch(history);
	struct sums_job job = sums_of_job(model);
	int error = bytes && ranks ? 0 : -ENOMEM;

	for (uint32_t first = 0; first < model->rank_count && !error; first += SUMS_RANKS_MAX) {
		ranks->count = 0;
		for (uint32_t i = first; i < model->rank_count && ranks->count < SUMS_RANKS_MAX;
			i++)
			ranks->ranks[ranks->count++] = sums_of_rank(&model->ranks[i]);
		error = record_writer_save(
			writer, RECORD_RANKS, bytes, sums_put_ranks(ranks, bytes), now);
	}
	if (!error)
		error = record_writer_save(
			writer, RECORD_JOB, bytes, sums_put_job(&job, bytes), now);
	free(bytes);
	return error;
}

int history_save_verdicts(struct history *history, const struct report_model *model,
	struct record_writer *writer, struct job_ns now, bool all)
{
	uint8_t *bytes = malloc(SUMS_BYTES_MAX);
	int error = bytes ? array_grow((void **)&history->saved_as, &history->saved_capacity,
				    model->verdict_count, sizeof(*history->saved_as))
			  : -ENOMEM;

	for (size_t i = 0; i < model->verdict_count && !error; i++) {
		size_t length = sums_put_verdict(&model->verdicts[i], bytes);
		uint32_t sum = (uint32_t)crc32(0, bytes, (uInt)length);

		if (!all && history->saved_as[i] == sum)
			continue;
		error = record_writer_save(writer, RECORD_VERDICT, bytes, length, now);
		history->saved_as[i] = error ? 0 : sum;
	}
	free(bytes);
	return error;
}

const struct record_span *history_spans(
	struct history *history, const struct report_model *model, size_t *count)
{
	size_t spans = 0;

	free(history->spans);
	history->spans = calloc(2 * model->verdict_count + 1, sizeof(*history->spans));
	for (size_t i = 0; history->spans && i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];

		history->spans[spans++] =
			(struct record_span){{verdict->onset.value - span_before_ns},
				{verdict->alert.value + span_after_ns}};
		if (verdict->ended)
			history->spans[spans++] =
				(struct record_span){{verdict->end.value - span_after_ns},
					{verdict->end.value + span_after_ns}};
	}
	*count = spans;
	return history->spans;
}
