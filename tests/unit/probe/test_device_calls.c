/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the device is done with, joined with what the host did before it enqueued them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/device_calls.h"

enum { MS = 1000000 };

static struct collective_part call(int64_t enqueue_ms, int64_t start_ms, uint64_t sequence)
{
	return (struct collective_part){
		.sequence = sequence,
		.enqueue = {enqueue_ms * MS},
		.arrival = {start_ms * MS},
		.departure = {(start_ms + 1) * MS},
		.flags = PART_DEVICE_TIME,
	};
}

static void host(struct device_calls *calls, int64_t time_ms, int64_t preempted_ms, int64_t wait_ms)
{
	struct activity before = {.preempted_ns = preempted_ms * MS}, others = {0};

	device_calls_host(calls, (struct host_ns){time_ms * MS}, &before, wait_ms * MS, &others);
}

/* Host time is from enqueue to enqueue, less the waits for the device. */
static void host_time_between_enqueues(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part;
	struct activity others;

	(void)state;
	host(calls, 10, 0, 0);
	host(calls, 40, 5, 12);
	part = call(10, 11, 0);
	device_calls_done(calls, &part, 0);
	part = call(40, 40, 1);
	device_calls_done(calls, &part, 0);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.before.host_ns, 0); /* nothing to count from */
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.sequence, 1);
	assert_int_equal(part.before.host_ns, 18 * MS);
	assert_int_equal(part.before.preempted_ns, 5 * MS);
	assert_false(device_calls_take(calls, false, &part, &others));
	device_calls_destroy(calls);
}

/* A host that is ahead of its device is nobody's limit: a full queue blocks it, too. */
static void ahead_of_the_device(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = call(10, 11, 0);
	struct activity others;

	(void)state;
	device_calls_done(calls, &part, 0);
	part = call(40, 60, 1);
	device_calls_done(calls, &part, 0);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_true(part.before.host_ns > 9 * MS && part.before.host_ns < 11 * MS);
	device_calls_destroy(calls);
}

static struct collective_part measured(
	int64_t enqueue_ms, int64_t start_ms, uint64_t sequence, int64_t cpu_ms)
{
	struct collective_part part = call(enqueue_ms, start_ms, sequence);

	part.launchers_cpu_ns = 1 + (uint64_t)cpu_ms * MS;
	return part;
}

/*
 * Where nobody sees the host, the CPU time of the threads that make calls tells when it slept, and how long they
 * waited for a CPU, why. What it may have waited for the collective before is not its own.
 */
static void off_cpu_without_a_host(void **state)
{
	static const struct {
		int64_t enqueue_ms, start_ms, cpu_ms, queued_ms, storage_ms;
		struct {
			int64_t host_ms, asleep_ms, storage_ms;
		} told;
	} cases[] = {
		{10, 10, 10, 0, 0, {0, 0, 0}},
		{41, 41, 20, 0, 0, {30, 20, 0}},    /* slept for 20 ms since the last ended */
		{72, 72, 32, 12, 0, {30, 6, 0}},    /* of 18, 12 in the queue */
		{103, 103, 72, 0, 10, {30, 0, 0}},  /* was busy, two threads even */
		{134, 134, 73, 0, 0, {30, 19, 10}}, /* waited for storage */
		{165, 165, 74, 20, 9, {30, 0, 9}},
	};
	struct device_calls *calls = device_calls_create();
	struct collective_part part;
	struct activity others;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		part = measured(cases[i].enqueue_ms, cases[i].start_ms, i, cases[i].cpu_ms);
		device_calls_delay(calls, cases[i].queued_ms * MS, cases[i].storage_ms * MS);
		device_calls_done(calls, &part, 0);
		assert_true(device_calls_take(calls, false, &part, &others));
		assert_int_equal(part.before.host_ns, cases[i].told.host_ms * MS);
		assert_int_equal(part.before.asleep_ns, cases[i].told.asleep_ms * MS);
		assert_int_equal(part.before.preempted_ns, 0); /* it may have spun for its device */
		assert_int_equal(part.before.block_io_ns, cases[i].told.storage_ms * MS);
	}
	/* It waited for the 34 ms of the call before, perhaps: what it slept of that was no fault of its. */
	part = measured(171, 166, 6, 75);
	part.departure.value = 206 * MS;
	part.arrival.value = 172 * MS;
	device_calls_done(calls, &part, 0);
	assert_true(device_calls_take(calls, false, &part, &others));
	part = measured(211, 211, 7, 79);
	device_calls_done(calls, &part, 0);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.before.host_ns, 6 * MS);
	assert_int_equal(part.before.asleep_ns, 2 * MS);
	device_calls_destroy(calls);
}

