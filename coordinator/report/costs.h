/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What single parts of the job cost, as JSON and as a table of the few that matter. Pure output;
 * any thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_COSTS_H
#define SLOWRANK_COORDINATOR_REPORT_COSTS_H

#include <stdio.h>

#include "coordinator/report/json_writer.h"
#include "coordinator/report/model.h"

/* Writes the member "without" into the object that is open. */
void report_costs_json(struct json_writer *writer, const struct report_model *model);

bool report_costs_text_wanted(const struct report_model *model); /* some part costs 1 % and more */
void report_costs_text(const struct report_model *model, FILE *out);

#endif
