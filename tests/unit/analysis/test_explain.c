/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "analysis/base/evidence.h"
#include "analysis/explain/explain.h"
#include "analysis/explain/looks.h"
#include "tests/unit/analysis/made_episode.h"

enum { RANKS = 4, SECOND = 1000000000 };

/* A job of which nothing but this is known: rank 1 is slow for the last ten of twenty seconds. */
static struct explain_rank ranks[RANKS];
static struct evidence evidence[RANKS];
static char missing[EVIDENCE_SOURCE_NR][VERDICT_DETAIL_LENGTH];
static const uint32_t slow = MADE_SLOW;
static const struct judge_looks *kept_looks;
static struct explanation result;

static int clean_up(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		evidence_fini(&evidence[r]);
	memset(ranks, 0, sizeof(ranks));
	memset(missing, 0, sizeof(missing));
	kept_looks = NULL;
	return 0;
}

static void put(uint32_t rank, unsigned metric, int64_t second, int64_t value)
{
	ranks[rank].evidence = &evidence[rank];
	assert_int_equal(evidence_add_sample(&evidence[rank], metric, second * SECOND, value), 0);
}

/* A counter that all ranks have: by so much a second, and by so much on the slow one since it is. */
static void put_counter(unsigned metric, double usual, double others, double own)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		double value = 0;

		for (int64_t second = 0; second <= 20; second++) {
			put(r, metric, second, (int64_t)value);
			value += second < 10 ? usual : r == slow ? own : others;
		}
	}
}

static const struct explanation *explained(const struct excess_sums *sums)
{
	const struct made_job job = {
		.ranks = ranks, .rank_count = RANKS, .missing = missing, .looks = kept_looks};

	made_explain(&job, sums, &result);
	return &result;
}

static const char *why_not(const struct verdict *verdict, enum cause cause)
{
	for (uint32_t i = 0; i < verdict->rejected_count; i++) {
		if (verdict->rejected[i].kind == cause)
			return verdict->rejected[i].why;
	}
	return "";
}

static const uint32_t all_sources = EVIDENCE_SCHED | EVIDENCE_THROTTLE | EVIDENCE_FAULTS;

static struct excess_sums sums_of(int64_t on_cpu, enum excess_kind kind, int64_t ms)
{
	struct excess_sums sums = {.steps = 10,
		.program_steps = 10,
		.time_ns = 1000000000,
		.evidence_mask = all_sources};

	sums.own[EXCESS_COMPUTE] = (50 + on_cpu) * 1000000;
	sums.control[EXCESS_COMPUTE] = 50 * 1000000;
	sums.own[kind] += ms * 1000000;
	return sums;
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
		const struct explanation *why = explained(&sums);

		assert_int_equal(why->verdict_class, VERDICT_HOST_SLOW);
		assert_int_equal(why->cause, kinds[i].cause);
		assert_true(why->share > 0.85 && why->share < 0.95);
	}
}

/* A device that works behind its host: what the host took, and what the segment took beyond it. */
static struct excess_sums device_sums(int64_t device_ms, int64_t host_ms, enum excess_kind kind)
{
	struct excess_sums sums = {.steps = 10,
		.program_steps = 10,
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
		const struct explanation *why = explained(&sums);

		assert_int_equal(why->verdict_class, cases[i].verdict_class);
		assert_int_equal(why->cause, cases[i].cause);
	}
}

/* The host waits for its device in each step, as nobody else: next to nothing is left, and that is not why others waited. */
static void a_trace_of_the_delay_is_no_cause(void **state)
{
	struct excess_sums sums = device_sums(-110, 2, EXCESS_PREEMPTED);

	(void)state;
	assert_int_equal(explained(&sums)->cause, CAUSE_CPU_CONTENTION);
	sums.delay_ns = 78 * 1000000;
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(result.cause, CAUSE_UNKNOWN);
	sums.own[EXCESS_PREEMPTED] = sums.delay_ns;
	assert_int_equal(explained(&sums)->cause, CAUSE_CPU_CONTENTION);
}

