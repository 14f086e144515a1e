/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace becomes a record, and the record's report has the published figures: checked on traces
 * made here, whose figures follow from a schedule that is worked out independently, and on the two
 * published ones (SLOWRANK_TRACES names their folder; without it that test is skipped).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/commands.h"
#include "coordinator/pipeline.h"
#include "coordinator/record/reader.h"

enum { STAGES_MAX = 8, REPLICAS_MAX = 8, MICROBATCHES_MAX = 16, STEPS = 40 };

/* Of the job at work. */
static int stages = 2, replicas = 2, microbatches = 4;
static bool overlapped; /* gradients are scattered beside the rest */

/* Durations of computations in seconds; everything else takes a fixed time. */
struct job {
	double forward[REPLICAS_MAX][STAGES_MAX], backward[REPLICAS_MAX][STAGES_MAX];
	double unevenness; /* standard deviation of microbatches' lengths, relative; 0 = all alike */
};

/* The length of a microbatch of a replica in a step, around 1: the same for all its stages. */
static double microbatch_length(const struct job *job, int step, int replica, int microbatch)
{
	uint64_t hash = (uint64_t)((step * replicas + replica) * microbatches + microbatch + 1);
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

static void assert_close(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%.9g is not %.9g +- %g", value, expected, tolerance);
}

/* One computation of a stage's program: 1F1B, the last stage without warm-up. */
struct work {
	bool backward;
	int microbatch;
};

static int program_of(int stage, struct work *program)
{
	int warm_up = stages - 1 - stage < microbatches ? stages - 1 - stage : microbatches;
	int count = 0;

	for (int i = 0; i < warm_up; i++)
		program[count++] = (struct work){false, i};
	for (int i = 0; i < microbatches; i++) {
		if (warm_up + i < microbatches)
			program[count++] = (struct work){false, warm_up + i};
		program[count++] = (struct work){true, i};
	}
	return count;
}

static void put(FILE *csv, int replica, int stage, int step, const char *type, double start,
	double end, int sequence, int chunk, int microbatch)
{
	if (csv)
		fprintf(csv, "%d,%d,%d,%d,%s,%.7f,%.7f,%d,%d,%d,%d\n", replica, stage,
			stage * replicas + replica, step, type, start, end - start, sequence, chunk,
			chunk < 0 ? -1 : stage, microbatch);
}

/* When the computations and messages of one replica were: [stage][backward][microbatch]. */
struct timeline {
	double starts[STAGES_MAX][2][MICROBATCHES_MAX], ends[STAGES_MAX][2][MICROBATCHES_MAX];
	double posted[STAGES_MAX][2][MICROBATCHES_MAX], received[STAGES_MAX][2][MICROBATCHES_MAX];
};

/* Where a stage's input comes from; outside 0..stages - 1: from nowhere. */
static int source_of(int stage, bool backward)
{
	return backward ? stage + 1 : stage - 1;
}

/* By going on until nothing moves. */
static void run_pipeline(const struct job *job, int step, int replica, struct timeline *at)
{
	int done[STAGES_MAX] = {0};
	double free_s[STAGES_MAX];
	bool moved = true;

	for (int s = 0; s < stages; s++) {
		free_s[s] = gather_s;
		for (int k = 0; k < microbatches; k++)
			at->ends[s][0][k] = at->ends[s][1][k] = -1;
	}
	while (moved) {
		moved = false;
		for (int s = 0; s < stages; s++) {
			struct work program[2 * MICROBATCHES_MAX];
			int count = program_of(s, program);

			if (done[s] == count)
				continue;
			bool backward = program[done[s]].backward;
			int k = program[done[s]].microbatch, from = source_of(s, backward);
			double ready = free_s[s];

			if (from >= 0 && from < stages) {
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
static void join_replicas(FILE *csv, int step, int stage, const char *type, int chunk,
	double length_s, double at[REPLICAS_MAX][STAGES_MAX])
{
	double end = 0;

	for (int r = 0; r < replicas; r++)
		end = fmax(end, at[r][stage] + length_s);
	for (int r = 0; r < replicas; r++) {
		put(csv, r, stage, step, type, at[r][stage], end, 0, chunk, -1);
		at[r][stage] = end;
	}
}

/* First and last stage of a replica, which share the embedding. */
static void join_embedding(FILE *csv, int step, int replica, double at[REPLICAS_MAX][STAGES_MAX])
{
	double end = fmax(at[replica][0], at[replica][stages - 1]) + embedding_s;

	for (int s = 0; s<stages; s += stages> 1 ? stages - 1 : 1) {
		put(csv, replica, s, step, "embedding-grads-all-reduce", at[replica][s], end, 0, -1,
			-1);
		at[replica][s] = end;
	}
}

/* What follows the last computation, up to the optimizer; returns the step's length. */
static double run_tail(FILE *csv, int step, double at[REPLICAS_MAX][STAGES_MAX])
{
	double clip = 0;

	for (int r = 0; r < replicas; r++) {
		for (int s = 0; s < stages; s++)
			put(csv, r, s, step, "gc", at[r][s], at[r][s], 0, -1, -1);
	}
	for (int s = 0; s < stages && overlapped; s++) /* what follows waits for it all the same */
		join_replicas(csv, step, s, "grads-reduce-scatter", 0, scatter_s, at);
	for (int r = 0; r < replicas; r++) {
		for (int s = 0; s < stages; s++) {
			put(csv, r, s, step, "layernorm-grads-all-reduce", at[r][s],
				at[r][s] + layernorm_s, 0, -1, -1);
			at[r][s] += layernorm_s;
		}
		join_embedding(csv, step, r, at);
	}
	for (int s = 0; s < stages; s++) {
		if (overlapped)
			join_replicas(csv, step, s, "separate-grads-all-reduce", 0, separate_s, at);
		else
			join_replicas(csv, step, s, "grads-reduce-scatter", 0, scatter_s, at);
		for (int r = 0; r < replicas; r++)
			clip = fmax(clip, at[r][s] + clip_s);
	}
	for (int r = 0; r < replicas; r++) {
		for (int s = 0; s < stages; s++) {
			put(csv, r, s, step, "optimizer-clip-main-grad", at[r][s], clip, 0, -1, -1);
			put(csv, r, s, step, "optimizer", clip, clip + optimizer_s, 0, -1, -1);
		}
	}
	return clip + optimizer_s;
}

static void put_transfers(FILE *csv, int replica, int step, const struct timeline *at)
{
	for (int backward = 0; backward < 2; backward++) {
		for (int to = 0; to < stages; to++) {
			int from = source_of(to, backward);

			if (from < 0 || from >= stages)
				continue;
			for (int k = 0; k < microbatches; k++) {
				double received = at->received[to][backward][k];

				put(csv, replica, from, step,
					backward ? "backward-send" : "forward-send",
					at->ends[from][backward][k], received, k, -1, -1);
				put(csv, replica, to, step,
					backward ? "backward-recv" : "forward-recv",
					at->posted[to][backward][k], received, k, -1, -1);
			}
		}
	}
}

/* One step; its operations go to csv where there is one. Returns its length in seconds. */
static double run_step(FILE *csv, int step, const struct job *job)
{
	double last[REPLICAS_MAX][STAGES_MAX] = {{0}};

	for (int r = 0; r < replicas; r++) {
		struct timeline at;

		run_pipeline(job, step, r, &at);
		for (int s = 0; s < stages; s++) {
			put(csv, r, s, step, "params-all-gather", 0, gather_s, 0, 0, -1);
			last[r][s] = 0;
			for (int k = 0; k < microbatches; k++) {
				put(csv, r, s, step, "forward-compute", at.starts[s][0][k],
					at.ends[s][0][k], k, 0, k);
				put(csv, r, s, step, "backward-compute", at.starts[s][1][k],
					at.ends[s][1][k], k, 0, k);
				last[r][s] =
					fmax(last[r][s], fmax(at.ends[s][0][k], at.ends[s][1][k]));
			}
		}
		put_transfers(csv, r, step, &at);
	}
	return run_tail(csv, step, last);
}

static void write_csv(const char *path, const struct job *job)
{
	FILE *csv = fopen(path, "w");

	assert_non_null(csv);
	fputs("dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,gmc,mb_id\n", csv);
	for (int step = 0; step < STEPS; step++)
		(void)run_step(csv, 10 * step, job);
	assert_int_equal(fclose(csv), 0);
}

static int import(const char *csv, const char *record)
{
	char *arguments[] = {(char[]){"import"}, (char[]){"--from"}, (char[]){"whatif"},
		strdup(csv), (char[]){"-o"}, strdup(record), NULL};
	int status = cmd_import(6, arguments);

	free(arguments[3]);
	free(arguments[5]);
	return status;
}

static struct pipeline *replay(const char *record)
{
	struct record_reader *reader = NULL;
	struct pipeline *pipeline = NULL;
	struct message_reply reply;
	struct job_ns received;
	const void *bytes;
	size_t length;

	assert_int_equal(record_reader_open(record, &reader, NULL), 0);
	assert_int_equal(pipeline_create(&(struct pipeline_options){0}, &pipeline), 0);
	while (record_reader_next(reader, &bytes, &length, &received) == 0)
		assert_int_equal(pipeline_push(pipeline, bytes, length, received, &reply),
			PIPELINE_ACCEPTED);
	record_reader_close(reader);
	assert_true(pipeline_complete(pipeline));
	assert_int_equal(pipeline_finish(pipeline), 0);
	return pipeline;
}

static struct pipeline *import_and_replay(const char *csv)
{
	char record[] = "/tmp/slowrank-import-XXXXXX";
	int fd = mkstemp(record);
	struct pipeline *pipeline;

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(import(csv, record), 0);
	pipeline = replay(record);
	unlink(record);
	return pipeline;
}

static struct pipeline *of_job(const struct job *job)
{
	char csv[] = "/tmp/slowrank-trace-XXXXXX";
	int fd = mkstemp(csv);
	struct pipeline *pipeline;

	assert_true(fd >= 0);
	close(fd);
	write_csv(csv, job);
	pipeline = import_and_replay(csv);
	unlink(csv);
	return pipeline;
}

static void fill(struct job *job, double forward, double backward)
{
	job->unevenness = 0;
	for (int r = 0; r < replicas; r++) {
		for (int s = 0; s < stages; s++) {
			job->forward[r][s] = forward;
			job->backward[r][s] = backward;
		}
	}
}

/* The same with every computation at the mean of its kind. */
static double ideal_length(const struct job *job)
{
	double forward = 0, backward = 0;
	struct job ideal;

	for (int r = 0; r < replicas; r++) {
		for (int s = 0; s < stages; s++) {
			forward += job->forward[r][s] / (replicas * stages);
			backward += job->backward[r][s] / (replicas * stages);
		}
	}
	fill(&ideal, forward, backward);
	return run_step(NULL, 0, &ideal);
}

/* How much slower the job is said to be for it; 1 where it is not told of. */
static double cost_of(const struct report_model *model, enum cost_of of, uint32_t number)
{
	for (size_t i = 0; i < model->cost_count; i++) {
		if (model->costs[i].of == of && model->costs[i].number == number)
			return model->costs[i].slowdown;
	}
	return 1;
}

static void slow_worker(void **state)
{
	struct job job;
	struct pipeline *pipeline;

	(void)state;
	fill(&job, 0.100, 0.200);
	job.forward[1][0] *= 1.6; /* rank 1 */
	job.backward[1][0] *= 1.6;
	pipeline = of_job(&job);
	const struct report_model *model = pipeline_report(pipeline);
	const struct trace_figures *figures = model->whatif;

	assert_non_null(figures);
	assert_int_equal(figures->steps, STEPS);
	assert_int_equal(figures->steps_left_out, 0);
	assert_close(figures->step_ns / 1e9, run_step(NULL, 0, &job), 1e-4);
	assert_close(figures->step_ns_ideal / 1e9, ideal_length(&job), 1e-4);
	assert_close(figures->launch_slowdown, 1, 1e-4);
	assert_close(figures->by_replica[1], figures->slowdown, 1e-6); /* the others hide nothing */
	assert_close(figures->by_replica[0], 1, 1e-6);
	assert_true(figures->worst_ranks_share > 0.9);
	assert_close(model->totals.slowdown, figures->slowdown, 1e-9);
	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].verdict_class, VERDICT_COMPUTE_SLOW);
	assert_int_equal(model->verdicts[0].rank_count, 1);
	assert_int_equal(model->verdicts[0].ranks[0], 1);
	/* with the time of its peer, not with the mean of all */
	fill(&job, 0.100, 0.200);
	double healthy_s = run_step(NULL, 0, &job);

	assert_close(cost_of(model, COST_RANK, 1), figures->step_ns / 1e9 / healthy_s, 0.01);
	assert_close(cost_of(model, COST_PHASE, PHASE_COMPUTE), figures->step_ns / 1e9 / healthy_s,
		0.01);
	for (uint32_t rank = 0; rank < (uint32_t)(replicas * stages); rank += rank ? 1 : 2)
		assert_close(cost_of(model, COST_RANK, rank), 1, 0.01);
	pipeline_destroy(pipeline);
}

static void uneven_stages(void **state)
{
	struct job job;
	struct pipeline *pipeline;

	(void)state;
	fill(&job, 0.100, 0.200);
	for (int r = 0; r < replicas; r++) {
		job.forward[r][1] = 0.160;
		job.backward[r][1] = 0.320;
	}
	pipeline = of_job(&job);
	const struct report_model *model = pipeline_report(pipeline);

	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].verdict_class, VERDICT_WORKLOAD_IMBALANCE);
	assert_int_equal(model->verdicts[0].cause, CAUSE_STAGE_IMBALANCE);
	assert_int_equal(model->verdicts[0].rank_count, 2);
	assert_int_equal(model->verdicts[0].ranks[0], 2);
	assert_int_equal(model->verdicts[0].ranks[1], 3);
	assert_close(
		model->verdicts[0].slowdown, run_step(NULL, 0, &job) / ideal_length(&job), 0.02);
	assert_close(cost_of(model, COST_ROLE, model->ranks[2].totals.role),
		run_step(NULL, 0, &job) / ideal_length(&job), 0.05);
	for (uint32_t rank = 0; rank < (uint32_t)(replicas * stages); rank++)
		assert_close(cost_of(model, COST_RANK, rank), 1, 0.01);
	assert_true(model->whatif->by_stage[1] > 1.1 && model->whatif->by_stage[0] < 1);
	assert_true(model->whatif->last_stage_share > 0.9);
	pipeline_destroy(pipeline);
}

static void uneven_sequences(void **state)
{
	struct job job;
	struct pipeline *pipeline;

	(void)state;
	fill(&job, 0.100, 0.200);
	job.unevenness = 0.3;
	pipeline = of_job(&job);
	const struct report_model *model = pipeline_report(pipeline);

	assert_true(model->whatif->forward_backward_correlation > 0.99);
	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].verdict_class, VERDICT_WORKLOAD_IMBALANCE);
	assert_int_equal(model->verdicts[0].cause, CAUSE_SEQUENCE_IMBALANCE);
	assert_int_equal(model->verdicts[0].rank_count, 0);
	pipeline_destroy(pipeline);
}

