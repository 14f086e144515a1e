/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairs of ranks that use RDMA, in a report: all of them in JSON, those of named ranks in text.
 * What could not be measured is null, or "?". One thread per stream.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_PAIRS_H
#define SLOWRANK_COORDINATOR_REPORT_PAIRS_H

#include "coordinator/report/json_writer.h"
#include "coordinator/report/model.h"

/* The member "pairs"; nothing when there are none. */
void report_json_pairs(struct json_writer *writer, const struct report_model *model);

/* True when there is something to show. */
bool report_pairs_text_wanted(const struct report_model *model);
void report_pairs_text_write(const struct report_model *model, FILE *out);

#endif