/* Where waits for the device are not seen, a busy host may be one that waits. */
static void without_device_waits_a_late_host_is_unknown(void **state)
{
	struct excess_sums sums = device_sums(0, 200, EXCESS_HOST_CPU);

	(void)state;
	sums.evidence_mask = all_sources;
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_UNKNOWN);
	sums = device_sums(200, 0, EXCESS_HOST_CPU);
	sums.evidence_mask = all_sources;
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_COMPUTE_SLOW);
}

/* A counter's latest sample before the onset may be long ago: it grew since the onset, not since then. */
static void counters_grow_since_the_onset(void **state)
{
	struct excess_sums sums = {.steps = 200,
		.program_steps = 200,
		.time_ns = INT64_C(10) * SECOND,
		.delay_ns = INT64_C(2) * SECOND,
		.own[EXCESS_COMPUTE] = INT64_C(6) * SECOND,
		.control[EXCESS_COMPUTE] = INT64_C(4) * SECOND,
		.evidence_mask = EVIDENCE_SCHED | EVIDENCE_FAULTS};

	(void)state;
	for (uint32_t r = 0; r < RANKS; r++) {
		for (int64_t second = 0; second <= 5; second++)
			put(r, METRIC_CGROUP_THROTTLED_NS, second, 0);
		put(r, METRIC_CGROUP_THROTTLED_NS, 20, r == slow ? INT64_C(6) * SECOND / 5 : 0);
	}
	assert_int_equal(explained(&sums)->cause, CAUSE_CGROUP_THROTTLE);
	assert_true(fabs(result.share - 0.6) < 0.01);
}

/* Shares of a rank's time, before it is slow and since. */
static void put_share(uint32_t rank, unsigned metric, double before, double since)
{
	double value = 0;

	for (int64_t second = 0; second <= 20; second++) {
		put(rank, metric, second, (int64_t)value);
		value += 1e9 * (second < 10 ? before : since);
	}
}

/* A host of which only the driver and /proc tell, late for a fifth of the time: how long its device, and the others', were busy. */
static struct excess_sums unseen_host(double own_before, double own, double others)
{
	struct excess_sums sums = device_sums(0, 200, EXCESS_HOST_CPU);

	sums.evidence_mask = 0;
	sums.delay_ns = 200 * 1000000;
	for (uint32_t r = 0; r < RANKS; r++)
		put_share(r, METRIC_GPU_BUSY_NS, r == slow ? own_before : 0.8,
			r == slow ? own : others);
	return sums;
}

static void put_queue(uint32_t rank, double before, double since)
{
	put_share(rank, METRIC_LAUNCHERS_QUEUED_NS, before, since);
	put_share(rank, METRIC_LAUNCHERS_CPU_NS, 1 - before, 1 - since);
}

/* A device that has nothing to do is not waited for. */
static void an_idle_device_proves_a_late_host(void **state)
{
	struct excess_sums sums = unseen_host(0.8, 0.64, 0.84);
	struct verdict verdict = {0};

	explain_tell(explained(&sums), &verdict);
	assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(result.cause, CAUSE_UNKNOWN);
	assert_string_equal(why_not(&verdict, CAUSE_CPU_CONTENTION), "not measurable");
	/* As idle as the others', or as before, per step: it may have been waited for. */
	clean_up(state);
	sums = unseen_host(0.8, 0.84, 0.84);
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_UNKNOWN);
	clean_up(state);
	sums = unseen_host(0.55, 0.64, 0.84);
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_UNKNOWN);
}

/* It queued while its device had nothing to do, longer than others on its host for what they ran. */
static void who_queues_beside_an_idle_device_shares_its_cpu(void **state)
{
	struct excess_sums sums = unseen_host(0.8, 0.64, 0.84);
	struct verdict verdict = {0};

	(void)state;
	for (uint32_t r = 0; r < RANKS; r++)
		put_queue(r, 0.02, r == slow ? 0.5 : 0.02);
	explain_tell(explained(&sums), &verdict);
	assert_int_equal(verdict.cause, CAUSE_CPU_CONTENTION);
	assert_true(verdict.sure.share_explained > 0.95);
	assert_string_equal(verdict.evidence[0].detail,
		"its threads waited 50 % of the time that they wanted a CPU, usual 2 %");
	/* The kernel's side has it already. */
	sums.evidence_mask = EVIDENCE_SCHED | EVIDENCE_DEVICE_WAIT;
	assert_int_equal(explained(&sums)->cause, CAUSE_UNKNOWN);
}

