/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/metrics/job_metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/version.h"
#include "coordinator/report/line.h"
#include "coordinator/report/look.h"

/* A rank takes another's place among the top ones where it lost so much more: names come and go seldom. */
static const double top_margin = 1.5;
static const int64_t top_least_ns = INT64_C(100000000);

enum { LABEL_LENGTH = 96 };

/* A rank's totals when it was last observed. */
struct seen_rank {
	uint64_t steps;
	int64_t own_ns, wait_ns, step_ns;
};

struct job_metrics {
	struct seen_rank *seen; /* by rank */
	size_t seen_count;
	struct metrics_histogram own, wait, step, job_step;
	uint64_t
		open_number; /* of the program's step whose rounds come in, and their time so far */
	int64_t open_ns;
	uint32_t top[METRICS_TOP_RANKS]; /* ranks */
	size_t top_count;
};

int job_metrics_create(struct job_metrics **metrics)
{
	struct job_metrics *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	*metrics = made;
	return 0;
}

void job_metrics_destroy(struct job_metrics *metrics)
{
	if (!metrics)
		return;
	free(metrics->seen);
	free(metrics);
}

/* Ranks are below the wire's limit, so this is too. */
static bool make_room(struct job_metrics *metrics, uint32_t rank)
{
	size_t wanted = metrics->seen_count ? metrics->seen_count : 64;
	struct seen_rank *larger;

	if (rank < metrics->seen_count)
		return true;
	while (wanted <= rank)
		wanted *= 2;
	larger = realloc(metrics->seen, wanted * sizeof(*larger));
	if (!larger)
		return false;
	memset(larger + metrics->seen_count, 0, (wanted - metrics->seen_count) * sizeof(*larger));
	metrics->seen = larger;
	metrics->seen_count = wanted;
	return true;
}

static int64_t not_negative(int64_t value)
{
	return value > 0 ? value : 0;
}

static struct seen_rank sums_of(const struct rank_totals *totals)
{
	struct seen_rank sums = {.steps = totals->steps,
		.own_ns = totals->own_excess_ns,
		.wait_ns = totals->phase_ns[PHASE_COMM_WAIT]};

	for (int phase = 0; phase < PHASE_NR; phase++)
		sums.step_ns += totals->phase_ns[phase];
	return sums;
}

static void observe(
	struct metrics_histogram *histogram, int64_t now_ns, int64_t before_ns, uint64_t steps)
{
	metrics_observe(histogram, (double)not_negative(now_ns - before_ns) / 1e9 / (double)steps);
}

static void observe_rank(struct job_metrics *metrics, const struct rank_totals *totals)
{
	struct seen_rank now = sums_of(totals), *before;

	if (!make_room(metrics, totals->rank))
		return;
	before = &metrics->seen[totals->rank];
	if (now.steps > before->steps) {
		uint64_t steps = now.steps - before->steps;

		observe(&metrics->own, now.own_ns, before->own_ns, steps);
		observe(&metrics->wait, now.wait_ns, before->wait_ns, steps);
		observe(&metrics->step, now.step_ns, before->step_ns, steps);
	}
	*before = now;
}

static int64_t lost_ns(const struct report_model *model, uint32_t rank)
{
	const struct report_rank *row = look_rank(model, rank);

	return row ? row->totals.own_excess_ns : 0;
}

/* The top rank that lost least. */
static size_t least_of(const struct job_metrics *metrics, const int64_t *lost)
{
	size_t least = 0;

	for (size_t i = 1; i < metrics->top_count; i++)
		least = lost[i] < lost[least] ? i : least;
	return least;
}

static bool is_top(const struct job_metrics *metrics, uint32_t rank)
{
	for (size_t i = 0; i < metrics->top_count; i++) {
		if (metrics->top[i] == rank)
			return true;
	}
	return false;
}

/*
 * Keeps the ranks that lost most. Each one that takes another's place lost half as much again, and 0.1 s at least:
 * ten places change hands some 450 times at most until they have lost 10^7 s each.
 */
static void keep_top(struct job_metrics *metrics, const struct report_model *model)
{
	int64_t lost[METRICS_TOP_RANKS] = {0}, least_ns = top_least_ns;
	size_t place = 0;

	for (size_t i = 0; i < metrics->top_count; i++)
		lost[i] = lost_ns(model, metrics->top[i]);
	for (uint32_t i = 0; i < model->rank_count; i++) {
		const struct rank_totals *totals = &model->ranks[i].totals;
		bool full = metrics->top_count == METRICS_TOP_RANKS;

		if (full) {
			place = least_of(metrics, lost);
			least_ns = (int64_t)(top_margin * (double)lost[place]);
		}
		if (totals->own_excess_ns <= least_ns || is_top(metrics, totals->rank))
			continue;
		if (!full)
			place = metrics->top_count++;
		metrics->top[place] = totals->rank;
		lost[place] = totals->own_excess_ns;
	}
}

