/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "coordinator/nodes/nodes.h"
#include "coordinator/report/flush.h"
#include "coordinator/report/line.h"

enum { LINE_LENGTH = 1024, NODES_SHOWN = 32, NAMED_SHOWN = 8, INCIDENTS_SHOWN = 8 };

static void print_line(const struct line *line, FILE *out)
{
	fputs(line->text, out);
	fputc('\n', out);
}

static void add_named(struct line *line, const struct node *node)
{
	for (size_t i = 0; i < node->named_count && i < NAMED_SHOWN; i++) {
		const struct node_named *named = &node->named[i];

		line_add(line, "%s%s %s in %" PRIu32, i ? ", " : "",
			verdict_class_name(named->verdict_class), cause_name(named->cause),
			named->jobs);
	}
	if (node->named_count > NAMED_SHOWN)
		line_add(line, ", and %zu more", node->named_count - NAMED_SHOWN);
}

/* Nodes that least to most jobs named, in order; how many. */
static size_t write_nodes(
	const struct nodes *nodes, const char *title, uint32_t least, uint32_t most, FILE *out)
{
	char text[LINE_LENGTH];
	size_t count = 0;

	for (size_t i = 0; i < nodes->count; i++) {
		const struct node *node = &nodes->list[i];
		struct line line;

		if (node->jobs_named < least || node->jobs_named > most)
			continue;
		if (count++ == 0)
			fprintf(out, "\n%s\n  %-24s %6s %6s  as\n", title, "node", "named", "jobs");
		if (count > NODES_SHOWN)
			continue;
		line_init(&line, text, sizeof(text));
		line_add(&line, "  ");
		line_add_outside(&line, node->name);
		line_add(&line, "%*s %6" PRIu32 " %6" PRIu32 "  ",
			line.used < 26 ? (int)(26 - line.used) : 0, "", node->jobs_named,
			node->jobs);
		add_named(&line, node);
		print_line(&line, out);
	}
	if (count > NODES_SHOWN)
		fprintf(out, "  and %zu more\n", count - NODES_SHOWN);
	return count;
}

static void add_time(struct line *line, int64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	struct tm when;
	char text[32];

	if (gmtime_r(&seconds, &when) &&
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &when))
		line_add(line, "%s", text);
}

static void write_incident(const struct nodes_incident *incident, FILE *out)
{
	char text[LINE_LENGTH];
	struct line line;

	line_init(&line, text, sizeof(text));
	line_add(&line, "    %s: %s, ", verdict_class_name(incident->verdict_class),
		cause_name(incident->cause));
	line_add_decimal(&line, incident->slowdown, 2);
	line_add(&line, " x");
	if (incident->rank_count) {
		line_add(&line, ", rank %" PRIu32, incident->rank);
		if (incident->node[0]) {
			line_add(&line, " (");
			line_add_outside(&line, incident->node);
			line_add(&line, ")");
		}
	}
	if (incident->rank_count > 1)
		line_add(&line, " and %" PRIu32 " more", incident->rank_count - 1);
	line_add(&line, ", since ");
	add_time(&line, incident->onset_unix_ns);
	print_line(&line, out);
}

static void write_record(const struct nodes *nodes, const struct nodes_record *record, FILE *out)
{
	char text[LINE_LENGTH];
	struct line line;

	line_init(&line, text, sizeof(text));
	line_add(&line, "  ");
	line_add_outside(&line, record->path);
	if (!record->readable) {
		line_add(&line, ": not readable: ");
		line_add_outside(&line, record->why);
		print_line(&line, out);
		return;
	}
	line_add(&line, ": job ");
	line_add_outside(&line, record->job);
	line_add(&line, ", %" PRIu32 " rank%s on %" PRIu32 " node%s, %" PRIu64 " steps",
		record->rank_count, record->rank_count == 1 ? "" : "s", record->node_count,
		record->node_count == 1 ? "" : "s", record->steps);
	if (record->steps) {
		line_add(&line, " since ");
		add_time(&line, record->start_unix_ns);
	}
	line_add(&line, "%s%s", record->incident_count ? "" : "; no incident",
		record->whole ? "" : "; not all of it could be read");
	print_line(&line, out);
	for (size_t i = 0; i < record->incident_count && i < INCIDENTS_SHOWN; i++)
		write_incident(&nodes->incidents[record->first_incident + i], out);
	if (record->incident_count > INCIDENTS_SHOWN)
		fprintf(out, "    and %zu more\n", record->incident_count - INCIDENTS_SHOWN);
}

int nodes_write_text(const struct nodes *nodes, const char *folder, FILE *out)
{
	char text[LINE_LENGTH];
	size_t readable = 0, named;
	struct line line;

	errno = 0;
	for (size_t i = 0; i < nodes->record_count; i++)
		readable += nodes->records[i].readable;
	line_init(&line, text, sizeof(text));
	line_add_outside(&line, folder);
	line_add(&line, ": %zu record%s of jobs, %zu of them readable; %zu node%s",
		nodes->record_count, nodes->record_count == 1 ? "" : "s", readable, nodes->count,
		nodes->count == 1 ? "" : "s");
	print_line(&line, out);
	named = write_nodes(nodes, "Nodes that several jobs named", 2, UINT32_MAX, out);
	named += write_nodes(nodes,
		"Nodes that one job named: it may be the job, and says nothing of the node yet", 1,
		1, out);
	if (!named)
		fputs("\nNo node was named.\n", out);
	if (nodes->nodes_unlisted || nodes->incidents_unlisted)
		fprintf(out,
			"\nToo many to list: %" PRIu64 " mentions of nodes, %" PRIu64
			" incidents.\n",
			nodes->nodes_unlisted, nodes->incidents_unlisted);
	fputs("\nRecords\n", out);
	for (size_t i = 0; i < nodes->record_count; i++)
		write_record(nodes, &nodes->records[i], out);
	return report_flush(out);
}
