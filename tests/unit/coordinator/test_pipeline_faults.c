/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of fault, at several sizes and numbers of ranks: rank, class, cause, onset, cost. */
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

enum { FIRST = 200, LAST = 400, STEPS = 480, SEEDS = SEEDS_OF(3) };

struct expectation {
	enum sim_fault_kind kind;
	enum verdict_class verdict_class;
	enum cause cause;
	double alert_s; /* at 30 % and more */
};

/* How much longer a step became, by the simulator's own clock. */
static double true_growth(void)
{
	double before = (sim.step_start[FIRST] - sim.step_start[20]) / (FIRST - 20);
	double during = (sim.step_start[LAST + 1] - sim.step_start[FIRST]) / (LAST + 1 - FIRST);

	return during / before;
}

static void check(const struct expectation *expected, unsigned ranks, double size, uint64_t seed)
{
	struct sim_options options = sim_defaults(ranks, seed);
	const struct verdict *verdict = &result.verdicts[0];
	unsigned rank = (unsigned)(seed * 5) % ranks;

	options.steps = STEPS;
	options.step_ms = 16 + 8 * (double)(seed % 3);
	options.jitter = 0.02;
	options.preempt_rate = 0.5;
	options.preempt_ms = 6;
	options.tcp = expected->kind == SIM_COMM;
	options.hosts = options.tcp ? 2 : 1; /* on one there is no link */
	options.compute_share = expected->kind == SIM_THROTTLE ? 1 : 0.3;
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){expected->kind, rank, FIRST, LAST, size};
	sim_job(&sim, &options, &result);
	assert_int_equal(result.verdict_count, 1);
	assert_int_equal(verdict->rank_count, 1);
	assert_int_equal(verdict->ranks[0], rank);
	assert_int_equal(verdict->verdict_class, expected->verdict_class);
	assert_int_equal(verdict->cause, expected->cause);
	assert_in_range(verdict->first_step, FIRST - (size < 0.2 ? 16 : 8), FIRST + 20);
	double delay_s = ((double)verdict->alert.value - 1e9 - sim.step_start[FIRST]) / 1e9;

	assert_true(delay_s > 0);
	if (size >= 0.3)
		assert_true(delay_s < expected->alert_s);
	if (verdict->last_step + 1 < STEPS)
		assert_true(fabs((double)verdict->end.value - 1e9 -
				    sim.step_start[verdict->last_step + 1]) < 1e6);
	assert_true(fabs(verdict->slowdown / true_growth() - 1) < 0.1);
	assert_true(verdict->sure.confidence > 0.5 && verdict->sure.confidence < 1);
	assert_true(verdict->victim_count == ranks - 1 || size < 0.5);
	if (expected->cause == CAUSE_CPU_CONTENTION)
		assert_non_null(strstr(verdict->evidence[0].detail, "stress-hog (pid 4242)"));
	if (expected->cause != CAUSE_UNKNOWN) {
		assert_true(verdict->evidence_count > 0);
		assert_int_equal(verdict->evidence[0].kind, expected->cause);
		assert_true(verdict->evidence[0].overlap_ms_per_step >
			    verdict->evidence[0].control_ms_per_step);
		assert_true(verdict->sure.share_explained > 0.35);
	}
	sim_free(&sim, true);
}

static void check_all(enum sim_fault_kind kind, enum verdict_class verdict_class, enum cause cause,
	double least, double alert_s)
{
	static const double sizes[] = {0.1, 0.2, 0.4, 1, 3};
	struct expectation expected = {kind, verdict_class, cause, alert_s};

	for (unsigned ranks = 2; ranks <= 16; ranks *= 2) {
		/* Of two ranks, one that computes for a little longer may have more to do. */
		double told = kind == SIM_COMPUTE && ranks == 2 ? 1 : least;

		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			for (uint64_t seed = 1; seed <= SEEDS && sizes[s] >= told; seed++)
				check(&expected, ranks, sizes[s], seed);
		}
	}
}

static void compute(void **state)
{
	(void)state;
	check_all(SIM_COMPUTE, VERDICT_COMPUTE_SLOW, CAUSE_UNKNOWN, 0.1, 1);
}

