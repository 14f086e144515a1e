/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analysis/classify.h"

static const uint32_t all_sources = EVIDENCE_SCHED | EVIDENCE_THROTTLE | EVIDENCE_FAULTS;

static struct excess_sums sums_of(int64_t on_cpu, enum excess_kind kind, int64_t ms)
{
	struct excess_sums sums = {
		.steps = 10, .time_ns = 1000000000, .evidence_mask = all_sources};

	sums.own[EXCESS_COMPUTE] = (50 + on_cpu) * 1000000;
	sums.control[EXCESS_COMPUTE] = 50 * 1000000;
	sums.own[kind] += ms * 1000000;
	return sums;
}

static const char *why_missing(void *context, uint32_t source)
{
	(void)context;
	return source == EVIDENCE_THROTTLE ? "no BPF rights" : "";
}

static void each_kind_has_its_cause(void **state)
{
	static const struct {
		enum excess_kind kind;
		enum cause cause;
	} kinds[] = {
		{EXCESS_PREEMPTED, CAUSE_CPU_CONTENTION},
		{EXCESS_THROTTLED, CAUSE_CGROUP_THROTTLE},
		{EXCESS_BLOCK_IO, CAUSE_BLOCK_IO},
		{EXCESS_MAJOR_FAULT, CAUSE_MAJOR_PAGE_FAULT},
		{EXCESS_MINOR_FAULT, CAUSE_MINOR_PAGE_FAULT},
	};

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		struct excess_sums sums = sums_of(10, kinds[i].kind, 90);
		struct classification class = classify_excess(&sums);

		assert_int_equal(class.verdict_class, VERDICT_HOST_SLOW);
		assert_int_equal(class.cause, kinds[i].cause);
		assert_true(class.share_explained > 0.85 && class.share_explained < 0.95);
	}
}

/* A device that works behind its host: what the host took, and what the segment took beyond it. */
static struct excess_sums device_sums(int64_t device_ms, int64_t host_ms, enum excess_kind kind)
{
	struct excess_sums sums = {.steps = 10,
		.time_ns = 1000000000,
		.evidence_mask = all_sources | EVIDENCE_DEVICE_WAIT | EVIDENCE_COLLECTOR,
		.on_device = true};

	sums.own[EXCESS_COMPUTE] = (400 + device_ms) * 1000000;
	sums.control[EXCESS_COMPUTE] = 400 * 1000000;
	sums.own[EXCESS_HOST_CPU] = sums.control[EXCESS_HOST_CPU] = 200 * 1000000;
	sums.own[kind] += host_ms * 1000000;
	return sums;
}

static void the_device_tells_compute_from_host(void **state)
{
	static const struct {
		int64_t device_ms, host_ms;
		enum excess_kind kind;
		enum verdict_class verdict_class;
		enum cause cause;
	} cases[] = {
		{200, 0, EXCESS_HOST_CPU, VERDICT_COMPUTE_SLOW, CAUSE_UNKNOWN},
		/* The host is late by more than the device waited for it: it was ahead before. */
		{-60, 260, EXCESS_HOST_CPU, VERDICT_HOST_SLOW, CAUSE_UNKNOWN},
		{-60, 260, EXCESS_ASLEEP, VERDICT_HOST_SLOW, CAUSE_INPUT_PIPELINE},
		{-60, 260, EXCESS_THROTTLED, VERDICT_HOST_SLOW, CAUSE_CGROUP_THROTTLE},
		{0, 200, EXCESS_COLLECTOR, VERDICT_HOST_SLOW, CAUSE_GARBAGE_COLLECTION},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct excess_sums sums =
			device_sums(cases[i].device_ms, cases[i].host_ms, cases[i].kind);
		struct classification class = classify_excess(&sums);

		assert_int_equal(class.verdict_class, cases[i].verdict_class);
		assert_int_equal(class.cause, cases[i].cause);
	}
}

/* Where waits for the device are not seen, a busy host may be one that waits. */
static void without_device_waits_a_late_host_is_unknown(void **state)
{
	struct excess_sums sums = device_sums(0, 200, EXCESS_HOST_CPU);

	(void)state;
	sums.evidence_mask = all_sources;
	assert_int_equal(classify_excess(&sums).verdict_class, VERDICT_UNKNOWN);
	sums = device_sums(200, 0, EXCESS_HOST_CPU);
	sums.evidence_mask = all_sources;
	assert_int_equal(classify_excess(&sums).verdict_class, VERDICT_COMPUTE_SLOW);
}

