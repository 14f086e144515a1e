/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank report: replays a record through the pipeline and writes what it says. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/commands.h"
#include "coordinator/output/file.h"
#include "coordinator/page/page.h"
#include "coordinator/replay.h"
#include "coordinator/report/file.h"
#include "coordinator/report/sheets.h"
#include "coordinator/report/text.h"
#include "coordinator/words.h"

enum {
	STATUS_OK = 0,
	STATUS_BAD = 2, /* bad usage, or input that is not (all) readable */
};

struct report_options {
	const char *record;
	const char *output; /* NULL: standard output */
	struct report_choice choice;
	struct stacks_wish stacks;
	bool explain;
	struct sheets_wish wish;
	struct alert_settings alerts;
	struct alert_limits limits;
};

/* What is asked of the pipeline beside the report. */
struct asked {
	const struct report_options *options;
	struct report_sheets *sheets;
	struct trail *trail;
	const struct replay *replay;
};

static const char usage[] =
	"usage: slowrank report FILE [OPTION...]\n\n"
	"Reads the record of a run and says who was slow, and why.\n\n"
	"  --format text|html|json|flame|folded\n"
	"                       text for people (default); html, a page for a browser, with the "
	"job's\n"
	"                       course; or json (slowrank.report/1); of stacks that\n"
	"                       were looked at, flame (a page for a browser), or folded (us in a\n"
	"                       step, for flamegraph.pl or speedscope)\n"
	"  --incident N         of which verdict, by its id; default: the first one with stacks\n"
	"  --rank R             of which rank; default: the first one that the verdict names\n"
	"  --of suspect|control|difference\n"
	"                       of folded: suspect (default), control (a healthy rank; of a hang\n"
	"                       one that waits), difference (two columns, as of difffolded.pl)\n"
	"  -o, --output OUT     write to OUT, whole or not at all; default: standard output\n"
	"  --explain all|transfers|RANK|RANK:STEP\n"
	"                       why it was named, or not\n"
	"  --help               this text\n\n"
	"What would not have been alerted of is marked:\n\n" ALERT_SETTINGS_HELP
	"\nEach option has an environment variable: SLOWRANK_FORMAT for --format, and so on.\n"
	"Exit status: 0; 2 for bad usage, or a record that is unreadable or cut short (what could\n"
	"be read is reported all the same).\n";

static int complain(const char *problem, const char *word)
{
	return words_complain("report", problem, word);
}

static bool parse_number(const char *text, uint32_t *number)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	*number = (uint32_t)value;
	return isdigit((unsigned char)text[0]) && !*end && !errno && value <= UINT32_MAX;
}

/* What --format, --of, --rank and --incident say. Returns -1 to go on, or the exit status. */
static int take_choice(struct report_options *options, const char *format, const char *of,
	const char *rank, const char *incident)
{
	static const char *const formats[] = {[REPORT_TEXT] = "text",
		[REPORT_JSON] = "json",
		[REPORT_FOLDED] = "folded",
		[REPORT_FLAME] = "flame",
		[REPORT_PAGE] = "html"},
				 *const whose[] = {[FOLDED_SUSPECT] = "suspect",
					 [FOLDED_CONTROL] = "control",
					 [FOLDED_DIFFERENCE] = "difference"};
	int found = format ? words_find(formats, WORDS_IN(formats), format) : REPORT_TEXT;

	if (found < 0)
		return complain("the format is text, html, json, folded or flame, not", format);
	options->choice.format = (enum report_format)found;
	found = of ? words_find(whose, WORDS_IN(whose), of) : FOLDED_SUSPECT;
	if (found < 0)
		return complain("stacks are of suspect, control or difference, not", of);
	options->choice.of = (enum folded_of)found;
	options->stacks.has_rank = rank;
	if (rank && !parse_number(rank, &options->stacks.rank))
		return complain("a rank is a number, not", rank);
	options->stacks.has_incident = incident;
	if (incident && !parse_number(incident, &options->stacks.incident))
		return complain("an incident is a number, not", incident);
	return -1;
}

