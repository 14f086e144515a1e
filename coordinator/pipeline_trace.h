/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the operations of imported traces, whose parts have purposes, for the published what-if
 * figures. Live jobs have none and cost nothing here. What comes out does not depend on the order
 * in which frames came. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PIPELINE_TRACE_H
#define SLOWRANK_COORDINATOR_PIPELINE_TRACE_H

#include "analysis/trace.h"
#include "coordinator/rank_table.h"

struct pipeline_trace {
	struct trace trace;
	uint64_t *data_ids; /* by worker: the communicator of its gradients; 0 = none */
	size_t worker_capacity, id_capacity, operation_capacity;
	uint64_t left_out; /* steps of ranks, beyond TRACE_OPERATIONS_MAX */
	struct trace_figures figures;
	size_t figures_of; /* workers that they were made from */
};

void pipeline_trace_fini(struct pipeline_trace *trace);
/* Takes a rank's step when its parts have purposes. Returns 0 or -ENOMEM. */
int pipeline_trace_take(struct pipeline_trace *trace, const struct packed_step *step)
	__attribute__((warn_unused_result));
/*
 * The figures so far; NULL when there is no trace, or one that does not follow the rules. A
 * rank's stage is its lowest chunk, its replica its index among those it shares gradients with.
 */
const struct trace_figures *pipeline_trace_figures(
	struct pipeline_trace *trace, struct rank_table *ranks);

#endif
