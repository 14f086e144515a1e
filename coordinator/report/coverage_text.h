/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the text report that says what was not seen, dropped or not measurable. Pure but
 * for the stream; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_COVERAGE_TEXT_H
#define SLOWRANK_COORDINATOR_REPORT_COVERAGE_TEXT_H

#include <stdio.h>

#include "coordinator/report/line.h"
#include "coordinator/report/model.h"

/* For how long probes were heard after the last step: of what the job did then nothing is known. 0: for less than UNSEEN_END_S. */
double coverage_unseen_end_s(const struct report_model *model);

/* Adds "; not measurable: a, b" and kin, so that "no straggler found" is never read as "healthy". */
void coverage_text_add_unseen(struct line *line, const struct report_model *model);

void coverage_text_write(const struct report_model *model, FILE *out);

#endif
