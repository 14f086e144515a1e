/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published what-if figures of a pipeline-parallel job whose every operation is known, computations
 * too (imported traces): S, and what each replica, stage and kind of operation adds to it.
 *
 * Definitions: "Understanding Stragglers in Large Model Training Using What-if Analysis"
 * (OSDI '25) and its published artifact; in words in README.md. Order and pairing are taken
 * from the first replica of the first step of the commonest operations, and hold for all of these. Pure: no state but
 * the arguments; one thread per trace. Times in ns.
 */
#ifndef SLOWRANK_TESTS_TRACES_TRACE_FIGURES_H
#define SLOWRANK_TESTS_TRACES_TRACE_FIGURES_H

#include "coordinator/report/import_pairs.h"

/* Kinds as the figures name them: sends and receives of a direction are one. */
enum { TRACE_FIGURE_NR = 12 };
const char *trace_figure_name(unsigned figure); /* "forward-compute", "forward-pp-comm", ... */

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
