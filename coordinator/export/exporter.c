/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/export/exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/export/csv.h"
#include "coordinator/export/sqlite.h"
#include "coordinator/export/trace.h"
#include "coordinator/output/file.h"
#include "coordinator/report/flush.h"
#include "coordinator/report/look.h"

/* One format: what it does with each part of a record. calls NULL: it has none. */
struct format {
	int (*open)(struct exporter *exporter);
	int (*begin)(struct exporter *exporter, const struct report_model *model);
	int (*calls)(struct exporter *exporter, const struct judged_step *judged);
	int (*step)(struct exporter *exporter, const struct export_step *step);
	int (*end)(struct exporter *exporter, const struct report_model *model);
	int (*finish)(struct exporter *exporter);
};

struct exporter {
	const struct export_choice *choice;
	const struct format *format;
	const char *path; /* NULL: standard output */
	struct output_replacement output;
	bool replaces; /* output is open */
	FILE *out;     /* of what is a stream */
	struct csv csv;
	struct sqlite *sqlite;
	struct trace *trace;
	struct export_sink sink; /* of what has tables */
	struct export_steps steps;
	const struct export_record *record;
	uint64_t left_out;
};

const char *const export_format_names[EXPORT_FORMAT_NR] = {
	[EXPORT_CSV] = "csv", [EXPORT_SQLITE] = "sqlite", [EXPORT_PERFETTO] = "perfetto"};

enum {
	LOOKED_AT_BYTES = 128, /* of a file that may be an export */
	DATABASE_ID_AT = 68,   /* https://www.sqlite.org/fileformat2.html, 1.3 */
};

static bool begins_as_csv(const char *head)
{
	bool found = false;

	for (int table = 0; table < EXPORT_TABLE_NR && !found; table++) {
		const struct export_shape *shape = export_shape((enum export_table)table);
		char names[LOOKED_AT_BYTES];

		snprintf(names, sizeof(names), "%s,%s,%s,", shape->columns[0].name,
			shape->columns[1].name, shape->columns[2].name);
		found = strncmp(head, names, strlen(names)) == 0;
	}
	return found;
}

static bool is_export(int fd, off_t length)
{
	static const char magic[] = "SQLite format 3";
	static const unsigned char id[] = {SQLITE_EXPORT_ID >> 24, SQLITE_EXPORT_ID >> 16 & 0xff,
		SQLITE_EXPORT_ID >> 8 & 0xff, SQLITE_EXPORT_ID & 0xff};
	char head[LOOKED_AT_BYTES + 1] = "";

	(void)length;
	if (pread(fd, head, LOOKED_AT_BYTES, 0) <= 0)
		return false;
	return begins_as_csv(head) || strncmp(head, TRACE_HEAD, strlen(TRACE_HEAD)) == 0 ||
	       (memcmp(head, magic, sizeof(magic)) == 0 &&
		       memcmp(head + DATABASE_ID_AT, id, sizeof(id)) == 0);
}

static const struct output_kind export_kind = {"an export", is_export};

/*
 * A stream to the file, or to standard output as it is: what stdout would print is cleaned for terminals, which a file
 * must not be.
 */
static int open_stream(struct exporter *exporter)
{
	int fd = exporter->path ? exporter->output.fd : STDOUT_FILENO;
	int own;

	if (!exporter->path && isatty(STDOUT_FILENO)) {
		exporter->out = stdout;
		return 0;
	}
	own = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (own < 0)
		return -errno;
	exporter->out = fdopen(own, "w");
	if (exporter->out)
		return 0;
	close(own);
	return -ENOMEM;
}

static int begin_nothing(struct exporter *exporter, const struct report_model *model)
{
	(void)exporter;
	(void)model;
	return 0;
}

static int put_step(struct exporter *exporter, const struct export_step *step)
{
	return export_put_step(
		&exporter->sink, exporter->record, &exporter->choice->selection, step);
}

static int put_report(struct exporter *exporter, const struct report_model *model)
{
	int error = export_put_report(&exporter->sink, exporter->record, model);

	if (!error && export_selects_all(&exporter->choice->selection))
		error = export_put_rest(&exporter->sink, exporter->record, &exporter->steps, model);
	return error;
}

static int open_csv(struct exporter *exporter)
{
	int error = open_stream(exporter);

	if (error)
		return error;
	exporter->csv = (struct csv){.out = exporter->out,
		.line_end = exporter->out == stdout ? "\n" : "\r\n",
		.table = exporter->choice->table};
	exporter->sink = (struct export_sink){csv_put, &exporter->csv};
	return csv_begin(&exporter->csv);
}

static int finish_csv(struct exporter *exporter)
{
	errno = 0;
	return report_flush(exporter->out);
}

static int open_sqlite(struct exporter *exporter)
{
	char path[32];
	int error;

	if (!exporter->path || !exporter->output.temporary[0])
		return -ESPIPE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", exporter->output.fd);
	error = sqlite_open(path, &exporter->sqlite);
	exporter->sink = (struct export_sink){sqlite_put, exporter->sqlite};
	return error;
}

