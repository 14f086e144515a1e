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
		assert_int_equal(
			sequence_shift_find(reference, CALLS, other, CALLS, 0, false, &shift), 0);
		assert_int_equal(shift, shifts[s]);
		/* heard of at different times */
		assert_int_equal(sequence_shift_find(reference, CALLS, other + 20, CALLS - 20, 0,
					 false, &shift),
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
	assert_int_equal(
		sequence_shift_find(reference, CALLS, other, CALLS, 500000, false, &shift), 0);
	assert_int_equal(shift, 3);
}

static void too_little_is_not_guessed_from(void **state)
{
	struct shift_part reference[CALLS], other[CALLS];
	int64_t shift = 77;

	(void)state;
	make(reference, other, 3, 0);
	assert_int_equal(
		sequence_shift_find(reference, 3, other, CALLS, 0, false, &shift), -EAGAIN);
	make(reference, other, 3, INT64_C(100000000000)); /* no common time */
	assert_int_equal(
		sequence_shift_find(reference, CALLS, other, CALLS, 0, false, &shift), -EAGAIN);
	make(reference, other, 3, 0);
	for (int i = 0; i < CALLS; i++)
		other[i].token = 2; /* other operations */
	assert_int_equal(
		sequence_shift_find(reference, CALLS, other, CALLS, 0, false, &shift), -ENOENT);
	assert_int_equal(shift, 77);
}

/*
 * Messages of steps of 8: who sends makes one each 2 ms, then waits 30 ms for what comes back. Who receives
 * takes pace_ns for each, begins first_ns after the first was sent, and waits where nothing was sent.
 */
static void make_messages(struct shift_part *sent, struct shift_part *received, int64_t shift,
	int64_t first_ns, int64_t pace_ns)
{
	int64_t ready_ns = 0;

	for (int i = 0; i < CALLS; i++) {
		int64_t begin_ns = (i / 8) * INT64_C(46000000) + (i % 8) * INT64_C(2000000);

		if (i % 8 == 0)
			ready_ns = begin_ns + first_ns;
		sent[i] = (struct shift_part){.sequence = (uint64_t)i + 50,
			.arrival_ns = begin_ns,
			.departure_ns = begin_ns + 100000,
			.token = 4096};
		received[i] = (struct shift_part){.sequence = (uint64_t)((int64_t)i + 50 - shift),
			.arrival_ns = ready_ns,
			.departure_ns = (ready_ns > begin_ns ? ready_ns : begin_ns) + 100000,
			.token = 4096};
		ready_ns = received[i].departure_ns + pace_ns;
	}
}

/* Of one host, whose devices' clocks differ a little. */
static void check_messages(
	struct shift_part *sent, struct shift_part *received, size_t count, int64_t expected)
{
	int64_t shift;

	for (size_t i = 0; i < count; i++) {
		received[i].arrival_ns -= 200000;
		received[i].departure_ns -= 200000;
	}
	assert_int_equal(sequence_shift_find(sent, count, received, count, 0, true, &shift), 0);
	assert_int_equal(shift, expected);
}

static void messages_may_be_sent_before(void **state)
{
	static const int64_t shifts[] = {0, 1, -1, 5};
	struct shift_part sent[CALLS], received[CALLS];

	(void)state;
	for (size_t s = 0; s < 4; s++) {
		make_messages(sent, received, shifts[s], -1000000, 500000); /* waits for each */
		check_messages(sent, received, CALLS, shifts[s]);
		make_messages(sent, received, shifts[s], 3000000, 2000000); /* always behind */
		check_messages(sent, received, CALLS, shifts[s]);
		make_messages(sent, received, shifts[s], 100000, 3500000); /* more and more */
		check_messages(sent, received, CALLS, shifts[s]);
	}
}

static void messages_are_not_guessed(void **state)
{
	struct shift_part sent[CALLS], received[CALLS];
	int64_t shift = 77;

	(void)state;
	/* One step's: whether others were sent behind them is not known yet. */
	make_messages(sent, received, 0, 5000000, 2000000);
	assert_int_equal(sequence_shift_find(sent, 8, received, 8, 0, true, &shift), -EAGAIN);
	make_messages(sent, received, 0, -1000000, 500000);
	for (int i = 0; i < CALLS; i++)
		received[i].token = 512; /* others' */
	assert_int_equal(
		sequence_shift_find(sent, CALLS, received, CALLS, 0, true, &shift), -ENOENT);
	assert_int_equal(shift, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_shift),
		cmocka_unit_test(clock_error_is_tolerated),
		cmocka_unit_test(too_little_is_not_guessed_from),
		cmocka_unit_test(messages_may_be_sent_before),
		cmocka_unit_test(messages_are_not_guessed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
