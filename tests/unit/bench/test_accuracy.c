/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short form of bench_accuracy: few and small jobs, and only what holds already for all of
 * them. Baselines must find what they were published to find.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/score.h"
#include "tests/unit/seeds.h"

static const struct sim_scenario_limits limits = {.ranks_min = 8, .ranks_max = 16, .plain = true};

static void score(struct sim_scenario *scenario, uint64_t seed, struct outcome *outcome)
{
	assert_int_equal(score_job(scenario, seed, true, outcome), 0);
}

/* No job without a fault gets an alarm, whatever its layout and noise. */
static void test_healthy_jobs_are_left_alone(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(12); seed++) {
		struct sim_scenario scenario;
		struct outcome outcome;

		sim_scenario_draw(&scenario, SIM_FAULT_NR, seed, &limits);
		if (scenario.options.steps > 600)
			scenario.options.steps = 600;
		score(&scenario, seed, &outcome);
		assert_int_equal(outcome.alerts, 0);
		assert_true(outcome.rank_right && !outcome.detected);
	}
}

static void draw_plain(struct sim_scenario *scenario, enum sim_fault_kind kind, uint64_t seed)
{
	sim_scenario_draw(scenario, kind, seed, &limits);
	sim_options_default(&scenario->options, 16, seed);
	scenario->family = SIM_FAMILY_DATA;
	scenario->options.steps = 150;
	scenario->options.program.step_ns = 60e6;
	scenario->options.fault_count = 1;
	scenario->options.faults[0] = (struct sim_fault){
		.kind = kind, .rank = (uint32_t)seed % 16, .first = 70, .last = 149, .size = 1};
}

/* Data parallel, the rank's work takes twice as long: named, with its class, cost and onset. */
static void test_slow_rank_is_named(void **state)
{
	static const enum sim_fault_kind kinds[] = {SIM_FAULT_COMPUTE, SIM_FAULT_CONTENTION,
		SIM_FAULT_MAJOR, SIM_FAULT_MINOR, SIM_FAULT_LINK};

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (uint64_t seed = 1; seed <= SEEDS_OF(3); seed++) {
			struct sim_scenario scenario;
			struct outcome outcome;

			draw_plain(&scenario, kinds[k], seed);
			score(&scenario, seed, &outcome);
			assert_true(outcome.slowdown > 1.5);
			assert_true(outcome.rank_right && outcome.class_right);
			assert_true(outcome.cause_right);
			assert_int_equal(outcome.blamed_healthy, 0);
			assert_true(outcome.slowdown_error < 0.1);
			assert_true(outcome.onset_error_steps <= 3);
		}
	}
}

/*
 * Threads of the ranks move their data. Who is kept from running holds transfers that nobody comes late to: named, and not
 * whoever's sockets are busy meanwhile; a slow link is told as before.
 */
static void check_holds(bool launchers_poll)
{
	static const enum sim_fault_kind kinds[] = {SIM_FAULT_THROTTLE, SIM_FAULT_NIC};
	static const uint32_t ranks[] = {16, 64, 512};

	for (size_t k = 0; k < 6; k++) {
		struct sim_scenario scenario;
		struct outcome outcome;

		draw_plain(&scenario, kinds[k % 2], 31 + k);
		sim_options_default(&scenario.options, ranks[k / 2], 31 + k);
		scenario.options.device_time = scenario.options.polls = true;
		scenario.options.launchers_poll = launchers_poll;
		scenario.options.steps = 220;
		scenario.options.program.step_ns = 60e6;
		scenario.options.fault_count = 1;
		scenario.options.faults[0] = (struct sim_fault){
			.kind = kinds[k % 2], .rank = 5, .first = 130, .last = 219, .size = 1};
		score(&scenario, 31 + k, &outcome);
		assert_true(outcome.slowdown > 1.5);
		assert_true(outcome.rank_right && outcome.class_right && outcome.cause_right);
		assert_int_equal(outcome.blamed_healthy, 0);
		assert_true(outcome.slowdown_error < 0.1);
	}
}

static void test_rank_that_holds_transfers_is_named(void **state)
{
	(void)state;
	check_holds(false);
	check_holds(
		true); /* how much a process runs says little then, how much its other threads do as much as ever */
}

