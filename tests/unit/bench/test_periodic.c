/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in every so-many-th step: simulated jobs, through the whole pipeline. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/bench/simulated_job.h"

#define assert_near(value, expected, error) assert_true(fabs((value) - (expected)) <= (error))

struct job {
	struct pipeline *pipeline;
	const struct report_model *model;
	struct sim_truth truth;
};

static struct job judge(const struct sim_options *options)
{
	struct job job;

	job.pipeline = simulated_pipeline(options, 1, &job.truth);
	job.model = pipeline_report(job.pipeline);
	return job;
}

/* Four hosts of four ranks. */
static struct sim_options options_of(uint32_t steps, double step_ms, uint64_t seed)
{
	struct sim_options options;

	sim_options_default(&options, 16, seed);
	options.shape.ranks_per_host = 4;
	options.steps = steps;
	options.program.step_ns = step_ms * 1e6;
	return options;
}

static void add_fault(struct sim_options *options, enum sim_fault_kind kind, uint32_t rank,
	uint32_t every, uint32_t first, double size)
{
	options->faults[options->fault_count++] = (struct sim_fault){.kind = kind,
		.course = every ? SIM_COURSE_EVERY : SIM_COURSE_CONSTANT,
		.rank = rank,
		.every = every,
		.first = first,
		.last = UINT32_MAX,
		.size = size};
}

static void assert_one(
	const struct job *job, uint32_t rank, uint32_t every, enum verdict_class class)
{
	const struct verdict *verdict = job->model->verdicts;

	assert_int_equal(job->model->verdict_count, 1);
	assert_int_equal(verdict->rank_count, 1);
	assert_int_equal(verdict->ranks[0], rank);
	assert_int_equal(verdict->verdict_class, class);
	assert_int_equal(verdict->period.steps, every);
}

/* Small ones, of less than one percent of the time in all. */
static void test_ranks(void **state)
{
	static const struct {
		enum sim_fault_kind kind;
		uint32_t every, steps;
		double step_ms, size;
		enum cause cause;
	} cases[] = {
		{SIM_FAULT_COMPUTE, 7, 300, 40, 0.05, CAUSE_UNKNOWN},
		{SIM_FAULT_BLOCK_IO, 7, 300, 40, 0.05, CAUSE_BLOCK_IO},
		{SIM_FAULT_MINOR, 13, 400, 60, 0.08, CAUSE_MINOR_PAGE_FAULT},
		{SIM_FAULT_INPUT, 4, 200, 400, 0.05, CAUSE_UNKNOWN},
		{SIM_FAULT_BLOCK_IO, 30, 400, 250, 0.2, CAUSE_BLOCK_IO},
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct sim_options options = options_of(cases[c].steps, cases[c].step_ms, 11 + c);
		struct job job;
		const struct verdict *verdict;

		add_fault(&options, cases[c].kind, 5, cases[c].every, 90, cases[c].size);
		job = judge(&options);
		assert_one(&job, 5, cases[c].every, sim_fault_class(cases[c].kind));
		verdict = job.model->verdicts;
		assert_int_equal(verdict->cause, cases[c].cause);
		assert_int_equal(verdict->first_step, 90);
		assert_false(verdict->ended);
		assert_near(verdict->period.slowdown, job.truth.slowdown[0],
			0.2 * (job.truth.slowdown[0] - 1));
		assert_near(verdict->slowdown, 1 + (job.truth.slowdown[0] - 1) / cases[c].every,
			0.25 * (job.truth.slowdown[0] - 1) / cases[c].every);
		pipeline_destroy(job.pipeline);
	}
}

static void test_transfers(void **state)
{
	struct sim_options options = options_of(400, 40, 21);
	struct job job;

	(void)state;
	add_fault(&options, SIM_FAULT_LINK, 6, 7, 150, 0.08);
	job = judge(&options);
	assert_one(&job, 6, 7, VERDICT_COMM_SLOW);
	assert_int_equal(job.model->verdicts[0].first_step, 150);
	assert_near(job.model->verdicts[0].period.slowdown, job.truth.slowdown[0], 0.03);
	pipeline_destroy(job.pipeline);
}

/*
 * Samples of sockets do not reach back to before the onset when a period of long steps is found: what tells is
 * that they are busier in these steps than in others.
 */
static void test_transfers_of_long_steps(void **state)
{
	static const struct {
		enum sim_fault_kind kind;
		double step_ms, size;
		uint32_t rank, count;
		enum cause cause;
	} cases[] = {
		{SIM_FAULT_LINK, 6000, 0.15, 6, 1, CAUSE_NIC_LINK},
		{SIM_FAULT_LINK, 1500, 0.3, 6, 1, CAUSE_NIC_LINK},
		{SIM_FAULT_NIC, 6000, 0.2, 4, 4, CAUSE_NIC_LINK},
		{SIM_FAULT_CONGESTION, 6000, 0.2, 0, 0, CAUSE_PATH_CONGESTION},
		{SIM_FAULT_CONGESTION, 1500, 4, 0, 0, CAUSE_PATH_CONGESTION},
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct sim_options options = options_of(120, cases[c].step_ms, 25 + c);
		struct job job;
		const struct verdict *verdict;

		add_fault(&options, cases[c].kind, cases[c].rank, 7, 55, cases[c].size);
		job = judge(&options);
		assert_int_equal(job.model->verdict_count, 1);
		verdict = job.model->verdicts;
		assert_int_equal(verdict->verdict_class, VERDICT_COMM_SLOW);
		assert_int_equal(verdict->cause, cases[c].cause);
		assert_int_equal(verdict->period.steps, 7);
		assert_int_equal(verdict->first_step, 55);
		assert_int_equal(verdict->rank_count, cases[c].count);
		for (uint32_t i = 0; i < cases[c].count; i++)
			assert_int_equal(verdict->ranks[i], cases[c].rank + i);
		pipeline_destroy(job.pipeline);
	}
}

