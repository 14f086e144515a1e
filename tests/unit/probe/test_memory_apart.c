/* SPDX-License-Identifier: Apache-2.0 */
/* Which group is beside the job's: above all that has a limit. tests/cluster/test_harm.py moves to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/memory_apart.h"

static const char *limited_groups[2];

static bool is_limited(const struct cgroup_place *place, size_t length)
{
	for (size_t i = 0; i < 2; i++) {
		if (limited_groups[i] && strlen(limited_groups[i]) == length &&
			memcmp(place->directory, limited_groups[i], length) == 0)
			return true;
	}
	return false;
}

static void check(const char *one, const char *other, const char *expected)
{
	struct cgroup_place place = {
		.found = true, .top_length = strlen("/cg"), .directory = "/cg/pods/pod/job"};

	limited_groups[0] = one;
	limited_groups[1] = other;
	assert_int_equal(memory_apart_place(&place, is_limited), strlen(expected));
}

static void above_the_highest_limit(void **state)
{
	(void)state;
	check(NULL, NULL, "");
	check("/cg/pods/pod/job", NULL, "/cg/pods/pod");
	check("/cg/pods/pod", NULL, "/cg/pods");
	check("/cg/pods", "/cg/pods/pod/job", "/cg");
	check("/cg", NULL, ""); /* nothing is seen above it */
	check("/cg", "/cg/pods/pod/job", "/cg/pods/pod");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(above_the_highest_limit)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