void job_metrics_take(struct job_metrics *metrics, const struct report_model *model)
{
	for (uint32_t i = 0; i < model->rank_count; i++)
		observe_rank(metrics, &model->ranks[i].totals);
	keep_top(metrics, model);
}

void job_metrics_take_step(struct job_metrics *metrics, const struct grid_step *step)
{
	if (step->of_program != metrics->open_number)
		metrics->open_ns = 0;
	metrics->open_number = step->of_program;
	metrics->open_ns += not_negative(step->end_ns - step->start_ns);
	if (!step->ends_program)
		return;
	metrics_observe(&metrics->job_step, (double)metrics->open_ns / 1e9);
	metrics->open_ns = 0;
}

static double seconds(int64_t time_ns)
{
	return (double)time_ns / 1e9;
}

static void write_job(const struct job_metrics *metrics, const struct report_model *model,
	struct metrics_text *text)
{
	const struct job_totals *totals = &model->totals;
	const struct metrics_label version = {"version", SLOWRANK_VERSION},
				   job = {"job_id", model->job_id};

	metrics_family(text, "slowrank_build_info", METRICS_GAUGE, "The coordinator's version.");
	metrics_sample(text, &version, 1, 1);
	metrics_family(text, "slowrank_job_info", METRICS_GAUGE, "The job that is watched.");
	metrics_sample(text, &job, 1, 1);
	metrics_single(text, "slowrank_job_ranks", METRICS_GAUGE, "Ranks that were seen.",
		model->rank_count);
	metrics_single(text, "slowrank_job_world_ranks", METRICS_GAUGE,
		"Ranks that the job says it has; 0: it does not say.", model->world_size);
	metrics_single(
		text, "slowrank_job_nodes", METRICS_GAUGE, "Hosts with ranks.", model->node_count);
	metrics_single(text, "slowrank_job_steps_total", METRICS_COUNTER, "Steps analysed.",
		(double)totals->steps);
	metrics_single(text, "slowrank_job_steps_incomplete_total", METRICS_COUNTER,
		"Steps in which parts of some rank were missing.",
		(double)totals->steps_incomplete);
	metrics_single(text, "slowrank_job_steps_contradictory_total", METRICS_COUNTER,
		"Steps that were not judged, since their times contradict each other.",
		(double)totals->steps_contradictory);
	metrics_single(text, "slowrank_job_step_seconds_total", METRICS_COUNTER,
		"Time of all steps analysed.", totals->time_ns / 1e9);
	metrics_single(text, "slowrank_job_ideal_step_seconds_total", METRICS_COUNTER,
		"What these steps would have taken with every rank like its controls.",
		totals->ideal_ns / 1e9);
	metrics_histogram(text, "slowrank_job_step_duration_seconds",
		"How long each step of the job took, since the coordinator started.",
		&metrics->job_step);
	metrics_single(text, "slowrank_job_step_median_seconds", METRICS_GAUGE,
		"Median step since the job began.", totals->step_ms_median / 1e3);
	metrics_single(text, "slowrank_job_slowdown_ratio", METRICS_GAUGE,
		"Mean step over mean ideal step, since the job began.", totals->slowdown);
	metrics_single(text, "slowrank_job_wasted_rank_seconds_total", METRICS_COUNTER,
		"Time of all ranks that was lost to slow ones.", totals->wasted_rank_seconds);
}

static bool is_told(const struct report_model *model, const struct verdict *verdict)
{
	return look_hold(model, verdict) == ALERT_HOLD_NONE;
}

