/* SPDX-License-Identifier: Apache-2.0 */
/* Which device times belong to which call, and how long a call waits for them. */
#include "probe/call_times.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#define MS INT64_C(1000000)
#define S INT64_C(1000000000)

static struct call_times *begin(void)
{
	struct call_times *times = call_times_create((struct host_ns){10 * S});

	assert_non_null(times);
	return times;
}

static void call(struct call_times *times, uint64_t sequence, int64_t time_ns, uint64_t handle)
{
	call_times_call(times,
		&(struct collective_part){.sequence = sequence,
			.arrival = {time_ns},
			.departure = {time_ns},
			.operation = OPERATION_ALL_REDUCE,
			.flags = PART_SEQUENCE_RELATIVE},
		handle);
}

/* The library saw the call from 1 us before the uprobe did, for 10 us. */
static void event(struct call_times *times, int64_t time_ns, uint64_t handle, int64_t start_ns,
	int64_t stop_ns)
{
	call_times_event(times, &(struct call_times_event){.handle = handle,
					.entered = {time_ns - 1000},
					.returned = {time_ns + 10000},
					.launched = {time_ns + 9000},
					.start = {start_ns},
					.stop = {stop_ns}});
}

static uint64_t take(struct call_times *times, int64_t now_ns, struct collective_part *part)
{
	uint64_t number = 0;

	return call_times_take(times, (struct host_ns){now_ns}, false, part, &number) ? number : 0;
}

static void test_by_handle_and_moment(void **state)
{
	struct call_times *times = begin();
	struct call_times_counts counts;
	struct collective_part part;

	(void)state;
	/* Two communicators at nearly the same moment; the second is done first. */
	call(times, 7, 11 * S, 1);
	call(times, 8, 11 * S + 2000, 2);
	event(times, 11 * S + 2000, 2, 11 * S + 5 * MS, 11 * S + 6 * MS);
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 2);
	assert_int_equal(part.sequence, 8);
	assert_int_equal(part.flags, PART_DEVICE_TIME | PART_SEQUENCE_RELATIVE);
	assert_int_equal(part.enqueue.value, 11 * S + 2000);
	assert_int_equal(part.arrival.value, 11 * S + 5 * MS);
	assert_int_equal(part.departure.value, 11 * S + 6 * MS);
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 0);
	uint8_t stream = part.stream;

	event(times, 11 * S, 1, 11 * S - 2000, 11 * S + 9 * MS);
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 1);
	assert_int_equal(part.arrival.value, 11 * S + 9000); /* the device waited for the host */
	assert_int_equal(part.departure.value, 11 * S + 9 * MS);
	assert_int_not_equal(part.stream, stream);
	call_times_get_counts(times, &counts);
	assert_int_equal(counts.timed, 2);
	assert_int_equal(counts.untimed, 0);
	call_times_destroy(times);
}

static void test_event_before_its_call(void **state)
{
	struct call_times *times = begin();
	struct collective_part part;

	(void)state;
	event(times, 11 * S, 1, 11 * S, 11 * S + MS);
	assert_int_equal(take(times, 11 * S + 2 * MS, &part), 0);
	call(times, 0, 11 * S, 1);
	assert_int_equal(take(times, 11 * S + 2 * MS, &part), 1);
	assert_int_equal(part.departure.value, 11 * S + MS);
	/* So short that it ended before the host was back. */
	call(times, 1, 12 * S, 1);
	event(times, 12 * S, 1, 12 * S - 2000, 12 * S + 5000);
	assert_int_equal(take(times, 12 * S + 2 * MS, &part), 2);
	assert_int_equal(part.arrival.value, 12 * S + 5000);
	assert_int_equal(part.departure.value, 12 * S + 5000);
	call_times_destroy(times);
}

/* A peer that sleeps for a minute: the call waits, and gets its times. */
static void test_long_wait(void **state)
{
	struct call_times *times = begin();
	struct collective_part part;

	(void)state;
	call(times, 0, 11 * S, 1);
	for (int64_t now = 12; now < 71; now++) {
		call_times_settled(
			times, (struct host_ns){11 * S - 1000}, (struct host_ns){now * S});
		assert_int_equal(take(times, now * S, &part), 0);
	}
	event(times, 11 * S, 1, 11 * S, 71 * S);
	assert_int_equal(take(times, 71 * S, &part), 1);
	assert_int_equal(part.departure.value, 71 * S);
	call_times_destroy(times);
}

