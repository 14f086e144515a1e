/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank import: makes a record of a trace that another tool took. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/version.h"
#include "coordinator/commands.h"
#include "coordinator/output/file.h"
#include "coordinator/record/writer.h"
#include "coordinator/report/import_batch.h"
#include "coordinator/words.h"
#include "probe/wire/encode.h"

enum {
	STATUS_OK = 0,
	STATUS_BAD = 2,
};

static const char usage[] =
	"usage: slowrank import --from whatif FILE.csv[.gz] -o RECORD\n\n"
	"Makes a record of a trace, to be read by slowrank report.\n\n"
	"  --from whatif        traces of the artifact of \"Understanding Stragglers in Large "
	"Model\n"
	"                       Training Using What-if Analysis\" (OSDI '25), as CSV\n"
	"  -o, --output RECORD  the record to write\n"
	"  --help               this text\n\n"
	"Each option has an environment variable: SLOWRANK_FROM, SLOWRANK_OUTPUT.\n"
	"Exit status: 0; 2 for bad usage, or a trace that cannot be read.\n";

struct import_options {
	const char *input, *output;
};

struct sink {
	struct record_writer *writer;
	struct wire_buffer buffer;
};

static int complain(const char *problem, const char *word)
{
	return words_complain("import", problem, word);
}

/* Returns -1 to go on, or the exit status. */
static int parse(struct import_options *options, int argc, char **argv)
{
	const char *from;
	const struct words_option list[] = {
		{"--from", "SLOWRANK_FROM", &from, NULL},
		{"--output", "SLOWRANK_OUTPUT", &options->output, NULL},
		{"-o", "SLOWRANK_OUTPUT", &options->output, NULL},
	};
	struct words words = {.command = "import",
		.usage = usage,
		.options = list,
		.option_count = WORDS_IN(list)};
	int status = words_take(&words, argc, argv);

	if (status >= 0)
		return status;
	if (!from)
		return complain("say what the trace is from: --from whatif", NULL);
	if (strcmp(from, "whatif") != 0)
		return complain("traces are from whatif, not", from);
	if (!words.other_count)
		return complain("name the trace to read", NULL);
	if (words.other_count > 1)
		return complain("one trace at a time, not also", words.others[1]);
	options->input = words.others[0];
	if (!options->output)
		return complain("name the record to write: -o RECORD", NULL);
	return -1;
}

static int append(void *context, const struct message_batch *batch, struct job_ns received)
{
	struct sink *sink = context;
	int error = wire_encode_batch(batch, &sink->buffer);

	return error < 0 ? error
			 : record_writer_append(
				   sink->writer, sink->buffer.bytes, sink->buffer.length, received);
}

/* The file's name without folders and endings. */
static void job_id_of(const char *path, char id[STEP_NAME_LENGTH_MAX + 1])
{
	const char *name = strrchr(path, '/');

	snprintf(id, STEP_NAME_LENGTH_MAX + 1, "%s", name ? name + 1 : path);
	id[strcspn(id, ".")] = '\0';
}

/* Writes the record whole, or nothing. Returns 0, or a negative errno with one line in why. */
static int write_record(const struct import_options *options, struct import_rows *rows,
	struct import_result *result, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct record_writer_options record = {
		.program = "slowrank " SLOWRANK_VERSION, .whole = true};
	char job_id[STEP_NAME_LENGTH_MAX + 1];
	struct sink sink = {0};
	int error;

	job_id_of(options->input, job_id);
	error = record_writer_create(options->output, &record, &sink.writer, why);
	if (error)
		return error;
	error = import_batches(rows, job_id, append, &sink, result);
	wire_buffer_fini(&sink.buffer);
	if (error)
		record_writer_destroy(sink.writer);
	else
		error = record_writer_finish(sink.writer);
	if (error == -EINVAL || error == -EMSGSIZE)
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "%.150s: %s", options->input,
			error == -EINVAL ? "a rank is in two places of the job"
					 : "a step has more operations than a record can hold");
	else if (error)
		output_explain(options->output, error, why);
	return error;
}

static void tell_result(const struct import_result *result, const struct import_rows *rows)
{
	fprintf(stderr,
		"slowrank import: %" PRIu64 " operations of %" PRIu64 " ranks in %" PRIu64
		" steps\n",
		result->operations, result->ranks, result->steps);
	if (rows->unknown)
		fprintf(stderr,
			"slowrank import: %" PRIu64 " operations of unknown types left out\n",
			rows->unknown);
	if (result->unpaired)
		fprintf(stderr,
			"slowrank import: sends and receives of %" PRIu64
			" steps do not fit the schedule and are not paired\n",
			result->unpaired);
}

int cmd_import(int argc, char **argv)
{
	struct import_options options = {0};
	struct import_result result;
	struct import_rows rows;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	int status = parse(&options, argc, argv);

	if (status >= 0)
		return status;
	status = STATUS_OK;
	if (import_rows_read(options.input, &rows, why) < 0 ||
		write_record(&options, &rows, &result, why) < 0) {
		fprintf(stderr, "slowrank import: %s\n", why);
		status = STATUS_BAD;
	} else {
		tell_result(&result, &rows);
	}
	import_rows_fini(&rows);
	return status;
}
