/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator against what can be worked out by hand, and against itself. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/simulator/scenario.h"

#define assert_near(value, expected, error) assert_true(fabs((value) - (expected)) <= (error))

/* No noise at all. */
static void silence(struct sim_options *options)
{
	memset(&options->noise, 0, sizeof(options->noise));
}

static double run(const struct sim_options *options, struct sim_truth *truth)
{
	struct simulator *simulator;
	double end;
	int result;

	assert_int_equal(simulator_create(options, &simulator), 0);
	while ((result = simulator_step(simulator)) > 0)
		;
	assert_int_equal(result, 0);
	assert_int_equal(simulator_step_count(simulator), options->steps);
	simulator_truth(simulator, truth);
	end = simulator_step_end(simulator, options->steps - 1);
	simulator_destroy(simulator);
	return end;
}

/* A rank's work takes longer: so does each step, by just that, where all wait for all. */
static void test_compute_fault_in_data_parallel_job(void **state)
{
	struct sim_options options;
	struct sim_truth truth;
	double healthy, work;

	(void)state;
	sim_options_default(&options, 8, 1);
	silence(&options);
	options.steps = 10;
	healthy = run(&options, &truth) / 10;
	assert_near(healthy / options.program.step_ns, 1, 0.02);
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){
		.kind = SIM_FAULT_COMPUTE, .rank = 3, .last = UINT32_MAX, .size = 0.5};
	run(&options, &truth);
	/* input and optimizer are 6 % of the step whatever the transfers take */
	work = (0.94 * (1 - options.program.transfer_share) + 0.06) * options.program.step_ns;
	assert_near(truth.slowdown[0], 1 + 0.5 * work / healthy, 1e-3);
}

/*
 * Without an imbalance the job has the same work, evenly spread: of 1F1B with a long last stage, a step is
 * m (1 + size) + p - 1 pieces long, and (m + p - 1) (1 + size / p) with even ones.
 */
static void test_imbalance_is_held_against_even_work(void **state)
{
	struct sim_options options;
	struct sim_truth truth;

	(void)state;
	sim_options_default(&options, 4, 1);
	silence(&options);
	options.shape = (struct sim_shape){1, 1, 4, 1, 8};
	options.program.microbatches = 32;
	options.program.transfer_share = 1e-6;
	options.program.step_ns = 10e9; /* what sends take is nothing */
	options.steps = 3;
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){
		.kind = SIM_FAULT_STAGE, .rank = 3, .last = UINT32_MAX, .size = 0.4};
	run(&options, &truth);
	/* input and optimizer, 6 % of the step, are another stage's: that of the longest way */
	assert_near(truth.slowdown[0], (0.94 * (32 * 1.4 + 3) / 35 + 0.06) / 1.1, 0.003);
	/* one replica with one microbatch: nobody to share a long one with */
	options.shape = (struct sim_shape){1, 4, 1, 1, 8};
	options.program.microbatches = 1;
	options.faults[0].kind = SIM_FAULT_SEQUENCE;
	run(&options, &truth);
	assert_near(truth.slowdown[0], 1, 1e-6);
	options.shape = (struct sim_shape){4, 1, 1, 1, 8};
	run(&options, &truth);
	assert_true(truth.slowdown[0] > 1.2);
}

/* The bubble of 1F1B is (p - 1) / m of the work (Narayanan et al.); chunks divide it. */
static void test_pipeline_bubble(void **state)
{
	static const uint32_t chunks[] = {1, 2};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct sim_options options;
		struct simulator *simulator;
		double work, step;

		sim_options_default(&options, 4, 1);
		silence(&options);
		options.shape = (struct sim_shape){1, 1, 4, 1, 8};
		options.program.microbatches = 8;
		options.program.virtual_stages = chunks[i];
		options.program.transfer_share = 1e-6;
		options.program.norm = true;
		options.steps = 3;
		assert_int_equal(simulator_create(&options, &simulator), 0);
		for (int s = 0; s < 3; s++)
			assert_int_equal(simulator_step(simulator), 1);
		step = simulator_step_end(simulator, 2) - simulator_step_end(simulator, 1);
		/* input and optimizer are 6 % of the step, the rest is passes and bubble */
		work = sim_timeline_program(simulator_timeline(simulator), 0)->work_ns -
		       0.06 * options.program.step_ns;
		assert_near((step - 0.06 * options.program.step_ns) / work, 1 + 3.0 / 8 / chunks[i],
			0.02);
		simulator_destroy(simulator);
	}
}

