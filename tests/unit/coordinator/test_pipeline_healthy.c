/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody is blamed in healthy jobs, however noisy, as long as the noise strikes all alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tests/unit/coordinator/job_simulator.h"
#include "tests/unit/seeds.h"

static struct sim sim;
static struct sim_result result;

enum { SEEDS = SEEDS_OF(12) };

static void assert_all_silent(double jitter, double preempt_rate, double preempt_ms)
{
	for (unsigned ranks = 2; ranks <= 16; ranks *= 2) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct sim_options options = sim_defaults(ranks, seed);

			options.step_ms = (double)(5u << seed % 4);
			options.steps = (unsigned)(20000 / options.step_ms);
			options.jitter = jitter;
			options.preempt_rate = preempt_rate;
			options.preempt_ms = preempt_ms;
			options.tcp = seed % 2;
			sim_job(&sim, &options, &result);
			assert_int_equal(result.error, 0);
			assert_int_equal(result.totals.steps, options.steps);
			assert_int_equal(sim.alert_count, 0);
			sim_free(&sim, true);
		}
	}
}

static void quiet(void **state)
{
	(void)state;
	assert_all_silent(0.005, 0, 0);
}

/* Nobody to meet, and so nothing to cut at: each step is one all the same. */
static void a_job_of_one_rank(void **state)
{
	struct sim_options options = sim_defaults(1, 3);

	(void)state;
	options.steps = 300;
	sim_job(&sim, &options, &result);
	assert_int_equal(result.error, 0);
	assert_int_equal(result.totals.steps, 300);
	assert_int_equal(sim.alert_count, 0);
	sim_free(&sim, true);
}

static void preempted_now_and_then(void **state)
{
	(void)state;
	assert_all_silent(0.02, 1, 8);
}

static void preempted_often(void **state)
{
	(void)state;
	assert_all_silent(0.05, 3, 10);
}

/* More ranks that spin than cores: each is off its CPU in every step, and none has more work. */
static void a_machine_too_full(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_options options = sim_defaults(4, seed);

		options.step_ms = 10;
		options.steps = 400;
		options.calls = 2;
		options.call[0].share = 1;
		options.call[1] = options.call[0];
		options.call[1].share = 0.0001; /* all work is before the first */
		options.preempt_rate = 300;
		options.preempt_ms = 3;
		sim_job(&sim, &options, &result);
		assert_int_equal(result.error, 0);
		for (unsigned i = 0; i < sim.alert_count; i++)
			assert_int_not_equal(
				sim.alerts[i].verdict_class, VERDICT_WORKLOAD_IMBALANCE);
		sim_free(&sim, true);
	}
}

static void wild_transfers(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_options options = sim_defaults(8, seed);

		options.transfer_us = 1500;
		options.transfer_jitter = 0.6;
		options.preempt_rate = 1;
		options.preempt_ms = 8;
		options.tcp = seed % 2;
		options.steps = 800;
		sim_job(&sim, &options, &result);
		assert_int_equal(sim.alert_count, 0);
		sim_free(&sim, true);
	}
}

enum { MISREAD_FROM = 100, MISREAD_UNTIL = 250, MISREAD_CALLS = 16, MISREAD_BY = 4 };

/*
 * All times are a device's; for some steps rank 2 is told the times of later calls for its own, in the first half of
 * each step: a thread that gets no CPU time reads a ring that went on.
 */
static void misread(struct sim *sim_now)
{
	for (unsigned r = 0; r < sim_now->options.ranks; r++) {
		for (size_t e = 0; e < sim_now->rank[r].entry_count; e++) {
			struct step_entry *entry = &sim_now->rank[r].entries[e];

			for (size_t i = 0; i < entry->part_count; i++) {
				struct collective_part *part = &entry->parts[i];

				part->flags |= PART_DEVICE_TIME;
				if (r != 2 || e < MISREAD_FROM || e >= MISREAD_UNTIL ||
					i + MISREAD_BY >= entry->part_count ||
					i >= MISREAD_CALLS / 2)
					continue;
				part->arrival = part[MISREAD_BY].arrival;
				part->departure = part[MISREAD_BY].departure;
			}
		}
	}
}

static void times_of_other_calls(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_options options = sim_defaults(4, seed);

		options.calls = MISREAD_CALLS;
		for (unsigned c = 0; c < MISREAD_CALLS; c++) {
			options.call[c] = options.call[0];
			options.call[c].share = 1.0 / MISREAD_CALLS;
		}
		options.steps = 400;
		options.jitter = 0.01;
		options.tamper = misread;
		sim_job(&sim, &options, &result);
		assert_int_equal(result.error, 0);
		assert_int_equal(sim.alert_count, 0);
		assert_in_range(result.totals.steps_contradictory, MISREAD_UNTIL - MISREAD_FROM - 2,
			MISREAD_UNTIL - MISREAD_FROM + 2);
		sim_free(&sim, true);
	}
}

