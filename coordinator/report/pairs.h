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

/*
 * The time that this share of the requests stayed below, by the histogram (within a factor of two,
 * from above, and at most the longest); negative when there are no times.
 */
double report_pair_quantile_ns(const struct report_pair *pair, double share);

/* The name of an error status of a completion (enum ibv_wc_status), in words with hyphens. */
const char *report_status_name(size_t status);

/* Why posts or times are not measurable; NULL when they are. */
const char *report_pair_unmeasurable(const struct report_pair *pair);

#endif