static void check_entries(struct simulator *simulator, struct collective_part *parts)
{
	const struct sim_layout *layout = simulator_layout(simulator);

	for (uint32_t rank = 0; rank < layout->rank_count; rank++) {
		struct step_entry entry;
		int64_t before = 0;

		assert_true(simulator_entry(simulator, rank, &entry, parts));
		assert_true(
			entry.part_count > 0 && entry.part_count <= simulator_parts_max(simulator));
		assert_int_equal(
			entry.comm_ns + entry.compute_ns, entry.end.value - entry.start.value);
		assert_true(entry.comm_ns >= 0 && entry.compute_ns >= 0);
		for (size_t p = 0; p < entry.part_count; p++) {
			assert_true(entry.parts[p].arrival.value >= before);
			assert_true(entry.parts[p].departure.value >= entry.parts[p].arrival.value);
			assert_true(entry.parts[p].communicator_id != 0);
			before = entry.parts[p].arrival.value;
		}
	}
}

/* Every layout runs without a deadlock, and its entries keep what step.h promises. */
static void test_scenarios_run(void **state)
{
	const struct sim_scenario_limits limits = {.ranks_min = 8, .ranks_max = 64};

	(void)state;
	for (int kind = 0; kind < SIM_FAULT_HANG; kind++) {
		for (uint64_t seed = 1; seed <= 12; seed++) {
			struct sim_scenario scenario;
			struct simulator *simulator;
			struct collective_part *parts;

			sim_scenario_draw(&scenario, (enum sim_fault_kind)kind, seed, &limits);
			scenario.options.program.overlap = seed % 2;
			scenario.options.steps = 4;
			assert_int_equal(simulator_create(&scenario.options, &simulator), 0);
			parts = calloc(simulator_parts_max(simulator), sizeof(*parts));
			assert_non_null(parts);
			while (simulator_step_count(simulator) < 4) {
				assert_int_equal(simulator_step(simulator), 1);
				check_entries(simulator, parts);
			}
			free(parts);
			simulator_destroy(simulator);
		}
	}
}

static void test_same_seed_same_job(void **state)
{
	const struct sim_scenario_limits limits = {.ranks_min = 16, .ranks_max = 16, .plain = true};
	struct sim_scenario scenario;
	struct sim_truth one, other;

	(void)state;
	sim_scenario_draw(&scenario, SIM_FAULT_THROTTLE, 5, &limits);
	scenario.options.steps = 50;
	assert_true(run(&scenario.options, &one) == run(&scenario.options, &other));
	assert_memory_equal(&one, &other, sizeof(one));
	scenario.options.seed++;
	run(&scenario.options, &other);
	assert_true(one.step_ns != other.step_ns);
}

/* A rank that hangs holds everyone, and none of its step is told. */
static void test_hang(void **state)
{
	struct sim_options options;
	struct simulator *simulator;

	(void)state;
	sim_options_default(&options, 8, 1);
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){
		.kind = SIM_FAULT_HANG, .rank = 2, .first = 5, .last = UINT32_MAX, .size = 1};
	assert_int_equal(simulator_create(&options, &simulator), 0);
	for (int step = 0; step < 6; step++)
		assert_int_equal(simulator_step(simulator), 1);
	assert_true(simulator_timeline(simulator)->any_stuck);
	for (uint32_t rank = 0; rank < 8; rank++) {
		struct collective_part part;

		assert_true(simulator_timeline(simulator)->stuck[rank]);
		assert_int_equal(simulator_open_part(simulator, rank, &part), rank != 2);
		if (rank != 2)
			assert_true(part.communicator_id && part.arrival.value > 0);
	}
	assert_int_equal(simulator_step(simulator), 0);
	simulator_destroy(simulator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compute_fault_in_data_parallel_job),
		cmocka_unit_test(test_imbalance_is_held_against_even_work),
		cmocka_unit_test(test_pipeline_bubble),
		cmocka_unit_test(test_scenarios_run),
		cmocka_unit_test(test_same_seed_same_job),
		cmocka_unit_test(test_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
