/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report model says, as metrics: what the job came to, incidents, ranks. Their number is bounded however many
 * ranks there are: incidents that last and the ranks that lost most have names, all others are in histograms. One
 * thread.
 */
#ifndef SLOWRANK_COORDINATOR_METRICS_JOB_METRICS_H
#define SLOWRANK_COORDINATOR_METRICS_JOB_METRICS_H

#include "analysis/join/align.h"
#include "coordinator/metrics/text.h"
#include "coordinator/report/model.h"

enum {
	METRICS_INCIDENTS_MAX = 32,	 /* that are listed, the newest */
	METRICS_INCIDENT_RANKS_MAX = 16, /* of one */
	METRICS_TOP_RANKS = 10,
	METRICS_SOURCES_MAX = 64,
};

struct job_metrics;

/* Returns 0 or -ENOMEM. The caller owns it. */
int job_metrics_create(struct job_metrics **metrics) __attribute__((warn_unused_result));
void job_metrics_destroy(struct job_metrics *metrics); /* NULL is fine */

/*
 * Observes what each rank did since the last call, and who lost most. Without memory for as many ranks, those that
 * there is none for are left out.
 */
void job_metrics_take(struct job_metrics *metrics, const struct report_model *model);

/* Observes each step of the program when it ends. To be given each step that is judged, in their order. */
void job_metrics_take_step(struct job_metrics *metrics, const struct grid_step *step);

/* Writes all families. */
void job_metrics_write(const struct job_metrics *metrics, const struct report_model *model,
	struct metrics_text *text);

#endif
