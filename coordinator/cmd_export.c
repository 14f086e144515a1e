/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank export: replays records, and writes what each rank did in each step for other programs to read. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/commands.h"
#include "coordinator/export/exporter.h"
#include "coordinator/output/file.h"
#include "coordinator/replay.h"
#include "coordinator/words.h"

enum {
	STATUS_OK = 0,
	STATUS_BAD = 2, /* bad usage, or input that is not (all) readable */
	PROGRESS_S = 5, /* from one line about it to the next */
};

static const char usage[] =
	"usage: slowrank export FILE... --format csv|sqlite|perfetto [OPTION...]\n\n"
	"Writes what records of jobs hold for other programs: each rank's phases in each step,\n"
	"incidents, evidence. Several records are several jobs in one file. docs/export.md has "
	"the\n"
	"tables and their columns.\n\n"
	"  --format csv|sqlite|perfetto\n"
	"                       csv (one table), sqlite (all tables in a database), or perfetto\n"
	"                       (a trace for https://ui.perfetto.dev)\n"
	"  --table rank_steps|steps|ranks|records|incidents|incident_ranks|evidence|sources|gaps\n"
	"                       of csv (default: rank_steps)\n"
	"  --from WHEN          only steps from here on: the number of a step, or a time in UTC\n"
	"                       (2026-11-23T10:42:00Z)\n"
	"  --to WHEN            only steps up to here, included; as --from\n"
	"  --ranks LIST         only these ranks' steps: 0-7,12\n"
	"  -o, --output OUT     write to OUT, whole or not at all; default: standard output (not\n"
	"                       for sqlite)\n"
	"  --help               this text\n\n"
	"Ranges limit steps, and what ranks did in them: what is of whole jobs (ranks, records,\n"
	"sources, and in tables incidents) is there all the same. Each option has an environment\n"
	"variable: SLOWRANK_FORMAT for --format, and so on.\n"
	"Exit status: 0; 2 for bad usage, an output that cannot be written (then nothing is), or\n"
	"records that are unreadable or cut short (what could be read is exported all the same).\n";

struct export_options {
	char **records; /* record_count of argv's words */
	size_t record_count;
	const char *output; /* NULL: standard output */
	struct export_choice choice;
};

/* Where the replay of one record is. */
struct job {
	struct exporter *exporter; /* NULL: its report alone is wanted */
	struct pipeline *pipeline;
	struct export_record record;
	uint64_t length_bytes; /* of its file */
	time_t told;	       /* when progress was told last */
	int error;	       /* of the exporter */
	bool tells_progress;
	bool replayed; /* its steps are to come */
};

static int complain(const char *problem, const char *word)
{
	return words_complain("export", problem, word);
}

static int find_table(const char *name)
{
	for (int table = 0; table < EXPORT_TABLE_NR; table++) {
		if (strcmp(export_shape((enum export_table)table)->name, name) == 0)
			return table;
	}
	return -1;
}

/* What the values of the options say. Returns -1 to go on, or the exit status. */
static int take_choice(struct export_choice *choice, const char *format, const char *table,
	const char *from, const char *until, const char *ranks)
{
	int found = format ? words_find(export_format_names, EXPORT_FORMAT_NR, format) : -1;

	if (!format)
		return complain("say in which format: --format csv, sqlite or perfetto", NULL);
	if (found < 0)
		return complain("the format is csv, sqlite or perfetto, not", format);
	choice->format = (enum export_format)found;
	if (table && choice->format != EXPORT_CSV)
		return complain("only csv has one table: leave out --table", table);
	found = table ? find_table(table) : EXPORT_RANK_STEPS;
	if (found < 0)
		return complain("no table", table);
	choice->table = (enum export_table)found;
	if (from && !export_bound_parse(from, &choice->selection.from))
		return complain("a step's number or a time (2026-11-23T10:42:00Z), not", from);
	if (until && !export_bound_parse(until, &choice->selection.until))
		return complain("a step's number or a time (2026-11-23T10:42:00Z), not", until);
	if (ranks && !export_ranks_parse(ranks, &choice->selection))
		return complain("ranks are a list as 0-7,12, not", ranks);
	return -1;
}

/* Returns -1 to go on, or the exit status. */
static int parse(struct export_options *options, int argc, char **argv)
{
	const char *format, *table, *from, *until, *ranks, *output;
	const struct words_option list[] = {
		{"--format", "SLOWRANK_FORMAT", &format, NULL},
		{"--table", "SLOWRANK_TABLE", &table, NULL},
		{"--from", "SLOWRANK_FROM", &from, NULL},
		{"--to", "SLOWRANK_TO", &until, NULL},
		{"--ranks", "SLOWRANK_RANKS", &ranks, NULL},
		{"--output", "SLOWRANK_OUTPUT", &output, NULL},
		{"-o", "SLOWRANK_OUTPUT", &output, NULL},
	};
	struct words words = {.command = "export",
		.usage = usage,
		.options = list,
		.option_count = WORDS_IN(list)};
	int status = words_take(&words, argc, argv);

	if (status >= 0)
		return status;
	options->records = words.others;
	options->record_count = words.other_count;
	if (!options->record_count)
		return complain("name the records to read", NULL);
	status = take_choice(&options->choice, format, table, from, until, ranks);
	if (status >= 0)
		return status;
	if (output && strcmp(output, "-") != 0)
		options->output = output;
	if (!options->output && options->choice.format == EXPORT_SQLITE)
		return complain("name the database to write: -o FILE", NULL);
	return -1;
}

