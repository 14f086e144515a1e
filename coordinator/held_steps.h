/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of one batch as they wait to be analysed: a fifth of the size of what the decoder
 * gives. What repeats from step to step (whom a call goes to, how long it is) is kept once per batch,
 * activities only where there are any. One block of memory, released with its last step. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_HELD_STEPS_H
#define SLOWRANK_COORDINATOR_HELD_STEPS_H

#include "analysis/align.h"

struct held_part {
	struct host_ns arrival, departure;
	uint64_t sequence;
	uint32_t kind;		 /* into the step's kinds */
	uint32_t before, inside; /* into its activities + 1; 0 = none */
};

struct held_step {
	uint32_t rank;
	uint32_t flags;	     /* enum step_flag */
	uint32_t part_flags; /* enum part_flag: of any of its parts */
	uint64_t index, signature;
	struct host_ns start, end;
	int64_t input_ns, compute_ns, host_ns, comm_ns;
	size_t part_count;
	const struct held_part *parts;
	const struct part_kind *kinds;	   /* of the whole batch */
	const struct activity *activities; /* likewise */
};

/* What the batch says of its host's clock, to be taken with the first of its steps; pending: not yet. */
struct held_stamps {
	bool pending;
	struct host_ns sent, previous_sent, previous_reply_received;
	struct job_ns received, previous_received, previous_reply_sent;
};

struct held_steps {
	size_t references;
	struct held_stamps stamps; /* none until the owner sets them */
	size_t step_count;
	struct held_step *steps;
};

/* Room to pack in, kept from batch to batch. Zero-initialised is empty. */
struct step_packer {
	struct part_kind *kinds;
	struct activity *activities;
	struct held_part *parts;
	uint32_t *table; /* hash: kind + 1, 0 = free */
	size_t kind_capacity, activity_capacity, part_capacity, table_capacity;
	size_t kind_count, activity_count, part_count;
};
void step_packer_fini(struct step_packer *packer);

/*
 * Packs steps; the caller gets one reference. Nothing in the result points to the steps.
 * Returns 0 or -ENOMEM.
 */
int held_steps_create(struct step_packer *packer, const struct step_entry *steps, size_t step_count,
	struct held_steps **held) __attribute__((warn_unused_result));
void held_steps_unref(struct held_steps *held);

static inline const struct part_kind *held_kind(
	const struct held_step *step, const struct held_part *part)
{
	return &step->kinds[part->kind];
}

static inline const struct activity *held_activity(const struct held_step *step, uint32_t at)
{
	return at ? &step->activities[at - 1] : &activity_none;
}

#endif