/* Calls queued behind one that waited for others hold the host as long as all of them take. */
static void calls_in_a_row_are_one_wait(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = measured(200, 202, 0, 0);
	struct activity others;

	(void)state;
	part.departure.value = 250 * MS;
	device_calls_done(calls, &part, 0);
	part = measured(210, 250, 1, 1);
	part.departure.value = 260 * MS;
	device_calls_done(calls, &part, 0);
	part = measured(280, 280, 2, 2);
	device_calls_done(calls, &part, 0);
	for (int i = 0; i < 3; i++)
		assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.before.host_ns, 20 * MS); /* from 260 on */
	device_calls_destroy(calls);
}

/* A program that asks and sleeps: as long as it sleeps in its waits, nobody knows what a sleep was. */
static void sleeping_waits_tell_nothing(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part;
	struct activity others;

	(void)state;
	for (int64_t i = 0; i < 8;
		i++) { /* called at 100 i, through at 100 i + 60, next host work 40 ms */
		part = measured(100 * i, 100 * i + 59, (uint64_t)i, i);
		part.arrival.value = 100 * i * MS + MS;
		device_calls_done(calls, &part, 0);
		assert_true(device_calls_take(calls, false, &part, &others));
		assert_int_equal(part.before.asleep_ns, 0);
	}
	device_calls_destroy(calls);
}

/* Two streams: what was done first need not have been enqueued first. Nothing counts twice. */
static void out_of_order(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part, late = call(20, 90, 7);
	struct activity others;
	int64_t host_ns = 0, preempted_ns = 0;

	(void)state;
	host(calls, 10, 1, 0);
	host(calls, 20, 2, 0);
	host(calls, 30, 4, 0);
	part = call(10, 12, 0);
	device_calls_done(calls, &part, 0);
	part = call(30, 30, 1);
	device_calls_done(calls, &part, 0);
	while (device_calls_take(calls, false, &part, &others)) {
		host_ns += part.before.host_ns;
		preempted_ns += part.before.preempted_ns;
	}
	device_calls_done(calls, &late, 0);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.before.host_ns, 0);
	assert_int_equal(host_ns, 20 * MS);
	assert_int_equal(preempted_ns, 7 * MS);
	device_calls_destroy(calls);
}

/*
 * Calls on two streams, one of which waits for its partner: whatever was done first, they come in the
 * order in which the program made them, which is what its steps are found by.
 */
static void in_order_of_launch(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = call(20, 21, 1), slow = call(10, 90, 0),
			       last = call(30, 31, 2);
	struct activity others;

	(void)state;
	device_calls_done(calls, &part, 2);
	device_calls_done(calls, &last, 3);
	assert_false(device_calls_take(calls, false, &part, &others));
	device_calls_done(calls, &slow, 1);
	for (uint64_t sequence = 0; sequence < 3; sequence++) {
		assert_true(device_calls_take(calls, false, &part, &others));
		assert_int_equal(part.sequence, sequence);
	}
	assert_false(device_calls_take(calls, false, &part, &others));
	device_calls_destroy(calls);
}

/* One that never comes holds the others up for two seconds of the device's time, or to the end. */
static void lost_calls(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = call(20, 21, 2), much_later = call(30, 2023, 4);
	struct activity others;

	(void)state;
	device_calls_done(calls, &part, 2);
	device_calls_done(calls, &much_later, 4);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.sequence, 2);
	assert_false(device_calls_take(calls, false, &part, &others));
	assert_true(device_calls_take(calls, true, &part, &others));
	assert_int_equal(part.sequence, 4);
	device_calls_destroy(calls);
}

static struct collective_part untimed_call(int64_t enqueue_ms, uint64_t sequence)
{
	struct collective_part part = call(enqueue_ms, enqueue_ms, sequence);

	part.departure = part.arrival;
	part.flags = PART_ENQUEUE_ONLY;
	return part;
}

/* Calls without device times come when they are made: a host that is far ahead makes no other call a lost one. */
static void calls_without_device_time(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = untimed_call(20, 1), slow = call(10, 5000, 0);
	struct activity others;

	(void)state;
	device_calls_done(calls, &part, 2);
	part = untimed_call(4000, 2);
	device_calls_done(calls, &part, 3);
	part = call(15, 1000, 7); /* another stream's */
	device_calls_done(calls, &part, 5);
	assert_false(device_calls_take(calls, false, &part, &others));
	device_calls_done(calls, &slow, 1);
	for (uint64_t sequence = 0; sequence < 3; sequence++) {
		assert_true(device_calls_take(calls, false, &part, &others));
		assert_int_equal(part.sequence, sequence);
	}
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.sequence, 7); /* the fourth is lost by now */
	device_calls_destroy(calls);
}