/* A rank that is told of as a little slow, when something else slows it down far more: that has a verdict of its own. More of the same has not. */
static void another_fault_comes_on_top(void **state)
{
	enum { SECOND = 300 };
	static const struct {
		enum sim_fault_kind first, second;
		enum cause causes[2];
		size_t verdicts;
	} cases[] = {
		{SIM_COMPUTE, SIM_CONTENTION, {CAUSE_UNKNOWN, CAUSE_CPU_CONTENTION}, 2},
		{SIM_MINOR, SIM_THROTTLE, {CAUSE_MINOR_PAGE_FAULT, CAUSE_CGROUP_THROTTLE}, 2},
		{SIM_CONTENTION, SIM_CONTENTION, {CAUSE_CPU_CONTENTION}, 1},
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct sim_options options = sim_defaults(4, c + 1);

		options.steps = STEPS;
		options.step_ms = 30;
		options.jitter = 0.02;
		options.compute_share = 1;
		options.fault_count = 2;
		options.faults[0] = (struct sim_fault){cases[c].first, 1, FIRST, LAST, 0.15};
		options.faults[1] = (struct sim_fault){cases[c].second, 1, SECOND, LAST, 2};
		sim_job(&sim, &options, &result);
		assert_int_equal(result.verdict_count, cases[c].verdicts);
		for (size_t v = 0; v < cases[c].verdicts; v++) {
			const struct verdict *verdict = &result.verdicts[v];
			unsigned first = v ? SECOND : FIRST;

			assert_int_equal(verdict->ranks[0], 1);
			assert_int_equal(verdict->cause, cases[c].causes[v]);
			assert_in_range(verdict->first_step, first - 8, first + 8);
			assert_true(verdict->ended);
		}
		if (cases[c].verdicts > 1) {
			assert_int_equal(
				result.verdicts[0].last_step + 1, result.verdicts[1].first_step);
			assert_true(fabs(result.verdicts[0].slowdown - 1.15) < 0.05);
			assert_true(fabs(result.verdicts[1].slowdown - 3.1) < 0.4);
		}
		sim_free(&sim, true);
	}
}

/* Of two ranks, when others leave a rank's CPU alone again, and the program still gives it a little more to do. */
static void a_verdict_ends_with_its_cause(void **state)
{
	struct sim_options options = sim_defaults(2, 5);

	(void)state;
	options.steps = STEPS;
	options.step_ms = 30;
	options.jitter = 0.02;
	options.compute_share = 1;
	options.fault_count = 2;
	options.faults[0] = (struct sim_fault){SIM_SPLIT, 1, FIRST, STEPS, 0.13};
	options.faults[1] = (struct sim_fault){SIM_CONTENTION, 1, FIRST, FIRST + 60, 0.3};
	sim_job(&sim, &options, &result);
	assert_int_equal(result.verdict_count, 1);
	assert_int_equal(result.verdicts[0].ranks[0], 1);
	assert_int_equal(result.verdicts[0].cause, CAUSE_CPU_CONTENTION);
	assert_in_range(result.verdicts[0].first_step, FIRST - 8, FIRST + 8);
	assert_true(result.verdicts[0].ended);
	sim_free(&sim, true);
}

/* Who is slow is found, told in time and dated however short the steps are. */
static void steps_of_half_a_millisecond(void **state)
{
	(void)state;
	for (unsigned ranks = 4; ranks <= 8; ranks *= 2) {
		struct sim_options options = sim_defaults(ranks, ranks);
		const struct verdict *verdict = &result.verdicts[0];

		options.steps = 16000;
		options.step_ms = 0.5;
		options.transfer_us = 10;
		options.fault_count = 1;
		options.faults[0] = (struct sim_fault){SIM_COMPUTE, 2, 8000, 12000, 0.5};
		sim_job(&sim, &options, &result);
		assert_int_equal(result.totals.steps, 16000);
		assert_int_equal(result.verdict_count, 1);
		assert_int_equal(verdict->ranks[0], 2);
		assert_int_equal(verdict->verdict_class, VERDICT_COMPUTE_SLOW);
		assert_in_range(verdict->first_step, 8000 - 40, 8000 + 40);
		assert_true((double)verdict->alert.value - 1e9 - sim.step_start[8000] < 1e9);
		sim_free(&sim, true);
	}
}

