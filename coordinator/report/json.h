/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as JSON, schema slowrank.report/1: fields are only ever added. Deterministic: the
 * same model gives the same bytes. Any thread, as long as nobody changes the model meanwhile.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_JSON_H
#define SLOWRANK_COORDINATOR_REPORT_JSON_H

#include <stdio.h>

#include "coordinator/report/json_writer.h"
#include "coordinator/report/model.h"

#define REPORT_JSON_SCHEMA "slowrank.report/1"

/* Writes the whole report and flushes. Returns 0, or why a write failed (-ENOSPC, ...). */
int report_json_write(const struct report_model *model, FILE *out)
	__attribute__((warn_unused_result));

/* "alert", "update", "recovered", "ended"; "unknown" for other numbers. */
const char *verdict_event_name(enum verdict_event event);

/* Writes what happened to a verdict as one line, without its end: alerts and hooks. */
void report_json_alert(enum verdict_event event, const struct verdict *verdict,
	const struct report_model *model, FILE *out);
/* The same as an object of a larger one (or alone: key NULL). */
void report_json_object(
	struct json_writer *writer, const char *key, const struct report_model *model);

/* Writes one verdict as an object: in the report (key NULL) and in alerts (key "verdict"). */
void report_json_verdict(struct json_writer *writer, const char *key, const struct verdict *verdict,
	const struct report_model *model);

/* Where in the program the excess is, if that is known; segment: before that call of the rank's step, from 0. */
void report_json_where(struct json_writer *writer, const struct verdict_where *where);

#endif