/* What is told at once, for it is large, is seen to have a period later; what has none is said to have none. */
static void test_large_ones_and_constant_ones(void **state)
{
	struct sim_options options = options_of(300, 40, 31);
	struct job job;

	(void)state;
	add_fault(&options, SIM_FAULT_COMPUTE, 3, 5, 90, 1.5);
	job = judge(&options);
	assert_one(&job, 3, 5, VERDICT_COMPUTE_SLOW);
	assert_near(job.model->verdicts[0].period.slowdown, job.truth.slowdown[0],
		0.03 * job.truth.slowdown[0]);
	pipeline_destroy(job.pipeline);

	options = options_of(300, 40, 32);
	add_fault(&options, SIM_FAULT_COMPUTE, 3, 0, 90, 0.3);
	job = judge(&options);
	assert_one(&job, 3, 0, VERDICT_COMPUTE_SLOW);
	assert_true(job.model->verdicts[0].period.slowdown <= 0);
	pipeline_destroy(job.pipeline);
}

/* It ends, or it is in all steps in the end. */
static void test_changes(void **state)
{
	struct sim_options options = options_of(500, 40, 41);
	struct job job;

	(void)state;
	add_fault(&options, SIM_FAULT_BLOCK_IO, 9, 7, 90, 0.1);
	options.faults[0].last = 300;
	job = judge(&options);
	assert_one(&job, 9, 7, VERDICT_HOST_SLOW);
	assert_true(job.model->verdicts[0].ended);
	assert_near((double)job.model->verdicts[0].last_step, 300, 10);
	pipeline_destroy(job.pipeline);

	options.faults[0].last = UINT32_MAX;
	add_fault(&options, SIM_FAULT_BLOCK_IO, 9, 0, 300, 0.1);
	job = judge(&options);
	assert_one(&job, 9, 0, VERDICT_HOST_SLOW);
	assert_false(job.model->verdicts[0].ended);
	pipeline_destroy(job.pipeline);
}

/*
 * From the first step on, one rank saves or prints something: told only where it costs, as of any rank
 * that is unlike its peers from the start.
 */
static void test_from_the_start(void **state)
{
	struct sim_options options = options_of(400, 40, 51);
	struct job job;

	(void)state;
	add_fault(&options, SIM_FAULT_BLOCK_IO, 0, 10, 0, 0.08);
	job = judge(&options);
	assert_int_equal(job.model->verdict_count, 0);
	pipeline_destroy(job.pipeline);

	options.faults[0].size = 0.5;
	job = judge(&options);
	assert_one(&job, 0, 10, VERDICT_HOST_SLOW);
	pipeline_destroy(job.pipeline);

	/* A checkpoint of 5 s, or of a second, every 50 steps of a second. */
	options = options_of(400, 1000, 52);
	add_fault(&options, SIM_FAULT_BLOCK_IO, 0, 50, 0, 5);
	job = judge(&options);
	assert_one(&job, 0, 50, VERDICT_HOST_SLOW);
	assert_near(job.model->verdicts[0].slowdown, 1.09, 0.02);
	assert_near(job.model->verdicts[0].period.slowdown, job.truth.slowdown[0], 0.3);
	pipeline_destroy(job.pipeline);

	options.faults[0].size = 0.9;
	job = judge(&options);
	assert_int_equal(job.model->verdict_count, 0);
	pipeline_destroy(job.pipeline);
}

/* Of one rank it is told; where each has it, in steps of its own, that is how the program is. */
static void test_all_ranks(void **state)
{
	struct sim_options options;
	struct job job;

	(void)state;
	sim_options_default(&options, SIM_FAULTS_MAX, 61);
	options.steps = 400;
	add_fault(&options, SIM_FAULT_BLOCK_IO, 0, 16, 90, 0.08);
	job = judge(&options);
	assert_one(&job, 0, 16, VERDICT_HOST_SLOW);
	pipeline_destroy(job.pipeline);

	for (uint32_t rank = 1; rank < SIM_FAULTS_MAX; rank++)
		add_fault(&options, SIM_FAULT_BLOCK_IO, rank, 16, 90 + 2 * rank, 0.08);
	job = judge(&options);
	assert_int_equal(job.model->verdict_count, 0);
	pipeline_destroy(job.pipeline);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_transfers),
		cmocka_unit_test(test_transfers_of_long_steps),
		cmocka_unit_test(test_large_ones_and_constant_ones),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_from_the_start),
		cmocka_unit_test(test_all_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
