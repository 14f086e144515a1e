/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/watch/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/arena.h"
#include "coordinator/report/cause_text.h"
#include "coordinator/report/look.h"
#include "coordinator/report/text.h"
#include "coordinator/report/utf8.h"

enum { NAME_LENGTH = 256 };

_Static_assert(sizeof(((struct watch_incident *)NULL)->sentence) == REPORT_SENTENCE_LENGTH,
	"a sentence fits");

static void base_fini(struct watch_base *base)
{
	free(base->ranks);
	*base = (struct watch_base){0};
}

void watch_lately_fini(struct watch_lately *lately)
{
	base_fini(&lately->from);
	base_fini(&lately->next);
}

static struct watch_sums sums_of(const struct rank_totals *totals)
{
	struct watch_sums sums = {.steps = totals->steps,
		.own_ns = totals->own_excess_ns,
		.inherited_ns = totals->inherited_ns};

	memcpy(sums.phase_ns, totals->phase_ns, sizeof(sums.phase_ns));
	return sums;
}

/* So far, from now on. Returns 0 or -ENOMEM. */
static int base_take(struct watch_base *base, const struct report_model *model)
{
	uint32_t end = model->rank_count ? model->ranks[model->rank_count - 1].totals.rank + 1 : 0;
	int error =
		array_grow((void **)&base->ranks, &base->rank_capacity, end, sizeof(*base->ranks));

	if (error)
		return error;
	if (base->rank_capacity)
		memset(base->ranks, 0, base->rank_capacity * sizeof(*base->ranks));
	base->totals = model->totals;
	for (uint32_t i = 0; i < model->rank_count; i++)
		base->ranks[model->ranks[i].totals.rank] = sums_of(&model->ranks[i].totals);
	return 0;
}

/* What comes next begins where the newest table was long enough ago. Returns 0 or -ENOMEM. */
static int lately_go_on(struct watch_lately *lately, const struct report_model *model)
{
	const struct job_totals *now = &model->totals, *then = &lately->next.totals;
	struct watch_base oldest = lately->from;

	if (now->steps < then->steps) { /* another count of steps: all that was is of no use */
		watch_lately_fini(lately);
		return 0;
	}
	if (now->steps - then->steps < WATCH_LATELY_STEPS ||
		now->last_end.value - then->last_end.value < WATCH_LATELY_S * INT64_C(1000000000))
		return 0;
	lately->from = lately->next;
	lately->next = oldest;
	return base_take(&lately->next, model);
}

static int compare_ranks(const void *one, const void *other)
{
	const struct watch_rank *a = one, *b = other;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

static void set_part(struct watch_table *table, const uint32_t *ranks, size_t count, uint8_t part)
{
	for (size_t i = 0; i < count; i++) {
		const struct watch_rank wanted = {.rank = ranks[i]};
		struct watch_rank *found = bsearch(
			&wanted, table->ranks, table->rank_count, sizeof(wanted), compare_ranks);

		if (found && found->part < part)
			found->part = part;
	}
}

/* What open incidents say of ranks; those that they do not list are not known. */
static void set_parts(struct watch_table *table, const struct report_model *model)
{
	for (size_t i = 0; i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];

		if (verdict->ended)
			continue;
		set_part(table, verdict->ranks,
			look_at_most(verdict->rank_count, VERDICT_RANKS_MAX), WATCH_NAMED);
		set_part(table, verdict->victims,
			look_at_most(verdict->victim_count, VERDICT_VICTIMS_MAX), WATCH_VICTIM);
	}
}

static float ms_per_step(int64_t now_ns, int64_t then_ns, uint64_t steps)
{
	return steps ? (float)(((double)now_ns - (double)then_ns) / (double)steps / 1e6) : 0;
}

static void take_rank(
	struct watch_rank *into, const struct report_rank *rank, const struct watch_base *from)
{
	static const struct watch_sums nothing;
	const struct rank_totals *now = &rank->totals;
	const struct watch_sums *then = from && now->rank < from->rank_capacity &&
							from->ranks[now->rank].steps <= now->steps
						? &from->ranks[now->rank]
						: &nothing;
	uint64_t steps = now->steps - then->steps;

	into->rank = now->rank;
	into->steps = steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX;
	into->own_ms = ms_per_step(now->own_excess_ns, then->own_ns, steps);
	into->inherited_ms = ms_per_step(now->inherited_ns, then->inherited_ns, steps);
	for (size_t p = 0; p < PHASE_NR; p++)
		into->phase_ms[p] = ms_per_step(now->phase_ns[p], then->phase_ns[p], steps);
}

