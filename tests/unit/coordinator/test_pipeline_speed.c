/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks whose CPUs are slow: stolen, at a lower clock, shared inside. And ranks that only have more work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tests/unit/coordinator/job_simulator.h"
#include "tests/unit/seeds.h"

static struct sim sim;
static struct sim_result result;

enum { FIRST = 400, LAST = 700, STEPS = 760, SEEDS = SEEDS_OF(4) };

static unsigned culprit_of(unsigned ranks, uint64_t seed)
{
	return (unsigned)(seed * 5) % ranks;
}

/* A job that is on the CPU all the while, in steps of 20 ms, with one fault. */
static struct sim_options job_of(
	unsigned ranks, uint64_t seed, enum sim_fault_kind kind, double size)
{
	struct sim_options options = sim_defaults(ranks, seed);

	options.steps = STEPS;
	options.jitter = 0.02;
	options.preempt_rate = 0.5;
	options.preempt_ms = 6;
	options.compute_share = 1;
	options.speed = true;
	options.poll_per_cycle = (double[]){0.1, 1, 3.5}[seed % 3];
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){kind, culprit_of(ranks, seed), FIRST, LAST, size};
	return options;
}

/* Runs it; the verdict that names the culprit, which is the only one unless the job is uneven. */
static const struct verdict *judged(const struct sim_options *options)
{
	const struct verdict *found = NULL;

	sim_job(&sim, options, &result);
	assert_int_equal(result.error, 0);
	assert_true(result.verdict_count == 1 || options->imbalance > 0);
	for (size_t i = 0; i < result.verdict_count; i++) {
		const struct verdict *verdict = &result.verdicts[i];

		if (verdict->ranks[0] == options->faults[0].rank && verdict->last_step > FIRST)
			found = verdict;
	}
	assert_non_null(found);
	assert_int_equal(found->rank_count, 1);
	return found;
}

static const char *why_not(const struct verdict *verdict, enum cause cause)
{
	for (unsigned i = 0; i < verdict->rejected_count; i++) {
		if (verdict->rejected[i].kind == cause)
			return verdict->rejected[i].why;
	}
	return NULL;
}

/* least: smaller faults of the kind are not looked at. Returns how many stayed unknown. */
static unsigned finds(enum sim_fault_kind kind, enum cause cause, double least)
{
	static const double sizes[] = {0.15, 0.4, 1};
	unsigned unknown = 0;

	for (unsigned ranks = 2; ranks <= 16; ranks *= 2) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			for (size_t s = sizes[0] < least; s < 3; s++) {
				struct sim_options options = job_of(ranks, seed, kind, sizes[s]);
				const struct verdict *verdict = judged(&options);
				const struct verdict_evidence *evidence = &verdict->evidence[0];

				if (verdict->cause == CAUSE_UNKNOWN) {
					unknown++;
					sim_free(&sim, true);
					continue;
				}
				assert_int_equal(verdict->verdict_class, VERDICT_HOST_SLOW);
				assert_int_equal(verdict->cause, cause);
				assert_true(
					verdict->sure.share_explained > (least > 0 ? 0.35 : 0.5));
				assert_int_equal(evidence->kind, cause);
				double lost = evidence->overlap_ms_per_step -
					      evidence->control_ms_per_step;

				/* Of 20 ms of work; of a shared core, at least so many. */
				assert_true(lost < 1.35 * 20 * sizes[s]);
				assert_true(lost > (least > 0 ? 0.35 : 0.65) * 20 * sizes[s]);
				assert_null(why_not(verdict, cause));
				sim_free(&sim, true);
			}
		}
	}
	return unknown;
}

static void stolen_time_is_found(void **state)
{
	(void)state;
	assert_int_equal(finds(SIM_STEAL, CAUSE_CPU_STEAL, 0), 0);
}

static void a_low_clock_is_found(void **state)
{
	(void)state;
	assert_int_equal(finds(SIM_CLOCK, CAUSE_CPU_CLOCK, 0), 0);
}

