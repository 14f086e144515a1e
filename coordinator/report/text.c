/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coordinator/report/cause_text.h"
#include "coordinator/report/costs.h"
#include "coordinator/report/coverage_text.h"
#include "coordinator/report/flush.h"
#include "coordinator/report/line.h"
#include "coordinator/report/look.h"
#include "coordinator/report/looks_text.h"
#include "coordinator/report/pairs.h"
#include "coordinator/report/rank_table_text.h"
#include "coordinator/report/sheets.h"
#include "coordinator/report/stacks_text.h"

enum {
	VERDICTS_SHOWN = 8,
	RANKS_SHOWN = 16,
	STRETCHES_SHOWN = 4,
	LINE_LENGTH = 1024,
};

/* The verdicts worth showing, the worst first. */
struct selection {
	size_t count;
	const struct verdict *verdicts[VERDICTS_SHOWN];
};

bool report_text_colour_wanted(bool terminal)
{
	const char *kind = getenv("TERM"), *no_colour = getenv("NO_COLOR");

	/* no-color.org: any value that is not empty. */
	return terminal && !(no_colour && *no_colour) && kind && strcmp(kind, "dumb") != 0;
}

static void select_verdicts(const struct report_model *model, struct selection *selection)
{
	selection->count = 0;
	for (size_t i = 0; i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];
		size_t place = selection->count;

		while (place > 0 && look_is_worse(verdict, selection->verdicts[place - 1]))
			place--;
		if (place == VERDICTS_SHOWN)
			continue;
		if (selection->count < VERDICTS_SHOWN)
			selection->count++;
		memmove(&selection->verdicts[place + 1], &selection->verdicts[place],
			(selection->count - place - 1) * sizeof(selection->verdicts[0]));
		selection->verdicts[place] = verdict;
	}
}

static void write_head(const char *title, bool colour, FILE *out)
{
	fprintf(out, "\n%s%s%s\n", colour ? "\033[1m" : "", title, colour ? "\033[0m" : "");
}

static void write_no_verdict(const struct report_model *model, FILE *out)
{
	char text[LINE_LENGTH];
	struct line line;

	line_init(&line, text, sizeof(text));
	if (model->totals.steps == 0)
		line_add(&line, "no verdict: no step was seen, so nothing can be said of this job");
	else
		line_add(&line, "no straggler found in %" PRIu64 " step%s of %" PRIu32 " rank%s",
			model->totals.steps, model->totals.steps == 1 ? "" : "s", model->rank_count,
			model->rank_count == 1 ? "" : "s");
	coverage_text_add_unseen(&line, model);
	fprintf(out, "%s.\n", text);
}

static void write_verdicts(
	const struct report_model *model, const struct selection *selection, bool colour, FILE *out)
{
	static const char *const holds[] = {
		[ALERT_HOLD_NONE] = "",
		[ALERT_HOLD_SLOWDOWN] = " [no alert: too small]",
		[ALERT_HOLD_DURATION] = " [no alert: too short]",
		[ALERT_HOLD_IMBALANCE] = " [no alert: known imbalance]",
	};
	char sentence[REPORT_SENTENCE_LENGTH];

	for (size_t i = 0; i < selection->count; i++) {
		const struct verdict *verdict = selection->verdicts[i];
		const char *start = verdict_goes_on(verdict) ? "\033[1;31m" : "\033[33m";

		report_verdict_sentence(model, verdict, sentence);
		fprintf(out, "%s%s%s%s.\n", colour ? start : "", sentence, colour ? "\033[0m" : "",
			holds[look_hold(model, verdict)]);
	}
	if (selection->count < model->verdict_count)
		fprintf(out, "… %zu more verdicts (the JSON report has all).\n",
			model->verdict_count - selection->count);
}

/* One line per cause (and per class where the cause is unknown), the worst verdict's first. */
static void write_advice(const struct selection *selection, bool colour, FILE *out)
{
	write_head("What to do", colour, out);
	for (size_t i = 0; i < selection->count; i++) {
		const struct verdict *verdict = selection->verdicts[i];
		const char *advice = cause_advice(verdict);
		bool told = false;

		for (size_t j = 0; j < i && !told; j++)
			told = cause_advice(selection->verdicts[j]) == advice;
		if (!told)
			fprintf(out, "  %s: %s.\n",
				look_cause_known(verdict->cause)
					? cause_name(verdict->cause)
					: verdict_class_name(verdict->verdict_class),
				advice);
	}
}

