/* SPDX-License-Identifier: Apache-2.0 */
/* When batches come in late, on clocks that are apart and drift. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coordinator/backlog.h"

#define SECOND_NS INT64_C(1000000000)

static enum backlog_change take(struct backlog *backlog, struct probe_backlog *probe,
	int64_t made_ns, int64_t late_ns, int64_t apart_ns)
{
	return backlog_take(backlog, probe, (struct host_ns){made_ns},
		(struct job_ns){made_ns + apart_ns + late_ns}, false);
}

/* One probe after the other becomes late; it is told once, and once that none is any more. */
static void test_told_once(void **state)
{
	struct backlog backlog = {0};
	struct probe_backlog one = {0}, other = {0};
	const int64_t apart_ns = -77 * SECOND_NS;

	(void)state;
	assert_int_equal(take(&backlog, &one, SECOND_NS, 1000000, apart_ns), BACKLOG_SAME);
	assert_int_equal(take(&backlog, &other, SECOND_NS, 1000000, 0), BACKLOG_SAME);
	assert_int_equal(
		take(&backlog, &one, 2 * SECOND_NS, 4 * SECOND_NS, apart_ns), BACKLOG_SAME);
	assert_int_equal(
		take(&backlog, &one, 3 * SECOND_NS, 6 * SECOND_NS, apart_ns), BACKLOG_BEGAN);
	assert_true(backlog.most_ns > 5 * SECOND_NS && backlog.most_ns <= 6 * SECOND_NS);
	assert_int_equal(take(&backlog, &other, 3 * SECOND_NS, 9 * SECOND_NS, 0), BACKLOG_SAME);
	assert_int_equal(
		take(&backlog, &one, 4 * SECOND_NS, 3 * SECOND_NS, apart_ns), BACKLOG_SAME);
	assert_int_equal(take(&backlog, &one, 8 * SECOND_NS, 1000000, apart_ns), BACKLOG_SAME);
	assert_int_equal(take(&backlog, &other, 13 * SECOND_NS, 1000000, 0), BACKLOG_CAUGHT_UP);
	assert_true(backlog.most_ns > 8 * SECOND_NS && backlog.most_ns <= 9 * SECOND_NS);
}

/* A probe that ends is not waited for. */
static void test_last_batch(void **state)
{
	struct backlog backlog = {0};
	struct probe_backlog probe = {0};

	(void)state;
	assert_int_equal(take(&backlog, &probe, SECOND_NS, 0, 0), BACKLOG_SAME);
	assert_int_equal(take(&backlog, &probe, 2 * SECOND_NS, 8 * SECOND_NS, 0), BACKLOG_BEGAN);
	assert_int_equal(backlog_take(&backlog, &probe, (struct host_ns){3 * SECOND_NS},
				 (struct job_ns){11 * SECOND_NS}, true),
		BACKLOG_CAUGHT_UP);
	/* The next time it is late counts anew. */
	assert_int_equal(take(&backlog, &probe, 12 * SECOND_NS, 6 * SECOND_NS, 0), BACKLOG_BEGAN);
	assert_true(backlog.most_ns > 5 * SECOND_NS && backlog.most_ns <= 6 * SECOND_NS);
}

/* 100 parts in a million for three days are 26 s, and no backlog. */
static void test_drift(void **state)
{
	struct backlog backlog = {0};
	struct probe_backlog probe = {0};

	(void)state;
	for (int64_t second = 0; second < 3 * 86400; second++)
		assert_int_equal(
			take(&backlog, &probe, second * SECOND_NS, 0, second * SECOND_NS / 10000),
			BACKLOG_SAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told_once),
		cmocka_unit_test(test_last_batch),
		cmocka_unit_test(test_drift),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