/* Ranks of a host come one behind the other, mostly: its name is kept once for each such run. */
static int take_ranks(
	struct watch_table *table, const struct report_model *model, const struct watch_base *from)
{
	size_t capacity = 0, used = 1; /* at 0: "" */
	const char *host = "";
	uint32_t place = 0;

	if (array_grow((void **)&table->names, &capacity, used + NAME_LENGTH, 1))
		return -ENOMEM;
	for (uint32_t i = 0; i < model->rank_count; i++) {
		const struct report_rank *rank = &model->ranks[i];
		const char *now = rank->host ? rank->host : "";

		if (now != host && strcmp(now, host) != 0) {
			if (array_grow((void **)&table->names, &capacity, used + NAME_LENGTH, 1))
				return -ENOMEM;
			utf8_copy_printable(table->names + used, NAME_LENGTH, now);
			place = (uint32_t)used;
			used += strlen(table->names + used) + 1;
		}
		host = now;
		take_rank(&table->ranks[i], rank, from);
		table->ranks[i].host = place;
	}
	table->rank_count = model->rank_count;
	set_parts(table, model);
	return 0;
}

static void take_incident(struct watch_incident *into, const struct report_model *model,
	const struct verdict *verdict)
{
	into->id = verdict->id;
	into->ended = verdict->ended != 0;
	into->unmeasured = verdict->sure.unmeasured_since != 0;
	into->alerted = look_hold(model, verdict) == ALERT_HOLD_NONE;
	into->verdict_class = verdict->verdict_class;
	into->cause = verdict->cause;
	into->more_ranks = verdict->more_ranks;
	into->rank_count = look_at_most(verdict->rank_count, VERDICT_RANKS_MAX);
	memcpy(into->ranks, verdict->ranks, into->rank_count * sizeof(into->ranks[0]));
	report_verdict_sentence(model, verdict, into->sentence);
	utf8_copy_printable(into->advice, sizeof(into->advice), cause_advice(verdict));
}

static int compare_verdicts(const void *one, const void *other)
{
	const struct verdict *a = *(const struct verdict *const *)one,
			     *b = *(const struct verdict *const *)other;

	return look_is_worse(b, a) - look_is_worse(a, b);
}

/* Returns 0 or -ENOMEM. */
static int take_incidents(struct watch_table *table, const struct report_model *model)
{
	const struct verdict **order = calloc(model->verdict_count + 1, sizeof(const void *));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < model->verdict_count; i++)
		order[i] = &model->verdicts[i];
	qsort(order, model->verdict_count, sizeof(const void *), compare_verdicts);
	for (size_t i = 0; i < model->verdict_count; i++)
		take_incident(&table->incidents[i], model, order[i]);
	table->incident_count = model->verdict_count;
	free(order);
	return 0;
}

static void take_job(
	struct watch_job *job, const struct report_model *model, const struct watch_base *from)
{
	static const struct job_totals nothing;
	const struct job_totals *now = &model->totals, *then = from ? &from->totals : &nothing;
	double ideal_ns = now->ideal_ns - then->ideal_ns, time_ns = now->time_ns - then->time_ns;

	utf8_copy_printable(job->id, sizeof(job->id), model->job_id ? model->job_id : "");
	job->rank_count = model->rank_count;
	job->world_size = model->world_size;
	job->node_count = model->node_count;
	job->steps = now->steps;
	job->lately_steps = now->steps - then->steps;
	job->step_ms = job->lately_steps ? time_ns / (double)job->lately_steps / 1e6 : 0;
	job->slowdown = ideal_ns > 0 ? time_ns / ideal_ns : 1;
}

int watch_table_create(const struct report_model *model, struct watch_lately *lately,
	struct job_ns newest, struct watch_table **result)
{
	struct watch_table *table = calloc(1, sizeof(*table));
	const struct watch_base *from = lately ? &lately->from : NULL;
	int error = table ? 0 : -ENOMEM;

	if (!error && lately)
		error = lately_go_on(lately, model);
	if (!error) {
		take_job(&table->job, model, from);
		table->job.newest_unix_ns = look_unix_ns(newest, model->unix_offset_ns);
		table->ranks = calloc(model->rank_count + 1, sizeof(*table->ranks));
		table->incidents = calloc(model->verdict_count + 1, sizeof(*table->incidents));
		error = table->ranks && table->incidents ? 0 : -ENOMEM;
	}
	if (!error)
		error = take_ranks(table, model, from);
	if (!error)
		error = take_incidents(table, model);
	if (error) {
		watch_table_destroy(table);
		return error;
	}
	*result = table;
	return 0;
}

void watch_table_destroy(struct watch_table *table)
{
	if (!table)
		return;
	free(table->incidents);
	free(table->ranks);
	free(table->names);
	free(table);
}