static void format_time(struct job_ns time, int64_t unix_offset_ns, char text[32])
{
	time_t seconds = (time_t)(look_unix_ns(time, unix_offset_ns) / 1000000000);
	struct tm parts;

	if (!gmtime_r(&seconds, &parts) || !strftime(text, 32, "%Y-%m-%d %H:%M:%S UTC", &parts))
		snprintf(text, 32, "?");
}

/* Unless a cause of the stacks' own has said it. */
static void write_where(const struct verdict *verdict, FILE *out)
{
	const struct verdict_evidence *main = look_main_evidence(verdict);
	const struct verdict_where *where = &verdict->where;
	char text[LINE_LENGTH];
	struct line line;

	if (!where->text[0] || (main && strcmp(main->detail, where->text) == 0))
		return;
	line_init(&line, text, sizeof(text));
	line_add(&line, "     for:     ");
	line_add_outside(&line, where->text);
	line_add(&line, ", ");
	line_add_ms(&line, where->ms_per_step);
	line_add(&line, verdict->period.steps ? " ms in each of these steps; control "
					      : " ms/step; control ");
	line_add_ms(&line, where->control_ms_per_step);
	fprintf(out, "%s\n", text);
}

static void write_one_evidence(
	const struct report_model *model, const struct verdict *verdict, FILE *out)
{
	char text[LINE_LENGTH], when[32];
	struct line line;

	line_init(&line, text, sizeof(text));
	line_add(&line, "  #%" PRIu32 " ", verdict->id);
	if (verdict->rank_count)
		line_add_ranks(&line, verdict->ranks,
			look_at_most(verdict->rank_count, VERDICT_RANKS_MAX),
			verdict->rank_count + verdict->more_ranks);
	else
		line_add(&line, "the job");
	format_time(verdict->onset, model->unix_offset_ns, when);
	line_add(&line, ", %s, since %s; confidence ", verdict_class_name(verdict->verdict_class),
		when);
	line_add_decimal(&line, verdict->sure.confidence, 2);
	if (look_cause_known(verdict->cause)) {
		line_add(&line, "; the cause explains ");
		line_add_decimal(&line, verdict->sure.share_explained * 100, 0);
		line_add(&line, " %% of the excess");
	}
	line_add(&line, "; clock error ");
	line_add_decimal(&line, verdict->sure.clock_error_us, 1);
	fprintf(out, "%s us\n", text);

	for (size_t i = 0; i < look_at_most(verdict->evidence_count, VERDICT_EVIDENCE_MAX); i++) {
		const struct verdict_evidence *evidence = &verdict->evidence[i];

		line_init(&line, text, sizeof(text));
		line_add(&line, "     for:     %-18s ", cause_name(evidence->kind));
		line_add_ms(&line, evidence->overlap_ms_per_step);
		line_add(&line, verdict->period.steps ? " ms in each of these steps, control "
						      : " ms/step, control ");
		line_add_ms(&line, evidence->control_ms_per_step);
		line_add(&line, "%s", evidence->detail[0] ? "; " : "");
		line_add_outside(&line, evidence->detail);
		fprintf(out, "%s\n", text);
	}
	write_where(verdict, out);
	if (verdict->evidence_count == 0 && !verdict->where.text[0])
		fprintf(out, "     for:     none beyond the timing of the collectives\n");
	for (size_t i = 0; i < look_at_most(verdict->rejected_count, VERDICT_EVIDENCE_MAX); i++) {
		line_init(&line, text, sizeof(text));
		line_add(&line, "     not:     %-18s ", cause_name(verdict->rejected[i].kind));
		line_add_outside(&line, verdict->rejected[i].why);
		fprintf(out, "%s\n", text);
	}
	line_init(&line, text, sizeof(text));
	line_add_ranks(&line, verdict->victims,
		look_at_most(verdict->victim_count, VERDICT_VICTIMS_MAX), verdict->victim_count);
	fprintf(out, "     victims: %s\n", text);
	stacks_text_write(model, verdict, out);
}