/* So may one that waits for a CPU, unless it is on it for as long as others. */
static void without_device_waits_a_host_that_queues_may_spin(void **state)
{
	struct excess_sums sums = device_sums(0, 200, EXCESS_PREEMPTED);

	(void)state;
	sums.evidence_mask = all_sources;
	assert_int_equal(classify_excess(&sums).verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(classify_excess(&sums).cause, CAUSE_CPU_CONTENTION);
	sums.own[EXCESS_HOST_CPU] += 70 * 1000000;
	assert_int_equal(classify_excess(&sums).verdict_class, VERDICT_UNKNOWN);
	sums.own[EXCESS_HOST_CPU] -= 95 * 1000000;
	assert_int_equal(classify_excess(&sums).verdict_class, VERDICT_UNKNOWN);
	sums.own[EXCESS_HOST_CPU] = sums.control[EXCESS_HOST_CPU];
	sums.own[EXCESS_PREEMPTED] += 30 * 1000000;
	sums.control[EXCESS_PREEMPTED] += 30 * 1000000;
	assert_int_equal(classify_excess(&sums).verdict_class, VERDICT_UNKNOWN);
	sums.evidence_mask |= EVIDENCE_DEVICE_WAIT;
	assert_int_equal(classify_excess(&sums).cause, CAUSE_CPU_CONTENTION);
}

static void on_cpu_excess_is_compute(void **state)
{
	struct excess_sums sums = sums_of(90, EXCESS_PREEMPTED, 10);
	struct classification class = classify_excess(&sums);

	(void)state;
	assert_int_equal(class.verdict_class, VERDICT_COMPUTE_SLOW);
	assert_int_equal(class.cause, CAUSE_UNKNOWN);
}

/* Less than half of what a minor fault takes is timed: the rest passes for work. */
static void faults_are_a_cause_before_they_are_most_of_it(void **state)
{
	struct excess_sums sums = sums_of(70, EXCESS_MINOR_FAULT, 30);
	struct classification class = classify_excess(&sums);

	(void)state;
	assert_int_equal(class.verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(class.cause, CAUSE_MINOR_PAGE_FAULT);
	/* A program that faults as it works has more of both when it has more to do. */
	sums.control[EXCESS_MINOR_FAULT] = 8 * 1000000;
	sums.own[EXCESS_MINOR_FAULT] += sums.control[EXCESS_MINOR_FAULT];
	class = classify_excess(&sums);
	assert_int_equal(class.verdict_class, VERDICT_COMPUTE_SLOW);
	sums = sums_of(80, EXCESS_MINOR_FAULT, 20);
	class = classify_excess(&sums);
	assert_int_equal(class.verdict_class, VERDICT_COMPUTE_SLOW);
	sums = device_sums(0, 140, EXCESS_HOST_CPU);
	sums.own[EXCESS_MINOR_FAULT] += 60 * 1000000;
	class = classify_excess(&sums);
	assert_int_equal(class.verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(class.cause, CAUSE_MINOR_PAGE_FAULT);
}

static void what_the_control_has_too_is_no_cause(void **state)
{
	struct excess_sums sums = sums_of(90, EXCESS_PREEMPTED, 80);
	struct verdict verdict = {0};
	struct classification class;

	(void)state;
	sums.control[EXCESS_PREEMPTED] = 79 * 1000000;
	class = classify_excess(&sums);
	assert_int_equal(class.verdict_class, VERDICT_COMPUTE_SLOW);
	classify_evidence(&sums, &class, why_missing, NULL, &verdict);
	assert_int_equal(verdict.evidence_count, 0);
	for (uint32_t i = 0; i < verdict.rejected_count; i++) {
		if (verdict.rejected[i].kind == CAUSE_CPU_CONTENTION)
			assert_string_equal(verdict.rejected[i].why, "same as control");
	}
}

static void asleep_is_host_without_a_cause(void **state)
{
	struct excess_sums sums = sums_of(5, EXCESS_ASLEEP, 95);
	struct classification class = classify_excess(&sums);

	(void)state;
	assert_int_equal(class.verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(class.cause, CAUSE_UNKNOWN);
}

static void not_measured_is_not_none(void **state)
{
	struct excess_sums sums = sums_of(90, EXCESS_MAJOR_FAULT, 0);
	struct verdict verdict = {0};
	struct classification class;
	bool throttle = false, faults = false;

	(void)state;
	sums.evidence_mask = EVIDENCE_FAULTS;
	class = classify_excess(&sums);
	classify_evidence(&sums, &class, why_missing, NULL, &verdict);
	for (uint32_t i = 0; i < verdict.rejected_count; i++) {
		const struct verdict_rejection *rejection = &verdict.rejected[i];

		if (rejection->kind == CAUSE_CGROUP_THROTTLE) {
			assert_string_equal(rejection->why, "not measurable: no BPF rights");
			throttle = true;
		}
		if (rejection->kind == CAUSE_MAJOR_PAGE_FAULT) {
			assert_string_equal(rejection->why, "none seen");
			faults = true;
		}
	}
	assert_true(throttle && faults);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_has_its_cause),
		cmocka_unit_test(the_device_tells_compute_from_host),
		cmocka_unit_test(without_device_waits_a_late_host_is_unknown),
		cmocka_unit_test(without_device_waits_a_host_that_queues_may_spin),
		cmocka_unit_test(on_cpu_excess_is_compute),
		cmocka_unit_test(faults_are_a_cause_before_they_are_most_of_it),
		cmocka_unit_test(what_the_control_has_too_is_no_cause),
		cmocka_unit_test(asleep_is_host_without_a_cause),
		cmocka_unit_test(not_measured_is_not_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
