/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a coordinator writes into its record beside the batches, so that it can be thinned: sums once a minute, and
 * verdicts once some sums stand alone; and what the record knows that the pipeline does not (history.h). One
 * thread.
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_KEEPER_H
#define SLOWRANK_COORDINATOR_RECORD_KEEPER_H

#include "coordinator/history/history.h"
#include "coordinator/pipeline.h"

/* Zero-initialised; the caller sets pipeline and record, and owns both. */
struct record_keeper {
	struct pipeline *pipeline;
	struct record_writer *record;
	struct history history;
	struct report_model model;
	struct job_ns now;	      /* of the newest batch */
	bool verdicts_changed;	      /* since they were saved, */
	struct job_ns verdicts_saved; /* which was then */
};
void record_keeper_fini(struct record_keeper *keeper);

/* Fills in what the writer of the keeper's record asks for. */
void record_keeper_options(struct record_keeper *keeper, struct record_writer_options *options);

/* What the pipeline says, for history_take(). context: the keeper. */
const struct report_model *record_keeper_pipeline_report(void *context);

/* What the job came to so far, with what the record knows. Valid until the next call. */
const struct report_model *record_keeper_report(struct record_keeper *keeper);

/* A verdict of the pipeline, as it is told. Valid until the next one. */
const struct verdict *record_keeper_tell(struct record_keeper *keeper, const struct verdict *own);

/* After each batch that was appended and judged. Returns as record_writer_thin(). */
int record_keeper_keep(struct record_keeper *keeper, struct job_ns now)
	__attribute__((warn_unused_result));

/* After the last, when the pipeline has finished. */
void record_keeper_finish(struct record_keeper *keeper, struct job_ns now);

#endif