/* Of two ranks the program may give one a little more to do; of eight, one that does a little longer is unlike all others. */
static void a_little_longer(void **state)
{
	(void)state;
	for (unsigned ranks = 2; ranks <= 8; ranks *= 4) {
		struct sim_options options = sim_defaults(ranks, 3);

		options.steps = STEPS;
		options.step_ms = 30;
		options.jitter = 0.005;
		options.fault_count = 1;
		options.faults[0] = (struct sim_fault){SIM_COMPUTE, 1, FIRST, LAST, 0.065};
		sim_job(&sim, &options, &result);
		assert_int_equal(result.verdict_count, ranks > 2);
		sim_free(&sim, true);
	}
}

static void throttle(void **state)
{
	(void)state;
	check_all(SIM_THROTTLE, VERDICT_HOST_SLOW, CAUSE_CGROUP_THROTTLE, 0.2, 1.5);
}

static void contention(void **state)
{
	(void)state;
	check_all(SIM_CONTENTION, VERDICT_HOST_SLOW, CAUSE_CPU_CONTENTION, 0.1, 1.2);
}

static void major_faults(void **state)
{
	(void)state;
	check_all(SIM_MAJOR, VERDICT_HOST_SLOW, CAUSE_MAJOR_PAGE_FAULT, 0.1, 1);
}

static void minor_faults(void **state)
{
	(void)state;
	check_all(SIM_MINOR, VERDICT_HOST_SLOW, CAUSE_MINOR_PAGE_FAULT, 0.1, 1);
}

static void block_io(void **state)
{
	(void)state;
	check_all(SIM_BLOCK_IO, VERDICT_HOST_SLOW, CAUSE_BLOCK_IO, 0.1, 1);
}

/* How long after a step began a verdict was told that names a rank alone; a very long time: none was. */
static double told_after_s(unsigned rank, unsigned first)
{
	double delay_s = INFINITY;

	for (size_t i = 0; i < result.verdict_count; i++) {
		const struct verdict *verdict = &result.verdicts[i];

		if (verdict->rank_count == 1 && verdict->ranks[0] == rank)
			delay_s = fmin(delay_s,
				((double)verdict->alert.value - 1e9 - sim.step_start[first]) / 1e9);
	}
	return delay_s;
}

/*
 * Of two ranks whose steps take half as long again now and then, one takes four times as long: a few such steps say so,
 * for its own were never like that, nor its peer's, whose delays are much shorter.
 */
static void a_few_long_steps(void **state)
{
	double mean_s = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 4 * SEEDS; seed++) {
		struct sim_options options = sim_defaults(2, seed);

		options.steps = 160;
		options.step_ms = 80;
		options.preempt_rate = 1.5;
		options.preempt_ms = 40;
		options.fault_count = 1;
		options.faults[0] = (struct sim_fault){SIM_COMPUTE, seed % 2, 120, 140, 3};
		sim_job(&sim, &options, &result);
		mean_s += told_after_s(seed % 2, 120) / (4 * SEEDS);
		sim_free(&sim, true);
	}
	assert_true(mean_s < 1.65); /* five of them */
}

/* Before it is known what the program does by itself: two long steps for which the kernel saw a rank throttled are enough; one is a stall. */
static void two_long_steps(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 4 * SEEDS; seed++) {
		for (unsigned steps = 1; steps <= 2; steps++) {
			struct sim_options options = sim_defaults(4, seed);

			options.steps = 100;
			options.step_ms = 400;
			options.compute_share = 1;
			options.fault_count = 1;
			options.faults[0] = (struct sim_fault){SIM_THROTTLE, 2, 24, 23 + steps, 4};
			sim_job(&sim, &options, &result);
			assert_int_equal(result.verdict_count, steps == 2);
			if (steps == 2) {
				assert_int_equal(result.verdicts[0].cause, CAUSE_CGROUP_THROTTLE);
				assert_int_equal(result.verdicts[0].ranks[0], 2);
			}
			sim_free(&sim, true);
		}
	}
}

/* A verdict names the only peer: its steps of before that still tell what is usual. */
static void while_the_peer_is_named(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct sim_options options = sim_defaults(2, seed);

		options.steps = 400;
		options.step_ms = 30;
		options.fault_count = 2;
		options.faults[0] = (struct sim_fault){SIM_COMPUTE, 0, 200, 380, 0.3};
		options.faults[1] = (struct sim_fault){SIM_COMPUTE, 1, 260, 380, 1.5};
		sim_job(&sim, &options, &result);
		assert_true(told_after_s(0, 200) < 1);
		assert_true(told_after_s(1, 260) < 1);
		sim_free(&sim, true);
	}
}

