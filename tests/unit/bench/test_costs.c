/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks, nodes, links, roles and phases are said to cost, against the same simulated job without
 * the fault. Whole jobs, through the whole pipeline.
 */
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

/* What the job does when nobody looks. */
static void simulate_only(const struct sim_options *options, struct sim_truth *truth)
{
	struct simulator *simulator;

	assert_int_equal(simulator_create(options, &simulator), 0);
	while (simulator_step(simulator) == 1)
		;
	simulator_truth(simulator, truth);
	simulator_destroy(simulator);
}

struct job {
	struct pipeline *pipeline;
	const struct report_model *model;
	double slowdown; /* the job with its faults, of the job without */
};

static struct job judge(struct sim_options options)
{
	struct job job;
	struct sim_truth with, without;

	job.pipeline = simulated_pipeline(&options, 1, &with);
	options.fault_count = 0;
	simulate_only(&options, &without);
	job.model = pipeline_report(job.pipeline);
	job.slowdown = with.step_ns / without.step_ns;
	return job;
}

/* Four hosts of eight ranks; pipeline: a stage on each. */
static struct sim_options options_of(bool pipeline)
{
	struct sim_options options;

	sim_options_default(&options, 32, 4711);
	options.steps = 200;
	if (pipeline) {
		options.shape.pipeline = 4;
		options.shape.data = 8;
		options.program.microbatches = 8;
		options.program.layers = 1;
	}
	return options;
}

static void add_fault(struct sim_options *options, enum sim_fault_kind kind, uint32_t rank,
	uint32_t other, uint32_t first, double size)
{
	options->faults[options->fault_count++] = (struct sim_fault){.kind = kind,
		.rank = rank,
		.other = other,
		.first = first,
		.last = UINT32_MAX,
		.size = size};
}

/* How much slower the job is said to be for it; 1 where it is not told of. */
static double slowdown_of(const struct report_model *model, enum cost_of of, uint32_t number)
{
	for (size_t i = 0; i < model->cost_count; i++) {
		if (model->costs[i].of == of && model->costs[i].number == number)
			return model->costs[i].slowdown;
	}
	return 1;
}

/* The dearest of all others of a kind. */
static double other_than(const struct report_model *model, enum cost_of of, uint32_t number)
{
	double most = 1;

	for (size_t i = 0; i < model->cost_count; i++) {
		if (model->costs[i].of == of && model->costs[i].number != number)
			most = fmax(most, model->costs[i].slowdown);
	}
	return most;
}

static void test_slow_rank(void **state)
{
	static const enum sim_fault_kind kinds[] = {SIM_FAULT_COMPUTE, SIM_FAULT_THROTTLE};

	(void)state;
	for (int layout = 0; layout < 2; layout++) {
		for (int k = 0; k < 2; k++) {
			struct sim_options options = options_of(layout == 1);

			add_fault(&options, kinds[k], 11, 0, 0, 0.5);
			struct job job = judge(options);
			uint32_t phase = k == 0 ? PHASE_COMPUTE : PHASE_HOST;

			assert_true(job.slowdown > 1.15);
			assert_near(slowdown_of(job.model, COST_RANK, 11), job.slowdown, 0.03);
			assert_true(other_than(job.model, COST_RANK, 11) < 1.02);
			/* a node goes by its first rank */
			assert_near(slowdown_of(job.model, COST_NODE, 8), job.slowdown, 0.03);
			assert_true(other_than(job.model, COST_NODE, 8) < 1.02);
			assert_near(slowdown_of(job.model, COST_PHASE, phase), job.slowdown, 0.03);
			assert_true(other_than(job.model, COST_PHASE, phase) < 1.03);
			assert_true(job.model->costs[0].share > 0.9);
			pipeline_destroy(job.pipeline);
		}
	}
}

