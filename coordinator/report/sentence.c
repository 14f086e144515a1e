/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "coordinator/report/cause_text.h"
#include "coordinator/report/line.h"
#include "coordinator/report/look.h"
#include "coordinator/report/stacks.h"
#include "coordinator/report/text.h"

static void add_culprits(struct line *line, const struct report_model *model,
	const struct verdict *verdict, const char *before_host, const char *after_host)
{
	size_t listed = look_at_most(verdict->rank_count, VERDICT_RANKS_MAX);
	const char *host = look_common_host(model, verdict->ranks, listed), *hosts[2];

	if (verdict->rank_count == 0) {
		line_add(line, "the job");
		return;
	}
	line_add_ranks(line, verdict->ranks, listed, verdict->rank_count + verdict->more_ranks);
	if (verdict->more_ranks)
		return; /* where they all are is not known */
	if (host) {
		line_add(line, "%s", before_host);
		line_add_outside(line, host);
		line_add(line, "%s", after_host);
	} else if (verdict->cause == CAUSE_PATH_CONGESTION &&
		   look_two_hosts(model, verdict->ranks, listed, hosts)) {
		line_add(line, ", between ");
		line_add_outside(line, hosts[0]);
		line_add(line, " and ");
		line_add_outside(line, hosts[1]);
		line_add(line, ",");
	}
}

/* " in every 7th step" */
static void add_period(struct line *line, const struct verdict *verdict)
{
	static const char *const endings[] = {"th", "st", "nd", "rd"};
	uint32_t every = verdict->period.steps, last = every % 10;

	if (every)
		line_add(line, " in every %" PRIu32 "%s step", every,
			endings[last <= 3 && every % 100 / 10 != 1 ? last : 0]);
}

/* "1.01x slower"; what follows it is said of the job on average, and then of these steps alone. */
static void add_slowdown(struct line *line, const struct verdict *verdict, const char *after)
{
	line_add_decimal(line, verdict->slowdown, 2);
	line_add(line, "x slower%s", after);
	if (!verdict->period.steps)
		return;
	line_add(line, ", ");
	line_add_decimal(line, verdict->period.slowdown, 2);
	line_add(line, "x in these steps");
}

static void add_class(struct line *line, const struct verdict *verdict)
{
	bool many = verdict->rank_count > 1, ended = !verdict_goes_on(verdict);
	const char *be = ended ? (many ? "were" : "was") : (many ? "are" : "is");

	switch (verdict->verdict_class) {
	case VERDICT_HANG:
		line_add(line, "%s", ended ? "hung" : many ? "hang" : "hangs");
		break;
	case VERDICT_WORKLOAD_IMBALANCE:
		line_add(line, "%s more work than %s peers (workload-imbalance)",
			ended  ? "had"
			: many ? "have"
			       : "has",
			many ? "their" : "its");
		break;
	case VERDICT_COMPUTE_SLOW:
	case VERDICT_HOST_SLOW:
	case VERDICT_COMM_SLOW:
		line_add(line, "%s %s", be, verdict_class_name(verdict->verdict_class));
		break;
	default:
		line_add(line, "%s slow, class unknown", be);
	}
	add_period(line, verdict);
	if (!look_cause_known(verdict->cause))
		line_add(line, ", cause unknown");
	else
		line_add(line, ": %s", cause_name(verdict->cause));
}

/* "18.2 ms/step throttled, healthy ranks 0.0" */
static void add_main_evidence(
	struct line *line, const struct verdict *verdict, const char *separator)
{
	const struct verdict_evidence *evidence = look_main_evidence(verdict);

	if (!evidence)
		return;
	line_add(line, "%s%s", separator, verdict->period.steps ? "each of them " : "");
	line_add_ms(line, evidence->overlap_ms_per_step);
	line_add(line, " %s %s, healthy ranks ", verdict->period.steps ? "ms" : "ms/step",
		cause_phrase(evidence->kind));
	line_add_ms(line, evidence->control_ms_per_step);
}

