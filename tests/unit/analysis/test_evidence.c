/* SPDX-License-Identifier: Apache-2.0 */
/* Who had the CPU instead: other programs, other ranks of the job, or threads of the same process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "analysis/evidence.h"

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
	add(&evidence, 200, 20, OTHER_RANK, "python");
	add(&evidence, 1000, 500, OTHER_RANK, "python"); /* later than asked for */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_threads_are_no_other_rank),
		cmocka_unit_test(other_programs_are_named_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
