/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events whose end NCCL does not tell, in great numbers: the plug-in, loaded by the stand-in's loader, and a
 * ring source that reads what it wrote, in one process.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/ring/ring_writer.h"
#include "probe/sources/ring_source.h"
#include "tests/workload/device/nccl_profiler.h"

enum {
	PLACES = 1024,	   /* TRACKER_EVENTS_MAX */
	UNREAD_MAX = 4096, /* half of the ring */
	ROUNDS = 100000,
	PAIRS = 2,
	IN_FLIGHT = 500,
	PEERS = 8,
};

/* What the records of one case say; a case has one communicator. */
static struct {
	uint64_t complete, incomplete, untimed, dropped;
	uint64_t sequences[PEERS]; /* of sends, summed */
	struct ring_source_collective first, last;
	unsigned in_flight_count;
	struct ring_in_flight in_flight;
} seen;
static struct ring_source *source;

static const struct profiler_call all_reduce = {.function = "AllReduce",
	.function_index = 1,
	.datatype = "ncclFloat32",
	.count = 1000,
	.channels = 2};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void on_communicator(
	void *context, pid_t pid, const struct ring_communicator *communicator, bool ended)
{
	(void)context;
	(void)pid;
	if (ended)
		seen.dropped = communicator->dropped;
}

static void on_collective(void *context, const struct ring_source_collective *collective)
{
	(void)context;
	if (seen.complete + seen.incomplete == 0)
		seen.first = *collective;
	seen.last = *collective;
	if (collective->flags & RING_COLLECTIVE_INCOMPLETE)
		seen.incomplete++;
	else
		seen.complete++;
	seen.untimed += collective->channels_seen == 0;
	if (collective->function == RING_FUNCTION_SEND)
		seen.sequences[collective->root % PEERS] += collective->sequence;
}

static void on_in_flight(void *context, pid_t pid, const struct ring_in_flight *call)
{
	(void)context;
	(void)pid;
	seen.in_flight_count++;
	seen.in_flight = *call;
}

static void take_records(void)
{
	ring_source_poll(source, (struct host_ns){now_ns()}, SIZE_MAX);
}

static struct profiler_call with_peer(const char *function, int peer)
{
	struct profiler_call call = all_reduce;

	call.function = function;
	call.root = peer;
	call.point_to_point = true;
	return call;
}

static void launch(struct profiler_communicator *communicator, const struct profiler_call *call,
	struct profiler_task *task)
{
	profiler_call_start(communicator, call, task);
	profiler_launch(communicator, call, task);
	profiler_launched(task);
}

static void end_channel(const struct profiler_task *task, uint8_t channel)
{
	uint64_t stop = (uint64_t)now_ns();

	profiler_channel_stop(profiler_channel_start(task, channel, stop - 1000), stop);
}

static void end(const struct profiler_task *task)
{
	for (uint8_t channel = 0; channel < task->channels; channel++)
		end_channel(task, channel);
}

static void launch_and_end(
	struct profiler_communicator *communicator, const struct profiler_call *call)
{
	struct profiler_task task;

	launch(communicator, call, &task);
	end(&task);
}

static void begin(struct profiler_communicator *communicator, int rank_count)
{
	memset(&seen, 0, sizeof(seen));
	profiler_begin(communicator, 0xfeed, 0, rank_count);
	assert_non_null(communicator->context);
}

static void finish(struct profiler_communicator *communicator)
{
	take_records();
	profiler_end(communicator);
	take_records();
}

/* All-to-all: NCCL tells of the beginning of the exchange with oneself only. */
static void all_to_all(void **state)
{
	struct profiler_call calls[] = {with_peer("Send", 0), with_peer("Recv", 0),
		with_peer("Send", 1), with_peer("Recv", 1)};
	struct profiler_communicator communicator;
	struct profiler_task tasks[4];

	(void)state;
	begin(&communicator, 2);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 4; i++)
			launch(&communicator, &calls[i], &tasks[i]);
		for (uint8_t channel = 2; channel < 4; channel++) { /* the others' are others */
			end_channel(&tasks[2], channel);
			end_channel(&tasks[3], channel);
		}
		if (round == 0) /* should NCCL tell of it after all */
			end(&tasks[0]);
		if (round % 1000 == 0)
			take_records();
	}
	finish(&communicator);
	assert_int_equal(seen.dropped, 0);
	assert_int_equal(seen.complete, 2 * ROUNDS);
	assert_int_equal(seen.incomplete, 0);
	assert_int_equal(seen.sequences[1], (uint64_t)ROUNDS * (ROUNDS - 1) / 2);
}

