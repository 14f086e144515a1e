/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells people and programs of verdicts as they come: one line of text, and one JSON object a
 * line, each written at once. A sink that cannot write counts it and goes on. For one thread.
 * A reader of the JSON file may go away (a pipe): the process must ignore SIGPIPE.
 */
#ifndef SLOWRANK_COORDINATOR_ALERT_SINK_H
#define SLOWRANK_COORDINATOR_ALERT_SINK_H

#include <stdio.h>

#include "coordinator/report/model.h"

struct alert_sink;

struct alert_sink_options {
	FILE *text;	       /* e.g. stderr; not owned; may be NULL */
	const char *json_path; /* an earlier file of alerts is appended to; may be NULL */
	bool colour;	       /* of the text */
};

/* Returns 0, or a negative errno with one line in why. The caller owns the sink. */
int alert_sink_create(const struct alert_sink_options *options, struct alert_sink **sink,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
void alert_sink_destroy(struct alert_sink *sink); /* NULL is fine */

/* Writes one event; model gives host names and the offset to the time of the epoch. */
void alert_sink_verdict(struct alert_sink *sink, enum verdict_event event,
	const struct verdict *verdict, const struct report_model *model);

/* Events from here on (true), until told otherwise, may be in the file already: there, none is written twice. */
void alert_sink_doubt(struct alert_sink *sink, bool doubtful);

/* Events that could not be written (whole), so far. */
uint64_t alert_sink_errors(const struct alert_sink *sink);

#endif