/* What the waits did may leave it open: unknown then. */
static void a_shared_core_is_found(void **state)
{
	(void)state;
	assert_true(finds(SIM_SMT, CAUSE_SMT_OR_MEMORY, 0.4) <= (SEEDS + 1) / 2);
}

/* More work is none of these, however much its waits polled before. */
static void more_work_is_no_slow_host(void **state)
{
	static const double sizes[] = {0.15, 0.4, 1, 3};

	(void)state;
	for (unsigned ranks = 2; ranks <= 16; ranks *= 2) {
		for (uint64_t seed = 1; seed <= 3 * SEEDS; seed++) {
			/* Of two ranks, one that computes for a little longer may have more to do. */
			double size = ranks == 2 ? fmax(sizes[seed % 4], 0.4) : sizes[seed % 4];
			struct sim_options options = job_of(ranks, seed, SIM_COMPUTE, size);

			/* Rank 0 makes the others wait, always: their waits then go into their work. */
			options.imbalance = seed % 2 ? 0.3 : 0;
			options.faults[0].rank = 1 + (unsigned)seed % (ranks - 1);
			options.faults[0].size += options.imbalance;
			const struct verdict *verdict = judged(&options);

			assert_int_equal(verdict->verdict_class, VERDICT_COMPUTE_SLOW);
			assert_int_equal(verdict->cause, CAUSE_UNKNOWN);
			assert_non_null(why_not(verdict, CAUSE_CPU_STEAL));
			assert_non_null(why_not(verdict, CAUSE_CPU_CLOCK));
			assert_non_null(why_not(verdict, CAUSE_SMT_OR_MEMORY));
			sim_free(&sim, true);
		}
	}
}

/* What all ranks have explains nothing of one. */
static void what_all_have_is_no_cause(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3 * SEEDS; seed++) {
		struct sim_options options = job_of(4, seed, SIM_COMPUTE, 0.3);

		options.stolen_always = 0.3;
		options.clock_falls = 0.2;
		assert_int_equal(judged(&options)->cause, CAUSE_UNKNOWN);
		sim_free(&sim, true);
	}
}

/* Samples are kept for half a minute; what was usual, as long as the verdict. */
static void a_long_fault_keeps_its_cause(void **state)
{
	static const enum sim_fault_kind kinds[] = {SIM_STEAL, SIM_CLOCK, SIM_SMT};

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct sim_options options = job_of(4, 7, kinds[k], 0.5);

		options.steps = 4000;
		options.faults[0].last = 3900;
		assert_int_equal(judged(&options)->cause, CAUSE_CPU_STEAL + k);
		sim_free(&sim, true);
	}
}

/* The kernel names another cause; nothing of the CPUs' speed takes its place. */
static void other_causes_stay(void **state)
{
	static const struct {
		enum sim_fault_kind kind;
		enum cause cause;
	} others[] = {{SIM_CONTENTION, CAUSE_CPU_CONTENTION}, {SIM_MAJOR, CAUSE_MAJOR_PAGE_FAULT},
		{SIM_BLOCK_IO, CAUSE_BLOCK_IO}, {SIM_THROTTLE, CAUSE_CGROUP_THROTTLE}};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct sim_options options = job_of(4, seed, others[i].kind, 0.5);

			assert_int_equal(judged(&options)->cause, others[i].cause);
			sim_free(&sim, true);
		}
	}
}

/* Without the kernel side, stolen time is missing from the process's CPU time too. */
static void stolen_time_is_found_by_samples_alone(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_options options = job_of(4, seed, SIM_STEAL, 0.5);

		options.no_sched = true;
		options.preempt_rate = 0;
		assert_int_equal(judged(&options)->cause, CAUSE_CPU_STEAL);
		sim_free(&sim, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stolen_time_is_found),
		cmocka_unit_test(a_low_clock_is_found),
		cmocka_unit_test(a_shared_core_is_found),
		cmocka_unit_test(more_work_is_no_slow_host),
		cmocka_unit_test(what_all_have_is_no_cause),
		cmocka_unit_test(a_long_fault_keeps_its_cause),
		cmocka_unit_test(other_causes_stay),
		cmocka_unit_test(stolen_time_is_found_by_samples_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