/* Behind an exchange with oneself on two channels, NCCL tells of other calls' times on these. */
static void times_of_other_calls_are_not_used(void **state)
{
	struct profiler_call self = with_peer("Send", 0), wide = all_reduce;
	struct profiler_communicator communicator;
	struct profiler_task task, behind;

	(void)state;
	wide.channels = 3;
	begin(&communicator, 2);
	launch_and_end(&communicator, &wide);
	take_records();
	assert_int_equal(seen.last.channels_seen, 3);
	launch(&communicator, &self, &task);
	launch(&communicator, &all_reduce, &behind);
	launch(&communicator, &wide, &task);
	end(&behind);
	end(&task);
	finish(&communicator);
	assert_int_equal(seen.untimed, 1);
	assert_int_equal(seen.incomplete, 2);
	assert_int_equal(seen.last.channels_seen, 1);
}

/* NCCL 2.29 and later: a broadcast without a task, and all that comes behind it has others' times. */
static void behind_a_broadcast_times_are_not_used(void **state)
{
	struct profiler_call broadcast = all_reduce;
	struct profiler_communicator communicator;
	struct profiler_task task;

	(void)state;
	broadcast.function = "Broadcast";
	broadcast.function_index = 2;
	begin(&communicator, 2);
	for (int i = 0; i < 3; i++) /* each has its task: older NCCL, or NCCL_ALLGATHERV_ENABLE=0 */
		launch_and_end(&communicator, &broadcast);
	launch_and_end(&communicator, &all_reduce);
	take_records();
	assert_int_equal(seen.complete, 4);
	assert_int_equal(seen.last.flags, 0);
	profiler_call_start(&communicator, &broadcast, &task);
	for (int i = 0; i < 2 * PLACES; i++) {
		launch_and_end(&communicator, &all_reduce);
		if (i % PLACES == 0)
			take_records();
	}
	take_records();
	assert_int_equal(seen.complete, 4);
	assert_int_equal(seen.untimed, 2 * PLACES);
	assert_true(seen.last.flags & RING_COLLECTIVE_OTHERS_TIMES);
	assert_int_equal(seen.last.device_stop.value, 0);
	profiler_launch(&communicator, &broadcast, &task); /* it was only late */
	launch_and_end(&communicator, &all_reduce);
	finish(&communicator);
	assert_int_equal(seen.complete, 5);
	assert_int_equal(seen.dropped, 0);
}

static void launch_and_tell(
	struct profiler_communicator *communicator, int64_t start_after_ns, int64_t stop_after_ns)
{
	struct profiler_task task;
	int64_t now;

	launch(communicator, &all_reduce, &task);
	now = now_ns();
	usleep(1000);
	for (uint8_t channel = 0; channel < 2; channel++)
		profiler_channel_stop(
			profiler_channel_start(&task, channel, (uint64_t)(now + start_after_ns)),
			(uint64_t)(now + stop_after_ns));
}

/* A kernel cannot have begun before its call, nor end in the future, nor before it began. */
static void implausible_times_are_not_used(void **state)
{
	static const int64_t times[][2] = {
		{-500000000, -400000000}, {900000, 800000}, {0, 500000000}};
	struct profiler_communicator communicator;

	(void)state;
	begin(&communicator, 2);
	for (int i = 0; i < 30; i++) { /* until the clock is known */
		launch_and_tell(&communicator, 1000, 900000);
		usleep(100000);
		take_records();
	}
	assert_true(seen.last.device_stop.value > 0);
	assert_int_equal(seen.last.flags, 0);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		launch_and_tell(&communicator, times[i][0], times[i][1]);
		take_records();
		assert_int_equal(seen.last.device_start.value, 0);
		/* What came before its call is not even written. */
		assert_int_equal(seen.last.flags & RING_COLLECTIVE_IMPLAUSIBLE,
			i == 0 ? 0 : RING_COLLECTIVE_IMPLAUSIBLE);
	}
	/* The last of them ended half a second from now, and says so much of the clock; others soon say better. */
	for (int i = 0; i < 40; i++) {
		launch_and_tell(&communicator, 1000, 900000);
		usleep(100000);
		take_records();
	}
	assert_true(seen.last.device_stop.value > 0);
	assert_int_equal(seen.last.flags, 0);
	finish(&communicator);
}

