/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline's entry behind the decoder: takes batches that are structs already; and what it is at
 * work on. For pipeline.c, tests and benchmarks; one thread.
 */
#ifndef SLOWRANK_COORDINATOR_PIPELINE_INTERNAL_H
#define SLOWRANK_COORDINATOR_PIPELINE_INTERNAL_H

#include "coordinator/pipeline.h"

/*
 * Like pipeline_push(), with the batch decoded. The pipeline owns the batch from here on and
 * calls release(batch) when it has no more use for it, at once for a duplicate and on error.
 */
int pipeline_push_batch(struct pipeline *pipeline, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received,
	struct message_reply *reply) __attribute__((warn_unused_result));

enum pipeline_stage {
	PIPELINE_STAGE_IDLE = 0, /* nothing, or what comes after the steps: hangs, looks, replies */
	PIPELINE_STAGE_DECODE = 1,
	PIPELINE_STAGE_TAKE = 2, /* stamps, ranks, evidence; steps are packed and queued */
	PIPELINE_STAGE_ASSEMBLE = 3,
	PIPELINE_STAGE_JUDGE = 4,
	PIPELINE_STAGE_NR
};

/* Calls on_stage whenever another stage begins: the pipeline itself reads no clock. NULL: no more. */
void pipeline_watch_stages(struct pipeline *pipeline,
	void (*on_stage)(void *context, enum pipeline_stage stage), void *context);

#endif
