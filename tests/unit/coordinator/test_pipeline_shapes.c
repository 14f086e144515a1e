/* SPDX-License-Identifier: Apache-2.0 */
/* The right rank in jobs of many shapes: groups, roots, hosts, attaches, windows, losses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/coordinator/job_simulator.h"
#include "tests/unit/seeds.h"

static struct sim sim;
static struct sim_result result;

/* Runs a job with one fault that is named right, and nothing else said. */
static void assert_found(const struct sim_options *options)
{
	static const enum verdict_class classes[] = {VERDICT_COMPUTE_SLOW, VERDICT_HOST_SLOW,
		VERDICT_HOST_SLOW, VERDICT_HOST_SLOW, VERDICT_HOST_SLOW, VERDICT_HOST_SLOW,
		VERDICT_COMM_SLOW};

	sim_job(&sim, options, &result);
	assert_int_equal(result.error, 0);
	assert_int_equal(result.verdict_count, 1);
	assert_int_equal(result.verdicts[0].rank_count, 1);
	assert_int_equal(result.verdicts[0].ranks[0], options->faults[0].rank);
	assert_int_equal(result.verdicts[0].verdict_class, classes[options->faults[0].kind]);
	sim_free(&sim, true);
}

static void assert_silent(const struct sim_options *options)
{
	sim_job(&sim, options, &result);
	assert_int_equal(result.error, 0);
	assert_int_equal(result.verdict_count, 0);
	sim_free(&sim, true);
}

static void add_fault(struct sim_options *options, enum sim_fault_kind kind, unsigned rank,
	unsigned first, unsigned last, double size)
{
	options->faults[options->fault_count++] = (struct sim_fault){kind, rank, first, last, size};
}

static struct sim_options noisy(unsigned ranks, uint64_t seed)
{
	struct sim_options options = sim_defaults(ranks, seed);

	options.jitter = 0.02;
	options.preempt_rate = 1;
	options.preempt_ms = 8;
	return options;
}

static void use_groups(struct sim_options *options)
{
	options->calls = 6;
	for (unsigned c = 0; c < 6; c++)
		options->call[c] =
			(struct sim_call){c % 2 ? OPERATION_ALL_GATHER : OPERATION_ALL_REDUCE,
				c == 1 || c == 3 ? SIM_PAIRS
				: c == 2	 ? SIM_HALVES
						 : SIM_WORLD,
				1.0 / 6, 4096, 0};
}

static void sub_communicators(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(8, seed);

		use_groups(&options);
		if (seed % 2)
			add_fault(&options, SIM_CONTENTION, (unsigned)seed, 150, 300, 0.5);
		else
			add_fault(&options, SIM_COMPUTE, (unsigned)seed, 150, 300, 0.3);
		assert_found(&options);
		options.fault_count = 0;
		assert_silent(&options);
	}
}

static void rooted_operations(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(8, seed);

		options.calls = 5;
		options.call[0] = (struct sim_call){OPERATION_BROADCAST, SIM_WORLD, 0.2, 4096, 2};
		options.call[1] = (struct sim_call){OPERATION_REDUCE, SIM_WORLD, 0.2, 4096, 0};
		options.call[2] = (struct sim_call){OPERATION_GATHER, SIM_WORLD, 0.2, 64, 3};
		options.call[3] = (struct sim_call){OPERATION_ALL_REDUCE, SIM_WORLD, 0.3, 4096, 0};
		options.call[4] = (struct sim_call){OPERATION_BARRIER, SIM_WORLD, 0.1, 0, 0};
		add_fault(&options, SIM_MAJOR, (unsigned)seed, 150, 300, 0.6);
		assert_found(&options);
		options.fault_count = 0;
		assert_silent(&options);
	}
}

/* A program that never synchronises all at once: a reduce to rank 0, a broadcast from it. */
static void reduce_and_broadcast_only(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(4, seed);

		options.calls = 2;
		options.call[0] = (struct sim_call){OPERATION_REDUCE, SIM_WORLD, 0.7, 4096, 0};
		options.call[1] = (struct sim_call){OPERATION_BROADCAST, SIM_WORLD, 0.3, 4096, 0};
		add_fault(&options, SIM_BLOCK_IO, (unsigned)(seed % 4), 150, 300, 0.6);
		assert_found(&options);
	}
}