/* Captured, or through a pointer that was not found: known as soon as later calls are settled. */
static void test_without_times(void **state)
{
	struct call_times *times = begin();
	struct call_times_counts counts;
	struct collective_part part;

	(void)state;
	call(times, 0, 11 * S, 1);
	call(times, 1, 11 * S + 5 * MS, 1);
	event(times, 11 * S + 5 * MS, 1, 11 * S + 6 * MS, 11 * S + 7 * MS);
	assert_int_equal(take(times, 11 * S + 10 * MS, &part), 2);
	assert_int_equal(take(times, 12 * S, &part), 0);
	call_times_settled(times, (struct host_ns){11 * S + MS}, (struct host_ns){12 * S});
	assert_int_equal(take(times, 12 * S, &part), 1);
	assert_int_equal(part.flags, PART_ENQUEUE_ONLY | PART_SEQUENCE_RELATIVE);
	assert_int_equal(part.arrival.value, 11 * S);
	assert_int_equal(part.enqueue.value, 11 * S);
	call_times_get_counts(times, &counts);
	assert_int_equal(counts.timed, 1);
	assert_int_equal(counts.untimed, 1);
	call_times_destroy(times);
}

/* Nothing waits for a library that went silent, nor at the end. */
static void test_silence(void **state)
{
	struct call_times *times = begin();
	struct collective_part part;
	uint64_t number;

	(void)state;
	call(times, 0, 11 * S, 1);
	assert_int_equal(take(times, 14 * S, &part), 0);
	assert_int_equal(take(times, 16 * S, &part), 1);
	call(times, 1, 16 * S, 1);
	assert_int_equal(take(times, 16 * S, &part), 0);
	assert_true(call_times_take(times, (struct host_ns){16 * S}, true, &part, &number));
	assert_int_equal(part.flags, PART_ENQUEUE_ONLY | PART_SEQUENCE_RELATIVE);
	call_times_destroy(times);
}

/* Many more calls than there is room for, of which one never ends; then more that never end. */
static void test_bound(void **state)
{
	struct call_times *times = begin();
	struct call_times_counts counts;
	struct collective_part part;
	uint64_t handed_out = 0;
	int64_t time_ns = 11 * S;

	(void)state;
	call(times, 0, time_ns, 1);
	for (int i = 1; i < 50000; i++) {
		time_ns += MS;
		call(times, 0, time_ns, 2);
		event(times, time_ns, 2, time_ns, time_ns + 1000);
		call_times_settled(times, (struct host_ns){11 * S}, (struct host_ns){time_ns});
		while (take(times, time_ns, &part))
			handed_out++;
	}
	assert_int_equal(handed_out, 49999);
	for (int i = 0; i < 20000; i++) {
		time_ns += MS;
		call(times, 0, time_ns, 1);
		call_times_settled(times, (struct host_ns){11 * S}, (struct host_ns){time_ns});
		while (take(times, time_ns, &part))
			handed_out++;
	}
	assert_in_range(handed_out, 60000, 64999); /* the oldest gave way */
	call_times_get_counts(times, &counts);
	assert_int_equal(counts.dropped, 0);
	assert_int_equal(counts.timed, 49999);
	call_times_destroy(times);
}

/* NCCL's plug-in told of calls without their times: they go by the thread that made them, and keep their numbers. */
static void test_by_thread_and_moment(void **state)
{
	struct call_times *times = begin();
	struct call_times_event done = {.handle = 5,
		.thread = 78,
		.entered = {11 * S - 1000},
		.returned = {11 * S + 10000},
		.launched = {11 * S + 9000},
		.start = {11 * S + 5 * MS},
		.stop = {11 * S + 6 * MS}};
	struct collective_part part = {.sequence = 7,
		.arrival = {11 * S},
		.departure = {11 * S},
		.enqueue = {11 * S},
		.operation = OPERATION_SEND,
		.flags = PART_ENQUEUE_ONLY,
		.stream = 9};

	(void)state;
	call_times_told_call(times, &part, 77, 41);
	call_times_told_call(times, &part, 78, 42);
	call_times_event(times, &done);
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 42);
	assert_int_equal(part.flags, PART_DEVICE_TIME);
	assert_int_equal(part.arrival.value, 11 * S + 5 * MS);
	assert_int_equal(part.departure.value, 11 * S + 6 * MS);
	assert_int_equal(part.stream, 9);
	done.thread = 0; /* a library of before */
	call_times_event(times, &done);
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 0);
	call_times_settled(times, (struct host_ns){12 * S}, (struct host_ns){13 * S});
	assert_int_equal(take(times, 13 * S, &part), 41);
	assert_int_equal(part.flags, PART_ENQUEUE_ONLY);
	call_times_destroy(times);
}

