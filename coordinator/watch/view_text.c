/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/report/utf8.h"
#include "coordinator/watch/view.h"

#define WATCH_MARK "slowrank.watch/1"

static void write_incident(const struct watch_incident *incident, FILE *out)
{
	fprintf(out, "incident\t%" PRIu32 "\t%u\t%u\t%u\t%u\t%" PRIu32 "\t", incident->id,
		incident->ended, incident->alerted, incident->verdict_class, incident->cause,
		incident->more_ranks);
	for (size_t i = 0; i < incident->rank_count; i++)
		fprintf(out, "%s%" PRIu32, i ? "," : "", incident->ranks[i]);
	fprintf(out, "\t%s\t%s\t%u\n", incident->sentence, incident->advice, incident->unmeasured);
}

/* Names are printable, so no field has a tab or a line end in it. */
void watch_view_write(const struct watch_view *view, FILE *out)
{
	const struct watch_job *job = &view->job;

	fprintf(out, WATCH_MARK "\t%" PRIu64 "\n", view->version);
	fprintf(out,
		"job\t%s\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu64 "\t%" PRIu64
		"\t%.4f\t%.4f\t%" PRId64 "\n",
		job->id, job->rank_count, job->world_size, job->node_count, job->steps,
		job->lately_steps, job->step_ms, job->slowdown, job->newest_unix_ns / 1000000);
	fprintf(out, "totals\t%zu\t%zu\t%zu\t%zu\n", view->incident_total,
		view->incidents_elsewhere, view->rank_total, view->node_total);
	for (size_t i = 0; i < view->incident_count; i++)
		write_incident(&view->incidents[i], out);
	for (size_t i = 0; i < view->rank_count; i++) {
		const struct watch_rank *rank = &view->ranks[i].rank;

		fprintf(out, "rank\t%" PRIu32 "\t%s\t%u\t%" PRIu32 "\t%.4f\t%.4f", rank->rank,
			view->ranks[i].host, rank->part, rank->steps, (double)rank->own_ms,
			(double)rank->inherited_ms);
		for (size_t p = 0; p < PHASE_NR; p++)
			fprintf(out, "\t%.4f", (double)rank->phase_ms[p]);
		fputc('\n', out);
	}
	for (size_t i = 0; i < view->node_count; i++) {
		const struct watch_node *node = &view->nodes[i];

		fprintf(out,
			"node\t%s\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32
			"\t%.4f\t%.4f\n",
			node->host, node->rank_count, node->first_rank, node->last_rank,
			node->worst_rank, node->named, (double)node->own_ms, (double)node->held_ms);
	}
}

/* Fields of a line, one after another; what is missing is 0, or "". */
static uint64_t take_number(char **fields)
{
	const char *field = strsep(fields, "\t");

	return field ? strtoull(field, NULL, 10) : 0;
}

static uint32_t take_small(char **fields)
{
	uint64_t number = take_number(fields);

	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static double take_decimal(char **fields)
{
	const char *field = strsep(fields, "\t");
	double value = field ? strtod(field, NULL) : 0;

	return fabs(value) < 1e30 ? value : 0; /* nor NaN */
}

static void take_text(char **fields, char *text, size_t capacity)
{
	const char *field = strsep(fields, "\t");

	utf8_copy_printable(text, capacity, field ? field : "");
}

static void read_job(struct watch_view *view, char *fields)
{
	struct watch_job *job = &view->job;

	take_text(&fields, job->id, sizeof(job->id));
	job->rank_count = take_small(&fields);
	job->world_size = take_small(&fields);
	job->node_count = take_small(&fields);
	job->steps = take_number(&fields);
	job->lately_steps = take_number(&fields);
	job->step_ms = take_decimal(&fields);
	job->slowdown = take_decimal(&fields);
	job->newest_unix_ns = (int64_t)(take_number(&fields) % (INT64_MAX / 1000000)) * 1000000;
}

static void read_totals(struct watch_view *view, char *fields)
{
	view->incident_total = take_number(&fields);
	view->incidents_elsewhere = take_number(&fields);
	view->rank_total = take_number(&fields);
	view->node_total = take_number(&fields);
}

static void read_incident(struct watch_view *view, char *fields)
{
	struct watch_incident *incident = &view->incidents[view->incident_count];
	char *ranks;

	if (view->incident_count == WATCH_INCIDENTS_MAX)
		return;
	*incident = (struct watch_incident){.id = take_small(&fields)};
	incident->ended = take_number(&fields) != 0;
	incident->alerted = take_number(&fields) != 0;
	incident->verdict_class = (uint8_t)take_small(&fields);
	incident->cause = (uint8_t)take_small(&fields);
	incident->more_ranks = take_small(&fields);
	ranks = strsep(&fields, "\t");
	for (char *rank = ranks && *ranks ? strsep(&ranks, ",") : NULL;
		rank && incident->rank_count < VERDICT_RANKS_MAX; rank = strsep(&ranks, ","))
		incident->ranks[incident->rank_count++] = (uint32_t)strtoul(rank, NULL, 10);
	take_text(&fields, incident->sentence, sizeof(incident->sentence));
	take_text(&fields, incident->advice, sizeof(incident->advice));
	incident->unmeasured = take_number(&fields) != 0;
	view->incident_count++;
}

static void read_rank(struct watch_view *view, char *fields)
{
	struct watch_row *row = &view->ranks[view->rank_count];

	if (view->rank_count == WATCH_ROWS_MAX)
		return;
	*row = (struct watch_row){.rank = {.rank = take_small(&fields)}};
	take_text(&fields, row->host, sizeof(row->host));
	row->rank.part = (uint8_t)take_small(&fields);
	row->rank.steps = take_small(&fields);
	row->rank.own_ms = (float)take_decimal(&fields);
	row->rank.inherited_ms = (float)take_decimal(&fields);
	for (size_t p = 0; p < PHASE_NR; p++)
		row->rank.phase_ms[p] = (float)take_decimal(&fields);
	view->rank_count++;
}

static void read_node(struct watch_view *view, char *fields)
{
	struct watch_node *node = &view->nodes[view->node_count];

	if (view->node_count == WATCH_ROWS_MAX)
		return;
	take_text(&fields, node->host, sizeof(node->host));
	node->rank_count = take_small(&fields);
	node->first_rank = take_small(&fields);
	node->last_rank = take_small(&fields);
	node->worst_rank = take_small(&fields);
	node->named = take_small(&fields);
	node->own_ms = (float)take_decimal(&fields);
	node->held_ms = (float)take_decimal(&fields);
	view->node_count++;
}

int watch_view_read(struct watch_view *view, char *text)
{
	static const struct {
		const char *name;
		void (*read)(struct watch_view *view, char *fields);
	} kinds[] = {{"job", read_job}, {"totals", read_totals}, {"incident", read_incident},
		{"rank", read_rank}, {"node", read_node}};
	char *line = strsep(&text, "\n"), *name = strsep(&line, "\t");

	if (!name || strcmp(name, WATCH_MARK) != 0)
		return -EPROTO;
	memset(view, 0, sizeof(*view));
	view->version = take_number(&line);
	while ((line = strsep(&text, "\n"))) {
		name = strsep(&line, "\t");
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			if (strcmp(name, kinds[k].name) == 0)
				kinds[k].read(view, line);
		}
	}
	return 0;
}
