/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a what-if trace, and which send or receive of a worker serves which of its
 * computations: by that the sends of one are joined with the receives of another. Pure; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_IMPORT_PAIRS_H
#define SLOWRANK_COORDINATOR_REPORT_IMPORT_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
	TRACE_FORWARD_COMPUTE = 0,
	TRACE_BACKWARD_COMPUTE = 1,
	TRACE_FORWARD_SEND = 2,
	TRACE_FORWARD_RECEIVE = 3,
	TRACE_BACKWARD_SEND = 4,
	TRACE_BACKWARD_RECEIVE = 5,
	TRACE_PARAMETERS_GATHER = 6,
	TRACE_GRADIENTS_SCATTER = 7,
	TRACE_SEPARATE_GRADIENTS = 8, /* there only where data parallelism is overlapped */
	TRACE_LAYERNORM = 9,
	TRACE_EMBEDDING = 10,
	TRACE_CLIP = 11,
	TRACE_GARBAGE_COLLECTION = 12,
	TRACE_OPTIMIZER = 13,
	TRACE_KIND_NR
};

enum {
	TRACE_OPERATIONS_MAX = 16 * 1024 * 1024, /* of a whole trace */
	TRACE_STAGES_MAX = 1024,
};

/* One operation of one worker; (kind, sequence) names it within its step. */
struct trace_operation {
	int64_t start_ns, end_ns;
	uint32_t sequence; /* order among operations of its kind in the step, from 0 */
	int32_t chunk; /* model chunk in the model, interleaved: chunk % stages is the stage; -1 */
	uint8_t kind;  /* enum trace_kind */
};

/*
 * Which sends and receives of a worker in one step have an effect: those whose neighbour chunk
 * exists and that belong to a computation. pairs[i], for each operation: its number among the
 * effective ones of its kind, from 0; UINT32_MAX for all others. Returns 0; -EINVAL when sends or
 * receives are missing in a way that the schedule does not explain; -ENOMEM.
 */
int trace_pairs(const struct trace_operation *operations, size_t count, uint32_t stage_count,
	uint32_t *pairs) __attribute__((warn_unused_result));

extern const enum trace_kind trace_transfers[4]; /* sends and receives, both directions */
bool trace_is_send(unsigned kind);
unsigned trace_compute_of(unsigned kind); /* the computations that a kind of transfer serves */
/* Does the chunk that a send goes to, or a receive comes from, exist? */
bool trace_neighbour_exists(unsigned kind, int32_t chunk, int32_t chunk_count);

/* What the computations of one direction of a worker are: bounds in time, and their chunks. */
struct trace_direction {
	const struct trace_operation *const *computes; /* by sequence */
	uint32_t compute_count;
	int64_t last_start_ns, first_end_ns;
	int32_t chunk_count; /* of the model */
};

/*
 * Which computation each send or receive of a kind serves: matches[i], by its sequence;
 * UINT32_MAX: it was recorded and did nothing, before or after the computations. Returns 0 or
 * -EINVAL.
 */
int trace_match_transfers(unsigned kind, const struct trace_direction *direction,
	const struct trace_operation *const *operations, uint32_t count, uint32_t *matches)
	__attribute__((warn_unused_result));

#endif