/* The host is 40 ms ahead; nobody tells the second call's times, nor the third's, which is on another stream. */
static void untimed_stay_in_their_place(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = call(10, 50, 0);
	struct activity others;

	(void)state;
	device_calls_done(calls, &part, 1);
	part = untimed_call(11, 1);
	device_calls_done(calls, &part, 2);
	part.sequence = 2;
	part.stream = 1;
	device_calls_done(calls, &part, 3);
	part = call(12, 52, 3);
	device_calls_done(calls, &part, 4);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.sequence, 1);
	assert_int_equal(part.arrival.value, 51 * MS);
	assert_int_equal(part.departure.value, 51 * MS);
	assert_int_equal(part.flags, PART_ENQUEUE_ONLY);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.arrival.value, 11 * MS);
	device_calls_destroy(calls);
}

/* Where no call has device times, the calls' own tell what is lost. */
static void no_call_has_device_time(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = untimed_call(20, 1), later = untimed_call(2021, 2);
	struct activity others;

	(void)state;
	device_calls_done(calls, &part, 2);
	assert_false(device_calls_take(calls, false, &part, &others));
	device_calls_done(calls, &later, 3);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.sequence, 1);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.sequence, 2);
	device_calls_destroy(calls);
}

/* A call whose end the library was not told of comes when its turn is long over: it is of no step. */
static void given_up_calls(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = call(20, 21, 2), given_up = untimed_call(10, 1);
	struct activity others;

	(void)state;
	device_calls_done(calls, &part, 2);
	part = call(30, 2030, 3);
	device_calls_done(calls, &part, 3);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_true(device_calls_take(calls, false, &part, &others));
	device_calls_done(calls, &given_up, 1);
	assert_int_equal(device_calls_dropped(calls), 0);
	assert_false(device_calls_take(calls, false, &part, &others));
	assert_int_equal(device_calls_dropped(calls), 1);
	part = call(40, 2040, 4);
	device_calls_done(calls, &part, 4);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.sequence, 4);
	device_calls_destroy(calls);
}

/* A collective that goes on beside it is not what a call waited for: its host was ahead of the work. */
static void ahead_beside_another_stream(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part = call(10, 11, 0), beside = call(12, 13, 1);
	struct activity others;

	(void)state;
	beside.stream = 1;
	beside.departure.value = 80 * MS;
	device_calls_done(calls, &part, 1);
	device_calls_done(calls, &beside, 2);
	part = call(40, 60, 2);
	device_calls_done(calls, &part, 3);
	for (int i = 0; i < 3; i++)
		assert_true(device_calls_take(calls, false, &part, &others));
	assert_true(part.before.host_ns > 7 * MS && part.before.host_ns < 9 * MS);
	device_calls_destroy(calls);
}

/* Far more host records than fit, no device call: sums stay, the loss is counted. */
static void too_many_records(void **state)
{
	struct device_calls *calls = device_calls_create();
	struct collective_part part;
	struct activity others;

	(void)state;
	for (int i = 0; i < 20000; i++)
		host(calls, i, 1, 0);
	part = call(20000, 20001, 0);
	device_calls_done(calls, &part, 0);
	assert_true(device_calls_take(calls, false, &part, &others));
	assert_int_equal(part.before.preempted_ns, INT64_C(20000) * MS);
	assert_true(device_calls_dropped(calls) > 0);
	device_calls_destroy(calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_time_between_enqueues),
		cmocka_unit_test(ahead_of_the_device),
		cmocka_unit_test(off_cpu_without_a_host),
		cmocka_unit_test(calls_in_a_row_are_one_wait),
		cmocka_unit_test(sleeping_waits_tell_nothing),
		cmocka_unit_test(out_of_order),
		cmocka_unit_test(in_order_of_launch),
		cmocka_unit_test(lost_calls),
		cmocka_unit_test(calls_without_device_time),
		cmocka_unit_test(untimed_stay_in_their_place),
		cmocka_unit_test(no_call_has_device_time),
		cmocka_unit_test(given_up_calls),
		cmocka_unit_test(ahead_beside_another_stream),
		cmocka_unit_test(too_many_records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
