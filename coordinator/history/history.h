/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a job beyond the batches at hand, since its record was thinned: the verdicts as they were told,
 * and sums of all until then. A pipeline that is given the batches behind a gap knows nothing from before it; what it
 * comes to is added here. Of a record without a gap, nothing is changed. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_HISTORY_HISTORY_H
#define SLOWRANK_COORDINATOR_HISTORY_HISTORY_H

#include "coordinator/history/sums.h"
#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"

enum { HISTORY_STRETCHES_MAX = 256 }; /* more become one */

struct history {
	bool thinned;		     /* there was a gap */
	bool complete;		     /* the newest sums have all that there was since */
	bool any_batch;		     /* since the newest gap */
	struct sums_job saved, then; /* then: what the pipeline had come to when they were saved */
	struct sums_rank *saved_ranks, *then_ranks; /* by rank */
	size_t rank_capacity;
	struct verdict *told; /* by id */
	size_t told_count, told_capacity;
	size_t told_before; /* of them by the coordinator whose record it goes on with */
	uint32_t *ids;	    /* under which the pipeline's own verdicts are told; 0: not told */
	size_t id_count;
	uint32_t *saved_as; /* by id: the checksum of what was saved of it last */
	size_t saved_capacity;
	struct alert_gate alerts;
	struct report_stretch stretches[HISTORY_STRETCHES_MAX];
	size_t stretch_count;
	struct report_rank *ranks; /* of the report */
	struct job_cost costs[COSTS_MAX];
	struct sums_ranks *scratch;
	struct record_span *spans;
};

/* Zero-initialised: nothing is known. */
void history_fini(struct history *history);

enum { HISTORY_GAP = 1 };

/*
 * Takes a frame of a record, batches too. now: what the pipeline says so far, asked for where it is needed. Returns 0;
 * HISTORY_GAP: what comes next is for a pipeline of its own; -EBADMSG for a frame that cannot be used; -ENOMEM.
 */
int history_take(struct history *history, const struct record_frame *frame,
	const struct report_model *(*now)(void *context), void *context)
	__attribute__((warn_unused_result));

/* The record has ended, and the pipeline with it. */
int history_end(struct history *history, const struct report_model *now)
	__attribute__((warn_unused_result));

/*
 * The record has ended, and its pipeline goes on: of what it found by itself, it goes on with what was told and has not
 * ended; what it did not find again has.
 */
int history_go_on(struct history *history, const struct report_model *now)
	__attribute__((warn_unused_result));

/* So many steps there were before the first one of the pipeline that the newest sums are of. */
uint64_t history_steps_before(const struct history *history);

/* A verdict of the pipeline that went on, as it is told; without memory, as it is. Valid until the next one. */
const struct verdict *history_tell(struct history *history, const struct verdict *own);

/* Adds what is known to a report of the pipeline. Its arrays are then the history's. Returns 0 or -ENOMEM. */
int history_report(struct history *history, struct report_model *model)
	__attribute__((warn_unused_result));

/* Saves sums, and verdicts: all, or those that may have changed since. Returns 0 or a negative errno. */
int history_save_sums(struct history *history, const struct report_model *model,
	struct record_writer *writer, struct job_ns now) __attribute__((warn_unused_result));
int history_save_verdicts(struct history *history, const struct report_model *model,
	struct record_writer *writer, struct job_ns now, bool all)
	__attribute__((warn_unused_result));

/* The stretches around the verdicts of a report. Valid until the next call. */
const struct record_span *history_spans(
	struct history *history, const struct report_model *model, size_t *count);

#endif
