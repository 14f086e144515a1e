/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who had the CPU instead: other programs, other ranks of the job, or threads of the same process. And what counters
 * grew by since a step began.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/base/evidence.h"

enum { OWN = 10, OTHER_RANK = 11, STRANGER = 12 };
static const uint32_t ranks[] = {OWN, OTHER_RANK};

static void add(struct evidence *evidence, int64_t start_ns, int64_t length_ns, uint32_t pid,
	const char *name)
{
	struct evidence_interval interval = {
		start_ns, start_ns + length_ns, pid, OFF_CPU_PREEMPTED, ""};

	snprintf(interval.other_name, sizeof(interval.other_name), "%s", name);
	assert_int_equal(evidence_add_interval(evidence, &interval), 0);
}

static void own_threads_are_no_other_rank(void **state)
{
	struct evidence evidence = {0};
	struct evidence_preempted by;

	(void)state;
	add(&evidence, 0, 50, OWN, "autograd");
	add(&evidence, 100, 30, STRANGER, "stress");
	add(&evidence, 200, 15, OTHER_RANK, "python");
	add(&evidence, 300, 5, STRANGER + 1, "slowrank-stacks"); /* watches them */
	add(&evidence, 1000, 500, OTHER_RANK, "python");	 /* later than asked for */
	evidence_preempted(&evidence, 0, 1000, OWN, ranks, 2, &by);
	assert_int_equal(by.all_ns, 100);
	assert_int_equal(by.own_threads_ns, 50);
	assert_int_equal(by.ranks_ns, 20);
	evidence_preempted(&evidence, 0, 1000, 0, ranks, 2, &by);
	assert_int_equal(by.own_threads_ns, 0);
	assert_int_equal(by.ranks_ns, 70);
	evidence_preempted(NULL, 0, 1000, OWN, ranks, 2, &by);
	assert_int_equal(by.all_ns, 0);
	evidence_fini(&evidence);
}

static void other_programs_are_named_first(void **state)
{
	struct evidence evidence = {0};
	struct evidence_rival rival;

	(void)state;
	assert_false(evidence_worst_rival(&evidence, 0, 1000, OWN, &rival));
	add(&evidence, 0, 50, OWN, "autograd");
	add(&evidence, 60, 10, OWN, "watchdog");
	assert_true(evidence_worst_rival(&evidence, 0, 1000, OWN, &rival));
	assert_string_equal(rival.name, "autograd");
	assert_in_range(rival.share * 1000, 833, 834);
	add(&evidence, 100, 6, STRANGER, "stress");
	add(&evidence, 110, 6, STRANGER, "stress");
	add(&evidence, 120, 8, OTHER_RANK, "python");
	assert_true(evidence_worst_rival(&evidence, 0, 1000, OWN, &rival));
	assert_string_equal(rival.name, "stress");
	assert_int_equal(rival.pid, STRANGER);
	assert_true(rival.share == 0.6);
	evidence_fini(&evidence);
}

static void sample(struct evidence *evidence, int64_t time_ns, int64_t value)
{
	assert_int_equal(evidence_add_sample(evidence, METRIC_TCP_BUSY_NS, time_ns, value), 0);
}

#define SECOND INT64_C(1000000000)

/* What lies between the sample before and the onset has gone on as before. */
static void since_an_onset_between_two_samples(void **state)
{
	struct evidence evidence = {0};
	double rate;

	(void)state;
	for (int64_t second = 0; second <= 10; second++)
		sample(&evidence, second * SECOND, second * SECOND / 10);
	/* From 10.5 s on it is busy all the time; seen after 0.3 s. */
	sample(&evidence, 10 * SECOND + 800000000, SECOND + 50000000 + 300000000);
	assert_true(evidence_rate_since(&evidence, METRIC_TCP_BUSY_NS, 10 * SECOND + 500000000,
		10 * SECOND + 900000000, 0, &rate));
	assert_true(fabs(rate - 1) < 1e-9);
	/* Too soon after it. */
	assert_false(evidence_rate_since(&evidence, METRIC_TCP_BUSY_NS, 10 * SECOND + 750000000,
		10 * SECOND + 900000000, 0, &rate));
	/* What was busy and is not any more did not fall below nothing. */
	sample(&evidence, 12 * SECOND, SECOND + 350000000);
	assert_true(evidence_rate_since(
		&evidence, METRIC_TCP_BUSY_NS, 11 * SECOND + 500000000, 12 * SECOND, 0, &rate));
	assert_true(rate == 0);
	evidence_fini(&evidence);
}

