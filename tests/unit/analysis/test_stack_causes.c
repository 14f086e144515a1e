/* SPDX-License-Identifier: Apache-2.0 */
/* Causes that stacks tell, beside what the kernel timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analysis/explain/explain.h"
#include "analysis/explain/stack_looks.h"
#include "tests/unit/analysis/made_episode.h"
#include "tests/unit/analysis/made_stacks.h"

#define TORCH "/usr/lib/python3/dist-packages/torch/"
#define TRAIN "main@/home/u/train.py:"
#define SAVE TRAIN "212|save@" TORCH "serialization.py:850|~write@/ckpt/7.pt"
#define LOADER TRAIN "70|__next__@" TORCH "utils/data/dataloader.py:630|~poll@pipe:[9]"
#define COMMON_CODE TRAIN "200|forward@/home/u/model.py:60"
#define OWN_CODE TRAIN "230|augment@/home/u/extra.py:17"

enum { RANKS = 3, STEPS = 40, MS = 1000000, BEFORE_FIRST = 0, BEFORE_SECOND = 2 };
#define SECOND INT64_C(1000000000)

static struct explain_rank ranks[RANKS];
static char missing[EVIDENCE_SOURCE_NR][VERDICT_DETAIL_LENGTH];
static const uint32_t slow = MADE_SLOW;
static struct made_stacks suspect, control;
static struct stack_looks *looks;
static uint32_t every;
static struct explanation result;
static struct verdict verdict;

static int set_up(void **state)
{
	(void)state;
	looks = calloc(1, sizeof(*looks));
	memset(ranks, 0, sizeof(ranks));
	every = 0;
	made_stacks_init(&suspect, slow, STEPS);
	made_stacks_init(&control, 2, STEPS);
	return looks ? 0 : -1;
}

static int clean_up(void **state)
{
	(void)state;
	stack_looks_destroy(looks);
	return 0;
}

static void does(struct made_stacks *made, enum stack_state state, const char *frames, int64_t ms)
{
	made_add(made, made_thread(made, STACK_THREAD_CALLER, "python3", 100), state, BEFORE_SECOND,
		frames, STEPS, ms * STEPS);
}

static void keep(const struct made_stacks *made)
{
	assert_int_equal(stack_looks_keep(looks, &made->profile, 12 * SECOND, 16 * SECOND), 0);
}

static enum cause explained(const struct excess_sums *sums)
{
	const struct made_job job = {.ranks = ranks,
		.rank_count = RANKS,
		.missing = missing,
		.stacks = looks,
		.every_steps = every};

	made_explain(&job, sums, &result);
	memset(&verdict, 0, sizeof(verdict));
	explain_tell(&result, &verdict);
	return result.cause;
}

/* Ten steps in which it takes 10 ms longer, on the CPU and otherwise. */
static struct excess_sums sums_of(int64_t on_cpu_ms, enum excess_kind kind, int64_t ms)
{
	struct excess_sums sums = {.steps = 10,
		.program_steps = 10,
		.time_ns = SECOND,
		.evidence_mask = EVIDENCE_SCHED | EVIDENCE_THROTTLE | EVIDENCE_FAULTS};

	sums.own[EXCESS_COMPUTE] = (500 + 10 * on_cpu_ms) * MS;
	sums.control[EXCESS_COMPUTE] = 500 * MS;
	sums.own[kind] += 10 * ms * MS;
	return sums;
}

static bool is_told(enum cause cause)
{
	bool told = verdict.cause == cause;

	for (uint32_t i = 0; i < verdict.evidence_count; i++)
		told |= verdict.evidence[i].kind == cause;
	for (uint32_t i = 0; i < verdict.rejected_count; i++)
		told |= verdict.rejected[i].kind == cause;
	return told;
}

static const char *why_not(enum cause cause)
{
	for (uint32_t i = 0; i < verdict.rejected_count; i++) {
		if (verdict.rejected[i].kind == cause)
			return verdict.rejected[i].why;
	}
	return "";
}