static void take_step(void *context, const struct judged_step *step)
{
	struct job *job = context;

	if (!job->error)
		job->error =
			exporter_step(job->exporter, step, pipeline_unix_offset_ns(job->pipeline));
}

static void watch_pipeline(void *context, struct pipeline *pipeline)
{
	struct job *job = context;

	if (job->exporter && job->pipeline && !job->error) /* a gap: the stretch has ended */
		job->error = exporter_end_stretch(job->exporter);
	job->pipeline = pipeline;
	if (job->exporter)
		pipeline_watch_steps(pipeline, take_step, job);
}

/* On a terminal, of long work. */
static void tell_progress(struct job *job, uint64_t read_bytes)
{
	time_t now;

	if (!job->tells_progress)
		return;
	now = time(NULL);
	if (now - job->told < PROGRESS_S)
		return;
	job->told = now;
	fprintf(stderr, "slowrank export: %s: %.0f %% %s\n", job->record.path,
		job->length_bytes ? 100.0 * (double)read_bytes / (double)job->length_bytes : 0.0,
		job->exporter ? "exported" : "read for incidents");
}

static int take_frame(void *context, const struct record_frame *frame)
{
	struct job *job = context;

	tell_progress(job, frame->offset + frame->size);
	return job->error;
}

/*
 * Through the pipeline, into the exporter if there is one. Returns 0; a negative errno: nothing of it is known, and a line
 * was printed. The caller closes the replay, which may be NULL.
 */
static int replay_job(struct job *job, struct replay **replay, struct report_model *model)
{
	const struct replay_options options = {.command = "slowrank export",
		.path = job->record.path,
		.silent = job->replayed,
		.on_pipeline = watch_pipeline,
		.on_frame = take_frame,
		.context = job};
	struct record_reader_state state;
	struct stat status;
	int error = replay_open(&options, replay);

	if (error)
		return error;
	job->pipeline = NULL;
	job->length_bytes = stat(job->record.path, &status) == 0 ? (uint64_t)status.st_size : 0;
	error = replay_run(*replay);
	replay_get_state(*replay, &state);
	snprintf(job->record.program, sizeof(job->record.program), "%.31s", state.program);
	job->record.whole = replay_is_whole(*replay);
	if (!error)
		error = job->error; /* of the last steps */
	return error ? error : replay_report(*replay, model);
}

/* The steps of a record whose begin is told. */
static int export_steps_of(struct job *job, struct exporter *exporter)
{
	struct replay *replay = NULL;
	struct report_model model;
	int error;

	job->exporter = exporter;
	error = replay_job(job, &replay, &model);
	if (!error)
		error = job->error = exporter_end_stretch(exporter);
	if (!error)
		error = job->error = exporter_end(exporter, &model);
	replay_close(replay);
	return error;
}

/* Returns 0 or a negative errno. The record can be opened. */
static int export_record(
	struct job *job, const struct export_choice *choice, struct exporter *exporter)
{
	struct replay *replay = NULL;
	struct report_model model;
	int error = 0;

	job->exporter = NULL;
	job->replayed = false;
	if (export_needs_report_first(choice->format))
		error = replay_job(job, &replay, &model);
	if (!error)
		error = job->error = exporter_begin(exporter, &job->record, replay ? &model : NULL);
	job->replayed = replay != NULL;
	replay_close(replay);
	return error ? error : export_steps_of(job, exporter);
}

/* One that cannot be opened is passed over. */
static bool is_record(const char *path)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct record_reader *reader;

	if (record_reader_open(path, &reader, why) < 0) {
		fprintf(stderr, "slowrank export: %s\n", why);
		return false;
	}
	record_reader_close(reader);
	return true;
}

/* All records. Returns 0, or a negative errno: nothing is to be written, and a line was printed. */
static int export_all(
	const struct export_options *options, struct exporter *exporter, bool *all_whole)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct job job = {.tells_progress = isatty(STDERR_FILENO), .told = time(NULL)};
	uint32_t exported = 0;
	int error = 0;

	for (size_t i = 0; i < options->record_count && !error; i++) {
		const char *path = options->records[i];

		job.record = (struct export_record){.path = path, .number = exported + 1};
		if (!is_record(path)) {
			*all_whole = false;
			continue;
		}
		exported++;
		error = export_record(&job, &options->choice, exporter);
		*all_whole &= job.record.whole;
	}
	if (!error && !exported)
		return -ENODATA;
	if (job.error) {
		output_explain(
			options->output ? options->output : "to standard output", job.error, why);
		fprintf(stderr, "slowrank export: %s\n", why);
	}
	return error;
}

int cmd_export(int argc, char **argv)
{
	struct export_options options = {0};
	struct exporter *exporter = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	int status = parse(&options, argc, argv), error;
	bool all_whole = true;
	uint64_t left_out;

	if (status >= 0)
		return status;
	error = exporter_open(&options.choice, options.output, &exporter, why);
	if (!error && export_all(&options, exporter, &all_whole) < 0) {
		exporter_close(exporter);
		return STATUS_BAD;
	}
	if (!error)
		error = exporter_finish(exporter, &left_out, why);
	if (error)
		fprintf(stderr, "slowrank export: %s\n", why);
	else if (left_out)
		fprintf(stderr,
			"slowrank export: slices left out, for which no track was free: %" PRIu64
			"\n",
			left_out);
	exporter_close(exporter);
	return error || !all_whole ? STATUS_BAD : STATUS_OK;
}
