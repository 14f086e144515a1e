/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace becomes a record, with all that the published figures need, and its report has the right
 * verdicts: checked on traces made here, whose figures follow from a schedule that is worked out
 * independently, and on the two published ones (SLOWRANK_TRACES names their folder; without it that
 * test is skipped).
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
#include "tests/traces/trace_record.h"
#include "tests/unit/coordinator/trace_job.h"

enum { STEPS = 40 };

static const struct trace_shape usual_shape = {2, 2, 4, false};

static void assert_close(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%.9g is not %.9g +- %g", value, expected, tolerance);
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

/* What is said of a trace: by the report of its record, and by the published figures. */
struct imported {
	struct pipeline *pipeline;
	const struct report_model *model;
	struct trace_figures figures;
};

static void import_and_replay(const char *csv, struct imported *imported)
{
	char record[] = "/tmp/slowrank-import-XXXXXX";
	int fd = mkstemp(record);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(import(csv, record), 0);
	imported->pipeline = replay(record);
	imported->model = pipeline_report(imported->pipeline);
	assert_int_equal(trace_record_figures(record, &imported->figures), 0);
	unlink(record);
}

static void of_job(const struct trace_job *job, struct imported *imported)
{
	char csv[] = "/tmp/slowrank-trace-XXXXXX";
	int fd = mkstemp(csv);

	assert_true(fd >= 0);
	close(fd);
	trace_job_write(job, STEPS, csv);
	import_and_replay(csv, imported);
	unlink(csv);
}

static void imported_fini(struct imported *imported)
{
	pipeline_destroy(imported->pipeline);
	trace_figures_fini(&imported->figures);
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
	struct trace_job job = {.shape = usual_shape};
	struct imported imported;

	(void)state;
	trace_job_fill(&job, 0.100, 0.200);
	job.forward[1][0] *= 1.6; /* rank 1 */
	job.backward[1][0] *= 1.6;
	of_job(&job, &imported);
	const struct report_model *model = imported.model;
	const struct trace_figures *figures = &imported.figures;

	assert_int_equal(figures->steps, STEPS);
	assert_int_equal(figures->steps_left_out, 0);
	assert_close(figures->step_ns / 1e9, trace_job_step_length_s(&job), 1e-4);
	assert_close(figures->step_ns_ideal / 1e9, trace_job_ideal_length_s(&job), 1e-4);
	assert_close(figures->launch_slowdown, 1, 1e-4);
	assert_close(figures->by_replica[1], figures->slowdown, 1e-6); /* the others hide nothing */
	assert_close(figures->by_replica[0], 1, 1e-6);
	assert_true(figures->worst_ranks_share > 0.9);
	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].verdict_class, VERDICT_COMPUTE_SLOW);
	assert_int_equal(model->verdicts[0].rank_count, 1);
	assert_int_equal(model->verdicts[0].ranks[0], 1);
	/* with the time of its peer, not with the mean of all */
	trace_job_fill(&job, 0.100, 0.200);
	double healthy_s = trace_job_step_length_s(&job);

	assert_close(model->totals.slowdown, figures->step_ns / 1e9 / healthy_s, 0.01);
	assert_close(cost_of(model, COST_RANK, 1), figures->step_ns / 1e9 / healthy_s, 0.01);
	assert_close(cost_of(model, COST_PHASE, PHASE_COMPUTE), figures->step_ns / 1e9 / healthy_s,
		0.01);
	for (uint32_t rank = 0; rank < (uint32_t)(job.shape.replicas * job.shape.stages);
		rank += rank ? 1 : 2)
		assert_close(cost_of(model, COST_RANK, rank), 1, 0.01);
	imported_fini(&imported);
}