static const struct {
	enum cause cause;
	enum stack_state state;
	enum excess_kind kind;
	const char *frames;
} cases[] = {
	{CAUSE_CHECKPOINT, STACK_STATE_FILE, EXCESS_BLOCK_IO, SAVE},
	{CAUSE_CHECKPOINT, STACK_STATE_RUNNING, EXCESS_COMPUTE,
		TRAIN "212|save@" TORCH "serialization.py:850"},
	{CAUSE_LOGGING, STACK_STATE_SOCKET, EXCESS_ASLEEP,
		TRAIN "88|info@/usr/lib/python3.11/logging/__init__.py:1489"},
	{CAUSE_LOGGING, STACK_STATE_RUNNING, EXCESS_COMPUTE, TRAIN "88|builtin_print@python3.11"},
	{CAUSE_DATA_LOADER, STACK_STATE_SOCKET, EXCESS_ASLEEP, LOADER},
	{CAUSE_HOST_TO_DEVICE_COPY, STACK_STATE_RUNNING, EXCESS_COMPUTE,
		TRAIN "99|cudaMemcpyAsync@libcudart.so.12"},
	{CAUSE_MEMORY_ALLOCATOR, STACK_STATE_DEVICE, EXCESS_ASLEEP,
		TRAIN "101|cudaFree@libcudart.so.12|~ioctl@/dev/nvidia0"},
	{CAUSE_FILE_SYSTEM, STACK_STATE_FILE, EXCESS_ASLEEP, "main@job|load@job|~read@/nfs/table"},
	{CAUSE_LOCK, STACK_STATE_LOCK, EXCESS_ASLEEP,
		"main@job|update@job|pthread_mutex_lock@libc.so.6|~futex@0x7f3200"},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static void each_is_the_cause_that_its_stacks_show(void **state)
{
	for (size_t i = 0; i < CASES; i++) {
		const struct excess_sums sums = sums_of(1, cases[i].kind, 9);

		set_up(state);
		does(&suspect, cases[i].state, cases[i].frames, 9);
		keep(&suspect);
		keep(&control);
		assert_int_equal(explained(&sums), cases[i].cause);
		assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
		assert_true(result.share > 0.85 && result.share < 0.95);
		assert_false(cause_says_why(result.cause)); /* healthy ranks save and log, too */
		assert_int_equal(verdict.evidence[0].kind, cases[i].cause);
		assert_true(verdict.evidence[0].overlap_ms_per_step > 8.9 &&
			    verdict.evidence[0].overlap_ms_per_step < 9.1);
		assert_true(verdict.where.text[0]);
		assert_string_equal(verdict.evidence[0].detail, verdict.where.text);
		clean_up(state);
	}
}

/* The control does the same, for as long or nearly so; or it explains too little; or nobody is there to compare it with. */
static void it_must_be_the_ranks_alone_and_enough(void **state)
{
	static const struct {
		int64_t own_ms, control_ms;
		bool control;
	} rejected[] = {{9, 9, true}, {20, 11, true}, {3, 0, true}, {9, 0, false}};

	for (size_t i = 0; i < CASES * 4; i++) {
		const struct excess_sums sums = sums_of(1, EXCESS_ASLEEP, 9);
		size_t c = i / 4, r = i % 4;

		set_up(state);
		does(&suspect, cases[c].state, cases[c].frames, rejected[r].own_ms);
		if (rejected[r].control_ms)
			does(&control, cases[c].state, cases[c].frames, rejected[r].control_ms);
		keep(&suspect);
		if (rejected[r].control)
			keep(&control);
		assert_int_equal(explained(&sums), CAUSE_UNKNOWN);
		assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
		if (r == 1)
			assert_string_equal(why_not(cases[c].cause), "same as control");
		if (r == 2)
			assert_string_equal(
				why_not(cases[c].cause), "explains only 30 % of the excess");
		clean_up(state);
	}
}

static void who_waits_for_a_cpu_or_a_page_does_nothing_else(void **state)
{
	static const struct {
		enum stack_state state;
		enum excess_kind kind;
		enum cause cause;
	} timed[] = {
		{STACK_STATE_RUNNABLE, EXCESS_THROTTLED, CAUSE_CGROUP_THROTTLE},
		{STACK_STATE_RUNNABLE, EXCESS_PREEMPTED, CAUSE_CPU_CONTENTION},
		{STACK_STATE_FAULT, EXCESS_MAJOR_FAULT, CAUSE_MAJOR_PAGE_FAULT},
	};

	for (size_t i = 0; i < sizeof(timed) / sizeof(timed[0]); i++) {
		const struct excess_sums sums = sums_of(1, timed[i].kind, 9);

		set_up(state);
		does(&suspect, timed[i].state, SAVE, 9);
		keep(&suspect);
		keep(&control);
		assert_int_equal(explained(&sums), timed[i].cause);
		assert_false(is_told(CAUSE_CHECKPOINT));
		clean_up(state);
	}
}

/* What was saved, or read, says more than that it was blocked on storage. */
static void stacks_sharpen_what_was_blocked_on(void **state)
{
	struct excess_sums sums = sums_of(0, EXCESS_BLOCK_IO, 10);

	(void)state;
	assert_int_equal(explained(&sums), CAUSE_BLOCK_IO);
	does(&suspect, STACK_STATE_FILE, SAVE, 8);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&sums), CAUSE_CHECKPOINT);
	assert_string_equal(why_not(CAUSE_BLOCK_IO), "explains the same 100 % of the excess");
	/* It explains less than most of that; by no more than looks err. */
	sums.own[EXCESS_BLOCK_IO] = 120 * MS;
	assert_int_equal(explained(&sums), CAUSE_CHECKPOINT);
	/* Less by far: that it saved says more than how long it was blocked, as far as it was seen. */
	sums.own[EXCESS_BLOCK_IO] = 200 * MS;
	assert_int_equal(explained(&sums), CAUSE_CHECKPOINT);
	assert_true(result.share < 0.45);
	sums.own[EXCESS_BLOCK_IO] = 260 * MS;
	assert_int_equal(explained(&sums), CAUSE_BLOCK_IO);
}

