/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches for jobs that do not go on: calls that ranks are inside of, as probes list them, or that their
 * devices have not ended, and the last part of each rank. Time is that of the frames' receipt. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PIPELINE_HANG_H
#define SLOWRANK_COORDINATOR_PIPELINE_HANG_H

#include "analysis/judge/judge.h"
#include "coordinator/assembly.h"
#include "coordinator/probe_table.h"
#include "coordinator/report/model.h"

/* What a rank waits in: its host, or its device, which tells what a host that runs ahead does not. */
struct hang_call {
	uint8_t kind;	   /* enum open_call_kind; of a device never a wait */
	uint8_t operation; /* enum operation */
	bool on_device;
	bool started; /* its kernel runs */
	uint32_t peer;
	uint64_t communicator_id, sequence;
	struct job_ns since;
};

struct hang_rank {
	uint64_t batch; /* its probe's, that listed it last, + 1; 0 = none did */
	bool listed;	/* in the newest one: in a call, or in none (kind), since then */
	bool heard;	/* from its probe, of late */
	bool moves;	/* in none, though its probe is heard; or nobody watches it any more */
	struct hang_call host, device; /* device: OPEN_CALL_NONE where nothing is known */
	bool relative;		       /* host.sequence counts from an attach */
	uint8_t state, reason;
	char where[OPEN_CALL_WHERE_LENGTH];
	struct report_stall stall;
	struct job_ns moved; /* by the latest list: when it last showed that it goes on */
	uint64_t io_bytes;   /* then */
	struct job_ns gone;  /* it was first seen to have ended; 0 = it lives */
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

/* Looks at most every HANG_LOOK_NS of receive time, and tells the judge. */
int pipeline_hang_look(struct pipeline_hang *hang, const struct assembly *assembly,
	const struct probe_table *probes, struct judge *judge, struct job_ns received)
	__attribute__((warn_unused_result));

/* What a rank did when it was last listed; NULL: it never was, or not by a probe that tells. */
const struct report_stall *pipeline_hang_stall(const struct pipeline_hang *hang, uint32_t rank);

#endif
