/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "coordinator/nodes/nodes.h"
#include "coordinator/report/flush.h"
#include "coordinator/report/json_writer.h"

enum { DECIMALS_RATIO = 4, LINES_TO_DEPTH = 2 };

static void write_node(struct json_writer *writer, const struct node *node)
{
	json_object_begin(writer, NULL);
	json_string(writer, "node", node->name);
	json_unsigned(writer, "jobs", node->jobs);
	json_unsigned(writer, "jobs_named", node->jobs_named);
	json_array_begin(writer, "as");
	for (size_t i = 0; i < node->named_count; i++) {
		json_object_begin(writer, NULL);
		json_string(writer, "class", verdict_class_name(node->named[i].verdict_class));
		json_string(writer, "cause", cause_name(node->named[i].cause));
		json_unsigned(writer, "jobs", node->named[i].jobs);
		json_object_end(writer);
	}
	json_array_end(writer);
	json_object_end(writer);
}

static void write_incident(struct json_writer *writer, const struct nodes_incident *incident)
{
	json_object_begin(writer, NULL);
	json_unsigned(writer, "id", incident->id);
	json_string(writer, "class", verdict_class_name(incident->verdict_class));
	json_string(writer, "cause", cause_name(incident->cause));
	json_decimal(writer, "slowdown", incident->slowdown, DECIMALS_RATIO);
	json_signed(writer, "onset_unix_ns", incident->onset_unix_ns);
	json_boolean(writer, "ended", incident->ended);
	if (incident->unmeasured_since)
		json_unsigned(writer, "unmeasured_since_step", incident->unmeasured_since);
	json_unsigned(writer, "rank_count", incident->rank_count);
	if (incident->rank_count) {
		json_unsigned(writer, "first_rank", incident->rank);
		json_string(writer, "node", incident->node);
	}
	json_object_end(writer);
}

static void write_record(
	struct json_writer *writer, const struct nodes *nodes, const struct nodes_record *record)
{
	json_object_begin(writer, NULL);
	json_string(writer, "path", record->path);
	json_boolean(writer, "readable", record->readable);
	if (!record->readable) {
		json_string(writer, "why", record->why);
		json_object_end(writer);
		return;
	}
	json_boolean(writer, "whole", record->whole);
	json_string(writer, "job", record->job);
	json_unsigned(writer, "ranks", record->rank_count);
	json_unsigned(writer, "nodes", record->node_count);
	json_unsigned(writer, "steps", record->steps);
	json_signed(writer, "start_unix_ns", record->start_unix_ns);
	json_signed(writer, "end_unix_ns", record->end_unix_ns);
	json_array_begin(writer, "incidents");
	for (size_t i = 0; i < record->incident_count; i++)
		write_incident(writer, &nodes->incidents[record->first_incident + i]);
	json_array_end(writer);
	json_object_end(writer);
}

int nodes_write_json(const struct nodes *nodes, const char *folder, FILE *out)
{
	struct json_writer writer;

	errno = 0; /* for report_flush() */
	json_writer_init(&writer, out, LINES_TO_DEPTH);
	json_object_begin(&writer, NULL);
	json_string(&writer, "schema", "slowrank.history/1");
	json_string(&writer, "folder", folder);
	json_array_begin(&writer, "nodes");
	for (size_t i = 0; i < nodes->count; i++)
		write_node(&writer, &nodes->list[i]);
	json_array_end(&writer);
	json_array_begin(&writer, "records");
	for (size_t i = 0; i < nodes->record_count; i++)
		write_record(&writer, nodes, &nodes->records[i]);
	json_array_end(&writer);
	json_unsigned(&writer, "nodes_unlisted", nodes->nodes_unlisted);
	json_unsigned(&writer, "incidents_unlisted", nodes->incidents_unlisted);
	json_object_end(&writer);
	fputc('\n', out);
	return report_flush(out);
}
