/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of one batch as they wait to be analysed: one block of memory, released with the last of
 * them. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_HELD_STEPS_H
#define SLOWRANK_COORDINATOR_HELD_STEPS_H

#include "probe/wire/packed_steps.h"

/* What the batch says of its host's clock, to be taken with the first of its steps; pending: not yet. */
struct held_stamps {
	bool pending;
	struct host_ns sent, previous_sent, previous_reply_received;
	struct job_ns received, previous_received, previous_reply_sent;
};

struct held_steps {
	size_t references;
	size_t length_bytes;
	size_t *counted_in;	   /* a sum that it is part of as long as it is there; NULL: none */
	struct held_stamps stamps; /* none until the owner sets them */
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