/* Either rank of the node healed, the other one still holds all up. */
static void test_slow_node(void **state)
{
	struct sim_options options = options_of(false);

	(void)state;
	add_fault(&options, SIM_FAULT_COMPUTE, 17, 0, 0, 0.4);
	add_fault(&options, SIM_FAULT_COMPUTE, 22, 0, 0, 0.4);
	struct job job = judge(options);

	assert_near(slowdown_of(job.model, COST_NODE, 16), job.slowdown, 0.03);
	assert_true(other_than(job.model, COST_NODE, 16) < 1.02);
	assert_true(slowdown_of(job.model, COST_RANK, 17) < 1.02);
	assert_true(slowdown_of(job.model, COST_RANK, 22) < 1.02);
	pipeline_destroy(job.pipeline);
}

static void test_slow_link(void **state)
{
	struct sim_options options = options_of(true);
	double link = 1;

	(void)state;
	add_fault(&options, SIM_FAULT_NODE_PAIR, 8, 16, 80, 4);
	struct job job = judge(options);

	for (size_t i = 0; i < job.model->cost_count; i++) {
		const struct job_cost *cost = &job.model->costs[i];

		if (cost->of != COST_LINK)
			continue;
		if (cost->node_count == 2 && cost->number / 8 == 1 && cost->other / 8 == 2)
			link = cost->slowdown;
		else
			assert_true(cost->slowdown < 1.02);
	}
	assert_true(job.slowdown > 1.1);
	assert_near(link, job.slowdown, 0.05);
	assert_near(slowdown_of(job.model, COST_PHASE, PHASE_COMM_TRANSFER), job.slowdown, 0.05);
	assert_true(other_than(job.model, COST_RANK, UINT32_MAX) < 1.02);
	/* and the verdict names the path, not two ports */
	assert_int_equal(job.model->verdict_count, 1);
	assert_int_equal(job.model->verdicts[0].cause, CAUSE_PATH_CONGESTION);
	assert_non_null(strstr(
		job.model->verdicts[0].evidence[0].detail, "between the nodes of ranks 8 and 16"));
	pipeline_destroy(job.pipeline);
}

/* Of many ranks some have always lost a part, often the one in which they waited for the slow link. */
static void test_slow_link_parts_lost(void **state)
{
	struct sim_options options;
	struct job job;

	(void)state;
	sim_options_default(&options, 128, 4711);
	options.steps = 150;
	options.shape.tensor = 4;
	options.shape.data = 32;
	options.lost_share = 0.0005;
	add_fault(&options, SIM_FAULT_LINK, 41, 0, 60, 2);
	job = judge(options);
	assert_near(slowdown_of(job.model, COST_PHASE, PHASE_COMM_TRANSFER), job.slowdown,
		0.07 * job.slowdown);
	pipeline_destroy(job.pipeline);
}

/* Three of four calls of tensor parallel groups are not seen. What other groups do in these costs what it did. */
static void test_slow_rank_calls_not_seen(void **state)
{
	struct sim_options options;
	struct job job;

	(void)state;
	sim_options_default(&options, 256, 4711);
	options.steps = 120;
	options.shape.tensor = 8;
	options.shape.data = 32;
	options.sample_every = 4;
	options.program.transfer_share = 0.2;
	options.noise.transfer = 0.25;
	options.noise.transfer_tail = 0.002;
	add_fault(&options, SIM_FAULT_COMPUTE, 41, 0, 0, 0.5);
	job = judge(options);
	assert_near(slowdown_of(job.model, COST_RANK, 41), job.slowdown, 0.02 * job.slowdown);
	pipeline_destroy(job.pipeline);
}

/* By device times: one fault, in a job of this shape; its verdict against the same job without it. */
static void check_on_devices(
	struct sim_options options, enum sim_fault_kind kind, double size, double error)
{
	const struct report_model *model;
	struct pipeline *pipeline;
	struct sim_truth truth;

