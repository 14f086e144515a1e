/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What-if figures of a pipeline-parallel job whose every operation is known, computations too
 * (imported traces): S, and what each replica, stage and kind of operation adds to it.
 *
 * Definitions: "Understanding Stragglers in Large Model Training Using What-if Analysis"
 * (OSDI '25) and its published artifact; in words in docs/analysis.md. Order and pairing are taken
 * from the first replica of the first step of the commonest operations, and hold for all of these. Pure: no state but
 * the arguments; one thread per trace. Times in ns.
 */
#ifndef SLOWRANK_ANALYSIS_TRACE_H
#define SLOWRANK_ANALYSIS_TRACE_H

#include "analysis/step.h"

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
#define TRACE_KIND_NONE TRACE_KIND_NR

/* Kinds as the figures name them: sends and receives of a direction are one. */
enum { TRACE_FIGURE_NR = 12 };
const char *trace_figure_name(unsigned figure); /* "forward-compute", "forward-pp-comm", ... */

/* The kind of a part that a source with purposes gave; TRACE_KIND_NONE for all others. */
enum trace_kind trace_kind_of(const struct part_kind *part);

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

/* One worker in one step; its operations lie in the trace's array. */
struct trace_worker {
	uint64_t step;
	uint32_t rank, replica, stage; /* replica: data-parallel rank */
	size_t first, count;
};

/* A whole trace. The caller owns the arrays; workers may be in any order. */
struct trace {
	size_t worker_count, operation_count;
	struct trace_worker *workers;
	struct trace_operation *operations;
};

/*
 * Which sends and receives of a worker in one step have an effect: those whose neighbour chunk
 * exists and that belong to a computation. pairs[i], for each operation: its number among the
 * effective ones of its kind, from 0; UINT32_MAX for all others. Returns 0; -EINVAL when sends or
 * receives are missing in a way that the schedule does not explain; -ENOMEM.
 */
int trace_pairs(const struct trace_operation *operations, size_t count, uint32_t stage_count,
	uint32_t *pairs) __attribute__((warn_unused_result));

struct trace_figures {
	uint64_t steps, steps_left_out; /* left out: other operations than most have */
	double slowdown;		/* S = T / T_ideal, without launch delays */
	double launch_slowdown;		/* actual / T */
	double step_ns_actual, step_ns, step_ns_ideal; /* means */
	uint32_t replica_count, stage_count;
	double *by_replica, *by_stage; /* S with only their operations as they were */
	double by_kind[TRACE_FIGURE_NR];
	bool has_kind[TRACE_FIGURE_NR];
	double last_stage_share;  /* M_S: of the slow-down, gone with the last stage ideal */
	double worst_ranks_share; /* M_W: gone with the worst 3 % of workers ideal */
	double forward_backward_correlation; /* Pearson, of the microbatches' times; NaN: unknown */
};

/*
 * Returns 0; -EINVAL when the trace breaks the rules it is modelled by; -ENOMEM. figures' arrays
 * are the caller's, to be freed with trace_figures_fini().
 */
int trace_figures_init(const struct trace *trace, struct trace_figures *figures)
	__attribute__((warn_unused_result));
void trace_figures_fini(struct trace_figures *figures);

#endif