/* A slow-down by a third is told within three steps or a second, whichever is later. */
static void test_alerts_come_soon(void **state)
{
	enum { KINDS = 6 };
	static const enum sim_fault_kind kinds[KINDS] = {SIM_FAULT_COMPUTE, SIM_FAULT_CONTENTION,
		SIM_FAULT_BLOCK_IO, SIM_FAULT_INPUT, SIM_FAULT_LINK, SIM_FAULT_CONGESTION};
	static const double steps_ms[] = {20, 60, 400, 6000};

	(void)state;
	for (size_t k = 0; k < 4 * KINDS; k++) {
		struct sim_scenario scenario;
		struct outcome outcome;

		draw_plain(&scenario, kinds[k % KINDS], 11 + k);
		scenario.options.program.step_ns = 1e6 * steps_ms[k / KINDS];
		scenario.options.faults[0].size = 0.4;
		scenario.options.faults[0].first += k / KINDS == 0 ? 60 : 0;
		scenario.options.steps = 220;
		scenario.options.faults[0].last = 219;
		score(&scenario, 11 + k, &outcome);
		assert_true(outcome.rank_right && outcome.class_right);
		assert_true(outcome.delay_steps <= 3 || outcome.delay_s <= 1);
		assert_true(outcome.onset_error_steps <= 3);
	}
}

/* 4 % of a rank's work, and every seventh step longer by half: told, once, as long as it goes on. */
static void test_small_and_rare_faults_are_told(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2 + SEEDS_OF(4); seed++) {
		struct sim_scenario scenario;
		struct outcome outcome;

		draw_plain(&scenario, SIM_FAULT_COMPUTE, seed);
		scenario.options.steps = 300;
		scenario.options.program.step_ns = seed % 2 ? 60e6 : 400e6;
		scenario.options.faults[0].last = 299;
		scenario.options.faults[0].size = 0.045;
		if (seed > 2) {
			scenario.options.program.step_ns = 400e6;
			scenario.options.faults[0].course = SIM_COURSE_EVERY;
			scenario.options.faults[0].every = 7;
			scenario.options.faults[0].size = 0.5;
		}
		score(&scenario, seed, &outcome);
		assert_true(outcome.detected && outcome.rank_right && outcome.class_right);
		assert_int_equal(outcome.alerts, 1);
	}
}

/* What a rank does after its last collective is its own, and no part of what a step costs without it. */
static void test_cost_of_work_after_the_last_collective(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(2); seed++) {
		struct sim_scenario scenario;
		struct outcome outcome;

		draw_plain(&scenario, SIM_FAULT_COMPUTE, seed);
		scenario.family = SIM_FAMILY_SHARDED;
		scenario.options.program.sharded = true;
		scenario.options.program.layers = 4;
		scenario.options.faults[0].size = 4;
		scenario.options.lost_share = seed == 2 ? 0.0005 : 0;
		score(&scenario, seed, &outcome);
		assert_true(outcome.slowdown > 3);
		assert_true(outcome.rank_right && outcome.class_right);
		assert_true(outcome.slowdown_error < 0.03);
	}
}

/* Transfers that take 3 % of the step longer, on the links of one rank, of one node, everywhere. */
static void test_small_slow_transfers_are_told(void **state)
{
	static const enum sim_fault_kind kinds[] = {
		SIM_FAULT_LINK, SIM_FAULT_NIC, SIM_FAULT_CONGESTION};

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct sim_scenario scenario;
		struct outcome outcome;

		draw_plain(&scenario, kinds[k], 21 + k);
		scenario.options.steps = 340;
		scenario.options.faults[0].first = 110; /* after some samples a second apart */
		scenario.options.faults[0].last = 339;
		scenario.options.faults[0].size = 0.03;
		score(&scenario, 21 + k, &outcome);
		assert_true(outcome.slowdown > 1.02 && outcome.slowdown < 1.04);
		assert_true(outcome.detected && outcome.rank_right && outcome.class_right);
		assert_int_equal(outcome.alerts, 1);
	}
}