	options.device_time = true;
	add_fault(&options, kind, 11, 0, 80, size);
	pipeline = simulated_pipeline(&options, 1, &truth);
	model = pipeline_report(pipeline);
	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].verdict_class, sim_fault_class(kind));
	assert_true(truth.slowdown[0] > 1.3);
	assert_near(model->verdicts[0].slowdown / truth.slowdown[0], 1, error);
	if (kind == SIM_FAULT_COMPUTE) {
		assert_int_equal(model->verdicts[0].rank_count, 1);
		assert_int_equal(model->verdicts[0].ranks[0], 11);
	}
	pipeline_destroy(pipeline);
}

/*
 * On devices nothing shows where the work waits. What was learnt of it must not follow a slow link or rank, and
 * what is queued behind others must not count as work.
 */
static void test_devices(void **state)
{
	struct sim_options data = options_of(false), sharded = data, pipeline = options_of(true),
			   tensor, grouped, sampled, lossy;

	(void)state;
	data.program.buckets = 16;
	sharded.program.sharded = true;
	sharded.program.layers = 4;
	tensor = data;
	tensor.shape.tensor = 2;
	tensor.shape.data = 16;
	grouped = sampled = tensor;
	grouped.program.buckets = 4;
	tensor.program.overlap = true;
	/* what a rank waits for its peer in calls that are not seen is not its own */
	sampled.sample_every = 4;
	lossy = pipeline;
	lossy.lost_share = 0.0005;
	for (int k = 0; k < 2; k++) {
		enum sim_fault_kind kind = k ? SIM_FAULT_COMPUTE : SIM_FAULT_NIC;

		check_on_devices(data, kind, 1.5, 0.05);
		check_on_devices(sharded, kind, 1.5, 0.05);
		check_on_devices(tensor, kind, 1.5, 0.05);
		check_on_devices(pipeline, kind, 4, 0.05);
		check_on_devices(lossy, kind, 4, 0.05);
	}
	check_on_devices(sampled, SIM_FAULT_COMPUTE, 0.4, 0.05);
	sampled.program.overlap = true;
	check_on_devices(sampled, SIM_FAULT_COMPUTE, 1.5, 0.25);
	/* the slow group's gradients are there half a step and more after those of the other one */
	check_on_devices(grouped, SIM_FAULT_LINK, 1.5, 0.05);
}

static void test_uneven_stage(void **state)
{
	struct sim_options options = options_of(true);

	(void)state;
	add_fault(&options, SIM_FAULT_STAGE, 16, 0, 0, 0.6);
	struct job job = judge(options);
	uint32_t role = job.model->ranks[16].totals.role;

	/* without means with the mean of all stages, so with a part of what was added */
	assert_true(job.slowdown > 1.3);
	assert_near(slowdown_of(job.model, COST_ROLE, role), 1 + 0.75 * (job.slowdown - 1), 0.08);
	assert_true(other_than(job.model, COST_ROLE, role) < 1.03);
	assert_true(other_than(job.model, COST_RANK, UINT32_MAX) < 1.02);
	pipeline_destroy(job.pipeline);
}

/* One imbalance, in a job of this shape: what its verdict says against the same work, evenly spread. */
static void check_imbalance(
	struct sim_options options, enum sim_fault_kind kind, double size, double error)
{
	const struct report_model *model;
	struct pipeline *pipeline;
	struct sim_truth truth;

	add_fault(&options, kind, 16, 0, 0, size);
	pipeline = simulated_pipeline(&options, 1, &truth);
	model = pipeline_report(pipeline);
	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].verdict_class, VERDICT_WORKLOAD_IMBALANCE);
	assert_int_equal(model->verdicts[0].cause, sim_fault_cause(kind));
	assert_true(truth.slowdown[0] > 1.05);
	assert_near(model->verdicts[0].slowdown / truth.slowdown[0], 1, error);
	pipeline_destroy(pipeline);
}