/* A fault fades: the slow-down that is told is that of its time, not of what is left of it. */
static void what_fades(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct sim_options options = sim_defaults(8, seed);

		options.steps = 440;
		options.step_ms = 20;
		options.compute_share = 1;
		options.fault_count = 2;
		options.faults[0] = (struct sim_fault){SIM_CONTENTION, 3, 200, 260, 2};
		options.faults[1] = (struct sim_fault){SIM_CONTENTION, 3, 261, 420, 0.3};
		sim_job(&sim, &options, &result);

		double before = (sim.step_start[200] - sim.step_start[20]) / 180;
		double during = (sim.step_start[261] - sim.step_start[200]) / 61;

		assert_int_equal(result.verdict_count, 1);
		assert_true(fabs(result.verdicts[0].slowdown / (during / before) - 1) < 0.1);
		sim_free(&sim, true);
	}
}

static unsigned most_named(void)
{
	unsigned most = 0;

	for (size_t i = 0; i < result.verdict_count; i++)
		most = result.verdicts[i].rank_count > most ? result.verdicts[i].rank_count : most;
	return most;
}

/* What is slow for one reason shares a verdict, as long as that leaves a healthy rank; the last one is told apart. */
static void a_verdict_names_not_everybody(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct sim_options options = sim_defaults(2, seed);

		options.steps = 300;
		options.fault_count = 2;
		options.faults[0] = (struct sim_fault){SIM_COMPUTE, 0, 200, 280, 0.3};
		options.faults[1] = (struct sim_fault){SIM_COMPUTE, 1, 235, 280, 1.5};
		sim_job(&sim, &options, &result);
		assert_int_equal(most_named(), 1);
		assert_true(told_after_s(0, 200) < 1);
		assert_true(told_after_s(1, 235) < 1);
		sim_free(&sim, true);
		options = sim_defaults(4, seed);
		options.steps = 300;
		options.fault_count = 2;
		options.faults[0] = (struct sim_fault){SIM_COMPUTE, 0, 200, 280, 0.6};
		options.faults[1] = (struct sim_fault){SIM_COMPUTE, 1, 200, 280, 0.6};
		sim_job(&sim, &options, &result);
		assert_int_equal(most_named(), 2);
		sim_free(&sim, true);
	}
}

enum { SILENT_FROM = 350 };
static unsigned silent_until;

/* All ranks' collectives are seen by their calls alone, for some steps. */
static void fall_silent(struct sim *made)
{
	for (unsigned r = 0; r < made->options.ranks; r++) {
		for (unsigned e = SILENT_FROM; e < silent_until; e++) {
			struct step_entry *entry = &made->rank[r].entries[e];

			for (size_t p = 0; p < entry->part_count; p++)
				entry->parts[p].flags |= PART_ENQUEUE_ONLY;
		}
	}
}

static const struct verdict *told_with_silence(unsigned until, unsigned fault_until)
{
	struct sim_options options = sim_defaults(4, 3);

	silent_until = until;
	options.steps = 600;
	options.tamper = fall_silent;
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_COMPUTE, 2, 250, fault_until, 0.6};
	sim_job(&sim, &options, &result);
	assert_int_equal(result.error, 0);
	assert_int_equal(result.verdict_count, 1);
	assert_int_equal(result.verdicts[0].ranks[0], 2);
	return &result.verdicts[0];
}

/* A source falls silent for all ranks: whether a verdict still holds is not known, and it says so until times come again. */
static void nothing_is_measured_any_more(void **state)
{
	const struct verdict *verdict = told_with_silence(600, 600);

	(void)state;
	assert_false(verdict->ended);
	assert_in_range(verdict->sure.unmeasured_since, SILENT_FROM, SILENT_FROM + 1);
	assert_true(verdict->last_step < SILENT_FROM);
	assert_int_equal(sim.recovered_count, 0);
	assert_true(sim.update_count > 0);
	sim_free(&sim, true);
	verdict = told_with_silence(SILENT_FROM + 4, 600);
	assert_int_equal(verdict->sure.unmeasured_since, 0);
	assert_true(verdict->last_step > 590 && !verdict->ended);
	sim_free(&sim, true);
	verdict = told_with_silence(430, 400);
	assert_int_equal(verdict->sure.unmeasured_since, 0);
	assert_true(verdict->ended);
	sim_free(&sim, true);
}

