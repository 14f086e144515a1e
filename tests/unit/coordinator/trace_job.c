/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/coordinator/trace_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* The length of a microbatch of a replica in a step, around 1: the same for all its stages. */
static double microbatch_length(const struct trace_job *job, int step, int replica, int microbatch)
{
	uint64_t hash =
		(uint64_t)((step * job->shape.replicas + replica) * job->shape.microbatches +
			   microbatch + 1);
	double sum = 0;

	for (int i = 0; i < 4; i++) { /* nearly normal */
		hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9) + 12345;
		hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
		sum += (double)(hash >> 40) / (double)(1 << 24) - 0.5;
	}
	return fmax(1 + job->unevenness * sum / sqrt(4.0 / 12), 0.2);
}

static const double transfer_s = 0.001, gather_s = 0.003, scatter_s = 0.004, clip_s = 0.002;
static const double separate_s = 0.006;
static const double embedding_s = 0.0015, layernorm_s = 0.0005, optimizer_s = 0.005;

/* One computation of a stage's program: 1F1B, the last stage without warm-up. */
struct work {
	bool backward;
	int microbatch;
};

static int program_of(const struct trace_job *job, int stage, struct work *program)
{
	int warm_up = job->shape.stages - 1 - stage < job->shape.microbatches
			      ? job->shape.stages - 1 - stage
			      : job->shape.microbatches;
	int count = 0;

	for (int i = 0; i < warm_up; i++)
		program[count++] = (struct work){false, i};
	for (int i = 0; i < job->shape.microbatches; i++) {
		if (warm_up + i < job->shape.microbatches)
			program[count++] = (struct work){false, warm_up + i};
		program[count++] = (struct work){true, i};
	}
	return count;
}

/* Where operations of a step go; csv is NULL when only the lengths are wanted. */
struct output {
	FILE *csv;
	const struct trace_job *job;
	int step;
};

static void put(const struct output *out, int replica, int stage, const char *type, double start,
	double end, int sequence, int chunk, int microbatch)
{
	if (out->csv)
		fprintf(out->csv, "%d,%d,%d,%d,%s,%.7f,%.7f,%d,%d,%d,%d\n", replica, stage,
			stage * out->job->shape.replicas + replica, out->step, type, start,
			end - start, sequence, chunk, chunk < 0 ? -1 : stage, microbatch);
}

/* When the computations and messages of one replica were: [stage][backward][microbatch]. */
struct timeline {
	double starts[TRACE_JOB_STAGES_MAX][2][TRACE_JOB_MICROBATCHES_MAX],
		ends[TRACE_JOB_STAGES_MAX][2][TRACE_JOB_MICROBATCHES_MAX];
	double posted[TRACE_JOB_STAGES_MAX][2][TRACE_JOB_MICROBATCHES_MAX],
		received[TRACE_JOB_STAGES_MAX][2][TRACE_JOB_MICROBATCHES_MAX];
};

/* Where a stage's input comes from; outside 0..stages - 1: from nowhere. */
static int source_of(int stage, bool backward)
{
	return backward ? stage + 1 : stage - 1;
}

/* By going on until nothing moves. */
static void run_pipeline(const struct trace_job *job, int step, int replica, struct timeline *at)
{
	int done[TRACE_JOB_STAGES_MAX] = {0};
	double free_s[TRACE_JOB_STAGES_MAX];
	bool moved = true;

	for (int s = 0; s < job->shape.stages; s++) {
		free_s[s] = gather_s;
		for (int k = 0; k < job->shape.microbatches; k++)
			at->ends[s][0][k] = at->ends[s][1][k] = -1;
	}
	while (moved) {
		moved = false;
		for (int s = 0; s < job->shape.stages; s++) {
			struct work program[2 * TRACE_JOB_MICROBATCHES_MAX];
			int count = program_of(job, s, program);

			if (done[s] == count)
				continue;
			bool backward = program[done[s]].backward;
			int k = program[done[s]].microbatch, from = source_of(s, backward);
			double ready = free_s[s];

			if (from >= 0 && from < job->shape.stages) {
				double sent = at->ends[from][backward][k];
				double posted = k ? fmax(at->ends[s][backward][k - 1],
							    at->received[s][backward][k - 1])
						  : 0;

				if (sent < 0)
					continue;
				at->posted[s][backward][k] = posted;
				at->received[s][backward][k] = fmax(posted, sent) + transfer_s;
				ready = fmax(ready, at->received[s][backward][k]);
			}
			at->starts[s][backward][k] = ready;
			free_s[s] = ready + (backward ? job->backward[replica][s]
						      : job->forward[replica][s]) *
						    microbatch_length(job, step, replica, k);
			at->ends[s][backward][k] = free_s[s];
			done[s]++;
			moved = true;
		}
	}
}

/* A collective of a stage's replicas, from at[] on. */
static void join_replicas(const struct output *out, int stage, const char *type, int chunk,
	double length_s, double at[TRACE_JOB_REPLICAS_MAX][TRACE_JOB_STAGES_MAX])
{
	double end = 0;

	for (int r = 0; r < out->job->shape.replicas; r++)
		end = fmax(end, at[r][stage] + length_s);
	for (int r = 0; r < out->job->shape.replicas; r++) {
		put(out, r, stage, type, at[r][stage], end, 0, chunk, -1);
		at[r][stage] = end;
	}
}