/* Of a thousand members some part is always lost; a slow node is told of, and what it costs. */
static void test_slow_node_among_many_ranks(void **state)
{
	struct sim_scenario scenario;
	struct outcome outcome;

	(void)state;
	draw_plain(&scenario, SIM_FAULT_NIC, 31);
	sim_options_default(&scenario.options, 1024, 31);
	scenario.options.shape.ranks_per_host = 8;
	scenario.options.steps = 90;
	scenario.options.program.step_ns = 150e6;
	scenario.options.lost_share = 0.001;
	scenario.options.fault_count = 1;
	scenario.options.faults[0] = (struct sim_fault){
		.kind = SIM_FAULT_NIC, .rank = 77, .first = 40, .last = 89, .size = 0.2};
	score(&scenario, 31, &outcome);
	assert_true(outcome.detected && outcome.rank_right && outcome.class_right);
	assert_true(outcome.slowdown_error < 0.05);
}

/*
 * Gradients are reduced beside the work, on a link that takes several steps for it: what comes once they
 * are done, on another stream, has waited for them. Nobody computes for longer.
 */
static void test_slow_link_beside_the_work(void **state)
{
	static const struct sim_scenario_limits device = {
		.ranks_min = 8, .ranks_max = 32, .plain = true, .device_time = true};

	(void)state;
	for (uint64_t seed = 8; seed <= 17; seed += 9) {
		struct sim_scenario scenario;
		struct outcome outcome;

		sim_scenario_draw(&scenario, SIM_FAULT_LINK, seed, &device);
		assert_true(scenario.options.device_time && scenario.options.program.overlap);
		score(&scenario, seed, &outcome);
		assert_true(outcome.slowdown > 4);
		assert_true(outcome.rank_right && outcome.class_right);
		assert_int_equal(outcome.blamed_healthy, 0);
		assert_true(outcome.slowdown_error < 0.15);
	}
}

/* Machines differ by a percent or two from the first step on, and one stalls once. */
static void test_lasting_differences_and_stalls_are_no_alarm(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_scenario scenario;
		struct outcome outcome;

		draw_plain(&scenario, SIM_FAULT_COMPUTE, seed);
		scenario.plan = SIM_PLAN_SPIKE;
		scenario.options.noise.rank = 0.015;
		scenario.options.steps = 300;
		scenario.options.program.step_ns = seed % 2 ? 60e6 : 400e6;
		scenario.options.faults[0].course = SIM_COURSE_SPIKE;
		scenario.options.faults[0].size = 4;
		score(&scenario, seed, &outcome);
		assert_int_equal(outcome.alerts, 0);
	}
}

/*
 * In a pipeline most ranks wait for the slow one, and wait long: calls of seconds on clocks that
 * drift, with three of four tensor parallel calls not seen. Only the slow one is named.
 */
static void test_slow_rank_of_a_pipeline_is_named(void **state)
{
	static const double steps_ms[] = {20, 400, 30000};

	(void)state;
	for (size_t length = 0; length < sizeof(steps_ms) / sizeof(steps_ms[0]); length++) {
		for (uint32_t chunks = 1; chunks <= 2; chunks++) {
			struct sim_scenario scenario;
			struct outcome outcome;

			draw_plain(&scenario, SIM_FAULT_COMPUTE, 3 * length + chunks);
			scenario.family = SIM_FAMILY_PIPELINE;
			scenario.options.shape = (struct sim_shape){2, 2, 2, 1, 2};
			scenario.options.program.step_ns = 1e6 * steps_ms[length];
			scenario.options.program.microbatches = 4;
			scenario.options.program.virtual_stages = chunks;
			scenario.options.program.layers = 1;
			scenario.options.clock_drift = 50e-6;
			scenario.options.sample_every = 4;
			scenario.options.faults[0].rank %= 8;
			score(&scenario, chunks, &outcome);
			assert_true(outcome.slowdown > 1.5);
			assert_true(outcome.rank_right && outcome.class_right);
			assert_int_equal(outcome.blamed_healthy, 0);
			assert_int_equal(outcome.alerts, 1);
		}
	}
}

/*
 * Stages in the middle of a pipeline, uneven sequences where only gradients are exchanged, experts:
 * the model's or the data's doing, from the first step on. No machine is blamed.
 */