/*
 * NCCL tells of a launch after it. Its thread may have lost the CPU by then: throttled ranks' do, so these are the times that count.
 * state: whether it tells of calls.
 */
static void launches_that_are_told_late_keep_their_times(void **state)
{
	struct profiler_communicator communicator;
	struct profiler_task task;

	begin(&communicator, 2);
	for (int i = 0; i < 30; i++) { /* until the clock is known */
		launch_and_tell(&communicator, 1000, 900000);
		usleep(100000);
		take_records();
	}
	for (int i = 0; i < 30; i++) {
		int64_t called_ns;

		profiler_call_start(&communicator, &all_reduce, &task);
		if (!*(const bool *)*state)
			task.api = NULL;
		called_ns = now_ns();
		usleep(20000);
		profiler_launch(&communicator, &all_reduce, &task);
		profiler_launched(&task);
		for (uint8_t channel = 0; channel < 2; channel++)
			profiler_channel_stop(profiler_channel_start(&task, channel,
						      (uint64_t)(called_ns + 10000)),
				(uint64_t)(called_ns + 5000000));
		take_records();
		assert_int_equal(seen.last.channels_seen, 2);
		assert_true(seen.last.device_start.value > 0);
	}
	finish(&communicator);
}

/* As when an exchange with oneself lay on channel 1, and no other message: from then on NCCL tells of calls before. */
static void launch_with_a_shift(struct profiler_communicator *communicator, bool shifted)
{
	uint64_t before = (uint64_t)now_ns() - 10000000, stop;
	struct profiler_call wide = all_reduce;
	struct profiler_task task;

	wide.channels = 3;
	launch(communicator, &wide, &task);
	usleep(2000);
	stop = (uint64_t)now_ns();
	for (uint8_t channel = 0; channel < 3; channel++) {
		uint64_t told = shifted && channel == 1 ? before : stop;

		profiler_channel_stop(profiler_channel_start(&task, channel, told - 1000), told);
	}
	take_records();
}

/* The channels that keep to their own calls go on; the other one's times are used no more, though some would fit. */
static void a_shifted_channel_is_left_out(void **state)
{
	struct profiler_communicator communicator;

	(void)state;
	begin(&communicator, 2);
	for (int i = 0; i < 10; i++)
		launch_with_a_shift(&communicator, false);
	assert_int_equal(seen.last.channels_seen, 3);
	launch_with_a_shift(&communicator, true); /* once: this one's alone */
	assert_int_equal(seen.last.channels_seen, 2);
	launch_with_a_shift(&communicator, false);
	assert_int_equal(seen.last.channels_seen, 3);
	for (int i = 0; i < 8; i++)
		launch_with_a_shift(&communicator, true);
	launch_with_a_shift(&communicator, false);
	assert_int_equal(seen.last.channels_seen, 2);
	finish(&communicator);
}

/* A call that does not end is told of, the oldest one, while it lasts. */
static void what_does_not_end_is_told(void **state)
{
	struct profiler_call gather = all_reduce;
	struct profiler_communicator communicator;
	struct profiler_task task, behind;
	int64_t launched_ns;

	(void)state;
	gather.function = "AllGather";
	gather.function_index = 3;
	begin(&communicator, 2);
	for (int i = 0; i < 5; i++)
		launch_and_end(&communicator, &gather);
	usleep(3500000);
	take_records();
	assert_int_equal(seen.in_flight_count, 0); /* a pause of the program is none */
	launched_ns = now_ns();
	launch(&communicator, &gather, &task);
	launch(&communicator, &all_reduce, &behind);
	usleep(1500000);
	take_records();
	assert_int_equal(seen.in_flight_count, 0);
	usleep(3000000);
	take_records();
	assert_in_range(seen.in_flight_count, 1, 4);
	assert_int_equal(seen.in_flight.communicator, 0xfeed);
	assert_int_equal(seen.in_flight.function, RING_FUNCTION_ALL_GATHER);
	assert_int_equal(seen.in_flight.sequence, 5);
	assert_int_equal(seen.in_flight.count, 2);
	assert_int_equal(seen.in_flight.started, 0);
	assert_in_range(seen.in_flight.launch_host_ns - launched_ns, 0, 100000000);
	end(&task);
	end(&behind);
	take_records();
	seen.in_flight_count = 0;
	usleep(2500000);
	take_records();
	assert_int_equal(seen.in_flight_count, 0);
	finish(&communicator);
}