/* Returns -1 to go on, or the exit status. */
static int parse(struct report_options *options, int argc, char **argv)
{
	const char *format, *output, *explain, *of, *rank, *incident;
	struct alert_settings *alerts = &options->alerts;
	char problem[ALERT_LIMITS_PROBLEM_LENGTH];
	const struct words_option list[] = {
		{"--format", "SLOWRANK_FORMAT", &format, NULL},
		{"--output", "SLOWRANK_OUTPUT", &output, NULL},
		{"-o", "SLOWRANK_OUTPUT", &output, NULL},
		{"--explain", "SLOWRANK_EXPLAIN", &explain, NULL},
		{"--of", "SLOWRANK_OF", &of, NULL},
		{"--rank", "SLOWRANK_RANK", &rank, NULL},
		{"--incident", "SLOWRANK_INCIDENT", &incident, NULL},
		{"--config", "SLOWRANK_CONFIG", &alerts->file, NULL},
		{"--alert-slowdown", "SLOWRANK_ALERT_SLOWDOWN", &alerts->slowdown, NULL},
		{"--alert-after", "SLOWRANK_ALERT_AFTER", &alerts->after, NULL},
		{"--silent-imbalance", "SLOWRANK_SILENT_IMBALANCE", &alerts->imbalance, NULL},
	};
	struct words words = {.command = "report",
		.usage = usage,
		.options = list,
		.option_count = WORDS_IN(list)};
	int status = words_take(&words, argc, argv);

	if (status >= 0)
		return status;
	if (!words.other_count)
		return complain("name the record to read", NULL);
	if (words.other_count > 1)
		return complain("one record at a time, not also", words.others[1]);
	options->record = words.others[0];
	status = take_choice(options, format, of, rank, incident);
	if (status >= 0)
		return status;
	options->explain = explain;
	if (options->explain && !report_sheets_parse(explain, &options->wish))
		return complain("explain RANK, RANK:STEP, transfers or all, not", explain);
	if (output && strcmp(output, "-") != 0)
		options->output = output;
	if (alert_limits_load(alerts, &options->limits, stderr, problem))
		return complain(problem, NULL);
	return -1;
}

static void take_step(void *context, const struct judged_step *step)
{
	const struct asked *asked = context;

	asked->trail->before = replay_steps_before(asked->replay);
	trail_take(asked->trail, step);
}

static void watch_pipeline(void *context, struct pipeline *pipeline)
{
	const struct asked *asked = context;

	if (asked->sheets)
		pipeline_watch_sheets(pipeline, report_sheets_take, asked->sheets);
	if (asked->trail)
		pipeline_watch_steps(pipeline, take_step, context);
	pipeline_limit_alerts(pipeline, &asked->options->limits);
}

/* Finds the stacks that are asked for. False: there are none; a line was printed. */
static bool find_stacks(struct report_options *options, const struct report_model *model)
{
	struct stacks_pair *pair = &options->choice.stacks;
	char why[STACKS_WHY_LENGTH];

	if (options->choice.format != REPORT_FOLDED && options->choice.format != REPORT_FLAME)
		return true;
	if (!stacks_find(model, &options->stacks, pair, why)) {
		fprintf(stderr, "slowrank report: %s: %s\n", options->record, why);
		return false;
	}
	if (options->choice.format == REPORT_FOLDED && options->choice.of != FOLDED_SUSPECT &&
		!pair->control) {
		fprintf(stderr,
			"slowrank report: %s: no stacks of a rank beside rank %" PRIu32
			": none was looked at with it\n",
			options->record, pair->own->profile->rank);
		return false;
	}
	return true;
}

static int write_output(struct report_options *options, const struct report_model *model)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	int error;

	if (!find_stacks(options, model))
		return -ENODATA;
	if (options->output) {
		error = report_file_write(model, options->output, &options->choice, why);
	} else {
		options->choice.colour = report_text_colour_wanted(isatty(STDOUT_FILENO));
		error = report_write(model, &options->choice, stdout);
		if (error < 0)
			output_explain("the report", error, why);
	}
	if (error < 0)
		fprintf(stderr, "slowrank report: %s\n", why);
	return error;
}

int cmd_report(int argc, char **argv)
{
	struct report_options options = {0};
	struct asked asked = {.options = &options};
	struct replay_options replay_options = {
		.command = "slowrank report", .on_pipeline = watch_pipeline, .context = &asked};
	struct replay *replay = NULL;
	struct report_model model;
	int status = parse(&options, argc, argv);

	if (status >= 0)
		return status;
	status = STATUS_BAD;
	replay_options.path = options.record;
	if (replay_open(&replay_options, &replay) < 0)
		return status;
	asked.replay = replay;
	if (options.explain)
		asked.sheets = report_sheets_create(&options.wish);
	if (options.choice.format == REPORT_PAGE && trail_create(&asked.trail) == 0) {
		options.choice.write_page = page_write;
		options.choice.trail = asked.trail;
	}
	if ((options.explain && !asked.sheets) ||
		(options.choice.format == REPORT_PAGE && !asked.trail)) {
		fprintf(stderr, "slowrank report: out of memory\n");
		goto out;
	}
	if (replay_run(replay) < 0 || replay_report(replay, &model) < 0)
		goto out;
	model.sheets = asked.sheets;
	if (write_output(&options, &model) == 0 && replay_is_whole(replay))
		status = STATUS_OK;
out:
	replay_close(replay);
	report_sheets_destroy(asked.sheets);
	trail_destroy(asked.trail);
	return status;
}
