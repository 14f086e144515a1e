/* SPDX-License-Identifier: Apache-2.0 */
/* Who is looked at, and beside whom: of ranks whose states are made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "analysis/judge/internal.h"

enum { RANKS = 4, SLOW = 2 };

static struct judge *judge;

static int set_up(void **state)
{
	(void)state;
	if (judge_create(&(struct judge_options){0}, &judge))
		return -1;
	for (uint32_t r = 0; r < RANKS; r++) {
		if (judge_measurable(judge, r, EVIDENCE_STACKS))
			return -1;
		judge->ranks[r].in_block = true;
		judge->ranks[r].usual.long_run =
			0.1 * (RANKS - r); /* the last one is the quietest */
	}
	judge->times.next = 1;
	return 0;
}

static int clean_up(void **state)
{
	(void)state;
	judge_destroy(judge);
	return 0;
}

static void suspect(uint32_t rank)
{
	judge->ranks[rank].signal.runs[RUN_QUICK].change.sum = CHANGE_NEAR;
}

/* A verdict on it, without a cause. */
static void name(uint32_t rank)
{
	judge->ranks[rank].incident = 1;
	judge->incidents.count = 1;
	judge->incidents.list[0] = (struct incident){.active = true, .kind = INCIDENT_RANKS};
	judge->incidents.verdicts =
		calloc(1, sizeof(struct verdict)); /* the judge's from here on */
	assert_non_null(judge->incidents.verdicts);
	judge->incidents.verdicts[0].verdict_class = VERDICT_HOST_SLOW;
}

static bool may_look(void *context, enum judge_look_kind kind, uint32_t rank, bool first)
{
	const uint32_t *resting = context;

	(void)kind;
	(void)first;
	return rank != *resting;
}

/* The control; RANKS: nobody is looked at. */
static uint32_t control_beside(uint32_t resting)
{
	struct judge_look_want want;

	if (!judge_look_wants(judge, JUDGE_LOOK_STACKS, may_look, &resting, &want, 1))
		return RANKS;
	assert_int_equal(want.suspect, SLOW);
	return want.control;
}

static void the_quietest_rank_is_the_control(void **state)
{
	(void)state;
	assert_int_equal(control_beside(RANKS), RANKS);
	name(SLOW);
	assert_int_equal(control_beside(RANKS), 3);
	assert_int_equal(control_beside(3), 1);
	judge->ranks[1].totals.role = 1;
	assert_int_equal(control_beside(3), 0);
}

/* On a busy machine somebody always is suspected of something, and in the end all are. */
static void who_is_suspected_will_do_beside_one_that_is_named(void **state)
{
	(void)state;
	name(SLOW);
	suspect(3);
	assert_int_equal(control_beside(RANKS), 1);
	suspect(1);
	assert_int_equal(control_beside(RANKS), 0);
	suspect(0);
	assert_int_equal(control_beside(RANKS), 3);
	judge->ranks[3].incident = 1; /* in the same verdict */
	assert_int_equal(control_beside(RANKS), 1);
}

/* Who lacks a CPU for half of it may do something of its own in the other half; who is throttled for nearly all does not. */
static void a_cause_that_leaves_enough_is_looked_into(void **state)
{
	struct verdict *verdict;

	(void)state;
	name(SLOW);
	verdict = &judge->incidents.verdicts[0];
	verdict->cause = CAUSE_CPU_CONTENTION;
	verdict->sure.share_explained = 0.54;
	assert_int_equal(control_beside(RANKS), 3);
	verdict->sure.share_explained = 0.9;
	assert_int_equal(control_beside(RANKS), RANKS);
	verdict->cause = CAUSE_LOCK;
	verdict->sure.share_explained = 0.54;
	assert_int_equal(control_beside(RANKS), RANKS);
	verdict->cause = CAUSE_CPU_CONTENTION;
	verdict->verdict_class = VERDICT_COMM_SLOW;
	assert_int_equal(control_beside(RANKS), RANKS);
}

/* Of each tenth step that is slow, a look as long as so many slow ones would see few of them. */
static void a_look_is_as_long_as_usual_steps(void **state)
{
	const uint32_t resting = RANKS;
	struct judge_look_want want;

	(void)state;
	name(SLOW);
	for (uint64_t s = 0; s <= 100; s++)
		step_times_note(&judge->times, s, 0, s % 10 ? 40000000 : 300000000);
	assert_int_equal(
		judge_look_wants(judge, JUDGE_LOOK_STACKS, may_look, (void *)&resting, &want, 1),
		1);
	assert_int_equal(want.step_ns, 40000000);
	for (uint64_t s = 101; s <= 120; s++)
		step_times_note(&judge->times, s, 0, 60000000);
	assert_int_equal(
		judge_look_wants(judge, JUDGE_LOOK_STACKS, may_look, (void *)&resting, &want, 1),
		1);
	assert_int_equal(want.step_ns, 60000000);
}

#define LOOKS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, clean_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOKS_TEST(the_quietest_rank_is_the_control),
		LOOKS_TEST(who_is_suspected_will_do_beside_one_that_is_named),
		LOOKS_TEST(a_cause_that_leaves_enough_is_looked_into),
		LOOKS_TEST(a_look_is_as_long_as_usual_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
