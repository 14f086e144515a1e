/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks that somebody asks for by hand: which were asked, what their probes answered, and how many there may be. They go the
 * way of the coordinator's own (deep_looks.h), but the judge learns nothing of them, and has its part of what probes allow.
 * No clock is read. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_ASKED_LOOKS_H
#define SLOWRANK_COORDINATOR_ASKED_LOOKS_H

#include "analysis/explain/looks.h"
#include "analysis/explain/stack_looks.h"
#include "coordinator/probe_table.h"
#include "coordinator/rank_table.h"

enum {
	ASKED_AT_ONCE = 2,     /* of the whole job; others wait. A probe makes 4 */
	ASKED_KEPT = 8,	       /* these, and the latest that were answered */
	ASKED_PAUSE_MS = 2000, /* from one to the next */
	/* The coordinator's own looks wait for one at the same rank, and for no longer than 20 s. */
	ASKED_LIMIT_MS_MAX = 10000,
	ASKED_KERNEL_STEPS_MAX = 100,
	ASKED_KERNELS_OF_RANK_MAX = 4, /* a probe allows a process 16 */
	ASKED_RANKS_MAX = 64,	       /* remembered; the one looked at longest ago is forgotten */
};
/*
 * Requests from here on are by hand, others the coordinator's own: those count up from 1, sixteen a minute. A record
 * says so of a look, too.
 */
#define ASKED_REQUEST_FIRST (UINT32_C(1) << 31)
/* What a rank's stacks may be looked at: so much of its time on average, and so long in a row; half of what probes allow. */
#define ASKED_SHARE 0.05
#define ASKED_SPENT_NS_MAX INT64_C(45000000000)

struct asked_look {
	uint64_t asker_id, probe_id;
	struct message_directive directive;
	int64_t until_ns; /* then it is given up; one that was answered: forgotten */
	uint8_t state;	  /* enum answer_state */
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct stack_profile *stacks;	/* the answer: one of these, */
	struct kernel_profile *kernels; /* or NULL */
};

struct asked_rank {
	uint32_t rank, kernel_count;
	int64_t last_ns;  /* looked at, */
	int64_t spent_ns; /* of stacks, less what has come back since then */
};

struct asked_looks {
	size_t count, rank_count;
	struct asked_look list[ASKED_KEPT];
	struct asked_rank ranks[ASKED_RANKS_MAX];
	int64_t asked_ns; /* the latest; 0: none */
	/* For reports, as the judge keeps its own. NULL: none. */
	struct stack_looks *stacks;
	struct judge_looks *kernels;
};

void asked_looks_fini(struct asked_looks *looks);

/* Answers a question; its first time begins the look. The answer borrows what is kept here until the next call. */
void asked_looks_question(struct asked_looks *looks, const struct message_question *question,
	const struct rank_table *ranks, const struct probe_table *probes, struct job_ns now,
	struct message_answer *answer);

/* Puts what is asked of a probe into the reply, until it is answered, behind what is there. */
void asked_looks_fill(const struct asked_looks *looks, struct message_reply *reply);

static inline bool asked_looks_has(uint32_t request)
{
	return request >= ASKED_REQUEST_FIRST;
}

/* A look came back, or is in a record. start, stop: by the job's clock. Returns 0 or -ENOMEM. */
int asked_looks_take_stacks(struct asked_looks *looks, const struct stack_profile *profile,
	struct job_ns start, struct job_ns stop, struct job_ns now)
	__attribute__((warn_unused_result));
int asked_looks_take_kernels(struct asked_looks *looks, const struct kernel_profile *profile,
	struct job_ns start, struct job_ns stop, struct job_ns now)
	__attribute__((warn_unused_result));

#endif
