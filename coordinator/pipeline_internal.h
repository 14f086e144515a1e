/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline's entry behind the decoder: takes batches that are structs already. For
 * pipeline.c and for tests; one thread.
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

#endif