/*
 * Steps of 6 s, whose last second is busy: samples within them say now more, now less; those taken at their
 * ends, a little late, say the same of each. From 18 s on, two seconds are.
 */
static void long_steps_by_samples_at_their_ends(void **state)
{
	struct evidence evidence = {0};
	double rate, before;

	(void)state;
	for (int64_t step = 0; step <= 5; step++) {
		int64_t busy_s = step <= 3 ? step : 3 + 2 * (step - 3);

		sample(&evidence, step * 6 * SECOND + 40000000, busy_s * SECOND);
		sample(&evidence, (step * 6 + 5) * SECOND, busy_s * SECOND); /* within */
	}
	assert_true(evidence_rate_since(
		&evidence, METRIC_TCP_BUSY_NS, 18 * SECOND, 30 * SECOND, EVIDENCE_END_NS, &rate));
	assert_true(evidence_rate_before(
		&evidence, METRIC_TCP_BUSY_NS, 18 * SECOND, EVIDENCE_END_NS, &before));
	assert_true(fabs(rate - 2 / 6.) < 0.01);
	assert_true(fabs(before - 1 / 6.) < 0.01);
	/* By those before the ends alone, the last step's second would be missing. */
	assert_true(evidence_rate_since(
		&evidence, METRIC_TCP_BUSY_NS, 18 * SECOND, 30 * SECOND, 0, &rate));
	assert_true(rate < 0.3);
	evidence_fini(&evidence);
}

/* Rates of 0.1 and 0.3 in turn, between two times; and how long is known since one. */
static void how_much_rates_differ(void **state)
{
	struct evidence evidence = {.host_to_job_ns = SECOND};
	struct evidence_noise noise;
	int64_t value = 0;

	(void)state;
	for (int64_t i = 0; i <= 20; i++) {
		sample(&evidence, i * SECOND, value);
		value += (i % 2 ? 3 : 1) * SECOND / 10;
	}
	assert_true(evidence_noise(
		&evidence, METRIC_TCP_BUSY_NS, 5 * SECOND, 15 * SECOND, EVIDENCE_RATE_NS, &noise));
	assert_int_equal((int)noise.count, 10);
	assert_int_equal((int64_t)noise.time_ns, 10 * SECOND);
	assert_true(fabs(noise.mean - 0.2) < 1e-9);
	assert_true(fabs(noise.squares - 10 * 0.01) < 1e-9);
	/* Over two seconds they are alike. */
	assert_true(evidence_noise(
		&evidence, METRIC_TCP_BUSY_NS, 5 * SECOND, 15 * SECOND, 2 * SECOND, &noise));
	assert_int_equal((int)noise.count, 5);
	assert_true(noise.squares < 1e-9);
	assert_false(evidence_noise(&evidence, METRIC_TCP_BUSY_NS, 5 * SECOND, 7 * SECOND - 1,
		EVIDENCE_RATE_NS, &noise));
	assert_int_equal(
		evidence_known_ns(&evidence, METRIC_TCP_BUSY_NS, 12 * SECOND, 15 * SECOND + 1),
		3 * SECOND);
	assert_int_equal(
		evidence_known_ns(&evidence, METRIC_TCP_BUSY_NS, 30 * SECOND, 40 * SECOND), 0);
	evidence_fini(&evidence);
}

