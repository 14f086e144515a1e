/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job steps of many layouts: one for each step of the job, with every instance whole, though
 * no communicator has all ranks and hosts' clocks differ by more than a step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/bench/simulated_job.h"

enum { STEPS = 60 };

static void assert_steps(const struct sim_options *options, uint64_t seed)
{
	struct pipeline *pipeline;
	const struct report_model *model;

	pipeline = simulated_pipeline(options, seed, NULL);
	model = pipeline_report(pipeline);
	assert_in_range(model->totals.steps, STEPS - 1, STEPS + 1);
	/* What is left after the last cut may be a piece of a step; before the clocks fit, so may the first. */
	if (options->lost_share <= 0)
		assert_in_range(model->totals.steps_incomplete, 0, 2);
	pipeline_destroy(pipeline);
}

static void whole_steps_in_every_layout(void **state)
{
	static const struct sim_shape shapes[] = {{16, 1, 1, 1, 4}, {8, 4, 1, 1, 8},
		{4, 2, 4, 1, 8}, {2, 8, 4, 1, 8}, {16, 1, 2, 8, 4}};

	(void)state;
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		for (unsigned norm = 0; norm < 2; norm++) {
			struct sim_options options;

			sim_options_default(&options, shapes[s].data, 11 + s);
			options.shape = shapes[s];
			options.program.step_ns = 10e6;
			options.program.microbatches = 2 * shapes[s].pipeline;
			options.program.norm = norm;
			options.clock_offset_ns = 50e6;
			options.steps = STEPS;
			assert_steps(&options, s);
		}
	}
}

/* A rank has lost its part of a collective that only checkpoints make: nobody waits for the next one. */
static void rare_collectives_lost(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct sim_options options;

		sim_options_default(&options, 64, seed);
		options.shape.expert = 8;
		options.steps = STEPS;
		options.irregular_every = 25;
		options.program.norm = false;
		options.lost_share = 0.02;
		assert_steps(&options, seed);
	}
}

/* Its data parallel group leaves so much later that the others' own places are nearer to its cut a step on. */
static void whole_steps_when_a_link_became_slow(void **state)
{
	(void)state;
	for (unsigned rank = 0; rank < 4; rank++) {
		struct sim_options options;

		sim_options_default(&options, 8, 3);
		options.shape = (struct sim_shape){4, 2, 1, 1, 2};
		options.program.step_ns = 1e9;
		options.sample_every = rank % 2 ? 4 : 1;
		options.steps = STEPS;
		options.fault_count = 1;
		options.faults[0] = (struct sim_fault){.kind = SIM_FAULT_LINK,
			.rank = rank,
			.first = 25,
			.last = STEPS - 1,
			.size = rank < 2 ? 1.3 : 3};
		assert_steps(&options, rank);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_steps_in_every_layout),
		cmocka_unit_test(rare_collectives_lost),
		cmocka_unit_test(whole_steps_when_a_link_became_slow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