/* Between calls its device counts as busy, also while it waits for what is launched late. */
static void who_queues_makes_its_device_late(void **state)
{
	struct excess_sums sums = unseen_host(0.8, 0.64, 0.84);

	(void)state;
	sums.own[EXCESS_COMPUTE] += 250 * 1000000;
	sums.delay_ns += 250 * 1000000;
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_COMPUTE_SLOW);
	clean_up(state);
	(void)unseen_host(0.8, 0.64, 0.84);
	for (uint32_t r = 0; r < RANKS; r++)
		put_queue(r, 0, r == slow ? 0.5 : 0);
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(result.cause, CAUSE_CPU_CONTENTION);
}

/* A throttled thread queues, too, and its device has nothing to do. */
static void who_is_throttled_queues_for_that(void **state)
{
	struct excess_sums sums = unseen_host(0.8, 0.64, 0.84);

	(void)state;
	for (uint32_t r = 0; r < RANKS; r++)
		put_queue(r, 0.02, r == slow ? 0.2 : 0.02);
	sums.own[EXCESS_THROTTLED] = 200 * 1000000;
	sums.evidence_mask = EVIDENCE_THROTTLE;
	assert_int_equal(explained(&sums)->cause, CAUSE_CGROUP_THROTTLE);
	assert_int_equal(result.sums.own[EXCESS_PREEMPTED], 0);
}

/* A wait for a device spins and queues, as may all on a host that has too much to do. */
static void who_queues_like_others_is_not_held_up_by_it(void **state)
{
	struct excess_sums sums = unseen_host(0.8, 0.84, 0.84);
	struct verdict verdict = {0};

	for (uint32_t r = 0; r < RANKS; r++)
		put_queue(r, 0.02, r == slow ? 0.5 : 0.02);
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_UNKNOWN);
	clean_up(state);
	sums = unseen_host(0.8, 0.64, 0.84);
	for (uint32_t r = 0; r < RANKS; r++) {
		put_queue(r, 0.02, r == 0 ? 0.02 : 0.5);
		ranks[r].host = r == 0; /* alone on another host */
	}
	explain_tell(explained(&sums), &verdict);
	assert_int_equal(verdict.verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(verdict.cause, CAUSE_UNKNOWN);
	assert_string_equal(why_not(&verdict, CAUSE_CPU_CONTENTION),
		"its threads waited 50 % of the time that they wanted a CPU, usual 50 %");
	clean_up(state);
	sums = unseen_host(0.8, 0.64, 0.84);
	for (uint32_t r = 0; r < RANKS; r++)
		put_queue(r, r == slow ? 0.5 : 0.02, r == slow ? 0.5 : 0.02);
	assert_int_equal(explained(&sums)->cause, CAUSE_UNKNOWN); /* so it did before */
}

/* Hosts poll, for their devices and for the other ranks: one that runs less than half as much was kept from it. */
static void who_hardly_runs_is_a_late_host(void **state)
{
	static const struct {
		double own, others;
		enum verdict_class verdict_class;
	} ran[] = {
		{0.3, 1.3, VERDICT_HOST_SLOW}, {0.7, 1.3, VERDICT_UNKNOWN},
		{0.3, 0.4, VERDICT_UNKNOWN}, /* none of them polls */
	};

	for (size_t i = 0; i < sizeof(ran) / sizeof(ran[0]); i++) {
		struct excess_sums sums = device_sums(0, 200, EXCESS_HOST_CPU);

		sums.evidence_mask = 0;
		for (uint32_t r = 0; r < RANKS; r++)
			put_share(r, METRIC_PROCESS_CPU_NS, 1,
				r == slow ? ran[i].own : ran[i].others);
		assert_int_equal(explained(&sums)->verdict_class, ran[i].verdict_class);
		clean_up(state);
	}
}