static void some_ends_are_not_told(void **state)
{
	struct profiler_communicator communicator;
	struct profiler_task task;

	(void)state;
	begin(&communicator, 2);
	for (int i = 0; i < ROUNDS; i++) {
		launch(&communicator, &all_reduce, &task);
		if (i % 16)
			end(&task);
		if (i % 2000 == 0)
			take_records();
	}
	finish(&communicator);
	assert_int_equal(seen.dropped, 0);
	assert_int_equal(seen.complete, ROUNDS - ROUNDS / 16);
	assert_int_equal(seen.incomplete, ROUNDS / 16);
	assert_int_equal(seen.untimed, ROUNDS / 16);
}

/* Of each, one channel is told of: enough to know that it is over. */
static void one_channel_is_not_told(void **state)
{
	struct profiler_communicator communicator;
	struct profiler_task task;

	(void)state;
	begin(&communicator, 2);
	for (int i = 0; i < 5 * PLACES; i++) {
		launch(&communicator, &all_reduce, &task);
		end_channel(&task, 1);
	}
	finish(&communicator);
	assert_int_equal(seen.dropped, 0);
	assert_int_equal(seen.incomplete, 5 * PLACES);
	assert_int_equal(seen.untimed, 0);
}

/* Nothing ends until all places are taken and more is lost; then the first that ends clears them. */
static void a_full_table_recovers(void **state)
{
	struct profiler_communicator communicator;
	struct profiler_task task;

	(void)state;
	begin(&communicator, 8192);
	for (int i = 0; i < PLACES + 500; i++)
		launch(&communicator, &all_reduce, &task);
	take_records();
	assert_int_equal(seen.incomplete, 0);
	for (int i = 0; i < 100; i++) /* a second of a quiet program */
		launch_and_end(&communicator, &all_reduce);
	take_records();
	assert_in_range(seen.complete, 80, 99);
	for (int i = 0; i < PLACES; i++)
		launch_and_end(&communicator, &all_reduce);
	finish(&communicator);
	assert_int_equal(seen.incomplete, PLACES);
	assert_int_equal(seen.untimed, PLACES);
	assert_int_equal(seen.complete + seen.dropped, 500 + 100 + PLACES);
	assert_in_range(seen.dropped, 501, 520);
}

/* The host runs ahead of a collective that waits: nothing behind it has ended. */
/* As where NCCL tells of no kernel at all: for a second the new ones are lost, then the oldest give way. */
static void a_table_in_which_nothing_ends_recovers(void **state)
{
	struct profiler_communicator communicator;
	struct profiler_task task;

	(void)state;
	begin(&communicator, 2);
	for (int i = 0; i < PLACES + 100; i++)
		launch(&communicator, &all_reduce, &task);
	take_records();
	assert_int_equal(seen.incomplete, 0);
	usleep(1100000);
	for (int i = 0; i < 3 * PLACES / 2; i++)
		launch(&communicator, &all_reduce, &task);
	take_records();
	assert_int_equal(seen.incomplete, PLACES);
	finish(&communicator);
	assert_int_equal(seen.incomplete, 2 * PLACES);
	assert_int_equal(seen.dropped, 100 + PLACES / 2);
}

static void a_hang_keeps_its_place(void **state)
{
	static struct profiler_task tasks[5 * PLACES];
	struct profiler_communicator communicator;

	(void)state;
	begin(&communicator, 2);
	for (int i = 0; i < 5 * PLACES; i++)
		launch(&communicator, &all_reduce, &tasks[i]);
	take_records();
	assert_int_equal(seen.complete + seen.incomplete, 0);
	for (int i = 0; i < 5 * PLACES; i++)
		end(&tasks[i]);
	finish(&communicator);
	assert_int_equal(seen.dropped, 4 * PLACES);
	assert_int_equal(seen.complete, PLACES);
	assert_int_equal(seen.incomplete, 0);
	assert_int_equal(seen.first.sequence, 0);
}

