/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in the Chrome JSON trace form, which Perfetto opens: nodes are processes, ranks have tracks of their steps,
 * phases and collectives; incidents have one, and arrows lead from whom they name to whom waits for it. Each record
 * begins at 0. Memory: of one job step, and of the ends of each rank's tracks. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_EXPORT_TRACE_H
#define SLOWRANK_COORDINATOR_EXPORT_TRACE_H

#include <stdio.h>

#include "coordinator/export/table.h"

struct trace;

/* What a trace begins with. */
#define TRACE_HEAD "{\n \"otherData\": {\n  \"schema\": \"" TRACE_SCHEMA "\""
#define TRACE_SCHEMA "slowrank.trace/1"

/* What it points to stays the caller's. Returns 0 or -ENOMEM. */
int trace_create(FILE *out, const struct export_selection *selection, struct trace **trace)
	__attribute__((warn_unused_result));
void trace_destroy(struct trace *trace); /* NULL is fine */

/*
 * Around each record. model: what its report says, of which what is needed is copied: its incidents are known before its
 * steps. Return 0 or a negative errno.
 */
int trace_begin(struct trace *trace, const struct report_model *model)
	__attribute__((warn_unused_result));
int trace_end(struct trace *trace, const struct report_model *model)
	__attribute__((warn_unused_result));

/* The collectives of a job step that is selected, and the arrows between them. */
int trace_put_calls(struct trace *trace, const struct judged_step *judged)
	__attribute__((warn_unused_result));
int trace_put_step(struct trace *trace, const struct export_step *step)
	__attribute__((warn_unused_result));

/* No more records. *left_out: slices for which there was no track. */
int trace_finish(struct trace *trace, uint64_t *left_out) __attribute__((warn_unused_result));

#endif
