/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a coordinator saved of a job: taken as a verdict, as ranks, as the job and as a gap, in turn, and
 * a report made of it, and exports. What is read is written and read again as the same.
 */
#include <stdlib.h>
#include <string.h>

#include "coordinator/export/csv.h"
#include "coordinator/export/trace.h"
#include "coordinator/history/history.h"
#include "coordinator/nodes/nodes.h"
#include "coordinator/report/json.h"
#include "coordinator/report/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static const struct report_model empty;

static const struct report_model *nothing(void *context)
{
	(void)context;
	return &empty;
}

static void check_job(const uint8_t *bytes, size_t length)
{
	static uint8_t first[SUMS_BYTES_MAX], second[SUMS_BYTES_MAX];
	static struct sums_job job;
	size_t written;

	if (sums_get_job(bytes, length, &job))
		return;
	written = sums_put_job(&job, first);
	if (sums_get_job(first, written, &job) || sums_put_job(&job, second) != written ||
		memcmp(first, second, written) != 0)
		abort();
}

/* As tables, as a trace, and as one of many jobs. */
static void export_all(const struct report_model *model, FILE *sink)
{
	static const struct export_selection all;
	static const struct export_steps no_steps;
	const struct export_record record = {.number = 1, .path = "fuzz"};
	struct nodes nodes = {0};
	struct trace *trace;
	uint64_t left_out;

	for (int table = 0; table < EXPORT_TABLE_NR; table++) {
		struct csv csv = {sink, "\r\n", (enum export_table)table};
		const struct export_sink rows = {csv_put, &csv};

		if (csv_begin(&csv) || export_put_report(&rows, &record, model) ||
			export_put_rest(&rows, &record, &no_steps, model))
			abort();
	}
	if (trace_create(sink, &all, &trace) || trace_begin(trace, model) ||
		trace_end(trace, model) || trace_finish(trace, &left_out))
		abort();
	trace_destroy(trace);
	if (nodes_add(&nodes, "fuzz", model, true))
		abort();
	nodes_sort(&nodes);
	if (nodes_write_text(&nodes, "fuzz", sink) || nodes_write_json(&nodes, "fuzz", sink))
		abort();
	nodes_fini(&nodes);
}

/* Pieces: a kind, two bytes of length, and so many bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static const uint8_t gap[24] = {1};
	struct record_frame frame = {.kind = RECORD_GAP, .bytes = gap, .length = sizeof(gap)};
	struct history history = {0};
	struct report_model model = empty;
	FILE *sink = fopen("/dev/null", "we");

	if (!sink || history_take(&history, &frame, nothing, NULL) < 0)
		abort();
	while (length > 3) {
		size_t piece = bytes[1] | (size_t)bytes[2] << 8;

		piece = piece < length - 3 ? piece : length - 3;
		frame = (struct record_frame){
			.kind = (enum record_kind)(RECORD_BATCH + bytes[0] % 5),
			.bytes = bytes + 3,
			.length = piece};
		(void)!history_take(&history, &frame, nothing, NULL);
		check_job(bytes + 3, piece);
		bytes += 3 + piece;
		length -= 3 + piece;
	}
	if (history_end(&history, &model) || history_report(&history, &model))
		abort();
	if (report_json_write(&model, sink) || report_text_write(&model, NULL, sink))
		abort();
	export_all(&model, sink);
	fclose(sink);
	history_fini(&history);
	return 0;
}