/* A tenth of the time until 14.3 s, half of it from then on. */
static void since_when_it_grows_faster(void **state)
{
	struct evidence evidence = {.host_to_job_ns = 5 * SECOND};
	int64_t began_ns;

	(void)state;
	for (int64_t second = 0; second <= 18; second++) {
		int64_t busy_ns = second * SECOND / 10;

		if (second > 14)
			busy_ns += 4 * (second * SECOND - 14300000000) / 10;
		sample(&evidence, second * SECOND, busy_ns);
	}
	assert_true(evidence_began(
		&evidence, METRIC_TCP_BUSY_NS, 15 * SECOND, 23 * SECOND, 0.1, 0.5, &began_ns));
	assert_int_equal(llabs(began_ns - (5 * SECOND + 14300000000)) / 1000, 0);
	/* It grows no faster now, or nothing is known. */
	assert_false(evidence_began(
		&evidence, METRIC_TCP_BUSY_NS, 15 * SECOND, 23 * SECOND, 0.5, 0.5, &began_ns));
	assert_false(evidence_began(
		&evidence, METRIC_TCP_BYTES_SENT, 15 * SECOND, 23 * SECOND, 0.1, 0.5, &began_ns));
	evidence_fini(&evidence);
}

/* Who computes on a GPU is asked once in a while: one came between two answers. */
static void what_rose_was_not_there_before(void **state)
{
	struct evidence evidence = {.host_to_job_ns = 5 * SECOND};
	int64_t before_ns;

	(void)state;
	for (int64_t second = 1; second <= 9; second++)
		assert_int_equal(evidence_add_sample(&evidence, METRIC_GPU_OTHER_PROCESSES,
					 second * SECOND, second >= 7 ? 2 : 1),
			0);
	assert_true(evidence_rose(
		&evidence, METRIC_GPU_OTHER_PROCESSES, 8 * SECOND, 14 * SECOND, &before_ns));
	assert_int_equal(before_ns, 11 * SECOND);
	/* By the first answer after that time; not by an earlier one. */
	assert_true(evidence_rose(
		&evidence, METRIC_GPU_OTHER_PROCESSES, 8 * SECOND, 11 * SECOND, &before_ns));
	assert_false(evidence_rose(
		&evidence, METRIC_GPU_OTHER_PROCESSES, 8 * SECOND, 11 * SECOND - 1, &before_ns));
	/* It was there, or nothing is known of before. */
	assert_false(evidence_rose(
		&evidence, METRIC_GPU_OTHER_PROCESSES, 12 * SECOND, 14 * SECOND, &before_ns));
	assert_false(evidence_rose(
		&evidence, METRIC_GPU_OTHER_PROCESSES, 5 * SECOND, 14 * SECOND, &before_ns));
	evidence_fini(&evidence);
}

static void count_cycles(struct evidence *evidence, int64_t time_ns, int64_t ns, int64_t cycles)
{
	assert_int_equal(evidence_add_sample(evidence, METRIC_CPU_COUNTED_NS, time_ns, ns), 0);
	assert_int_equal(evidence_add_sample(evidence, METRIC_CPU_CYCLES, time_ns, cycles), 0);
}

/* One wild sample moves neither; what comes later is no part of the usual, but of the ratio since. */
static void usual_ratios_are_robust(void **state)
{
	struct evidence evidence = {0};
	double ratio, median, spread;
	int64_t cycles = 0;

	(void)state;
	for (int64_t second = 0; second <= 20; second++) {
		count_cycles(&evidence, second * SECOND, second * SECOND / 2, cycles);
		if (second == 3)
			assert_false(evidence_usual_ratio(&evidence, METRIC_CPU_CYCLES,
				METRIC_CPU_COUNTED_NS, &(struct evidence_span){0, 100 * SECOND}, 1,
				&median, &spread));
		cycles += second >= 12 ? SECOND : second == 5 ? SECOND / 4 : 3 * SECOND / 2;
	}
	assert_true(evidence_usual_ratio(&evidence, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS,
		&(struct evidence_span){0, 12 * SECOND}, 1, &median, &spread));
	assert_true(fabs(median - 3) < 1e-9 && spread < 1e-9);
	assert_true(evidence_ratio(&evidence, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, 12 * SECOND,
		20 * SECOND, &ratio));
	assert_true(fabs(ratio - 2) < 1e-9);
	/* It did not run: nothing can be said. */
	count_cycles(&evidence, 21 * SECOND, 10 * SECOND, cycles);
	assert_false(evidence_ratio(&evidence, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS,
		20 * SECOND, 21 * SECOND, &ratio));
	assert_false(evidence_usual_ratio(NULL, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS,
		&(struct evidence_span){0, SECOND}, 1, &median, &spread));
	evidence_fini(&evidence);
}