static int begin_sqlite(struct exporter *exporter, const struct report_model *model)
{
	(void)model;
	return sqlite_begin(exporter->sqlite);
}

static int end_sqlite(struct exporter *exporter, const struct report_model *model)
{
	int error = put_report(exporter, model);

	return error ? error : sqlite_commit(exporter->sqlite);
}

static int finish_sqlite(struct exporter *exporter)
{
	sqlite_close(exporter->sqlite);
	exporter->sqlite = NULL;
	return 0;
}

static int open_trace(struct exporter *exporter)
{
	int error = open_stream(exporter);

	return error ? error
		     : trace_create(exporter->out, &exporter->choice->selection, &exporter->trace);
}

static int begin_trace(struct exporter *exporter, const struct report_model *model)
{
	return trace_begin(exporter->trace, model);
}

static int trace_calls(struct exporter *exporter, const struct judged_step *judged)
{
	return trace_put_calls(exporter->trace, judged);
}

static int trace_step(struct exporter *exporter, const struct export_step *step)
{
	return trace_put_step(exporter->trace, step);
}

static int end_trace(struct exporter *exporter, const struct report_model *model)
{
	return trace_end(exporter->trace, model);
}

static int finish_trace(struct exporter *exporter)
{
	return trace_finish(exporter->trace, &exporter->left_out);
}

static const struct format formats[EXPORT_FORMAT_NR] = {
	[EXPORT_CSV] = {open_csv, begin_nothing, NULL, put_step, put_report, finish_csv},
	[EXPORT_SQLITE] = {open_sqlite, begin_sqlite, NULL, put_step, end_sqlite, finish_sqlite},
	[EXPORT_PERFETTO] = {open_trace, begin_trace, trace_calls, trace_step, end_trace,
		finish_trace},
};

static int take_step(void *context, const struct export_step *step)
{
	struct exporter *exporter = context;

	if (!export_selects_step(&exporter->choice->selection, step))
		return 0;
	return exporter->format->step(exporter, step);
}

int exporter_open(const struct export_choice *choice, const char *path, struct exporter **result,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct exporter *exporter = calloc(1, sizeof(*exporter));
	int error = exporter ? 0 : -ENOMEM;

	if (error) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "out of memory");
		return error;
	}
	exporter->choice = choice;
	exporter->format = &formats[choice->format];
	exporter->path = path;
	exporter->steps = (struct export_steps){.on_step = take_step, .context = exporter};
	if (path)
		error = output_replacement_begin(path, &export_kind, &exporter->output, why);
	exporter->replaces = path && !error;
	if (!error) {
		error = exporter->format->open(exporter);
		if (error)
			output_explain(path ? path : "to standard output", error, why);
	}
	if (error)
		exporter_close(exporter);
	else
		*result = exporter;
	return error;
}

/* The stream ends before the file takes its place: what is buffered may not fit. */
static int close_stream(struct exporter *exporter)
{
	FILE *out = exporter->out;

	exporter->out = NULL;
	if (!out || out == stdout)
		return 0;
	return fclose(out) == 0 ? 0 : -errno;
}

void exporter_close(struct exporter *exporter)
{
	if (!exporter)
		return;
	trace_destroy(exporter->trace);
	sqlite_close(exporter->sqlite);
	(void)close_stream(exporter);
	if (exporter->replaces) {
		close(exporter->output.fd);
		output_replacement_abort(&exporter->output);
	}
	export_steps_fini(&exporter->steps);
	free(exporter);
}

int exporter_begin(struct exporter *exporter, const struct export_record *record,
	const struct report_model *model)
{
	export_steps_fini(&exporter->steps);
	exporter->steps = (struct export_steps){.on_step = take_step, .context = exporter};
	exporter->record = record;
	return exporter->format->begin(exporter, model);
}

int exporter_step(
	struct exporter *exporter, const struct judged_step *judged, int64_t unix_offset_ns)
{
	const struct grid_step *step = &judged->grid->step;
	int error = 0;

	if (exporter->format->calls &&
		export_selects_span(&exporter->choice->selection, step->of_program,
			step->of_program,
			look_unix_ns((struct job_ns){step->start_ns}, unix_offset_ns),
			look_unix_ns((struct job_ns){step->end_ns}, unix_offset_ns)))
		error = exporter->format->calls(exporter, judged);
	return error ? error : export_steps_add(&exporter->steps, judged, unix_offset_ns);
}

int exporter_end_stretch(struct exporter *exporter)
{
	return export_steps_end(&exporter->steps);
}

int exporter_end(struct exporter *exporter, const struct report_model *model)
{
	return exporter->format->end(exporter, model);
}

int exporter_finish(
	struct exporter *exporter, uint64_t *left_out, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	int error = exporter->format->finish(exporter), closed = close_stream(exporter);

	*left_out = exporter->left_out;
	if (!error)
		error = closed;
	if (!error && exporter->replaces) {
		exporter->replaces = false;
		close(exporter->output.fd);
		error = output_replacement_commit(&exporter->output);
	}
	if (error)
		output_explain(exporter->path ? exporter->path : "to standard output", error, why);
	return error;
}