/* A rank is a little slow for a while, then clearly: what came before is no part of the cost. */
static void a_prelude_is_no_cost(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 2 * SEEDS; seed++) {
		struct sim_options options = sim_defaults(4, seed);
		const struct verdict *verdict = &result.verdicts[0];

		options.jitter = 0.02;
		options.fault_count = 2;
		options.faults[0] = (struct sim_fault){SIM_COMPUTE, 2, 210, 250, 0.06};
		options.faults[1] = (struct sim_fault){SIM_COMPUTE, 2, 250, 310, 0.6};
		sim_job(&sim, &options, &result);
		assert_int_equal(result.verdict_count, 1);
		double now = sim.step_start[305] - sim.step_start[255];
		double before = sim.step_start[200] - sim.step_start[150];

		assert_true(fabs(verdict->slowdown / (now / before) - 1) < 0.04);
		sim_free(&sim, true);
	}
}

/* Every rank's data waits longer when one's link is slow: that one's still stands out, or none. */
static void slow_link_echoes(void **state)
{
	(void)state;
	for (unsigned ranks = 2; ranks <= 8; ranks *= 2) {
		for (unsigned seed = 1; seed <= 2 * SEEDS; seed++) {
			bool alike = seed > SEEDS;
			struct sim_options options = sim_defaults(ranks, seed);
			unsigned culprit = seed % ranks;

			options.tcp = true;
			options.steps = 600;
			options.echo = alike ? 0.95 : 0.4;
			options.fault_count = 1;
			options.faults[0] = (struct sim_fault){SIM_COMM, culprit, 300, 600, 1};
			sim_job(&sim, &options, &result);
			assert_int_equal(result.error, 0);
			assert_int_equal(result.verdict_count, 1);
			const struct verdict *verdict = &result.verdicts[0];

			assert_int_equal(verdict->verdict_class, VERDICT_COMM_SLOW);
			if (alike) {
				assert_int_equal(verdict->cause, CAUSE_PATH_CONGESTION);
				assert_int_equal(verdict->rank_count, ranks == 2 ? 2 : 0);
			} else {
				assert_int_equal(verdict->cause, CAUSE_NIC_LINK);
				assert_int_equal(verdict->rank_count, 1);
				assert_int_equal(verdict->ranks[0], culprit);
			}
			sim_free(&sim, true);
		}
	}
}

/* On crowded CPUs, a link that becomes slow: it is told, and not from when they became crowded. */
static void slow_link_in_a_crowd(void **state)
{
	(void)state;
	for (unsigned ranks = 4; ranks <= 8; ranks *= 2) {
		for (unsigned seed = 1; seed <= SEEDS; seed++) {
			struct sim_options options = sim_crowded(ranks, seed, 900);
			unsigned culprit = seed % ranks;

			options.fault_count = 2;
			options.faults[1] = (struct sim_fault){SIM_COMM, culprit, 500, 900, 0.6};
			sim_job(&sim, &options, &result);
			assert_int_equal(result.error, 0);
			assert_int_equal(result.verdict_count, 1);
			const struct verdict *verdict = &result.verdicts[0];

			assert_int_equal(verdict->verdict_class, VERDICT_COMM_SLOW);
			assert_int_equal(verdict->cause, CAUSE_NIC_LINK);
			assert_int_equal(verdict->rank_count, 1);
			assert_int_equal(verdict->ranks[0], culprit);
			assert_in_range(verdict->first_step, 450, 550);
			sim_free(&sim, true);
		}
	}
}

static void slow_link(void **state)
{
	(void)state;
	check_all(SIM_COMM, VERDICT_COMM_SLOW, CAUSE_NIC_LINK, 0.2, 2.5);
}

/* Of a tenth: told between hosts; on one host nobody's link, and healthy ranks' transfers wander as much. */
static void small_link_on_one_host(void **state)
{
	(void)state;
	for (unsigned hosts = 1; hosts <= 2; hosts++) {
		struct sim_options options = sim_defaults(8, 3);

		options.tcp = true;
		options.hosts = hosts;
		options.steps = 600;
		options.fault_count = 1;
		options.faults[0] = (struct sim_fault){SIM_COMM, 5, 300, 600, 0.1};
		sim_job(&sim, &options, &result);
		assert_int_equal(result.error, 0);
		assert_int_equal(result.verdict_count, hosts == 1 ? 0 : 1);
		sim_free(&sim, true);
	}
}

static int64_t others_of_control;