static void test_imbalance(void **state)
{
	struct sim_options data = options_of(false), pipeline = options_of(true), sharded = data,
			   interleaved = pipeline, beside = data;

	(void)state;
	sharded.program.sharded = true;
	beside.program.overlap = beside.device_time = true;
	beside.program.buckets = 8;
	interleaved.program.virtual_stages = 2;
	check_imbalance(data, SIM_FAULT_SEQUENCE, 0.3, 0.02);
	check_imbalance(sharded, SIM_FAULT_SEQUENCE, 0.3, 0.02);
	/* what lies beside reductions is a bound */
	check_imbalance(beside, SIM_FAULT_SEQUENCE, 0.3, 0.25);
	check_imbalance(pipeline, SIM_FAULT_SEQUENCE, 0.4, 0.02);
	check_imbalance(interleaved, SIM_FAULT_SEQUENCE, 0.4, 0.02);
	check_imbalance(pipeline, SIM_FAULT_STAGE, 0.4, 0.02);
	check_imbalance(interleaved, SIM_FAULT_STAGE, 0.4, 0.02);
	pipeline.lost_share = 0.0005;
	check_imbalance(pipeline, SIM_FAULT_STAGE, 0.4, 0.02);
}

/* More ranks than a verdict lists, some of which lack a part in most steps: one verdict, and what all of them cost. */
static void test_many_uneven_experts(void **state)
{
	struct sim_options options = options_of(false);
	const struct verdict *verdict = NULL;
	const struct report_model *model;
	struct pipeline *pipeline;
	struct sim_truth truth;

	(void)state;
	options.shape.data = 1024;
	options.shape.tensor = 1;
	options.shape.expert = 8;
	options.steps = 60;
	options.program.step_ns = 150e6;
	options.lost_share = 0.0005;
	add_fault(&options, SIM_FAULT_EXPERTS, 4, 0, 0, 1);
	pipeline = simulated_pipeline(&options, 1, &truth);
	model = pipeline_report(pipeline);
	for (size_t i = 0; i < model->verdict_count; i++) {
		if (model->verdicts[i].cause != CAUSE_UNKNOWN)
			continue;
		assert_null(verdict);
		verdict = &model->verdicts[i];
	}
	assert_non_null(verdict);
	assert_int_equal(verdict->verdict_class, VERDICT_WORKLOAD_IMBALANCE);
	assert_int_equal(verdict->rank_count + verdict->more_ranks, 1024 / 8);
	assert_true(truth.slowdown[0] > 1.1);
	assert_near(verdict->slowdown / truth.slowdown[0], 1, 0.03);
	pipeline_destroy(pipeline);
}

static void test_healthy(void **state)
{
	(void)state;
	for (int layout = 0; layout < 2; layout++) {
		struct job job = judge(options_of(layout == 1));

		for (size_t i = 0; i < job.model->cost_count; i++) {
			assert_int_equal(job.model->costs[i].of, COST_PHASE);
			assert_true(job.model->costs[i].slowdown < 1.05);
		}
		pipeline_destroy(job.pipeline);
	}
}

/* Of more than 64 ranks, only some steps are replayed. */
static void test_many_ranks(void **state)
{
	struct sim_options options;

	(void)state;
	sim_options_default(&options, 256, 12);
	options.steps = 200;
	add_fault(&options, SIM_FAULT_COMPUTE, 99, 0, 50, 0.5);
	struct job job = judge(options);

	assert_near(slowdown_of(job.model, COST_RANK, 99), job.slowdown, 0.03);
	assert_true(other_than(job.model, COST_RANK, 99) < 1.02);
	pipeline_destroy(job.pipeline);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_rank),
		cmocka_unit_test(test_slow_node),
		cmocka_unit_test(test_slow_link),
		cmocka_unit_test(test_slow_rank_calls_not_seen),
		cmocka_unit_test(test_slow_link_parts_lost),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_uneven_stage),
		cmocka_unit_test(test_imbalance),
		cmocka_unit_test(test_many_uneven_experts),
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_many_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