static void write_incident_counts(const struct report_model *model, struct metrics_text *text)
{
	uint64_t active[VERDICT_CLASS_NR] = {0}, told = 0, held = 0, unmeasured = 0;

	for (size_t i = 0; i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];
		size_t class = verdict->verdict_class < VERDICT_CLASS_NR ? verdict->verdict_class
									 : VERDICT_UNKNOWN;

		if (!is_told(model, verdict)) {
			held += !verdict->ended;
			continue;
		}
		told++;
		active[class] += !verdict->ended;
		unmeasured += !verdict->ended && verdict->sure.unmeasured_since;
	}
	metrics_single(text, "slowrank_incidents_total", METRICS_COUNTER,
		"Incidents that were alerted of.", (double)told);
	metrics_family(text, "slowrank_incidents_active", METRICS_GAUGE,
		"Incidents that were alerted of and last.");
	for (int class = 0; class < VERDICT_CLASS_NR; class ++)
		metrics_sample(text,
			&(struct metrics_label){
				"class", verdict_class_name((enum verdict_class) class)},
			1, (double)active[class]);
	metrics_single(text, "slowrank_incidents_unmeasured", METRICS_GAUGE,
		"Of those that last, how many are not measured any more: their end would not be "
		"seen.",
		(double)unmeasured);
	metrics_single(text, "slowrank_incidents_held", METRICS_GAUGE,
		"Incidents that last and that nobody is to be alerted of (--alert-slowdown, "
		"--alert-after, --silent-imbalance).",
		(double)held);
}

/* Those that last and were alerted of, the newest last; beyond METRICS_INCIDENTS_MAX the older ones are left out. */
struct incident_list {
	const struct verdict *verdicts[METRICS_INCIDENTS_MAX];
	char ids[METRICS_INCIDENTS_MAX][12];
	size_t count, unlisted;
};

static void list_incidents(const struct report_model *model, struct incident_list *list)
{
	*list = (struct incident_list){0};
	for (size_t i = model->verdict_count; i-- > 0;) {
		const struct verdict *verdict = &model->verdicts[i];

		if (verdict->ended || !is_told(model, verdict))
			continue;
		if (list->count == METRICS_INCIDENTS_MAX) {
			list->unlisted++;
			continue;
		}
		snprintf(list->ids[list->count], sizeof(list->ids[0]), "%" PRIu32, verdict->id);
		list->verdicts[list->count++] = verdict;
	}
}

static void write_incident_info(const struct report_model *model, const struct verdict *verdict,
	const char *id, struct metrics_text *text)
{
	size_t listed = look_at_most(verdict->rank_count, VERDICT_RANKS_MAX);
	const char *host = look_common_host(model, verdict->ranks, listed);
	char ranks[LABEL_LENGTH];
	struct line line;

	line_init(&line, ranks, sizeof(ranks));
	if (listed)
		line_add_ranks(
			&line, verdict->ranks, listed, verdict->rank_count + verdict->more_ranks);
	const struct metrics_label labels[] = {
		{"incident", id},
		{"class", verdict_class_name(verdict->verdict_class)},
		{"cause", cause_name(look_cause_known(verdict->cause) ? verdict->cause
								      : CAUSE_UNKNOWN)},
		{"ranks", ranks},
		{"host", verdict->more_ranks || !host ? "" : host},
	};
	metrics_sample(text, labels, sizeof(labels) / sizeof(labels[0]), 1);
}

static void write_incident_ranks(const struct report_model *model, const struct incident_list *list,
	struct metrics_text *text)
{
	metrics_family(text, "slowrank_incident_rank", METRICS_GAUGE,
		"The ranks that an incident names, the first 16.");
	for (size_t i = 0; i < list->count; i++) {
		const struct verdict *verdict = list->verdicts[i];

		for (uint32_t r = 0; r < verdict->rank_count && r < METRICS_INCIDENT_RANKS_MAX;
			r++) {
			char rank[12];

			snprintf(rank, sizeof(rank), "%" PRIu32, verdict->ranks[r]);
			metrics_sample(text,
				(struct metrics_label[]){{"incident", list->ids[i]}, {"rank", rank},
					{"host", look_host(model, verdict->ranks[r])}},
				3, 1);
		}
	}
}

static void write_incidents(const struct report_model *model, struct metrics_text *text)
{
	struct incident_list list;

	list_incidents(model, &list);
	metrics_family(text, "slowrank_incident_active", METRICS_GAUGE,
		"1 for each incident that was alerted of and lasts; gone once it is over.");
	for (size_t i = 0; i < list.count; i++)
		metrics_sample(text, &(struct metrics_label){"incident", list.ids[i]}, 1, 1);
	metrics_family(text, "slowrank_incident_info", METRICS_GAUGE,
		"What such an incident is: class, cause, ranks, and their host where it is one.");
	for (size_t i = 0; i < list.count; i++)
		write_incident_info(model, list.verdicts[i], list.ids[i], text);
	metrics_family(text, "slowrank_incident_slowdown_ratio", METRICS_GAUGE,
		"Step time over what it would be without the incident; not of hangs.");
	for (size_t i = 0; i < list.count; i++) {
		if (list.verdicts[i]->verdict_class != VERDICT_HANG)
			metrics_sample(text, &(struct metrics_label){"incident", list.ids[i]}, 1,
				list.verdicts[i]->slowdown);
	}
	metrics_family(text, "slowrank_incident_onset_timestamp_seconds", METRICS_GAUGE,
		"When such an incident began.");
	for (size_t i = 0; i < list.count; i++)
		metrics_sample(text, &(struct metrics_label){"incident", list.ids[i]}, 1,
			seconds(look_unix_ns(list.verdicts[i]->onset, model->unix_offset_ns)));
	write_incident_ranks(model, &list, text);
	metrics_single(text, "slowrank_incidents_unlisted", METRICS_GAUGE,
		"Incidents that last beyond the 32 newest, which are listed.",
		(double)list.unlisted);
}

