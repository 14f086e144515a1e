/* SPDX-License-Identifier: Apache-2.0 */
/* Slow links that move while the job stays slow: simulated jobs, through the whole pipeline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/bench/simulated_job.h"

enum { RANKS = 32, RANKS_PER_HOST = 4, FIRST = 60 };

static struct sim_options options_of(uint32_t steps, double step_ms)
{
	struct sim_options options;

	sim_options_default(&options, RANKS, 17);
	options.shape.ranks_per_host = RANKS_PER_HOST;
	options.steps = steps;
	options.program.step_ns = step_ms * 1e6;
	return options;
}

static void add_fault(struct sim_options *options, enum sim_fault_kind kind, uint32_t rank,
	uint32_t first, uint32_t last, double size)
{
	options->faults[options->fault_count++] = (struct sim_fault){.kind = kind,
		.rank = rank,
		.other = (rank + RANKS_PER_HOST) % RANKS,
		.first = first,
		.last = last,
		.size = size};
}

static void assert_names(const struct verdict *verdict, uint32_t first, uint32_t count)
{
	assert_int_equal(verdict->verdict_class, VERDICT_COMM_SLOW);
	assert_int_equal(verdict->rank_count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(verdict->ranks[i], first + i);
}

/* Each place has a verdict of its own, with its steps and what it cost. */
static void each_place_has_a_verdict(void **state)
{
	static const struct {
		enum sim_fault_kind kind;
		uint32_t steps, from, to, ranks, moved;
		double step_ms, from_size, to_size;
	} cases[] = {
		{SIM_FAULT_LINK, 400, 5, 22, 1, 200, 40, 0.3, 0.3},
		{SIM_FAULT_LINK, 120, 5, 6, 1, 90, 1500, 0.2, 0.2},
		{SIM_FAULT_LINK, 400, 5, 22, 1, 200, 40, 0.15, 0.6},
		{SIM_FAULT_NIC, 200, 4, 24, RANKS_PER_HOST, 120, 150, 0.2, 0.2},
		{SIM_FAULT_NODE_PAIR, 200, 0, 16, 2 * RANKS_PER_HOST, 120, 150, 0.3, 0.3},
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct sim_options options = options_of(cases[c].steps, cases[c].step_ms);
		struct pipeline *pipeline;
		const struct report_model *model;
		/* Where steps are short, what a sample a second tells. */
		uint64_t near =
			cases[c].step_ms < 1000 ? 1 + (uint64_t)(300 / cases[c].step_ms) : 1;

		add_fault(&options, cases[c].kind, cases[c].from, FIRST, cases[c].moved - 1,
			cases[c].from_size);
		add_fault(&options, cases[c].kind, cases[c].to, cases[c].moved, UINT32_MAX,
			cases[c].to_size);
		pipeline = simulated_pipeline(&options, 1, NULL);
		model = pipeline_report(pipeline);
		assert_int_equal(model->verdict_count, 2);

		const struct verdict *from = &model->verdicts[0], *to = &model->verdicts[1];

		assert_names(from, cases[c].from, cases[c].ranks);
		assert_names(to, cases[c].to, cases[c].ranks);
		assert_int_equal(from->first_step, FIRST);
		assert_true(from->ended);
		assert_int_equal(from->last_step, to->first_step - 1);
		assert_true(to->first_step + near >= cases[c].moved &&
			    to->first_step <= cases[c].moved + near);
		assert_false(to->ended);
		pipeline_destroy(pipeline);
	}
}

/* Two at once are not one that moves, nor is one that comes in addition. */
static void several_do_not_move(void **state)
{
	struct sim_options options = options_of(400, 40);
	struct pipeline *pipeline;
	const struct report_model *model;

	(void)state;
	add_fault(&options, SIM_FAULT_LINK, 5, FIRST, UINT32_MAX, 0.3);
	add_fault(&options, SIM_FAULT_LINK, 22, 150, UINT32_MAX, 0.3);
	pipeline = simulated_pipeline(&options, 1, NULL);
	model = pipeline_report(pipeline);
	assert_int_equal(model->verdict_count, 1);
	assert_int_equal(model->verdicts[0].rank_count, 2);
	assert_true(verdict_names(&model->verdicts[0], 5));
	assert_true(verdict_names(&model->verdicts[0], 22));
	assert_false(model->verdicts[0].ended);
	pipeline_destroy(pipeline);
}

/* What was told stays when what sockets did before is older than their samples. */
static void a_pair_stays_one(void **state)
{
	struct sim_options options = options_of(200, 400);
	struct pipeline *pipeline;
	const struct report_model *model;

	(void)state;
	add_fault(&options, SIM_FAULT_NODE_PAIR, 12, FIRST, UINT32_MAX, 0.13);
	pipeline = simulated_pipeline(&options, 1, NULL);
	model = pipeline_report(pipeline);
	assert_int_equal(model->verdict_count, 1);
	assert_names(&model->verdicts[0], 12, 2 * RANKS_PER_HOST);
	assert_int_equal(model->verdicts[0].cause, CAUSE_PATH_CONGESTION);
	pipeline_destroy(pipeline);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_place_has_a_verdict),
		cmocka_unit_test(several_do_not_move),
		cmocka_unit_test(a_pair_stays_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