/* Of several spans, what lies between them is left out: three rates of each are enough together, of one alone they are not. */
static void usual_is_of_all_spans(void **state)
{
	const struct evidence_span spans[] = {{14 * SECOND, 17 * SECOND}, {0, 3 * SECOND}, {0, 0}};
	struct evidence evidence = {0};
	double median, spread;
	int64_t cycles = 0;

	(void)state;
	for (int64_t second = 0; second <= 17; second++) {
		count_cycles(&evidence, second * SECOND, second * SECOND / 2, cycles);
		cycles += second >= 3 && second < 14 ? 0 : SECOND;
	}
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(evidence_usual_ratio(&evidence, METRIC_CPU_CYCLES,
					 METRIC_CPU_COUNTED_NS, &spans[i], 1, &median, &spread),
			0);
	assert_int_equal(evidence_usual_ratio(&evidence, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS,
				 spans, 3, &median, &spread),
		6);
	assert_true(fabs(median - 2) < 1e-9 && spread < 1e-9);
	evidence_fini(&evidence);
}

/* What a counter grows by beyond its part is steady, though the part is not. */
static void usual_rest_is_without_the_part(void **state)
{
	struct evidence evidence = {0};
	double median, spread;
	int64_t part_ns = 0;

	(void)state;
	for (int64_t second = 0; second <= 12; second++) {
		count_cycles(&evidence, second * SECOND, part_ns, part_ns + second * SECOND / 4);
		part_ns += second * second % 7 * SECOND / 10;
		if (second == 3)
			assert_false(evidence_usual_rest(&evidence, METRIC_CPU_CYCLES,
				METRIC_CPU_COUNTED_NS, &(struct evidence_span){0, 100 * SECOND}, 1,
				&median, &spread));
	}
	assert_true(evidence_usual_rest(&evidence, METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS,
		&(struct evidence_span){0, 12 * SECOND}, 1, &median, &spread));
	assert_true(fabs(median - 0.25) < 1e-9 && spread < 1e-9);
	assert_true(evidence_usual_ratio(&evidence, METRIC_CPU_CYCLES, METRIC_UNKNOWN,
		&(struct evidence_span){0, 12 * SECOND}, 1, &median, &spread));
	assert_true(spread > 0.1);
	assert_false(evidence_usual_rest(&evidence, METRIC_CPU_CYCLES, METRIC_TCP_BUSY_NS,
		&(struct evidence_span){0, 12 * SECOND}, 1, &median, &spread));
	evidence_fini(&evidence);
}