static void uneven_stages(void **state)
{
	struct trace_job job = {.shape = usual_shape};
	struct imported imported;

	(void)state;
	trace_job_fill(&job, 0.100, 0.200);
	for (int r = 0; r < job.shape.replicas; r++) {
		job.forward[r][1] = 0.160;
		job.backward[r][1] = 0.320;
	}
	of_job(&job, &imported);
	const struct report_model *model = imported.model;

	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].verdict_class, VERDICT_WORKLOAD_IMBALANCE);
	assert_int_equal(model->verdicts[0].cause, CAUSE_STAGE_IMBALANCE);
	assert_int_equal(model->verdicts[0].rank_count, 2);
	assert_int_equal(model->verdicts[0].ranks[0], 2);
	assert_int_equal(model->verdicts[0].ranks[1], 3);
	assert_close(model->verdicts[0].slowdown,
		trace_job_step_length_s(&job) / trace_job_ideal_length_s(&job), 0.02);
	assert_close(cost_of(model, COST_ROLE, model->ranks[2].totals.role),
		trace_job_step_length_s(&job) / trace_job_ideal_length_s(&job), 0.05);
	for (uint32_t rank = 0; rank < (uint32_t)(job.shape.replicas * job.shape.stages); rank++)
		assert_close(cost_of(model, COST_RANK, rank), 1, 0.01);
	assert_true(imported.figures.by_stage[1] > 1.1 && imported.figures.by_stage[0] < 1);
	assert_true(imported.figures.last_stage_share > 0.9);
	imported_fini(&imported);
}

static void uneven_sequences(void **state)
{
	struct trace_job job = {.shape = usual_shape};
	struct imported imported;

	(void)state;
	trace_job_fill(&job, 0.100, 0.200);
	job.unevenness = 0.3;
	of_job(&job, &imported);
	const struct report_model *model = imported.model;

	assert_true(imported.figures.forward_backward_correlation > 0.99);
	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].verdict_class, VERDICT_WORKLOAD_IMBALANCE);
	assert_int_equal(model->verdicts[0].cause, CAUSE_SEQUENCE_IMBALANCE);
	assert_int_equal(model->verdicts[0].rank_count, 0);
	imported_fini(&imported);
}

