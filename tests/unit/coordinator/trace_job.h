/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipeline-parallel job and the trace of its operations, worked out independently of the code that
 * reads traces: 1F1B, messages between stages, collectives of replicas. Times are in seconds. One thread.
 */
#ifndef SLOWRANK_TESTS_UNIT_COORDINATOR_TRACE_JOB_H
#define SLOWRANK_TESTS_UNIT_COORDINATOR_TRACE_JOB_H

#include <stdbool.h>

enum { TRACE_JOB_STAGES_MAX = 8, TRACE_JOB_REPLICAS_MAX = 8, TRACE_JOB_MICROBATCHES_MAX = 16 };

struct trace_shape {
	int stages, replicas, microbatches;
	bool overlapped; /* gradients are scattered beside the rest */
};

/* Durations of computations; everything else takes a fixed time. */
struct trace_job {
	struct trace_shape shape;
	double forward[TRACE_JOB_REPLICAS_MAX][TRACE_JOB_STAGES_MAX];
	double backward[TRACE_JOB_REPLICAS_MAX][TRACE_JOB_STAGES_MAX];
	double unevenness; /* standard deviation of microbatches' lengths, relative; 0 = all alike */
};

/* All computations of a kind take the same time; the job's shape stays. */
void trace_job_fill(struct trace_job *job, double forward, double backward);

double trace_job_step_length_s(const struct trace_job *job);
/* The same with every computation at the mean of its kind. */
double trace_job_ideal_length_s(const struct trace_job *job);

/* Writes the trace of so many steps, numbered by tens. */
void trace_job_write(const struct trace_job *job, int steps, const char *path);

#endif
