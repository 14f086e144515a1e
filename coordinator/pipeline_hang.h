/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches for jobs that do not go on: calls that ranks are inside of, as probes list them, and the
 * last part of each rank. Time is that of the frames' receipt. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PIPELINE_HANG_H
#define SLOWRANK_COORDINATOR_PIPELINE_HANG_H

#include "analysis/judge.h"
#include "coordinator/assembly.h"
#include "coordinator/report/model.h"

struct hang_rank {
	bool listed;	   /* by its probe: in a call, or in none (kind), since then */
	uint64_t probe_id; /* who listed it */
	uint64_t communicator_id, sequence;
	struct job_ns since;
	uint32_t peer;
	uint8_t operation;
	bool relative; /* its sequence counts from an attach */
	uint8_t kind;  /* enum open_call_kind */
	uint8_t state, reason;
	char where[OPEN_CALL_WHERE_LENGTH];
	struct report_stall stall;
	/* its last part */
	uint64_t last_sequence;
	struct job_ns last_departure;
	uint8_t last_operation;
	bool last_known;
};

struct pipeline_hang {
	struct hang_rank *ranks;
	uint32_t *missing, *waiting; /* as many as ranks */
	size_t capacity;
	bool any_listed;
	struct job_ns looked;
};

void pipeline_hang_fini(struct pipeline_hang *hang);

/* Takes a batch's open calls and the ends of its steps. Returns 0 or -ENOMEM. */
int pipeline_hang_take(struct pipeline_hang *hang, const struct message_batch *batch,
	const struct held_steps *held, const struct clock_fit *clock)
	__attribute__((warn_unused_result));

/* Looks at most once a second of receive time, and tells the judge. */
int pipeline_hang_look(struct pipeline_hang *hang, struct assembly *assembly, struct judge *judge,
	struct job_ns now) __attribute__((warn_unused_result));

/* What a rank did when it was last listed; NULL: it never was, or not by a probe that tells. */
const struct report_stall *pipeline_hang_stall(const struct pipeline_hang *hang, uint32_t rank);

#endif
