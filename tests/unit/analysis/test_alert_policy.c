/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/incident/alert_policy.h"
#include "analysis/policy.h"

static void recovery_needs_quiet_blocks(void **state)
{
	struct alert_memory memory = {0};
	int blocks = 0;

	(void)state;
	for (int i = 0; i < 30; i++) /* half quiet, half loud: never */
		assert_false(alert_recovered(&memory, i % 2 == 0, 1));
	while (!alert_recovered(&memory, true, 1))
		blocks++;
	assert_in_range(blocks, RECOVERY_BLOCKS - 2, RECOVERY_BLOCKS);
}

static void what_comes_in_every_seventh_block_goes_on(void **state)
{
	struct alert_memory memory = {0};
	int blocks = 0;

	(void)state;
	for (int i = 0; i < 700; i++)
		assert_false(alert_recovered(&memory, i % 7 != 0, 7));
	while (!alert_recovered(&memory, true, 7))
		blocks++;
	assert_in_range(blocks, 5 * RECOVERY_BLOCKS, 7 * RECOVERY_BLOCKS);
}

static void updates_are_rare_and_matter(void **state)
{
	struct alert_memory memory = {0};
	struct verdict verdict = {.slowdown = 1.5, .cause = CAUSE_UNKNOWN};
	struct job_ns later = {UPDATE_GAP_NS};

	(void)state;
	alert_told(&memory, &verdict, (struct job_ns){0});
	assert_false(alert_update_due(&memory, &verdict, later));
	verdict.slowdown = 1.55; /* 10 % of the cost */
	assert_false(alert_update_due(&memory, &verdict, later));
	verdict.slowdown = 1.62;
	assert_true(alert_update_due(&memory, &verdict, later));
	assert_false(alert_update_due(&memory, &verdict, (struct job_ns){UPDATE_GAP_NS - 1}));
	verdict.slowdown = 1.5;
	verdict.more_ranks = 1; /* not listed, but blamed */
	assert_true(alert_update_due(&memory, &verdict, later));
	verdict.more_ranks = 0;
	verdict.where.text[0] = 'f'; /* its place, once */
	assert_true(alert_update_due(&memory, &verdict, later));
	alert_told(&memory, &verdict, (struct job_ns){0});
	verdict.where.text[0] = 'g';
	assert_false(alert_update_due(&memory, &verdict, later));
	verdict.cause = CAUSE_CGROUP_THROTTLE;
	assert_true(alert_update_due(&memory, &verdict, later));
}

static void confidence_is_monotone(void **state)
{
	(void)state;
	for (double evidence = 1; evidence < 100; evidence *= 2) {
		assert_true(alert_confidence(evidence, 6, 0.5, false) <=
			    alert_confidence(2 * evidence, 6, 0.5, false));
		assert_true(alert_confidence(evidence, 6, 0.5, false) <
			    alert_confidence(evidence, 6, 0.9, false));
		assert_true(alert_confidence(evidence, 6, 5, false) < 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recovery_needs_quiet_blocks),
		cmocka_unit_test(what_comes_in_every_seventh_block_goes_on),
		cmocka_unit_test(updates_are_rare_and_matter),
		cmocka_unit_test(confidence_is_monotone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