static void hosts_with_their_own_clocks(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(8, seed);

		options.hosts = 4;
		for (unsigned h = 0; h < 4; h++) {
			options.offset_ms[h] = 1e6 * h;
			options.drift_ppm[h] = 40.0 * h - 60;
		}
		add_fault(&options, SIM_CONTENTION, (unsigned)(seed * 3) % 8, 150, 300, 0.3);
		assert_found(&options);
		assert_int_equal(result.node_count, 4);
		assert_true(result.totals.clock_error_us < 250);
		options.fault_count = 0;
		assert_silent(&options);
	}
}

/* Batches of one step each: never many calls of a rank wait at one time. */
static void attached_in_small_batches(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(4); seed++) {
		struct sim_options options = noisy(4, seed);

		options.attached = true;
		options.probe_per_rank = seed % 2;
		options.batch_ms = 10;
		options.compute_share = 1;
		options.steps = 500;
		add_fault(&options, SIM_THROTTLE, (unsigned)(seed % 4), 150, 390, 0.8);
		assert_found(&options);
	}
}

static void attached_to_a_running_job(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(4, seed);

		options.attached = true;
		add_fault(&options, SIM_THROTTLE, (unsigned)(seed % 4), 150, 390, 0.8);
		options.compute_share = 1;
		options.steps = 500;
		assert_found(&options);
		assert_int_equal(result.verdicts[0].cause, CAUSE_CGROUP_THROTTLE);
	}
}

static void windows_instead_of_steps(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(4); seed++) {
		struct sim_options options = noisy(4, seed);

		options.window_steps = 40;
		options.steps = 1500;
		add_fault(&options, SIM_CONTENTION, (unsigned)(seed % 4), 600, 1499, 0.5);
		assert_found(&options);
		options.fault_count = 0;
		assert_silent(&options);
	}
}

static void lost_parts(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(8, seed);

		options.lost_share = 0.002;
		add_fault(&options, SIM_CONTENTION, (unsigned)seed, 150, 300, 0.5);
		assert_found(&options);
		assert_true(result.totals.steps_incomplete > 0);
		options.fault_count = 0;
		assert_silent(&options);
	}
}

static void two_culprits_of_four(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(4, seed);

		add_fault(&options, SIM_THROTTLE, 1, 150, 390, 0.8);
		add_fault(&options, SIM_THROTTLE, 2, 150, 390, 0.8);
		options.compute_share = 1;
		sim_job(&sim, &options, &result);
		uint32_t named = 0;
		for (size_t v = 0; v < result.verdict_count; v++) {
			assert_int_equal(result.verdicts[v].cause, CAUSE_CGROUP_THROTTLE);
			for (uint32_t i = 0; i < result.verdicts[v].rank_count; i++) {
				assert_in_range(result.verdicts[v].ranks[i], 1, 2);
				named++;
			}
		}
		assert_int_equal(named, 2);
		sim_free(&sim, true);
	}
}

static void slow_from_the_first_step(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		for (unsigned ranks = 2; ranks <= 8; ranks *= 2) {
			struct sim_options options = noisy(ranks, seed);

			add_fault(&options, SIM_CONTENTION, ranks - 1, 0, 999, 0.3);
			options.attached = seed % 2;
			assert_found(&options);
		}
	}
}

/* Of two ranks that work on their CPUs, one that does longer from the first on may have more to do; of eight, it is unlike all others. */
static void more_to_do_from_the_first_step(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(4); seed++) {
		for (unsigned ranks = 2; ranks <= 8; ranks *= 4) {
			struct sim_options options = noisy(ranks, seed);

			add_fault(&options, SIM_COMPUTE, ranks - 1, 0, 999, 0.2);
			options.attached = seed % 2;
			if (ranks > 2)
				assert_found(&options);
			else
				assert_silent(&options);
		}
	}
}

