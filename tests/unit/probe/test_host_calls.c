/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by the host's times: what is the host's own, what it waited for, and what nobody knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/host_calls.h"

#define MS INT64_C(1000000)

/* All waits for the device until then. */
static struct step_launches waited(int64_t wait_ms)
{
	return (struct step_launches){.wait_ns = wait_ms * MS};
}

static struct host_call call(int64_t time_ms, uint64_t sequence, int64_t wait_ms)
{
	return (struct host_call){.part = {.sequence = sequence,
					  .arrival = {time_ms * MS},
					  .departure = {time_ms * MS},
					  .flags = PART_ENQUEUE_ONLY},
		.launches = waited(wait_ms)};
}

/* The wait behind a call ends its stay; what the host does from there on is its own. */
static void stay_until_the_wait_ends(void **state)
{
	struct step_launches launches = waited(40);
	struct host_calls calls = {0};
	struct host_call next = call(10, 0, 0), done;

	(void)state;
	assert_false(host_calls_enqueue(&calls, &next, &done));
	assert_true(host_calls_wait(&calls, (struct host_ns){55 * MS}, &launches, &done));
	assert_int_equal(done.part.flags, PART_HOST_TIME);
	assert_int_equal(done.part.arrival.value, 10 * MS);
	assert_int_equal(done.part.departure.value, 55 * MS);
	assert_int_equal(done.part.before.host_ns, 0); /* nothing to count from */
	assert_int_equal(done.launches.wait_ns, 40 * MS);
	/* From 55 to 90, 20 of it waiting: 15 are the host's. */
	next = call(90, 1, 60);
	assert_false(host_calls_enqueue(&calls, &next, &done));
	launches = waited(61);
	assert_true(host_calls_wait(&calls, (struct host_ns){91 * MS}, &launches, &done));
	assert_int_equal(done.part.sequence, 1);
	assert_int_equal(done.part.before.host_ns, 15 * MS);
	assert_false(host_calls_flush(&calls, &done));
	/* A wait with no call before it is nobody's. */
	assert_false(host_calls_wait(&calls, (struct host_ns){99 * MS}, &launches, &done));
}

/* Without a wait between two calls, the first stays enqueue-only, and the two gaps add up. */
static void calls_without_a_wait(void **state)
{
	struct host_calls calls = {0};
	struct host_call next = call(10, 0, 0), done;

	(void)state;
	assert_false(host_calls_enqueue(&calls, &next, &done));
	next = call(14, 1, 0);
	assert_true(host_calls_enqueue(&calls, &next, &done));
	assert_int_equal(done.part.sequence, 0);
	assert_int_equal(done.part.flags, PART_ENQUEUE_ONLY);
	assert_int_equal(done.part.departure.value, 10 * MS);
	assert_true(host_calls_flush(&calls, &done));
	assert_int_equal(done.part.sequence, 1);
	assert_int_equal(done.part.before.host_ns, 4 * MS);
}

/* Between sends and receives, the host may wait for another rank: that is communication. */
static void waits_beside_messages(void **state)
{
	struct host_calls calls = {0};
	struct step_launches launches = waited(5);
	struct host_call next = call(10, 0, 0), done;

	(void)state;
	assert_false(host_calls_enqueue(&calls, &next, &done));
	assert_true(host_calls_wait(&calls, (struct host_ns){20 * MS}, &launches, &done));
	next = call(60, 1, 35);
	next.part.before.comm_call_ns = 2 * MS;
	assert_false(host_calls_enqueue(&calls, &next, &done));
	assert_true(host_calls_flush(&calls, &done));
	assert_int_equal(done.part.before.host_ns, 8 * MS);
	assert_int_equal(done.part.before.comm_call_ns, 32 * MS);
}

/* What the host did until a send or a receive lies before the next call, and before that one only. */
static void told_between_calls(void **state)
{
	const struct activity did = {.throttled_ns = 3 * MS, .minor_faults = 2};
	struct host_calls calls = {0};
	struct host_call next = call(10, 0, 0), done;

	(void)state;
	assert_false(host_calls_enqueue(&calls, &next, &done));
	host_calls_did(&calls, &did);
	host_calls_did(&calls, &did);
	next = call(30, 1, 0);
	next.part.before.throttled_ns = 1 * MS;
	assert_true(host_calls_enqueue(&calls, &next, &done));
	assert_int_equal(done.part.before.throttled_ns, 0);
	next = call(40, 2, 0);
	assert_true(host_calls_enqueue(&calls, &next, &done));
	assert_int_equal(done.part.before.throttled_ns, 7 * MS);
	assert_int_equal(done.part.before.minor_faults, 4);
	assert_true(host_calls_flush(&calls, &done));
	assert_int_equal(done.part.before.throttled_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stay_until_the_wait_ends),
		cmocka_unit_test(calls_without_a_wait),
		cmocka_unit_test(waits_beside_messages),
		cmocka_unit_test(told_between_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
