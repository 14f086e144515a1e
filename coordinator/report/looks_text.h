/* SPDX-License-Identifier: Apache-2.0 */
/* What deep looks saw, a line per rank: those named in verdicts first. One thread. */
#ifndef SLOWRANK_COORDINATOR_REPORT_LOOKS_TEXT_H
#define SLOWRANK_COORDINATOR_REPORT_LOOKS_TEXT_H

#include <stdio.h>

#include "coordinator/report/model.h"

bool looks_text_wanted(const struct report_model *model); /* some rank was looked at */
void looks_text_write(const struct report_model *model, FILE *out);

#endif
