/* SPDX-License-Identifier: Apache-2.0 */
/* When steps have become longer, in the mean. */
#include "probe/step/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#define MS INT64_C(1000000)

/* Steps with even noise of up to noise_ns; returns after how many it was told, 0: not at all. */
static unsigned play(struct step_pace *pace, unsigned steps, int64_t length_ns, int64_t noise_ns)
{
	for (unsigned i = 0; i < steps; i++) {
		int64_t off_ns = (int64_t)(i * 2654435761U >> 16 & 1023) * noise_ns / 1023;

		if (step_pace_is_slower(pace, length_ns + off_ns))
			return i + 1;
	}
	return 0;
}

/* Single steps of 8 to 12 ms hide that they became longer by a tenth; their mean does not. */
static void small_changes_of_short_steps_show(void **state)
{
	struct step_pace pace = {0};
	struct step_usual single = {0};
	unsigned told;

	(void)state;
	assert_int_equal(play(&pace, 2000, 8 * MS, 4 * MS), 0);
	told = play(&pace, 200, 9 * MS, 4 * MS);
	assert_in_range(told, 15, 40); /* 200 ms, and what was left of a stretch */
	for (unsigned i = 0; i < 2000; i++)
		(void)step_usual_is_long(
			&single, 8 * MS + (int64_t)(i * 2654435761U >> 16 & 1023) * 4 * MS / 1023);
	assert_false(step_usual_is_long(&single, 11 * MS));
}

static void long_steps_are_stretches_of_their_own(void **state)
{
	struct step_pace pace = {0};

	(void)state;
	assert_int_equal(play(&pace, 100, 400 * MS, 10 * MS), 0);
	assert_int_equal(play(&pace, 10, 600 * MS, 10 * MS), 2);
}

static void one_stall_is_nothing(void **state)
{
	struct step_pace pace = {0};

	(void)state;
	assert_int_equal(play(&pace, 500, 60 * MS, 2 * MS), 0);
	assert_false(step_pace_is_slower(&pace, 900 * MS));
	assert_int_equal(play(&pace, 500, 60 * MS, 2 * MS), 0);
}

/* Of a job that a hang or a pause held up: what comes soon after it is told as ever. */
static void nor_does_it_hide_what_comes_after(void **state)
{
	struct step_pace pace = {0};

	(void)state;
	assert_int_equal(play(&pace, 100, 140 * MS, 20 * MS), 0);
	assert_false(step_pace_is_slower(&pace, 10000 * MS));
	assert_int_equal(play(&pace, 26, 140 * MS, 20 * MS), 0);
	assert_int_equal(play(&pace, 10, 200 * MS, 20 * MS), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_changes_of_short_steps_show),
		cmocka_unit_test(long_steps_are_stretches_of_their_own),
		cmocka_unit_test(one_stall_is_nothing),
		cmocka_unit_test(nor_does_it_hide_what_comes_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