static struct excess_sums device_sums(int64_t device_ms, int64_t asleep_ms)
{
	struct excess_sums sums = sums_of(device_ms, EXCESS_ASLEEP, asleep_ms);

	sums.on_device = true;
	sums.evidence_mask |= EVIDENCE_DEVICE_WAIT;
	return sums;
}

/* One story of the input, and the better one. */
static void a_loader_that_is_seen_goes_before_one_that_is_reckoned(void **state)
{
	const struct excess_sums sums = device_sums(0, 10);

	(void)state;
	assert_int_equal(explained(&sums), CAUSE_INPUT_PIPELINE);
	does(&suspect, STACK_STATE_SOCKET, LOADER, 9);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&sums), CAUSE_DATA_LOADER);
	assert_false(is_told(CAUSE_INPUT_PIPELINE));
}

static void a_sleep_that_is_seen_to_be_something_else_is_no_input(void **state)
{
	const struct excess_sums sums = device_sums(0, 10);

	(void)state;
	does(&suspect, STACK_STATE_SOCKET, SAVE, 9);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&sums), CAUSE_CHECKPOINT);
}

/* Its host waits for it, which says nothing of the reason. */
static void a_slow_device_is_not_explained_by_its_host(void **state)
{
	const struct excess_sums sums = device_sums(10, 0);

	(void)state;
	does(&suspect, STACK_STATE_RUNNING, OWN_CODE, 10);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&sums), CAUSE_UNKNOWN);
	assert_int_equal(result.verdict_class, VERDICT_COMPUTE_SLOW);
	assert_string_equal(verdict.where.text, "");
}

/* Of a cause that nobody knows it is said where it is; the class is as before. */
static void code_of_the_program_is_a_place_and_no_cause(void **state)
{
	const struct excess_sums asleep = sums_of(1, EXCESS_ASLEEP, 9);
	const struct excess_sums works = sums_of(10, EXCESS_ASLEEP, 0);

	(void)state;
	does(&suspect, STACK_STATE_SLEEP, OWN_CODE, 9);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&asleep), CAUSE_UNKNOWN);
	assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
	assert_string_equal(verdict.where.text, "in augment (extra.py:17)");
	assert_false(is_told(CAUSE_HOST_CODE)); /* it sleeps there */
	assert_int_equal(explained(&works), CAUSE_UNKNOWN);
	assert_int_equal(result.verdict_class, VERDICT_COMPUTE_SLOW);
	assert_string_equal(verdict.where.text, "in augment (extra.py:17)");
}

/* What keeps a CPU busy and is the rank's alone; the work where the CPU does that, else what its device's host does beside. */
static void code_that_computes_is_the_ranks_own(void **state)
{
	const struct excess_sums works = sums_of(10, EXCESS_ASLEEP, 0);
	struct excess_sums host = sums_of(0, EXCESS_HOST_CPU, 10);

	(void)state;
	host.on_device = true;
	does(&suspect, STACK_STATE_RUNNING, COMMON_CODE, 30); /* as all do */
	does(&control, STACK_STATE_RUNNING, COMMON_CODE, 30);
	does(&suspect, STACK_STATE_RUNNING, OWN_CODE, 9);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&works), CAUSE_HOST_CODE);
	assert_int_equal(result.verdict_class, VERDICT_COMPUTE_SLOW);
	assert_true(result.share > 0.85 && result.share < 0.95);
	assert_false(cause_says_why(result.cause));
	assert_true(verdict.evidence[0].overlap_ms_per_step > 8.9 &&
		    verdict.evidence[0].overlap_ms_per_step < 9.1);
	assert_true(verdict.evidence[0].control_ms_per_step < 0.1);
	assert_string_equal(verdict.evidence[0].detail, "in augment (extra.py:17)");
	assert_string_equal(verdict.where.text, "in augment (extra.py:17)");
	assert_int_equal(explained(&host), CAUSE_HOST_CODE);
	assert_int_equal(result.verdict_class, VERDICT_HOST_SLOW);
}