struct shape {
	int stages, replicas, microbatches;
	bool overlapped;
};

static void set_shape(const struct shape *shape)
{
	stages = shape->stages;
	replicas = shape->replicas;
	microbatches = shape->microbatches;
	overlapped = shape->overlapped;
}

/* One worker is slow, wherever it is, and in whatever job: S is right, and only it is named. */
static void other_shapes(void **state)
{
	static const struct shape shapes[] = {{1, 4, 3, false}, {2, 3, 5, true}, {3, 2, 4, false},
		{4, 4, 8, false}, {5, 3, 7, true}, {4, 8, 3, false}, {8, 2, 16, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (int place = 0; place < 3; place++) {
			int replica = place * (shapes[i].replicas - 1) / 2;
			int stage = (2 - place) * (shapes[i].stages - 1) / 2;
			struct job job;

			set_shape(&shapes[i]);
			fill(&job, 0.100, 0.200);
			job.forward[replica][stage] *= 1.7;
			job.backward[replica][stage] *= 1.7;
			struct pipeline *pipeline = of_job(&job);
			const struct report_model *model = pipeline_report(pipeline);
			uint32_t rank = (uint32_t)(stage * replicas + replica);

			assert_non_null(model->whatif);
			assert_int_equal(model->whatif->steps, STEPS);
			assert_close(model->whatif->step_ns / 1e9, run_step(NULL, 0, &job), 1e-4);
			assert_close(model->whatif->step_ns_ideal / 1e9, ideal_length(&job), 1e-4);
			assert_close(
				model->whatif->by_replica[replica], model->whatif->slowdown, 0.01);
			assert_int_equal(model->verdict_count, 1);
			assert_int_equal(model->verdicts[0].verdict_class, VERDICT_COMPUTE_SLOW);
			assert_int_equal(model->verdicts[0].rank_count, 1);
			assert_int_equal(model->verdicts[0].ranks[0], rank);
			fill(&job, 0.100, 0.200);
			assert_close(cost_of(model, COST_RANK, rank),
				model->whatif->step_ns / 1e9 / run_step(NULL, 0, &job), 0.02);
			pipeline_destroy(pipeline);
		}
	}
}

/* A stage has more work, wherever it is. */
static void other_stages(void **state)
{
	static const struct shape shapes[] = {{3, 2, 6, false}, {4, 2, 8, true}, {6, 3, 12, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (int place = 0; place < 3; place++) {
			int stage = place * (shapes[i].stages - 1) / 2;
			struct job job;

			set_shape(&shapes[i]);
			fill(&job, 0.100, 0.200);
			for (int r = 0; r < replicas; r++) {
				job.forward[r][stage] *= 1.5;
				job.backward[r][stage] *= 1.5;
			}
			struct pipeline *pipeline = of_job(&job);
			const struct report_model *model = pipeline_report(pipeline);

			assert_int_equal(model->verdict_count, 1);
			assert_int_equal(model->verdicts[0].cause, CAUSE_STAGE_IMBALANCE);
			assert_int_equal(model->verdicts[0].rank_count, replicas);
			for (int r = 0; r < replicas; r++)
				assert_int_equal(model->verdicts[0].ranks[r], stage * replicas + r);
			pipeline_destroy(pipeline);
		}
	}
}

/* Sequences differ in length, in whatever job: nobody is named. */
static void other_sequences(void **state)
{
	static const struct shape shapes[] = {{1, 8, 4, false}, {4, 4, 8, false}, {4, 2, 4, true},
		{2, 6, 12, false}, {8, 4, 16, false}};
	static const double unevenness[] = {0.15, 0.25, 0.5};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (size_t k = 0; k < sizeof(unevenness) / sizeof(unevenness[0]); k++) {
			struct job job;

			set_shape(&shapes[i]);
			fill(&job, 0.100, 0.200);
			job.unevenness = unevenness[k];
			struct pipeline *pipeline = of_job(&job);
			const struct report_model *model = pipeline_report(pipeline);

			assert_true(model->whatif->forward_backward_correlation > 0.99);
			assert_int_equal(model->verdict_count, 1);
			assert_int_equal(model->verdicts[0].cause, CAUSE_SEQUENCE_IMBALANCE);
			assert_int_equal(model->verdicts[0].rank_count, 0);
			pipeline_destroy(pipeline);
		}
	}
}

static void healthy_shapes(void **state)
{
	static const struct shape shapes[] = {
		{1, 2, 2, false}, {4, 4, 8, false}, {4, 1, 8, true}, {7, 2, 9, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct job job;

		set_shape(&shapes[i]);
		fill(&job, 0.100, 0.200);
		job.unevenness = 0.02;
		struct pipeline *pipeline = of_job(&job);

		assert_int_equal(pipeline_report(pipeline)->verdict_count, 0);
		assert_non_null(pipeline_report(pipeline)->whatif);
		assert_true(pipeline_report(pipeline)->whatif->slowdown < 1.04);
		pipeline_destroy(pipeline);
	}
}

static int set_usual_shape(void **state)
{
	(void)state;
	set_shape(&(struct shape){2, 2, 4, false});
	return 0;
}

static void even_job(void **state)
{
	struct job job;
	struct pipeline *pipeline;

	(void)state;
	fill(&job, 0.100, 0.200);
	pipeline = of_job(&job);
	const struct report_model *model = pipeline_report(pipeline);

	assert_int_equal(model->verdict_count, 0);
	assert_close(model->whatif->slowdown, 1, 1e-4);
	pipeline_destroy(pipeline);
}

static void not_a_trace(void **state)
{
	static const char *const texts[] = {"", "a,b,c\n1,2,3\n",
		"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,gmc,mb_id\n",
		"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,gmc,mb_id\n"
		"0,0,0,1,gc,nan,0,0,-1,-1,-1\n",
		"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,gmc,mb_id\n"
		"0,0,4000000000,1,gc,0,0,0,-1,-1,-1\n",
		"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,gmc,mb_id\n"
		"0,0,0,1,gc\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char csv[] = "/tmp/slowrank-trace-XXXXXX", record[64];
		int fd = mkstemp(csv);

		assert_true(fd >= 0);
		assert_int_equal(write(fd, texts[i], strlen(texts[i])), strlen(texts[i]));
		close(fd);
		snprintf(record, sizeof(record), "%s.slr", csv);
		assert_int_equal(import(csv, record), 2);
		assert_int_equal(access(record, F_OK), -1);
		unlink(csv);
	}
}

/* The number behind "key": after the place where section begins, in a text of expected figures. */
static double figure(const char *text, const char *trace, const char *section, const char *key)
{
	char wanted[96];
	const char *at;

	snprintf(wanted, sizeof(wanted), "\"%s\": {", trace);
	at = strstr(text, wanted);
	assert_non_null(at);
	if (section) {
		snprintf(wanted, sizeof(wanted), "\"%s\"", section);
		at = strstr(at, wanted);
		assert_non_null(at);
	}
	snprintf(wanted, sizeof(wanted), "\"%s\": ", key);
	at = strstr(at, wanted);
	assert_non_null(at);
	return strtod(at + strlen(wanted), NULL);
}

static void check_published(const char *text, const char *name, const struct trace_figures *figures)
{
	char key[16];

	assert_close(figures->slowdown, figure(text, name, NULL, "slowdown_S"), 1e-4);
	assert_close(figures->launch_slowdown, figure(text, name, NULL, "launch_slowdown"), 1e-4);
	assert_close(figures->last_stage_share, figure(text, name, NULL, "M_S"), 1e-3);
	assert_close(figures->worst_ranks_share, figure(text, name, NULL, "M_W"), 1e-3);
	for (uint32_t r = 0; r < figures->replica_count; r++) {
		snprintf(key, sizeof(key), "%u", r);
		assert_close(figures->by_replica[r], figure(text, name, "S_by_dp_rank", key), 1e-4);
	}
	for (uint32_t s = 0; s < figures->stage_count; s++) {
		snprintf(key, sizeof(key), "%u", s);
		assert_close(figures->by_stage[s], figure(text, name, "S_by_stage", key), 1e-4);
	}
	for (unsigned k = 0; k < TRACE_FIGURE_NR; k++) {
		if (figures->has_kind[k])
			assert_close(figures->by_kind[k],
				figure(text, name, "S_by_optype", trace_figure_name(k)), 1e-4);
	}
}

static bool contains(const uint32_t *ranks, uint32_t count, uint32_t rank)
{
	for (uint32_t i = 0; i < count; i++) {
		if (ranks[i] == rank)
			return true;
	}
	return false;
}

static void check_verdict(const char *name, const struct report_model *model)
{
	const struct verdict *verdict = &model->verdicts[0];

	assert_int_equal(model->verdict_count, 1);
	if (strcmp(name, "AR") == 0) {
		assert_int_equal(verdict->verdict_class, VERDICT_COMPUTE_SLOW);
		assert_int_equal(verdict->rank_count, 1);
		assert_int_equal(verdict->ranks[0], 0);
		for (uint32_t rank = 16; rank <= 48; rank += 16)
			assert_true(contains(verdict->victims, verdict->victim_count, rank));
	} else {
		assert_int_equal(verdict->verdict_class, VERDICT_WORKLOAD_IMBALANCE);
		assert_int_equal(verdict->cause, CAUSE_STAGE_IMBALANCE);
		assert_int_equal(verdict->rank_count, 2);
		assert_int_equal(verdict->ranks[0], 6);
		assert_int_equal(verdict->ranks[1], 7);
	}
}

static void published_traces(void **state)
{
	static const char *const names[] = {"AR", "ST"};
	const char *folder = getenv("SLOWRANK_TRACES");
	static char text[65536];
	char path[512];
	FILE *file;

	(void)state;
	if (!folder || !*folder) {
		print_message("SLOWRANK_TRACES is not set: the published traces are not checked\n");
		skip();
		return;
	}
	snprintf(path, sizeof(path), "%.400s/expected.json", folder);
	file = fopen(path, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	for (size_t i = 0; i < 2; i++) {
		struct pipeline *pipeline;

		snprintf(path, sizeof(path), "%.400s/%s.csv.gz", folder, names[i]);
		pipeline = import_and_replay(path);
		assert_non_null(pipeline_report(pipeline)->whatif);
		check_published(text, names[i], pipeline_report(pipeline)->whatif);
		check_verdict(names[i], pipeline_report(pipeline));
		pipeline_destroy(pipeline);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_worker),
		cmocka_unit_test(uneven_stages),
		cmocka_unit_test(uneven_sequences),
		cmocka_unit_test(even_job),
		cmocka_unit_test_teardown(other_shapes, set_usual_shape),
		cmocka_unit_test_teardown(other_stages, set_usual_shape),
		cmocka_unit_test_teardown(other_sequences, set_usual_shape),
		cmocka_unit_test_teardown(healthy_shapes, set_usual_shape),
		cmocka_unit_test(not_a_trace),
		cmocka_unit_test(published_traces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