/* One call to all: the plug-in tells of a send and a receive, one of them late. */
static void test_parts_of_one_call(void **state)
{
	struct call_times *times = begin();
	struct call_times_event done = {.handle = 1,
		.thread = 77,
		.entered = {11 * S - 1000},
		.returned = {11 * S + 10000},
		.launched = {11 * S + 9000},
		.start = {11 * S + 5 * MS},
		.stop = {11 * S + 6 * MS}};
	struct collective_part told = {.arrival = {11 * S},
		.departure = {11 * S},
		.enqueue = {11 * S},
		.operation = OPERATION_SEND,
		.flags = PART_ENQUEUE_ONLY};
	struct collective_part part;

	(void)state;
	call_times_told_call(times, &told, 77, 1);
	told.enqueue.value += 3000;
	call_times_told_call(times, &told, 77, 2);
	call_times_event(times, &done);
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 1);
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 2);
	told.enqueue.value += 3000;
	call_times_told_call(times, &told, 77, 3);
	assert_int_equal(take(times, 11 * S + 90 * MS, &part), 3);
	assert_int_equal(part.flags, PART_DEVICE_TIME);
	assert_int_equal(part.departure.value, 11 * S + 6 * MS);
	told.enqueue.value += 90000; /* another call's */
	call_times_told_call(times, &told, 77, 4);
	assert_int_equal(take(times, 11 * S + 91 * MS, &part), 0);
	call_times_destroy(times);
}

/* Of two streams, the second of which has nothing else to do: NCCL makes its kernel wait for the one before it. */
static void test_one_after_another(void **state)
{
	struct call_times *times = begin();
	struct call_times_event done = {.handle = 1,
		.thread = 77,
		.entered = {11 * S + MS - 1000},
		.returned = {11 * S + MS + 10000},
		.launched = {11 * S + MS + 9000},
		.start = {11 * S + MS},
		.stop = {11 * S + 7 * MS}};
	struct collective_part part;

	(void)state;
	call(times, 0, 11 * S, 1);
	call(times, 1, 11 * S + MS, 1); /* two calls of a group: one kernel */
	call(times, 2, 11 * S + MS + 2000, 1);
	call(times, 3, 11 * S + 2 * MS, 2); /* another communicator's */
	event(times, 11 * S, 1, 11 * S + 4 * MS, 11 * S + 6 * MS);
	call_times_event(times, &done);
	done.entered.value += 2000;
	call_times_event(times, &done);
	event(times, 11 * S + 2 * MS, 2, 11 * S + 3 * MS, 11 * S + 9 * MS);
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 1);
	assert_int_equal(part.arrival.value, 11 * S + 4 * MS);
	for (uint64_t number = 2; number <= 3; number++) {
		assert_int_equal(take(times, 11 * S + 20 * MS, &part), number);
		assert_int_equal(part.arrival.value, 11 * S + 6 * MS);
		assert_int_equal(part.departure.value, 11 * S + 7 * MS);
	}
	assert_int_equal(take(times, 11 * S + 20 * MS, &part), 4);
	assert_int_equal(part.arrival.value, 11 * S + 3 * MS);
	call_times_destroy(times);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_handle_and_moment),
		cmocka_unit_test(test_by_thread_and_moment),
		cmocka_unit_test(test_parts_of_one_call),
		cmocka_unit_test(test_event_before_its_call),
		cmocka_unit_test(test_one_after_another),
		cmocka_unit_test(test_long_wait),
		cmocka_unit_test(test_without_times),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