/* On a slow CPU, however slow, the same code takes longer; and what the kernel timed goes first. */
static void a_slow_cpu_is_no_code_of_ones_own(void **state)
{
	const struct excess_sums works = sums_of(10, EXCESS_ASLEEP, 0);
	const struct excess_sums contended = sums_of(4, EXCESS_PREEMPTED, 6);
	const struct excess_sums throttled = sums_of(4, EXCESS_THROTTLED, 6);

	does(&suspect, STACK_STATE_RUNNING, OWN_CODE, 13);
	does(&control, STACK_STATE_RUNNING, OWN_CODE, 3);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&works), CAUSE_UNKNOWN);
	assert_int_equal(result.verdict_class, VERDICT_COMPUTE_SLOW);
	assert_string_equal(why_not(CAUSE_HOST_CODE), "same as control");
	clean_up(state);
	set_up(state);
	does(&suspect, STACK_STATE_RUNNING, OWN_CODE, 9);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&works), CAUSE_HOST_CODE);
	assert_int_equal(explained(&contended), CAUSE_CPU_CONTENTION);
	assert_int_equal(explained(&throttled), CAUSE_CGROUP_THROTTLE);
}

static void a_small_part_is_no_place(void **state)
{
	const struct excess_sums sums = sums_of(1, EXCESS_ASLEEP, 9);

	(void)state;
	does(&suspect, STACK_STATE_SLEEP, OWN_CODE, 2);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&sums), CAUSE_UNKNOWN);
	assert_string_equal(verdict.where.text, "");
}

/* In every tenth step alone 100 ms are lost, of which the sums tell. */
static void of_a_period_its_steps_are_explained(void **state)
{
	const struct excess_sums sums = sums_of(10, EXCESS_BLOCK_IO, 90);

	(void)state;
	every = 10;
	made_add(&suspect, made_thread(&suspect, STACK_THREAD_CALLER, "python3", 100),
		STACK_STATE_FILE, BEFORE_FIRST, SAVE, 4, 4 * 95);
	keep(&suspect);
	keep(&control);
	assert_int_equal(explained(&sums), CAUSE_CHECKPOINT);
	assert_true(result.share > 0.9 && result.share < 1);
	assert_true(verdict.where.ms_per_step > 94 && verdict.where.ms_per_step < 96);
}

static void a_look_that_came_to_nothing_says_why(void **state)
{
	const struct excess_sums sums = sums_of(1, EXCESS_ASLEEP, 9);

	(void)state;
	explained(&sums);
	assert_false(is_told(CAUSE_CHECKPOINT)); /* nobody looked */
	suspect.profile.result = STACK_RESULT_NO_RIGHT;
	suspect.profile.steps = 0;
	keep(&suspect);
	assert_int_equal(explained(&sums), CAUSE_UNKNOWN);
	assert_string_equal(why_not(CAUSE_CHECKPOINT),
		"not measurable: stacks: slowrank may not trace the process");
}

#define STACK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, clean_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_the_cause_that_its_stacks_show),
		cmocka_unit_test(it_must_be_the_ranks_alone_and_enough),
		cmocka_unit_test(who_waits_for_a_cpu_or_a_page_does_nothing_else),
		STACK_TEST(stacks_sharpen_what_was_blocked_on),
		STACK_TEST(a_loader_that_is_seen_goes_before_one_that_is_reckoned),
		STACK_TEST(a_sleep_that_is_seen_to_be_something_else_is_no_input),
		STACK_TEST(a_slow_device_is_not_explained_by_its_host),
		STACK_TEST(code_of_the_program_is_a_place_and_no_cause),
		STACK_TEST(code_that_computes_is_the_ranks_own),
		STACK_TEST(a_slow_cpu_is_no_code_of_ones_own),
		STACK_TEST(a_small_part_is_no_place),
		STACK_TEST(of_a_period_its_steps_are_explained),
		STACK_TEST(a_look_that_came_to_nothing_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