/* Phases of a rank sum to its time; and the totals are those of the simulated job. */
static void totals_are_right(void **state)
{
	struct sim_options options = sim_defaults(4, 1);

	(void)state;
	sim_job(&sim, &options, &result);
	double step_ms = (sim.step_start[399] - sim.step_start[0]) / 399 / 1e6;

	assert_true(fabs(result.totals.step_ms_median / step_ms - 1) < 0.01);
	assert_true(result.totals.slowdown >= 1 && result.totals.slowdown < 1.05);
	assert_int_equal(result.rank_count, 4);
	assert_int_equal(result.totals.steps_incomplete, 0);
	sim_free(&sim, true);
}

/* Other programs come: transfers are longer for it, and the sockets of some rank seem busier than they were. */
static void crowded_cpus_are_no_link(void **state)
{
	(void)state;
	for (unsigned ranks = 4; ranks <= 16; ranks *= 2) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct sim_options options = sim_crowded(ranks, seed, 700);

			sim_job(&sim, &options, &result);
			assert_int_equal(result.error, 0);
			assert_int_equal(sim.alert_count, 0);
			sim_free(&sim, true);
		}
	}
}

enum { SPLIT_FROM = 150, SPLIT_UNTIL = 280 };

/* From a step on the program gives one rank more work, and one or two others as much less. */
static struct sim_options split_anew(unsigned ranks, uint64_t seed)
{
	struct sim_options options = sim_defaults(ranks, seed);

	options.compute_share = 1;
	options.fault_count = ranks > 2 ? 3 : 2;
	options.faults[0] = (struct sim_fault){SIM_SPLIT, 1, SPLIT_FROM, SPLIT_UNTIL, 0.5};
	options.faults[1] =
		(struct sim_fault){SIM_SPLIT, 0, SPLIT_FROM, SPLIT_UNTIL, ranks > 2 ? -0.25 : -0.5};
	options.faults[2] = (struct sim_fault){SIM_SPLIT, 2, SPLIT_FROM, SPLIT_UNTIL, -0.25};
	return options;
}

static void work_that_the_program_moves(void **state)
{
	(void)state;
	for (unsigned ranks = 2; ranks <= 16; ranks *= 2) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct sim_options options = split_anew(ranks, seed);

			sim_job(&sim, &options, &result);
			assert_int_equal(result.error, 0);
			assert_int_equal(sim.alert_count, 0);
			sim_free(&sim, true);
		}
	}
}

/* Nor does it hide, or date, what happens to the rank that has more of it. */
static void a_fault_where_work_was_moved(void **state)
{
	(void)state;
	for (unsigned ranks = 2; ranks <= 16; ranks *= 2) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct sim_options options = split_anew(ranks, seed);

			options.faults[options.fault_count++] = (struct sim_fault){
				SIM_THROTTLE, 1, SPLIT_FROM + 50, SPLIT_UNTIL, 1};
			sim_job(&sim, &options, &result);
			assert_int_equal(result.error, 0);
			assert_int_equal(sim.alert_count, 1);
			assert_int_equal(sim.alerts[0].ranks[0], 1);
			assert_int_equal(sim.alerts[0].cause, CAUSE_CGROUP_THROTTLE);
			assert_in_range(
				result.verdicts[0].first_step, SPLIT_FROM + 45, SPLIT_FROM + 55);
			sim_free(&sim, true);
		}
	}
}

/* A rank that is slow while others have no less to do is slow. */
static void more_work_that_nobody_had(void **state)
{
	(void)state;
	for (unsigned ranks = 2; ranks <= 16; ranks *= 2) {
		struct sim_options options = split_anew(ranks, 1);

		options.fault_count = 1;
		sim_job(&sim, &options, &result);
		assert_int_equal(result.error, 0);
		assert_int_equal(sim.alert_count, 1);
		assert_int_equal(sim.alerts[0].ranks[0], 1);
		sim_free(&sim, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quiet),
		cmocka_unit_test(a_job_of_one_rank),
		cmocka_unit_test(preempted_now_and_then),
		cmocka_unit_test(preempted_often),
		cmocka_unit_test(a_machine_too_full),
		cmocka_unit_test(wild_transfers),
		cmocka_unit_test(times_of_other_calls),
		cmocka_unit_test(totals_are_right),
		cmocka_unit_test(crowded_cpus_are_no_link),
		cmocka_unit_test(work_that_the_program_moves),
		cmocka_unit_test(a_fault_where_work_was_moved),
		cmocka_unit_test(more_work_that_nobody_had),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