static void on_cpu_excess_is_compute(void **state)
{
	struct excess_sums sums = sums_of(90, EXCESS_PREEMPTED, 10);
	const struct explanation *why = explained(&sums);

	(void)state;
	assert_int_equal(why->verdict_class, VERDICT_COMPUTE_SLOW);
	assert_int_equal(why->cause, CAUSE_UNKNOWN);
}

/* Less than half of what a minor fault takes is timed: the rest passes for work. */
static void faults_are_a_cause_before_they_are_most_of_it(void **state)
{
	struct excess_sums sums = sums_of(70, EXCESS_MINOR_FAULT, 30);
	const struct explanation *why = explained(&sums);

	(void)state;
	assert_int_equal(why->verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(why->cause, CAUSE_MINOR_PAGE_FAULT);
	/* A program that faults as it works has more of both when it has more to do. */
	sums.control[EXCESS_MINOR_FAULT] = 8 * 1000000;
	sums.own[EXCESS_MINOR_FAULT] += sums.control[EXCESS_MINOR_FAULT];
	why = explained(&sums);
	assert_int_equal(why->verdict_class, VERDICT_COMPUTE_SLOW);
	sums = sums_of(80, EXCESS_MINOR_FAULT, 20);
	why = explained(&sums);
	assert_int_equal(why->verdict_class, VERDICT_COMPUTE_SLOW);
	sums = device_sums(0, 140, EXCESS_HOST_CPU);
	sums.own[EXCESS_MINOR_FAULT] += 60 * 1000000;
	why = explained(&sums);
	assert_int_equal(why->verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(why->cause, CAUSE_MINOR_PAGE_FAULT);
}

static void what_the_control_has_too_is_no_cause(void **state)
{
	struct excess_sums sums = sums_of(90, EXCESS_PREEMPTED, 80);
	struct verdict verdict = {0};

	(void)state;
	sums.control[EXCESS_PREEMPTED] = 79 * 1000000;
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_COMPUTE_SLOW);
	explain_tell(&result, &verdict);
	assert_int_equal(verdict.evidence_count, 0);
	assert_string_equal(why_not(&verdict, CAUSE_CPU_CONTENTION), "same as control");
}

/* In each second since it is slow, and in those of the others: so long at once, in ms. */
static void put_stops(uint32_t rank, int64_t ms, uint32_t debugger)
{
	for (int64_t second = 10; second < 20 && ms; second++) {
		struct evidence_interval stop = {.start_ns = second * SECOND,
			.end_ns = second * SECOND + ms * 1000000,
			.other_pid = debugger,
			.reason = OFF_CPU_STOPPED};

		strcpy(stop.other_name, debugger ? "gdb" : "");
		ranks[rank].evidence = &evidence[rank];
		assert_int_equal(evidence_add_interval(&evidence[rank], &stop), 0);
	}
}

static void a_rank_is_stopped(void **state)
{
	static const struct {
		int64_t own_ms, others_ms; /* in a second, of 95 that it slept */
		uint32_t debugger;
		enum cause cause;
		const char *text, *not_it;
	} cases[] = {
		{90, 0, 0, CAUSE_STOPPED, "by a signal", ""},
		{90, 0, 77, CAUSE_STOPPED, "held by gdb (pid 77)", ""},
		{90, 88, 0, CAUSE_UNKNOWN, "", "same as control"},
		{20, 0, 0, CAUSE_UNKNOWN, "", "explains only 20 % of the excess"},
		{0, 0, 0, CAUSE_UNKNOWN, "", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct excess_sums sums = sums_of(5, EXCESS_ASLEEP, 95);
		struct verdict verdict = {0};

		clean_up(state);
		for (uint32_t r = 0; r < RANKS; r++)
			put_stops(r, r == slow ? cases[i].own_ms : cases[i].others_ms,
				cases[i].debugger);
		explain_tell(explained(&sums), &verdict);
		assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
		assert_int_equal(result.cause, cases[i].cause);
		assert_string_equal(result.cause ? verdict.evidence[0].detail : "", cases[i].text);
		assert_string_equal(why_not(&verdict, CAUSE_STOPPED), cases[i].not_it);
	}
}

static void asleep_is_host_without_a_cause(void **state)
{
	struct excess_sums sums = sums_of(5, EXCESS_ASLEEP, 95);
	const struct explanation *why = explained(&sums);

	(void)state;
	assert_int_equal(why->verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(why->cause, CAUSE_UNKNOWN);
}

static void not_measured_is_not_none(void **state)
{
	struct excess_sums sums = sums_of(90, EXCESS_MAJOR_FAULT, 0);
	struct verdict verdict = {0};

	(void)state;
	sums.evidence_mask = EVIDENCE_FAULTS;
	strcpy(missing[1], "no BPF rights"); /* EVIDENCE_THROTTLE */
	explain_tell(explained(&sums), &verdict);
	assert_string_equal(
		why_not(&verdict, CAUSE_CGROUP_THROTTLE), "not measurable: no BPF rights");
	assert_string_equal(why_not(&verdict, CAUSE_MAJOR_PAGE_FAULT), "none seen");
}

/* A throttled rank waits longer for a CPU as well; a sleep of its own does not throttle it. */
static void clear_throttling_goes_before_what_it_brings(void **state)
{
	struct excess_sums sums = sums_of(0, EXCESS_PREEMPTED, 60);

	(void)state;
	sums.own[EXCESS_THROTTLED] = 35 * 1000000;
	assert_int_equal(explained(&sums)->cause, CAUSE_CGROUP_THROTTLE);
	sums.control[EXCESS_THROTTLED] = 20 * 1000000;
	sums.own[EXCESS_THROTTLED] += 20 * 1000000;
	assert_int_equal(explained(&sums)->cause, CAUSE_CPU_CONTENTION);
}

/* Of two reasons the larger share counts, whoever measured it. */
static void the_larger_share_is_the_cause(void **state)
{
	struct excess_sums sums = sums_of(100, EXCESS_PREEMPTED, 60);
	struct verdict verdict = {0};

	(void)state;
	put_counter(METRIC_CPU_COUNTED_NS, 1e9, 1e9, 1e9);
	put_counter(METRIC_CPU_CYCLES, 3e9, 3e9, 1.2e9); /* 60 % of 150 ms */
	assert_int_equal(explained(&sums)->cause, CAUSE_CPU_CLOCK);
	assert_true(result.share > 0.5 && result.share < 0.6);
	explain_tell(&result, &verdict);
	assert_int_equal(verdict.evidence_count, 2);
	assert_int_equal(verdict.evidence[0].kind, CAUSE_CPU_CLOCK);
	assert_int_equal(verdict.evidence[1].kind, CAUSE_CPU_CONTENTION);
	assert_string_equal(
		why_not(&verdict, CAUSE_CPU_CONTENTION), "explains only 38 % of the excess");
	sums = sums_of(100, EXCESS_PREEMPTED, 140);
	assert_int_equal(explained(&sums)->cause, CAUSE_CPU_CONTENTION);
}

/* That the speed of CPUs could not be seen matters to nobody who knows the reason. */
static void what_is_missing_beside_a_reason_is_not_told(void **state)
{
	struct excess_sums sums = sums_of(90, EXCESS_PREEMPTED, 10);
	struct verdict unknown = {0}, known = {0};

	(void)state;
	strcpy(missing[7], "no PMU"); /* EVIDENCE_CYCLES */
	explain_tell(explained(&sums), &unknown);
	assert_string_equal(why_not(&unknown, CAUSE_CPU_CLOCK), "not measurable: no PMU");
	sums = sums_of(10, EXCESS_PREEMPTED, 90);
	explain_tell(explained(&sums), &known);
	assert_int_equal(known.cause, CAUSE_CPU_CONTENTION);
	assert_string_equal(why_not(&known, CAUSE_CPU_CLOCK), "");
}

static void put_gauge(unsigned metric, int64_t second, int64_t usual, int64_t own)
{
	for (uint32_t r = 0; r < RANKS; r++)
		put(r, metric, second, r == slow ? own : usual);
}

/* What breaks a GPU goes before what lowers its clock, that before who shares it, and that before its power cap. */
static void a_slow_gpu_has_one_cause(void **state)
{
	struct excess_sums sums = device_sums(200, 0, EXCESS_HOST_CPU);
	struct excess_sums late = device_sums(0, 260, EXCESS_HOST_CPU);

	(void)state;
	put_gauge(METRIC_GPU_CLOCK_MHZ, 12, 1980, 1200);
	put_gauge(METRIC_GPU_SLOWDOWN_REASONS, 13, 0, 0x4);
	assert_int_equal(explained(&sums)->cause, CAUSE_GPU_CLOCK);
	assert_int_equal(result.verdict_class, VERDICT_COMPUTE_SLOW);
	put_gauge(METRIC_GPU_OTHER_PROCESSES, 14, 0, 1);
	assert_int_equal(explained(&sums)->cause, CAUSE_GPU_SHARED);
	put_gauge(METRIC_GPU_SLOWDOWN_REASONS, 15, 0, 0x40);
	assert_int_equal(explained(&sums)->cause, CAUSE_GPU_CLOCK);
	put_gauge(METRIC_GPU_ECC_ERRORS, 1, 0, 3); /* of an earlier job */
	put_gauge(METRIC_GPU_ECC_ERRORS, 15, 0, 3);
	assert_int_equal(explained(&sums)->cause, CAUSE_GPU_CLOCK);
	put_gauge(METRIC_GPU_ECC_ERRORS, 16, 0, 4);
	assert_int_equal(explained(&sums)->cause, CAUSE_GPU_ERROR);
	assert_int_equal(explained(&late)->cause, CAUSE_UNKNOWN); /* its host is slow */
}

/* Where the driver is asked seldom, its next answer tells of all the time since the last one. */
static void others_on_a_gpu_are_told_late(void **state)
{
	static const struct {
		int64_t second, others, own;
		enum cause cause;
	} next[] = {
		{26, 0, 1, CAUSE_GPU_SHARED},
		{26, 1, 1, CAUSE_UNKNOWN}, /* the others have it, too */
		{26, 0, 0, CAUSE_UNKNOWN},
		{40, 0, 1, CAUSE_UNKNOWN}, /* most of that time was after it */
	};
	struct excess_sums sums = device_sums(200, 0, EXCESS_HOST_CPU);

	(void)state;
	for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
		put_gauge(METRIC_GPU_OTHER_PROCESSES, 9, 0, 0);
		assert_int_equal(explained(&sums)->cause, CAUSE_UNKNOWN);
		put_gauge(METRIC_GPU_OTHER_PROCESSES, next[i].second, next[i].others, next[i].own);
		assert_int_equal(explained(&sums)->cause, next[i].cause);
		if (next[i].cause == CAUSE_GPU_SHARED)
			assert_int_equal(result.findings[CAUSE_GPU_SHARED].since_ns, 9LL * SECOND);
		(void)clean_up(state);
	}
}

/* Where waits for the device are not seen, half of the excess looks like a busy host: what the driver says of the GPU decides. */
static void the_driver_tells_a_device_from_a_busy_host(void **state)
{
	struct excess_sums both = device_sums(110, 130, EXCESS_HOST_CPU);
	struct excess_sums host = device_sums(20, 220, EXCESS_HOST_CPU);

	(void)state;
	both.evidence_mask &= ~(uint32_t)EVIDENCE_DEVICE_WAIT;
	host.evidence_mask &= ~(uint32_t)EVIDENCE_DEVICE_WAIT;
	assert_int_equal(explained(&both)->verdict_class, VERDICT_UNKNOWN);
	put_gauge(METRIC_GPU_OTHER_PROCESSES, 14, 0, 1);
	assert_int_equal(explained(&both)->verdict_class, VERDICT_COMPUTE_SLOW);
	assert_int_equal(result.cause, CAUSE_GPU_SHARED);
	assert_int_equal(explained(&host)->verdict_class, VERDICT_UNKNOWN);
}

/* A fourth looks like the device's: only another process that came since the delay began decides. */
static void who_comes_to_a_gpu_decides_sooner(void **state)
{
	struct excess_sums sums = device_sums(60, 180, EXCESS_HOST_CPU);

	(void)state;
	sums.evidence_mask &= ~(uint32_t)EVIDENCE_DEVICE_WAIT;
	put_gauge(METRIC_GPU_OTHER_PROCESSES, 5, 0, 1);
	put_gauge(METRIC_GPU_OTHER_PROCESSES, 14, 0, 1);
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_UNKNOWN);
	(void)clean_up(state);
	put_gauge(METRIC_GPU_OTHER_PROCESSES, 9, 0, 0);
	put_gauge(METRIC_GPU_OTHER_PROCESSES, 14, 0, 1);
	assert_int_equal(explained(&sums)->cause, CAUSE_GPU_SHARED);
	sums.evidence_mask |= EVIDENCE_DEVICE_WAIT; /* the host is known to be busy itself */
	assert_int_equal(explained(&sums)->verdict_class, VERDICT_HOST_SLOW);
}

static struct kept_look look_at(uint32_t rank, int64_t kernel_ms, int64_t idle_ms)
{
	struct kept_look look = {.start_ns = 14LL * SECOND, .stop_ns = 15LL * SECOND};

	look.profile.rank = rank;
	look.profile.steps = 10;
	look.profile.stop.value = SECOND;
	look.profile.kernel_count = 100;
	look.profile.kernel_ns = kernel_ms * 1000000;
	look.profile.idle_ns = idle_ms * 1000000;
	look.profile.sum_count = 1;
	look.profile.sums[0] = (struct kernel_sum){"gemm", 100, kernel_ms * 1000000};
	return look;
}

/* Looks say where the time went: that is told, and proves nothing before an alert. */
static void looks_say_where_and_not_why(void **state)
{
	struct excess_sums sums = device_sums(200, 0, EXCESS_HOST_CPU);
	struct kept_look own = look_at(slow, 600, 0), other = look_at(3, 400, 0);
	struct judge_looks looks = {.count = 2, .kept = {&own, &other}};

	(void)state;
	sums.delay_ns = 200 * 1000000;
	kept_looks = &looks;
	assert_int_equal(explained(&sums)->cause, CAUSE_LONGER_KERNELS);
	assert_false(cause_says_why(result.cause));
	own = look_at(slow, 400, 200);
	assert_int_equal(explained(&sums)->cause, CAUSE_LAUNCH_GAPS);
	assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
	own = look_at(slow, 400, 70); /* a third of the delay: too little to change the class */
	assert_int_equal(explained(&sums)->cause, CAUSE_UNKNOWN);
	assert_int_equal(result.verdict_class, VERDICT_COMPUTE_SLOW);
}

/* A rank at its memory limit: its faults read back what the limit pushed out, its own time goes into freeing pages. */
static void memory_that_is_reclaimed_is_the_cause(void **state)
{
	struct excess_sums faults = sums_of(10, EXCESS_MAJOR_FAULT, 90);
	struct excess_sums cpu = sums_of(90, EXCESS_PREEMPTED, 10);
	struct verdict verdict = {0};

	(void)state;
	assert_int_equal(explained(&faults)->cause, CAUSE_MAJOR_PAGE_FAULT);
	put_counter(METRIC_MEMORY_LIMIT_HITS, 0, 0, 5000);
	assert_int_equal(explained(&faults)->cause, CAUSE_MEMORY_RECLAIM);
	assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
	assert_true(result.share > 0.85 && result.share < 0.95);
	explain_tell(&result, &verdict);
	assert_int_equal(verdict.evidence[0].kind, CAUSE_MEMORY_RECLAIM);
	assert_string_equal(
		why_not(&verdict, CAUSE_MAJOR_PAGE_FAULT), "explains the same 90 % of the excess");
	assert_int_equal(explained(&cpu)->cause, CAUSE_UNKNOWN); /* nothing stalls for it */
	assert_true(result.computes);
	put_counter(METRIC_PSI_MEMORY_SOME_NS, 0, 8e7, 8e7); /* of the host, 8 % of the time */
	assert_int_equal(explained(&cpu)->cause, CAUSE_MEMORY_RECLAIM);
	assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
	assert_true(result.share > 0.75 && result.share < 0.85);
	ranks[slow].host = 1; /* the other host stalls as much: it is not that */
	assert_int_equal(explained(&cpu)->cause, CAUSE_UNKNOWN);
}

/* Page cache fills up to the limit in healthy containers, too, and is freed there all the time. */
static void what_is_always_reclaimed_is_no_cause(void **state)
{
	struct excess_sums faults = sums_of(10, EXCESS_MAJOR_FAULT, 90);

	(void)state;
	put_counter(METRIC_MEMORY_LIMIT_HITS, 3000, 0, 5000);	   /* as before */
	put_counter(METRIC_MEMORY_RECLAIM_PAGES, 0, 90000, 90000); /* as the others */
	assert_int_equal(explained(&faults)->cause, CAUSE_MAJOR_PAGE_FAULT);
}

/* There is something to say of each row. */
static void every_cause_has_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < CAUSE_ROWS; i++) {
		const struct cause_rule *rule = cause_rule((enum cause)cause_order[i]);

		assert_true(
			rule->name[0] && rule->phrase[0] && rule->meaning[0] && rule->advice[0]);
	}
	assert_null(cause_rule(CAUSE_UNKNOWN)->name);
	assert_null(cause_rule(CAUSE_NR)->name);
	assert_string_equal(cause_name(CAUSE_NR), "unknown");
}