static void test_uneven_work_is_no_machine(void **state)
{
	static const enum sim_fault_kind kinds[] = {
		SIM_FAULT_STAGE, SIM_FAULT_SEQUENCE, SIM_FAULT_EXPERTS};

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (uint64_t seed = 1; seed <= SEEDS_OF(2); seed++) {
			struct sim_scenario scenario;
			struct outcome outcome;

			draw_plain(&scenario, kinds[k], seed);
			scenario.options.faults[0].first = 0;
			scenario.options.faults[0].size =
				kinds[k] == SIM_FAULT_SEQUENCE ? 0.3 : 0.6;
			if (kinds[k] == SIM_FAULT_STAGE) {
				scenario.family = SIM_FAMILY_PIPELINE;
				scenario.options.shape = (struct sim_shape){2, 2, 4, 1, 4};
				scenario.options.program.microbatches = 8;
				scenario.options.program.layers = 1;
				scenario.options.faults[0].rank = 4 * (uint32_t)seed;
			} else if (kinds[k] == SIM_FAULT_EXPERTS) {
				scenario.family = SIM_FAMILY_EXPERT;
				scenario.options.shape.expert = 8;
				scenario.options.faults[0].rank = (uint32_t)seed;
			}
			score(&scenario, seed, &outcome);
			assert_true(outcome.detected && outcome.class_right);
			assert_int_equal(outcome.blamed_healthy, 0);
		}
	}
}

/* A rank of twice the work in a plain data-parallel job is what all of them are made for. */
/* Sequences differ in length, in pipelines of any depth, where only communication is seen. */
static void test_uneven_sequences_of_a_pipeline(void **state)
{
	static const struct {
		uint32_t ranks, pipeline, tensor, virtual_stages;
	} shapes[] = {{8, 2, 1, 1}, {16, 4, 1, 1}, {32, 4, 2, 1}, {32, 8, 1, 1}, {32, 4, 1, 2}};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct sim_scenario scenario;
		struct sim_options *options = &scenario.options;
		struct outcome outcome;

		draw_plain(&scenario, SIM_FAULT_SEQUENCE, i);
		sim_options_default(options, shapes[i].ranks, i + 1);
		options->steps = 150;
		options->program.layers = 1;
		options->program.microbatches = 2 * shapes[i].pipeline;
		options->program.virtual_stages = shapes[i].virtual_stages;
		options->shape.pipeline = shapes[i].pipeline;
		options->shape.tensor = shapes[i].tensor;
		options->shape.data = shapes[i].ranks / shapes[i].pipeline / shapes[i].tensor;
		options->fault_count = 1;
		options->faults[0] = (struct sim_fault){
			.kind = SIM_FAULT_SEQUENCE, .first = 0, .last = 149, .size = 0.3};
		score(&scenario, i + 1, &outcome);
		assert_true(outcome.detected && outcome.class_right && outcome.cause_right);
		assert_int_equal(outcome.blamed_healthy, 0);
	}
}

static void test_baselines_find_the_plain_case(void **state)
{
	struct sim_scenario scenario;
	struct outcome outcome;

	(void)state;
	draw_plain(&scenario, SIM_FAULT_COMPUTE, 4);
	score(&scenario, 4, &outcome);
	for (int method = 0; method < BASELINE_NR; method++)
		assert_true(outcome.baselines[method].detected);
	assert_true(outcome.baselines[BASELINE_LATEST].rank_right);
	assert_true(outcome.baselines[BASELINE_SECTIONS].rank_right);
	assert_true(outcome.baselines[BASELINE_Z_SCORE].rank_right);
	assert_false(outcome.baselines[BASELINE_CHANGE_POINT].rank_right); /* it names nobody */
	scenario.options.fault_count = 0;
	score(&scenario, 4, &outcome);
	assert_false(outcome.baselines[BASELINE_SECTIONS].alarm);
	assert_false(outcome.baselines[BASELINE_CHANGE_POINT].alarm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy_jobs_are_left_alone),
		cmocka_unit_test(test_slow_rank_is_named),
		cmocka_unit_test(test_rank_that_holds_transfers_is_named),
		cmocka_unit_test(test_alerts_come_soon),
		cmocka_unit_test(test_small_and_rare_faults_are_told),
		cmocka_unit_test(test_cost_of_work_after_the_last_collective),
		cmocka_unit_test(test_small_slow_transfers_are_told),
		cmocka_unit_test(test_slow_node_among_many_ranks),
		cmocka_unit_test(test_slow_link_beside_the_work),
		cmocka_unit_test(test_lasting_differences_and_stalls_are_no_alarm),
		cmocka_unit_test(test_slow_rank_of_a_pipeline_is_named),
		cmocka_unit_test(test_uneven_work_is_no_machine),
		cmocka_unit_test(test_uneven_sequences_of_a_pipeline),
		cmocka_unit_test(test_baselines_find_the_plain_case),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