/* All others of its group have ended, since they are one kernel; the kernels behind it wait. */
static void a_hang_within_a_group_keeps_its_place(void **state)
{
	enum { RANKS = 250 };
	static struct profiler_task tasks[2 * RANKS];
	struct profiler_call calls[2] = {with_peer("Send", 1), with_peer("Recv", 1)};
	struct profiler_communicator communicator;
	struct profiler_task task;
	size_t count = 0;

	(void)state;
	begin(&communicator, RANKS);
	for (int peer = 1; peer < RANKS; peer++) {
		for (int i = 0; i < 2; i++) {
			calls[i].root = peer;
			profiler_call_start(&communicator, &calls[i], &tasks[count]);
			profiler_launch(&communicator, &calls[i], &tasks[count++]);
		}
	}
	for (size_t i = 0; i < count; i++)
		profiler_launched(&tasks[i]);
	for (size_t i = 1; i < count; i++)
		end(&tasks[i]);
	for (int i = 0; i < 5 * PLACES; i++)
		launch(&communicator, &all_reduce, &task);
	take_records();
	assert_int_equal(seen.incomplete, 0);
	end(&tasks[0]);
	take_records();
	assert_int_equal(seen.last.function, RING_FUNCTION_SEND);
	assert_int_equal(seen.last.root, 1);
	assert_int_equal(seen.last.flags, RING_COLLECTIVE_SEQUENCE_COUNTED);
	finish(&communicator);
}

/* NCCL does not tell of one channel's end: few kernels later the call is told all the same, with what is known. */
static void a_call_that_others_passed_is_told_soon(void **state)
{
	struct profiler_communicator communicator;
	struct profiler_task task;

	(void)state;
	begin(&communicator, 2);
	launch(&communicator, &all_reduce, &task);
	end_channel(&task, 1);
	for (int i = 0; i < 3; i++)
		launch_and_end(&communicator, &all_reduce);
	take_records();
	assert_int_equal(seen.incomplete, 0);
	launch_and_end(&communicator, &all_reduce);
	take_records();
	assert_int_equal(seen.complete, 4);
	assert_int_equal(seen.incomplete, 1);
	assert_int_equal(seen.untimed, 0);
	finish(&communicator);
	assert_int_equal(seen.dropped, 0);
}

/* The receiver has numbered a send for which there was no place. */
static void lost_sends_are_numbered(void **state)
{
	struct profiler_call send = with_peer("Send", 1);
	static struct profiler_task tasks[PLACES];
	struct profiler_communicator communicator;
	struct profiler_task task;

	(void)state;
	begin(&communicator, 2);
	for (int i = 0; i < PLACES; i++)
		launch(&communicator, &all_reduce, &tasks[i]);
	for (int i = 0; i < 10; i++)
		launch(&communicator, &send, &task);
	for (int i = 0; i < PLACES; i++)
		end(&tasks[i]);
	launch_and_end(&communicator, &send);
	finish(&communicator);
	assert_int_equal(seen.dropped, 10);
	assert_int_equal(seen.last.function, RING_FUNCTION_SEND);
	assert_int_equal(seen.last.sequence, 10);
}

/* As in NCCL: one thread launches, another one tells of the ends. */
struct pair {
	pthread_t launcher, teller;
	struct profiler_communicator communicator;
	int peer;
	uint64_t launched, told; /* atomic */
	struct profiler_task tasks[IN_FLIGHT];
};
static struct pair pairs[PAIRS];
static uint64_t taken; /* atomic: records, of all pairs together */