/*
 * All times are a device's, and the driver was asked who computes there half a second before the fault and a second after
 * it: when the verdict had ended.
 */
static void ask_driver_seldom(struct sim *sim_now)
{
	const double times[] = {sim_now->step_start[FIRST] - 5e8, sim_now->step_start[LAST] + 1e9};

	for (unsigned r = 0; r < sim_now->options.ranks; r++) {
		struct sim_rank *rank = &sim_now->rank[r];
		int64_t others = r == sim_now->options.faults[0].rank ? 1 : others_of_control;

		for (size_t e = 0; e < rank->entry_count; e++) {
			for (size_t i = 0; i < rank->entries[e].part_count; i++)
				rank->entries[e].parts[i].flags |= PART_DEVICE_TIME;
		}
		rank->sample_count = 2;
		for (int i = 0; i < 2; i++)
			rank->samples[i] = (struct metric_sample){.rank = r,
				.metric = METRIC_GPU_OTHER_PROCESSES,
				.time.value = sim_host_ns(sim_now, r, times[i]),
				.value = i ? others : 0};
	}
}

static void a_cause_is_told_late(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
		struct sim_options options = sim_defaults(4, seed);

		options.steps = STEPS;
		options.jitter = 0.02;
		options.fault_count = 1;
		options.faults[0] = (struct sim_fault){SIM_COMPUTE, 2, FIRST, LAST, 0.5};
		options.tamper = ask_driver_seldom;
		others_of_control = seed % 2;
		sim_job(&sim, &options, &result);
		assert_int_equal(result.verdict_count, 1);
		assert_int_equal(sim.recovered_count, 1);
		assert_int_equal(result.verdicts[0].verdict_class, VERDICT_COMPUTE_SLOW);
		assert_int_equal(result.verdicts[0].cause,
			others_of_control ? CAUSE_UNKNOWN : CAUSE_GPU_SHARED);
		sim_free(&sim, true);
	}
}

static void only_devices(struct sim *sim_now)
{
	for (unsigned r = 0; r < sim_now->options.ranks; r++) {
		for (size_t e = 0; e < sim_now->rank[r].entry_count; e++) {
			struct step_entry *entry = &sim_now->rank[r].entries[e];

			for (size_t i = 0; i < entry->part_count; i++)
				entry->parts[i].flags |= PART_DEVICE_TIME;
		}
	}
}

/* A device that is a little slower for a second, in a job whose speed differs as much: told only of what lasts. */
static void a_device_wanders(void **state)
{
	unsigned passing = 0, lasting = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		for (unsigned steps = 34; steps <= 200; steps += 166) {
			struct sim_options options = sim_defaults(2, seed);

			options.steps = STEPS;
			options.jitter = 0.02;
			options.preempt_rate = 4;
			options.preempt_ms = 4;
			options.fault_count = 1;
			options.faults[0] =
				(struct sim_fault){SIM_COMPUTE, 1, FIRST, FIRST + steps, 0.11};
			options.tamper = only_devices;
			sim_job(&sim, &options, &result);
			*(steps == 34 ? &passing : &lasting) += (unsigned)result.verdict_count;
			sim_free(&sim, true);
		}
	}
	assert_int_equal(passing, 0);
	assert_int_equal(lasting, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compute),
		cmocka_unit_test(a_cause_is_told_late),
		cmocka_unit_test(a_device_wanders),
		cmocka_unit_test(a_little_longer),
		cmocka_unit_test(another_fault_comes_on_top),
		cmocka_unit_test(a_verdict_ends_with_its_cause),
		cmocka_unit_test(steps_of_half_a_millisecond),
		cmocka_unit_test(throttle),
		cmocka_unit_test(contention),
		cmocka_unit_test(major_faults),
		cmocka_unit_test(minor_faults),
		cmocka_unit_test(block_io),
		cmocka_unit_test(slow_link),
		cmocka_unit_test(small_link_on_one_host),
		cmocka_unit_test(slow_link_echoes),
		cmocka_unit_test(slow_link_in_a_crowd),
		cmocka_unit_test(a_few_long_steps),
		cmocka_unit_test(two_long_steps),
		cmocka_unit_test(while_the_peer_is_named),
		cmocka_unit_test(what_fades),
		cmocka_unit_test(a_verdict_names_not_everybody),
		cmocka_unit_test(nothing_is_measured_any_more),
		cmocka_unit_test(a_prelude_is_no_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
