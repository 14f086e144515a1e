/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "analysis/join/sequence_shift.h"

enum { CALLS = 60 };

/* Two members of calls 10 ms apart, the second late by up to 6 ms; counts differ by shift. */
static void make(
	struct shift_part *reference, struct shift_part *other, int64_t shift, int64_t offset_ns)
{
	uint32_t random = 5;

	for (int i = 0; i < CALLS; i++) {
		int64_t start = 10000000 * (int64_t)i, end;

		random = random * 1664525 + 1013904223;
		reference[i] = (struct shift_part){.sequence = (uint64_t)i + 100, .token = 1};
		other[i] = (struct shift_part){
			.sequence = (uint64_t)((int64_t)i + 100 - shift), .token = 1};
		reference[i].arrival_ns = start + random % 6000000;
		other[i].arrival_ns = start + (random >> 8) % 6000000;
		end = reference[i].arrival_ns > other[i].arrival_ns ? reference[i].arrival_ns
								    : other[i].arrival_ns;
		reference[i].departure_ns = other[i].departure_ns = end + 100000;
		other[i].arrival_ns += offset_ns;
		other[i].departure_ns += offset_ns;
	}
}

static void finds_the_shift(void **state)
{
	static const int64_t shifts[] = {0, 1, -1, 17, 90};
	struct shift_part reference[CALLS], other[CALLS];
	int64_t shift;

	(void)state;
	for (size_t s = 0; s < 5; s++) {
		make(reference, other, shifts[s], 0);
		assert_int_equal(sequence_shift_find(reference, CALLS, other, CALLS, 0, false, &shift), 0);
		assert_int_equal(shift, shifts[s]);
		/* heard of at different times */
		assert_int_equal(
			sequence_shift_find(reference, CALLS, other + 20, CALLS - 20, 0, false, &shift),
			0);
		assert_int_equal(shift, shifts[s]);
	}
}

static void clock_error_is_tolerated(void **state)
{
	struct shift_part reference[CALLS], other[CALLS];
	int64_t shift;

	(void)state;
	make(reference, other, 3, 400000);
	assert_int_equal(sequence_shift_find(reference, CALLS, other, CALLS, 500000, false, &shift), 0);
	assert_int_equal(shift, 3);
}

static void too_little_is_not_guessed_from(void **state)
{
	struct shift_part reference[CALLS], other[CALLS];
	int64_t shift = 77;

	(void)state;
	make(reference, other, 3, 0);
	assert_int_equal(sequence_shift_find(reference, 3, other, CALLS, 0, false, &shift), -EAGAIN);
	make(reference, other, 3, INT64_C(100000000000)); /* no common time */
	assert_int_equal(sequence_shift_find(reference, CALLS, other, CALLS, 0, false, &shift), -EAGAIN);
	make(reference, other, 3, 0);
	for (int i = 0; i < CALLS; i++)
		other[i].token = 2; /* other operations */
	assert_int_equal(sequence_shift_find(reference, CALLS, other, CALLS, 0, false, &shift), -ENOENT);
	assert_int_equal(shift, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_shift),
		cmocka_unit_test(clock_error_is_tolerated),
		cmocka_unit_test(too_little_is_not_guessed_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
