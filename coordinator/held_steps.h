/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of one batch as they wait to be analysed: one block of memory, released with the last of
 * them. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_HELD_STEPS_H
#define SLOWRANK_COORDINATOR_HELD_STEPS_H

#include "analysis/join/stream.h"

struct held_steps {
	struct stream_batch batch; /* first: the assembly releases the block by it */
	size_t step_count;
	struct packed_step *steps;
};

/*
 * Copies steps of one batch, which share their kinds; the caller gets one reference. Nothing in the
 * result points to the steps. Returns 0 or -ENOMEM.
 */
int held_steps_create(const struct packed_step *steps, size_t step_count, struct held_steps **held)
	__attribute__((warn_unused_result));
void held_steps_unref(struct held_steps *held);

#endif