static void write_ranks(const struct job_metrics *metrics, const struct report_model *model,
	struct metrics_text *text)
{
	metrics_histogram(text, "slowrank_rank_own_delay_seconds",
		"By how much a rank's own work was late in a step: the mean of some seconds, once "
		"for each rank.",
		&metrics->own);
	metrics_histogram(text, "slowrank_rank_wait_seconds",
		"How long a rank waited for others in a step: the mean of some seconds, once for "
		"each rank.",
		&metrics->wait);
	metrics_histogram(text, "slowrank_rank_step_seconds",
		"How long a rank's step took: the mean of some seconds, once for each rank.",
		&metrics->step);
	metrics_family(text, "slowrank_top_rank_own_delay_seconds_total", METRICS_COUNTER,
		"Of the ranks that lost most by their own work, up to ten: how much, since the job "
		"began.");
	for (size_t i = 0; i < metrics->top_count; i++) {
		char rank[12];

		snprintf(rank, sizeof(rank), "%" PRIu32, metrics->top[i]);
		metrics_sample(text,
			(struct metrics_label[]){
				{"rank", rank}, {"host", look_host(model, metrics->top[i])}},
			2, seconds(lost_ns(model, metrics->top[i])));
	}
}

static void write_sources(const struct report_model *model, struct metrics_text *text)
{
	size_t count = look_at_most(model->source_count, METRICS_SOURCES_MAX);

	metrics_family(text, "slowrank_source_probes", METRICS_GAUGE,
		"Probes that tell of a source of measurements.");
	for (size_t i = 0; i < count; i++)
		metrics_sample(text,
			&(struct metrics_label){"source", model->sources[i].source.name}, 1,
			model->sources[i].probe_count);
	metrics_family(text, "slowrank_source_measuring_probes", METRICS_GAUGE,
		"Of these, those that can measure with it; for the others it is not measurable.");
	for (size_t i = 0; i < count; i++)
		metrics_sample(text,
			&(struct metrics_label){"source", model->sources[i].source.name}, 1,
			model->sources[i].on_count);
}

static void write_probes(const struct report_model *model, struct metrics_text *text)
{
	const struct message_counters *counters = &model->counters;

	metrics_single(text, "slowrank_probe_events_total", METRICS_COUNTER,
		"Records that probes took from kernels and rings.", (double)counters->events);
	metrics_single(text, "slowrank_probe_events_dropped_total", METRICS_COUNTER,
		"Records that were lost there.", (double)counters->dropped);
	metrics_single(text, "slowrank_probe_batches_spooled_total", METRICS_COUNTER,
		"Batches that waited on a probe's disk.", (double)counters->batches_spooled);
	metrics_single(text, "slowrank_probe_batches_lost_total", METRICS_COUNTER,
		"Batches that were lost, since a spool was full.", (double)counters->batches_lost);
	metrics_single(text, "slowrank_probe_cpu_seconds_total", METRICS_COUNTER,
		"CPU time of all probes.", (double)counters->cpu_ns / 1e9);
	metrics_single(text, "slowrank_probe_resident_max_bytes", METRICS_GAUGE,
		"Peak memory of the largest probe.", (double)counters->resident_bytes);
	metrics_single(text, "slowrank_batches_total", METRICS_COUNTER,
		"Batches that the coordinator took.", (double)model->frames);
	metrics_single(text, "slowrank_batches_refused_total", METRICS_COUNTER,
		"Batches that it refused.", (double)model->frames_refused);
}

void job_metrics_write(const struct job_metrics *metrics, const struct report_model *model,
	struct metrics_text *text)
{
	write_job(metrics, model, text);
	write_incident_counts(model, text);
	write_incidents(model, text);
	write_ranks(metrics, model, text);
	write_sources(model, text);
	write_probes(model, text);
}