/* First and last stage of a replica, which share the embedding. */
static void join_embedding(const struct output *out, int replica,
	double at[TRACE_JOB_REPLICAS_MAX][TRACE_JOB_STAGES_MAX])
{
	int stages = out->job->shape.stages;
	double end = fmax(at[replica][0], at[replica][stages - 1]) + embedding_s;

	for (int s = 0; s<stages; s += stages> 1 ? stages - 1 : 1) {
		put(out, replica, s, "embedding-grads-all-reduce", at[replica][s], end, 0, -1, -1);
		at[replica][s] = end;
	}
}

/* What follows the last computation, up to the optimizer; returns the step's length. */
static double run_tail(
	const struct output *out, double at[TRACE_JOB_REPLICAS_MAX][TRACE_JOB_STAGES_MAX])
{
	const struct trace_job *job = out->job;
	double clip = 0;

	for (int r = 0; r < job->shape.replicas; r++) {
		for (int s = 0; s < job->shape.stages; s++)
			put(out, r, s, "gc", at[r][s], at[r][s], 0, -1, -1);
	}
	for (int s = 0; s < job->shape.stages && job->shape.overlapped;
		s++) /* what follows waits for it all the same */
		join_replicas(out, s, "grads-reduce-scatter", 0, scatter_s, at);
	for (int r = 0; r < job->shape.replicas; r++) {
		for (int s = 0; s < job->shape.stages; s++) {
			put(out, r, s, "layernorm-grads-all-reduce", at[r][s],
				at[r][s] + layernorm_s, 0, -1, -1);
			at[r][s] += layernorm_s;
		}
		join_embedding(out, r, at);
	}
	for (int s = 0; s < job->shape.stages; s++) {
		if (job->shape.overlapped)
			join_replicas(out, s, "separate-grads-all-reduce", 0, separate_s, at);
		else
			join_replicas(out, s, "grads-reduce-scatter", 0, scatter_s, at);
		for (int r = 0; r < job->shape.replicas; r++)
			clip = fmax(clip, at[r][s] + clip_s);
	}
	for (int r = 0; r < job->shape.replicas; r++) {
		for (int s = 0; s < job->shape.stages; s++) {
			put(out, r, s, "optimizer-clip-main-grad", at[r][s], clip, 0, -1, -1);
			put(out, r, s, "optimizer", clip, clip + optimizer_s, 0, -1, -1);
		}
	}
	return clip + optimizer_s;
}

static void put_transfers(const struct output *out, int replica, const struct timeline *at)
{
	const struct trace_job *job = out->job;

	for (int backward = 0; backward < 2; backward++) {
		for (int to = 0; to < job->shape.stages; to++) {
			int from = source_of(to, backward);

			if (from < 0 || from >= job->shape.stages)
				continue;
			for (int k = 0; k < job->shape.microbatches; k++) {
				double received = at->received[to][backward][k];

				put(out, replica, from, backward ? "backward-send" : "forward-send",
					at->ends[from][backward][k], received, k, -1, -1);
				put(out, replica, to, backward ? "backward-recv" : "forward-recv",
					at->posted[to][backward][k], received, k, -1, -1);
			}
		}
	}
}

/* One step; its operations go to csv where there is one. Returns its length in seconds. */
static double run_step(FILE *csv, int step, const struct trace_job *job)
{
	const struct output out = {csv, job, step};
	double last[TRACE_JOB_REPLICAS_MAX][TRACE_JOB_STAGES_MAX] = {{0}};

	for (int r = 0; r < job->shape.replicas; r++) {
		struct timeline at;

		run_pipeline(job, step, r, &at);
		for (int s = 0; s < job->shape.stages; s++) {
			put(&out, r, s, "params-all-gather", 0, gather_s, 0, 0, -1);
			last[r][s] = 0;
			for (int k = 0; k < job->shape.microbatches; k++) {
				put(&out, r, s, "forward-compute", at.starts[s][0][k],
					at.ends[s][0][k], k, 0, k);
				put(&out, r, s, "backward-compute", at.starts[s][1][k],
					at.ends[s][1][k], k, 0, k);
				last[r][s] =
					fmax(last[r][s], fmax(at.ends[s][0][k], at.ends[s][1][k]));
			}
		}
		put_transfers(&out, r, &at);
	}
	return run_tail(&out, last);
}

double trace_job_step_length_s(const struct trace_job *job)
{
	return run_step(NULL, 0, job);
}

void trace_job_write(const struct trace_job *job, int steps, const char *path)
{
	FILE *csv = fopen(path, "w");

	assert_non_null(csv);
	fputs("dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,gmc,mb_id\n", csv);
	for (int step = 0; step < steps; step++)
		(void)run_step(csv, 10 * step, job);
	assert_int_equal(fclose(csv), 0);
}

void trace_job_fill(struct trace_job *job, double forward, double backward)
{
	job->unevenness = 0;
	for (int r = 0; r < job->shape.replicas; r++) {
		for (int s = 0; s < job->shape.stages; s++) {
			job->forward[r][s] = forward;
			job->backward[r][s] = backward;
		}
	}
}

double trace_job_ideal_length_s(const struct trace_job *job)
{
	double forward = 0, backward = 0;
	struct trace_job ideal = {.shape = job->shape};

	for (int r = 0; r < job->shape.replicas; r++) {
		for (int s = 0; s < job->shape.stages; s++) {
			forward += job->forward[r][s] / (job->shape.replicas * job->shape.stages);
			backward += job->backward[r][s] / (job->shape.replicas * job->shape.stages);
		}
	}
	trace_job_fill(&ideal, forward, backward);
	return trace_job_step_length_s(&ideal);
}