static void static_imbalance_below_the_floor(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(4, seed);

		options.imbalance = 0.03;
		assert_silent(&options);
	}
}

static void rare_long_steps_of_one_rank(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(4); seed++) {
		struct sim_options options = noisy(4, seed);

		options.irregular_every = 40;
		for (unsigned f = 0; f < 6; f++)
			add_fault(&options, SIM_BLOCK_IO, 0, 60 * f, 60 * f, 20);
		assert_silent(&options);
	}
}

static void recovers_and_returns(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(6); seed++) {
		struct sim_options options = noisy(4, seed);

		options.steps = 900;
		add_fault(&options, SIM_CONTENTION, 2, 150, 300, 0.5);
		add_fault(&options, SIM_CONTENTION, 2, 600, 899, 0.5);
		sim_job(&sim, &options, &result);
		assert_int_equal(result.verdict_count, 2);
		assert_int_equal(sim.alert_count, 2);
		assert_int_equal(sim.recovered_count, 1);
		assert_int_equal(result.verdicts[0].ended, 1);
		assert_int_equal(result.verdicts[1].ended, 0);
		assert_in_range(result.verdicts[0].first_step, 140, 160);
		assert_in_range(result.verdicts[0].last_step, 290, 312);
		assert_in_range(result.verdicts[1].first_step, 590, 610);
		sim_free(&sim, true);
	}
}

static void a_rank_falls_silent(void **state)
{
	struct sim_options options = noisy(4, 5);

	(void)state;
	options.steps = 2000;
	options.probe_per_rank = true;
	options.rank_exits = 3;
	add_fault(&options, SIM_CONTENTION, 1, 1200, 1999, 0.5);
	assert_found(&options); /* the others are still judged */
}

static void only_samples_without_kernel_side(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(4); seed++) {
		struct sim_options options = noisy(4, seed);

		options.no_sched = true;
		options.compute_share = 1;
		options.steps = 600;
		add_fault(&options, SIM_THROTTLE, 2, 150, 599, 0.8);
		assert_found(&options);
		assert_int_equal(result.verdicts[0].cause, CAUSE_CGROUP_THROTTLE);
	}
}

static void same_bytes_under_any_batches(void **state)
{
	static struct sim_result other;
	struct sim_options options = noisy(8, 3);

	(void)state;
	add_fault(&options, SIM_CONTENTION, 3, 100, 200, 0.5);
	add_fault(&options, SIM_COMPUTE, 5, 250, 350, 0.3);
	sim_job(&sim, &options, &result);
	sim_free(&sim, true);
	assert_int_equal(result.verdict_count, 2);
	for (int way = 0; way < 3; way++) {
		options.batch_ms = way == 0 ? 60 : way == 1 ? 1700 : 250;
		options.probe_per_rank = way == 2;
		sim_job(&sim, &options, &other);
		sim_free(&sim, true);
		assert_int_equal(result.verdict_count, other.verdict_count);
		assert_memory_equal(&result.totals, &other.totals, sizeof(result.totals));
		assert_memory_equal(result.verdicts, other.verdicts,
			result.verdict_count * sizeof(struct verdict));
		assert_memory_equal(result.ranks, other.ranks, sizeof(result.ranks));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sub_communicators),
		cmocka_unit_test(rooted_operations),
		cmocka_unit_test(reduce_and_broadcast_only),
		cmocka_unit_test(hosts_with_their_own_clocks),
		cmocka_unit_test(attached_to_a_running_job),
		cmocka_unit_test(attached_in_small_batches),
		cmocka_unit_test(windows_instead_of_steps),
		cmocka_unit_test(lost_parts),
		cmocka_unit_test(two_culprits_of_four),
		cmocka_unit_test(slow_from_the_first_step),
		cmocka_unit_test(more_to_do_from_the_first_step),
		cmocka_unit_test(static_imbalance_below_the_floor),
		cmocka_unit_test(rare_long_steps_of_one_rank),
		cmocka_unit_test(recovers_and_returns),
		cmocka_unit_test(a_rank_falls_silent),
		cmocka_unit_test(only_samples_without_kernel_side),
		cmocka_unit_test(same_bytes_under_any_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
