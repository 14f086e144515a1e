/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as text, fit to read at 3 a.m.: the verdict first, then what to do, the evidence
 * and what was rejected, the victims, a table of ranks, and what could not be seen.
 * Deterministic: the same model and options give the same bytes, in every locale and time zone.
 * Any thread, as long as nobody changes the model meanwhile.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_TEXT_H
#define SLOWRANK_COORDINATOR_REPORT_TEXT_H

#include <stdio.h>

#include "coordinator/report/model.h"

/* A line of every report as text, by which one is known again. */
#define REPORT_TEXT_MARK "Coverage (what could not be seen)"

struct report_text_options {
	bool colour;
	size_t ranks_shown; /* rows of the table of ranks, the worst first; 0 = 16 */
};

/* Writes the whole report and flushes. Returns 0, or why a write failed (-ENOSPC, ...). options may be NULL. */
int report_text_write(const struct report_model *model, const struct report_text_options *options,
	FILE *out) __attribute__((warn_unused_result));

/* For text that goes to a terminal, or not: true when that one shows colours and NO_COLOR is not set. */
bool report_text_colour_wanted(bool terminal);

enum { REPORT_SENTENCE_LENGTH = 768 };

/*
 * One verdict as one plain sentence without a full stop, e.g. "rank 2 on node-a is host-slow:
 * cgroup-throttle; the job runs 1.24x slower because of it (steps 120-480, 18.2 ms/step
 * throttled, healthy ranks 0.0)".
 */
void report_verdict_sentence(const struct report_model *model, const struct verdict *verdict,
	char sentence[REPORT_SENTENCE_LENGTH]);

/*
 * The line of an alert, without the program's name and the line end, e.g. "ALERT rank 2
 * (node-a) host-slow: cgroup-throttle, job 1.24x slower since step 120 (18.2 ms/step
 * throttled, healthy ranks 0.0)".
 */
void report_alert_line(const struct report_model *model, enum verdict_event event,
	const struct verdict *verdict, char line[REPORT_SENTENCE_LENGTH]);

#endif
