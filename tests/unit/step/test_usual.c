/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps are sent at once. */
#include "probe/step/usual.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#define MS INT64_C(1000000)

/* Steps of this length, with some noise; returns how many are long. */
static unsigned play(struct step_usual *usual, unsigned steps, int64_t length_ns, int64_t noise_ns)
{
	unsigned found = 0;

	for (unsigned i = 0; i < steps; i++) {
		int64_t off_ns = (int64_t)(i * 2654435761U >> 16 & 1023) * noise_ns / 1023;

		found += step_usual_is_long(usual, length_ns + off_ns);
	}
	return found;
}

static void what_is_as_ever_is_not_long(void **state)
{
	struct step_usual usual = {0};

	(void)state;
	assert_int_equal(play(&usual, 2000, 60 * MS, 2 * MS), 0);
}

static void first_long_step_is_seen(void **state)
{
	struct step_usual usual = {0};

	(void)state;
	play(&usual, 100, 60 * MS, 2 * MS);
	assert_true(step_usual_is_long(&usual, 68 * MS));
	assert_true(step_usual_is_long(&usual, 68 * MS));
	assert_int_equal(usual.long_run, 2);
	assert_false(step_usual_is_long(&usual, 60 * MS));
	assert_int_equal(usual.long_run, 0);
}

static void what_lasts_becomes_usual(void **state)
{
	struct step_usual usual = {0};

	(void)state;
	play(&usual, 100, 60 * MS, 2 * MS);
	assert_in_range(play(&usual, 100, 90 * MS, 2 * MS), 2, 40);
	assert_int_equal(play(&usual, 100, 90 * MS, 2 * MS), 0);
	/* Back again is no reason to hurry. */
	assert_int_equal(play(&usual, 100, 60 * MS, 2 * MS), 0);
}

/* However long: as after a hang, a checkpoint, or while kernels are compiled. */
static void one_stall_hides_nothing(void **state)
{
	struct step_usual usual = {0};

	(void)state;
	assert_false(step_usual_is_long(&usual, 7000 * MS)); /* the first */
	assert_int_equal(play(&usual, 20, 60 * MS, 2 * MS), 0);
	assert_true(step_usual_is_long(&usual, 90 * MS));
	assert_int_equal(play(&usual, 100, 60 * MS, 2 * MS), 0);
	assert_true(step_usual_is_long(&usual, 7000 * MS));
	assert_int_equal(play(&usual, 20, 60 * MS, 2 * MS), 0);
	assert_in_range(play(&usual, 20, 90 * MS, 2 * MS), 2, 20);
	assert_int_equal(play(&usual, 100, 90 * MS, 2 * MS), 0);
}

static void uneven_steps_are_rarely_long(void **state)
{
	struct step_usual usual = {0};

	(void)state;
	assert_true(play(&usual, 2000, 40 * MS, 60 * MS) < 20);
}

static void little_is_known_at_first(void **state)
{
	struct step_usual usual = {0};

	(void)state;
	assert_false(step_usual_is_long(&usual, 60 * MS));
	assert_false(step_usual_is_long(&usual, 600 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_as_ever_is_not_long),
		cmocka_unit_test(first_long_step_is_seen),
		cmocka_unit_test(what_lasts_becomes_usual),
		cmocka_unit_test(one_stall_hides_nothing),
		cmocka_unit_test(uneven_steps_are_rarely_long),
		cmocka_unit_test(little_is_known_at_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