/* What the user did not want to be alerted of. */
static void add_alert_limits(struct line *line, const struct report_model *model)
{
	const struct alert_limits *limits = look_alert_limits(model);
	const char *separator = "";

	if (!limits)
		return;
	line_add(line, "\n  alerts: ");
	if (limits->slowdown > 0) {
		line_add(line, "only from ");
		line_add_decimal(line, limits->slowdown, 2);
		line_add(line, "x on");
		separator = "; ";
	}
	if (limits->after_ns > 0) {
		line_add(line, "%sonly of what lasts ", separator);
		line_add_decimal(line, (double)limits->after_ns / 1e9, 1);
		line_add(line, " s");
		separator = "; ";
	}
	if (limits->imbalance > 0) {
		line_add(line, "%snone of workload imbalance up to ", separator);
		line_add_decimal(line, limits->imbalance, 2);
		line_add(line, "x");
	}
}

/* Of which the record has no batches any more. */
static void add_summed(struct line *line, const struct report_model *model)
{
	char from[32], to[32];

	for (size_t i = 0; i < model->summed_count && i < STRETCHES_SHOWN; i++) {
		format_time(model->summed[i].first, model->unix_offset_ns, from);
		format_time(model->summed[i].last, model->unix_offset_ns, to);
		line_add(line, "\n  from %s to %s, the record has sums alone", from, to);
	}
	if (model->summed_count > STRETCHES_SHOWN)
		line_add(line, "\n  and %zu more such stretches (the JSON report has all)",
			model->summed_count - STRETCHES_SHOWN);
}

static void write_job(const struct report_model *model, bool colour, FILE *out)
{
	const struct job_totals *totals = &model->totals;
	char text[LINE_LENGTH], from[32], to[32];
	struct line line;

	write_head("Job", colour, out);
	line_init(&line, text, sizeof(text));
	line_add(&line, "  ");
	line_add_outside(&line, model->job_id && *model->job_id ? model->job_id : "without a name");
	line_add(&line, ": %" PRIu32 " rank%s on %" PRIu32 " node%s, %" PRIu64 " step%s",
		model->rank_count, model->rank_count == 1 ? "" : "s", model->node_count,
		model->node_count == 1 ? "" : "s", totals->steps, totals->steps == 1 ? "" : "s");
	if (totals->steps) {
		format_time(totals->first_start, model->unix_offset_ns, from);
		format_time(totals->last_end, model->unix_offset_ns, to);
		line_add(&line, "\n  from %s to %s\n  step ", from, to);
		line_add_ms(&line, totals->step_ms_median);
		line_add(&line, " ms median, ");
		line_add_ms(&line, totals->step_ms_ideal);
		line_add(&line, " ms if no rank held the others up; the run took ");
		line_add_decimal(&line, totals->slowdown, 2);
		line_add(&line, "x its ideal time, ");
		line_add_decimal(&line, totals->wasted_rank_seconds, 1);
		line_add(&line, " rank-seconds wasted");
	}
	add_summed(&line, model);
	add_alert_limits(&line, model);
	fprintf(out, "%s\n", text);
}

int report_text_write(
	const struct report_model *model, const struct report_text_options *options, FILE *out)
{
	bool colour = options && options->colour;
	size_t ranks_shown = options && options->ranks_shown ? options->ranks_shown : RANKS_SHOWN;
	struct selection selection;

	errno = 0; /* for report_flush() */
	select_verdicts(model, &selection);
	if (selection.count == 0) {
		write_no_verdict(model, out);
	} else {
		write_verdicts(model, &selection, colour, out);
		write_advice(&selection, colour, out);
		write_head("Evidence (beside a healthy rank of the same steps: the control)",
			colour, out);
		for (size_t i = 0; i < selection.count; i++)
			write_one_evidence(model, selection.verdicts[i], out);
	}
	write_job(model, colour, out);
	if (report_costs_text_wanted(model)) {
		write_head("Costs (the mean step if one part of the job behaved like its peers)",
			colour, out);
		report_costs_text(model, out);
	}
	if (model->rank_count) {
		write_head("Ranks (mean ms per step; * = named in a verdict)", colour, out);
		rank_table_text_write(model, ranks_shown, out);
	}
	if (looks_text_wanted(model)) {
		write_head("Kernels (deep looks; per step)", colour, out);
		looks_text_write(model, out);
	}
	if (report_pairs_text_wanted(model)) {
		write_head("RDMA pairs of the ranks named comm-slow", colour, out);
		report_pairs_text_write(model, out);
	}
	if (model->sheets) {
		write_head("Why named as late, or not (the block in which it came furthest, or of "
			   "the step)",
			colour, out);
		report_sheets_text(model->sheets, out);
	}
	write_head(REPORT_TEXT_MARK, colour, out);
	coverage_text_write(model, out);
	return report_flush(out);
}