/* One worker is slow, wherever it is, and in whatever job: S is right, and only it is named. */
static void other_shapes(void **state)
{
	static const struct trace_shape shapes[] = {{1, 4, 3, false}, {2, 3, 5, true},
		{3, 2, 4, false}, {4, 4, 8, false}, {5, 3, 7, true}, {4, 8, 3, false},
		{8, 2, 16, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (int place = 0; place < 3; place++) {
			int replica = place * (shapes[i].replicas - 1) / 2;
			int stage = (2 - place) * (shapes[i].stages - 1) / 2;
			struct trace_job job = {.shape = shapes[i]};
			struct imported imported;

			trace_job_fill(&job, 0.100, 0.200);
			job.forward[replica][stage] *= 1.7;
			job.backward[replica][stage] *= 1.7;
			of_job(&job, &imported);
			const struct report_model *model = imported.model;
			uint32_t rank = (uint32_t)(stage * job.shape.replicas + replica);

			assert_int_equal(imported.figures.steps, STEPS);
			assert_close(imported.figures.step_ns / 1e9, trace_job_step_length_s(&job),
				1e-4);
			assert_close(imported.figures.step_ns_ideal / 1e9,
				trace_job_ideal_length_s(&job), 1e-4);
			assert_close(imported.figures.by_replica[replica],
				imported.figures.slowdown, 0.01);
			assert_int_equal(model->verdict_count, 1);
			assert_int_equal(model->verdicts[0].verdict_class, VERDICT_COMPUTE_SLOW);
			assert_int_equal(model->verdicts[0].rank_count, 1);
			assert_int_equal(model->verdicts[0].ranks[0], rank);
			trace_job_fill(&job, 0.100, 0.200);
			assert_close(cost_of(model, COST_RANK, rank),
				imported.figures.step_ns / 1e9 / trace_job_step_length_s(&job),
				0.02);
			imported_fini(&imported);
		}
	}
}

/* A stage has more work, wherever it is. */
static void other_stages(void **state)
{
	static const struct trace_shape shapes[] = {
		{3, 2, 6, false}, {4, 2, 8, true}, {6, 3, 12, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (int place = 0; place < 3; place++) {
			int stage = place * (shapes[i].stages - 1) / 2;
			struct trace_job job = {.shape = shapes[i]};
			struct imported imported;

			trace_job_fill(&job, 0.100, 0.200);
			for (int r = 0; r < job.shape.replicas; r++) {
				job.forward[r][stage] *= 1.5;
				job.backward[r][stage] *= 1.5;
			}
			of_job(&job, &imported);
			const struct report_model *model = imported.model;

			assert_int_equal(model->verdict_count, 1);
			assert_int_equal(model->verdicts[0].cause, CAUSE_STAGE_IMBALANCE);
			assert_int_equal(model->verdicts[0].rank_count, job.shape.replicas);
			for (int r = 0; r < job.shape.replicas; r++)
				assert_int_equal(model->verdicts[0].ranks[r],
					stage * job.shape.replicas + r);
			imported_fini(&imported);
		}
	}
}

/* Sequences differ in length, in whatever job: nobody is named. */
static void other_sequences(void **state)
{
	static const struct trace_shape shapes[] = {{1, 8, 4, false}, {4, 4, 8, false},
		{4, 2, 4, true}, {2, 6, 12, false}, {8, 4, 16, false}};
	static const double unevenness[] = {0.15, 0.25, 0.5};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (size_t k = 0; k < sizeof(unevenness) / sizeof(unevenness[0]); k++) {
			struct trace_job job = {.shape = shapes[i]};
			struct imported imported;

			trace_job_fill(&job, 0.100, 0.200);
			job.unevenness = unevenness[k];
			of_job(&job, &imported);
			const struct report_model *model = imported.model;

			assert_true(imported.figures.forward_backward_correlation > 0.99);
			assert_int_equal(model->verdict_count, 1);
			assert_int_equal(model->verdicts[0].cause, CAUSE_SEQUENCE_IMBALANCE);
			assert_int_equal(model->verdicts[0].rank_count, 0);
			imported_fini(&imported);
		}
	}
}

static void healthy_shapes(void **state)
{
	static const struct trace_shape shapes[] = {
		{1, 2, 2, false}, {4, 4, 8, false}, {4, 1, 8, true}, {7, 2, 9, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct trace_job job = {.shape = shapes[i]};
		struct imported imported;

		trace_job_fill(&job, 0.100, 0.200);
		job.unevenness = 0.02;
		of_job(&job, &imported);

		assert_int_equal(imported.model->verdict_count, 0);
		assert_true(imported.figures.slowdown < 1.04);
		imported_fini(&imported);
	}
}

static void even_job(void **state)
{
	struct trace_job job = {.shape = usual_shape};
	struct imported imported;

	(void)state;
	trace_job_fill(&job, 0.100, 0.200);
	of_job(&job, &imported);
	const struct report_model *model = imported.model;

	assert_int_equal(model->verdict_count, 0);
	assert_close(imported.figures.slowdown, 1, 1e-4);
	imported_fini(&imported);
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
		struct imported imported;

		snprintf(path, sizeof(path), "%.400s/%s.csv.gz", folder, names[i]);
		import_and_replay(path, &imported);
		check_published(text, names[i], &imported.figures);
		check_verdict(names[i], imported.model);
		imported_fini(&imported);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_worker),
		cmocka_unit_test(uneven_stages),
		cmocka_unit_test(uneven_sequences),
		cmocka_unit_test(even_job),
		cmocka_unit_test(other_shapes),
		cmocka_unit_test(other_stages),
		cmocka_unit_test(other_sequences),
		cmocka_unit_test(healthy_shapes),
		cmocka_unit_test(not_a_trace),
		cmocka_unit_test(published_traces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