/* How fast a counter grows at a time, by nothing later than is asked for; and usually, for each ns, a fault aside. */
static void rates_at_a_time(void **state)
{
	struct evidence evidence = {0};
	double rate, median, spread;
	int64_t busy_ns = 0;

	(void)state;
	for (int64_t second = 0; second <= 10; second++) {
		sample(&evidence, second * SECOND, busy_ns);
		busy_ns += second >= 8 ? SECOND / 10 : 2 * SECOND;
	}
	assert_true(evidence_rate_at(&evidence, METRIC_TCP_BUSY_NS, 8 * SECOND, 8 * SECOND, &rate));
	assert_true(fabs(rate - 2) < 1e-9); /* the sample of then ends the time before */
	assert_true(evidence_rate_at(
		&evidence, METRIC_TCP_BUSY_NS, 8 * SECOND + SECOND / 2, 9 * SECOND, &rate));
	assert_true(fabs(rate - 0.1) < 1e-9);
	assert_false(evidence_rate_at(
		&evidence, METRIC_TCP_BUSY_NS, 8 * SECOND + SECOND / 2, 9 * SECOND - 1, &rate));
	assert_false(evidence_rate_at(&evidence, METRIC_TCP_BUSY_NS, 0, 10 * SECOND, &rate));
	assert_false(evidence_rate_at(NULL, METRIC_TCP_BUSY_NS, SECOND, 2 * SECOND, &rate));
	assert_true(evidence_usual_ratio(&evidence, METRIC_TCP_BUSY_NS, METRIC_UNKNOWN,
		&(struct evidence_span){0, 10 * SECOND}, 1, &median, &spread));
	assert_true(fabs(median - 2) < 1e-9 && spread < 1e-9);
	/* What was before a time does not count, and few are too few. */
	assert_true(evidence_usual_ratio(&evidence, METRIC_TCP_BUSY_NS, METRIC_UNKNOWN,
		&(struct evidence_span){3 * SECOND, 10 * SECOND}, 1, &median, &spread));
	assert_false(evidence_usual_ratio(&evidence, METRIC_TCP_BUSY_NS, METRIC_UNKNOWN,
		&(struct evidence_span){9 * SECOND, 10 * SECOND}, 1, &median, &spread));
	evidence_fini(&evidence);
}

/* Steps of 2 s, every fifth of which is busy for half of its time, the others for a tenth. */
static void within_some_steps_and_outside(void **state)
{
	struct evidence evidence = {.host_to_job_ns = -3 * SECOND};
	struct evidence_span spans[4];
	struct evidence_split split;
	int64_t busy_ns = 0;

	(void)state;
	for (int64_t second = 0; second <= 32; second++) {
		int64_t noise_ns = second % 3 == 0 ? SECOND / 100 : 0;

		sample(&evidence, second * SECOND, busy_ns + noise_ns);
		busy_ns += second / 2 % 5 == 1 ? SECOND / 2 : SECOND / 10;
	}
	for (int64_t i = 0; i < 4; i++)
		spans[i] = (struct evidence_span){(10 * i - 1) * SECOND, (10 * i + 1) * SECOND};
	assert_true(
		evidence_split_rate(&evidence, METRIC_TCP_BUSY_NS, spans, 4, 40 * SECOND, &split));
	assert_true(fabs(split.inside - 0.5) < 0.02 && fabs(split.outside - 0.1) < 0.01);
	assert_true(split.error > 0 && split.error < 0.02);
	/* Until then there were too few samples; or all of the time is within. */
	assert_false(
		evidence_split_rate(&evidence, METRIC_TCP_BUSY_NS, spans, 4, 5 * SECOND, &split));
	spans[0].end_ns = 40 * SECOND;
	assert_false(
		evidence_split_rate(&evidence, METRIC_TCP_BUSY_NS, spans, 1, 40 * SECOND, &split));
	evidence_fini(&evidence);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_threads_are_no_other_rank),
		cmocka_unit_test(other_programs_are_named_first),
		cmocka_unit_test(since_an_onset_between_two_samples),
		cmocka_unit_test(long_steps_by_samples_at_their_ends),
		cmocka_unit_test(how_much_rates_differ),
		cmocka_unit_test(since_when_it_grows_faster),
		cmocka_unit_test(what_rose_was_not_there_before),
		cmocka_unit_test(usual_ratios_are_robust),
		cmocka_unit_test(usual_is_of_all_spans),
		cmocka_unit_test(usual_rest_is_without_the_part),
		cmocka_unit_test(rates_at_a_time),
		cmocka_unit_test(within_some_steps_and_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