static void *launch_all(void *context)
{
	struct pair *pair = context;
	struct profiler_call send = with_peer("Send", pair->peer);

	for (uint64_t i = 0; i < ROUNDS; i++) {
		while (i - __atomic_load_n(&pair->told, __ATOMIC_ACQUIRE) >= IN_FLIGHT ||
			PAIRS * i > __atomic_load_n(&taken, __ATOMIC_RELAXED) + UNREAD_MAX)
			usleep(100);
		launch(&pair->communicator, &send, &pair->tasks[i % IN_FLIGHT]);
		__atomic_store_n(&pair->launched, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void *tell_all(void *context)
{
	struct pair *pair = context;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		while (__atomic_load_n(&pair->launched, __ATOMIC_ACQUIRE) == i)
			usleep(100);
		if (i % 16)
			end(&pair->tasks[i % IN_FLIGHT]);
		__atomic_store_n(&pair->told, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void several_threads(void **state)
{
	uint64_t dropped = 0, told;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	for (int i = 0; i < PAIRS; i++) {
		pairs[i].peer = i + 1;
		profiler_begin(&pairs[i].communicator, 0xfeed + (uint64_t)i, 0, PEERS);
		assert_int_equal(
			pthread_create(&pairs[i].launcher, NULL, launch_all, &pairs[i]), 0);
		assert_int_equal(pthread_create(&pairs[i].teller, NULL, tell_all, &pairs[i]), 0);
	}
	do {
		told = UINT64_MAX;
		for (int i = 0; i < PAIRS; i++) {
			uint64_t own = __atomic_load_n(&pairs[i].told, __ATOMIC_RELAXED);

			told = own < told ? own : told;
		}
		take_records();
		__atomic_store_n(&taken, PAIRS * told, __ATOMIC_RELAXED);
	} while (told < ROUNDS);
	for (int i = 0; i < PAIRS; i++) {
		pthread_join(pairs[i].launcher, NULL);
		pthread_join(pairs[i].teller, NULL);
		finish(&pairs[i].communicator);
		dropped += seen.dropped;
		assert_int_equal(seen.sequences[i + 1], (uint64_t)ROUNDS * (ROUNDS - 1) / 2);
	}
	assert_int_equal(dropped, 0);
	assert_int_equal(seen.complete, PAIRS * (ROUNDS - ROUNDS / 16));
	assert_int_equal(seen.incomplete, PAIRS * ROUNDS / 16);
}

/* Whether waits for the device spin is known by a context alone: without one nothing is read. */
static void launchers_are_not_read_without_a_context(void **state)
{
	struct profiler_communicator communicator;

	(void)state;
	ring_source_want_launchers_cpu(source);
	begin(&communicator, 2);
	for (int i = 0; i < 3; i++)
		launch_and_end(&communicator, &all_reduce);
	finish(&communicator);
	assert_int_equal(seen.complete, 3);
	assert_int_equal(seen.last.launchers_cpu_ns, 0);
}

int main(void)
{
	static bool calls_are_told = true, calls_are_not_told; /* as before version 5 */
	static const struct ring_source_callbacks callbacks = {.communicator = on_communicator,
		.collective = on_collective,
		.in_flight = on_in_flight};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_to_all),
		cmocka_unit_test(times_of_other_calls_are_not_used),
		cmocka_unit_test(behind_a_broadcast_times_are_not_used),
		cmocka_unit_test(a_shifted_channel_is_left_out),
		cmocka_unit_test_prestate(
			launches_that_are_told_late_keep_their_times, &calls_are_told),
		cmocka_unit_test_prestate(
			launches_that_are_told_late_keep_their_times, &calls_are_not_told),
		cmocka_unit_test(implausible_times_are_not_used),
		cmocka_unit_test(what_does_not_end_is_told),
		cmocka_unit_test(some_ends_are_not_told),
		cmocka_unit_test(one_channel_is_not_told),
		cmocka_unit_test(a_full_table_recovers),
		cmocka_unit_test(a_table_in_which_nothing_ends_recovers),
		cmocka_unit_test(a_hang_keeps_its_place),
		cmocka_unit_test(a_hang_within_a_group_keeps_its_place),
		cmocka_unit_test(a_call_that_others_passed_is_told_soon),
		cmocka_unit_test(lost_sends_are_numbered),
		cmocka_unit_test(several_threads),
		cmocka_unit_test(launchers_are_not_read_without_a_context),
	};
	char directory[] = "/tmp/slowrank-test-tracker.XXXXXX", path[128];
	struct profiler_communicator kept; /* NCCL unloads the plug-in with the last one */
	uint64_t start_time;
	int result;

	if (!mkdtemp(directory) || ring_start_time(-1, "self", &start_time) ||
		setenv("NCCL_PROFILER_PLUGIN", INJECT_LIBRARY, 1) ||
		setenv(RING_DIRECTORY_VARIABLE, directory, 1) ||
		ring_source_create(directory, &callbacks, NULL, &source))
		return 1;
	snprintf(path, sizeof(path), "%s/" RING_FILE_PREFIX "%u.%d.%llu", directory,
		(unsigned)getuid(), (int)getpid(), (unsigned long long)start_time);
	profiler_begin(&kept, 1, 0, 1);
	if (!kept.context || ring_source_add_process(source, getpid()))
		return 1;
	result = cmocka_run_group_tests(tests, NULL, NULL);
	profiler_end(&kept);
	ring_source_destroy(source);
	unlink(path);
	rmdir(directory);
	return result;
}