static void add_where(struct line *line, const struct verdict *verdict)
{
	if (!verdict->where.text[0])
		return;
	line_add(line, "; ");
	line_add_outside(line, verdict->where.text);
}

/* Nothing tells whether it holds. */
static void add_unmeasured(struct line *line, const struct verdict *verdict)
{
	if (verdict->sure.unmeasured_since)
		line_add(
			line, "; not measured since step %" PRIu64, verdict->sure.unmeasured_since);
}

void report_verdict_sentence(const struct report_model *model, const struct verdict *verdict,
	char sentence[REPORT_SENTENCE_LENGTH])
{
	struct line line;

	line_init(&line, sentence, REPORT_SENTENCE_LENGTH);
	add_culprits(&line, model, verdict, " on ", "");
	line_add(&line, " ");
	add_class(&line, verdict);
	if (verdict->verdict_class == VERDICT_HANG && !verdict->ended) {
		line_add(&line, "; the job has made no progress since step %" PRIu64,
			verdict->first_step);
		return;
	}
	if (verdict->verdict_class == VERDICT_HANG) {
		line_add(&line, "; the job made no progress");
	} else {
		line_add(&line, "; the job %s ", verdict_goes_on(verdict) ? "runs" : "ran");
		add_slowdown(&line, verdict, " because of it");
	}
	line_add(&line, " (steps %" PRIu64 "-%" PRIu64, verdict->first_step, verdict->last_step);
	add_main_evidence(&line, verdict, ", ");
	add_where(&line, verdict);
	add_unmeasured(&line, verdict);
	line_add(&line, verdict->ended ? "; recovered)" : ")");
}

/* "; rank 2: [waiting: fsync /a/b] in save (train.py:12)", and the same of one that waits */
static void add_stacks(
	struct line *line, const struct report_model *model, const struct verdict *verdict)
{
	const struct kept_stacks *looks[STACKS_HANG_SHOWN];
	size_t count = stacks_of_hang(model, verdict, looks);

	for (size_t i = 0; i < count; i++) {
		line_add(line, "; rank %" PRIu32 ": ", looks[i]->profile->rank);
		stacks_add_short(line, looks[i]->profile);
	}
}

void report_alert_line(const struct report_model *model, enum verdict_event event,
	const struct verdict *verdict, char text[REPORT_SENTENCE_LENGTH])
{
	const char *word = event == VERDICT_EVENT_ALERT	      ? "ALERT"
			   : event == VERDICT_EVENT_UPDATE    ? "UPDATE"
			   : event == VERDICT_EVENT_RECOVERED ? "RECOVERED"
			   : event == VERDICT_EVENT_ENDED     ? "ENDED"
							      : "NOTE";
	struct line line;

	line_init(&line, text, REPORT_SENTENCE_LENGTH);
	line_add(&line, "%s ", word);
	add_culprits(&line, model, verdict, " (", ")");
	line_add(&line, " %s", verdict_class_name(verdict->verdict_class));
	add_period(&line, verdict);
	line_add(&line, ": %s",
		look_cause_known(verdict->cause) ? cause_name(verdict->cause) : "cause unknown");
	if (verdict->verdict_class == VERDICT_HANG) {
		line_add(&line, ", job has made no progress since step %" PRIu64,
			verdict->first_step);
		if (event != VERDICT_EVENT_RECOVERED)
			add_stacks(&line, model, verdict);
	} else if (event == VERDICT_EVENT_RECOVERED) {
		line_add(&line, ", job was ");
		add_slowdown(&line, verdict, "");
		line_add(&line, "%s from step %" PRIu64 " to %" PRIu64,
			verdict->period.steps ? "," : "", verdict->first_step, verdict->last_step);
	} else {
		line_add(&line, ", job ");
		add_slowdown(&line, verdict, "");
		line_add(&line, "%s since step %" PRIu64, verdict->period.steps ? "," : "",
			verdict->first_step);
	}
	add_main_evidence(&line, verdict, " (");
	if (look_main_evidence(verdict))
		line_add(&line, ")");
	add_where(&line, verdict);
	add_unmeasured(&line, verdict);
}