#define EXPLAIN_TEST(name) cmocka_unit_test_teardown(name, clean_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EXPLAIN_TEST(each_kind_has_its_cause),
		EXPLAIN_TEST(the_device_tells_compute_from_host),
		EXPLAIN_TEST(a_trace_of_the_delay_is_no_cause),
		EXPLAIN_TEST(without_device_waits_a_late_host_is_unknown),
		EXPLAIN_TEST(counters_grow_since_the_onset),
		EXPLAIN_TEST(an_idle_device_proves_a_late_host),
		EXPLAIN_TEST(who_queues_beside_an_idle_device_shares_its_cpu),
		EXPLAIN_TEST(who_queues_makes_its_device_late),
		EXPLAIN_TEST(who_is_throttled_queues_for_that),
		EXPLAIN_TEST(who_queues_like_others_is_not_held_up_by_it),
		EXPLAIN_TEST(who_hardly_runs_is_a_late_host),
		EXPLAIN_TEST(on_cpu_excess_is_compute),
		EXPLAIN_TEST(faults_are_a_cause_before_they_are_most_of_it),
		EXPLAIN_TEST(what_the_control_has_too_is_no_cause),
		EXPLAIN_TEST(a_rank_is_stopped),
		EXPLAIN_TEST(asleep_is_host_without_a_cause),
		EXPLAIN_TEST(not_measured_is_not_none),
		EXPLAIN_TEST(clear_throttling_goes_before_what_it_brings),
		EXPLAIN_TEST(the_larger_share_is_the_cause),
		EXPLAIN_TEST(what_is_missing_beside_a_reason_is_not_told),
		EXPLAIN_TEST(a_slow_gpu_has_one_cause),
		EXPLAIN_TEST(others_on_a_gpu_are_told_late),
		EXPLAIN_TEST(the_driver_tells_a_device_from_a_busy_host),
		EXPLAIN_TEST(who_comes_to_a_gpu_decides_sooner),
		EXPLAIN_TEST(looks_say_where_and_not_why),
		EXPLAIN_TEST(memory_that_is_reclaimed_is_the_cause),
		EXPLAIN_TEST(what_is_always_reclaimed_is_no_cause),
		EXPLAIN_TEST(every_cause_has_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
