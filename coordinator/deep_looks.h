/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the coordinator asks for a look, at its kernels or its stacks, and when: suspects with a control each, seldom enough
 * that the job does not feel it; and ranks of a job that hangs at once. No clock is read: times come with the frames. One
 * thread.
 */
#ifndef SLOWRANK_COORDINATOR_DEEP_LOOKS_H
#define SLOWRANK_COORDINATOR_DEEP_LOOKS_H

#include "analysis/judge/judge.h"
#include "coordinator/rank_table.h"

enum {
	DEEP_LOOKS_AT_ONCE = 8,	     /* ranks, of the whole job */
	DEEP_LOOKS_AT_HANG = 4,	     /* beside these */
	DEEP_LOOKS_A_MINUTE = 16,    /* of the whole job, but for those at a hang */
	DEEP_LOOKS_REMEMBERED = 512, /* ranks; the one looked at longest ago is forgotten */
};

struct deep_request {
	uint64_t probe_id;
	struct message_directive directive;
	uint32_t suspect; /* that it is asked for; itself, or whose control it is */
	bool at_hang;
	int64_t until_ns; /* then it is given up */
};

struct deep_rest {
	uint32_t rank;
	enum judge_look_kind kind;
	uint32_t look_count;
	uint32_t again_count; /* looked at sooner, since a look was starved */
	int64_t last_ns;
	int64_t until_ns;  /* not again before, for the same verdict */
	int64_t barred_ns; /* not at all before: it could not be looked at */
	int64_t spent_ns;  /* looked at for so long, less what has come back since last_ns */
};

struct deep_looks {
	uint32_t last_request;
	size_t request_count;
	struct deep_request requests[DEEP_LOOKS_AT_ONCE + DEEP_LOOKS_AT_HANG];
	size_t rest_count;
	struct deep_rest rests[DEEP_LOOKS_REMEMBERED];
	int64_t asked_ns[DEEP_LOOKS_A_MINUTE]; /* a ring */
	uint64_t asked_count;
	int64_t now_ns, planned_ns;
};

/* Asks for what the judge wants; four times a second is enough. */
void deep_looks_plan(struct deep_looks *looks, const struct judge *judge,
	const struct rank_table *ranks, struct job_ns received);

/* Puts what is asked of a probe into the reply, until it is answered. */
void deep_looks_fill(const struct deep_looks *looks, struct message_reply *reply);

/*
 * A look came back: which one, of whom, and whether the rank could be looked at; if not, it is left alone for a while.
 */
struct deep_answer {
	enum judge_look_kind kind;
	uint32_t rank, request;
	bool refused;
	bool starved; /* it saw too little: the pair is looked at again soon */
};
struct deep_answer deep_answer_of_kernels(const struct kernel_profile *profile);
struct deep_answer deep_answer_of_stacks(const struct stack_profile *profile);
void deep_looks_answer(
	struct deep_looks *looks, const struct deep_answer *answer, struct job_ns received);

#endif
