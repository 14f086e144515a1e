/* SPDX-License-Identifier: Apache-2.0 */
/* Timing by events in an attached job: from host times to device times, and back where it costs too much. */
#include "probe/attach_events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "probe/attach/collective_table.h"

#define MS INT64_C(1000000)
#define S INT64_C(1000000000)
enum { PID = 4200000, HANDLE = 0x1000 }; /* above pid_max: no such process */

struct bench {
	struct job *job;
	struct ring_source *rings;
	struct attach_events *events;
	int64_t now_ns;
	uint64_t sequence, timed_parts, host_parts;
};

static void no_program(void *context, pid_t pid)
{
	(void)context;
	(void)pid;
}

static void set_up_for(struct bench *bench, bool attached, bool asked)
{
	static const struct ring_source_callbacks none;

	*bench = (struct bench){.now_ns = 100 * S};
	assert_int_equal(job_create(&(struct job_options){.host = "here", .attached = attached},
				 &bench->job),
		0);
	assert_int_equal(ring_source_create("/tmp", &none, NULL, &bench->rings), 0);
	bench->events = attach_events_create(bench->rings, bench->job, attached, asked);
	assert_non_null(bench->events);
	attach_events_hello(bench->events, PID, &(struct ring_hello){0});
}

static void set_up(struct bench *bench)
{
	set_up_for(bench, true, true);
}

static void tear_down(struct bench *bench)
{
	attach_events_destroy(bench->events);
	ring_source_destroy(bench->rings);
	job_destroy(bench->job);
}

/* A call, as the uprobe sees it, and 2 ms later as the library does. */
static void call(struct bench *bench, bool told)
{
	static uint16_t row;
	struct event_collective event = {.header = {.kind = EVENT_COLLECTIVE,
						 .length_bytes = sizeof(event),
						 .pid = PID,
						 .tid = PID},
		.handle = HANDLE,
		.sequence = bench->sequence++,
		.count = 256,
		.datatype = 7,
		.root = -1,
		.arrival_ns = (uint64_t)bench->now_ns,
		.departure_ns = (uint64_t)bench->now_ns};

	while (strcmp(collective_rows[row].symbol, "ncclAllReduce"))
		row++;
	event.row = row;
	event.header.time_ns = (uint64_t)bench->now_ns;
	job_event(bench->job, &event.header, no_program, NULL);
	if (told)
		attach_events_call(bench->events, &(struct ring_source_timed_call){.pid = PID,
							  .handle = HANDLE,
							  .entered = {bench->now_ns - 1000},
							  .returned = {bench->now_ns + 9000},
							  .launched = {bench->now_ns + 8000},
							  .start = {bench->now_ns + MS},
							  .stop = {bench->now_ns + 2 * MS}});
	bench->now_ns += 10 * MS;
	attach_events_tick(bench->events, (struct host_ns){bench->now_ns});
	job_match_times(bench->job, (struct host_ns){bench->now_ns});
	job_join_device_calls(bench->job);
}

/* A second of calls, of which each takes so much of its caller's time. */
static void second(struct bench *bench, uint64_t *spent_ns, uint64_t each_ns, bool told)
{
	for (int i = 0; i < 100; i++)
		call(bench, told);
	*spent_ns += 100 * each_ns;
	attach_events_state(bench->events, PID,
		&(struct ring_timed_state){.spent_ns = *spent_ns,
			.pointers = 8,
			.settled_host_ns = bench->now_ns - S});
}

static void count_parts(struct bench *bench)
{
	struct message_batch batch = {0};

	job_finish(bench->job, (struct host_ns){bench->now_ns});
	job_match_times(bench->job, (struct host_ns){bench->now_ns});
	job_join_device_calls(bench->job);
	job_finish(bench->job, (struct host_ns){bench->now_ns});
	assert_true(job_fill_batch(bench->job, &batch));
	for (size_t i = 0; i < batch.step_count; i++) {
		for (size_t p = 0; p < batch.steps[i].part_count; p++) {
			bool timed = batch.steps[i].parts[p].flags & PART_DEVICE_TIME;

			*(timed ? &bench->timed_parts : &bench->host_parts) += 1;
		}
	}
	job_batch_done(bench->job);
}

static void test_timed(void **state)
{
	struct message_source source = {0};
	struct bench bench;
	uint64_t spent_ns = 0;

	(void)state;
	set_up(&bench);
	second(&bench, &spent_ns, 0, false);
	assert_false(attach_events_coverage(bench.events, &source));
	for (int i = 0; i < 9; i++)
		second(&bench, &spent_ns, 5000, true);
	assert_true(attach_events_serve(bench.events, PID));
	assert_true(attach_events_coverage(bench.events, &source));
	assert_int_equal(source.state, SOURCE_ON);
	count_parts(&bench);
	/* The first that is told of comes by the host's time yet. */
	assert_in_range(bench.timed_parts, 890, 900);
	assert_in_range(bench.host_parts, 100, 110);
	assert_int_equal(bench.timed_parts + bench.host_parts, 1000);
	assert_int_equal(job_dropped(bench.job), 0);
	tear_down(&bench);
}

/* No pointer is found: after some seconds another way may be tried. */
static void test_not_served(void **state)
{
	struct message_source source = {0};
	struct bench bench;
	uint64_t spent_ns = 0;

	(void)state;
	set_up(&bench);
	for (int i = 0; i < 5; i++)
		second(&bench, &spent_ns, 0, false);
	assert_true(attach_events_serve(bench.events, PID));
	for (int i = 0; i < 5; i++)
		second(&bench, &spent_ns, 0, false);
	assert_false(attach_events_serve(bench.events, PID));
	assert_false(attach_events_coverage(bench.events, &source));
	tear_down(&bench);
}

/* Half of them were captured into graphs. */
static void test_in_part(void **state)
{
	struct message_source source = {0};
	struct bench bench;

	(void)state;
	set_up(&bench);
	for (int i = 0; i < 1000; i++)
		call(&bench, i % 2 == 0);
	attach_events_state(bench.events, PID,
		&(struct ring_timed_state){.captured = 500, .settled_host_ns = bench.now_ns - S});
	call(&bench, true);
	assert_true(attach_events_coverage(bench.events, &source));
	assert_int_equal(source.state, SOURCE_DEGRADED);
	assert_non_null(strstr(source.why, "0 % of the calls are timed"));
	assert_non_null(strstr(source.why, "graphs"));
	tear_down(&bench);
}

/* 5 % of the caller's time: switched off, and the calls come by the host's times again. */
static void test_over_budget(void **state)
{
	struct message_source source = {0};
	struct bench bench;
	uint64_t spent_ns = 0;

	(void)state;
	set_up(&bench);
	for (int i = 0; i < 10; i++)
		second(&bench, &spent_ns, 500000, true);
	assert_true(attach_events_coverage(bench.events, &source));
	assert_int_equal(source.state, SOURCE_MISSING);
	assert_non_null(strstr(source.why, "switched off"));
	assert_non_null(strstr(source.why, " 5 %"));
	assert_true(attach_events_serve(bench.events, PID)); /* CUPTI would cost more */
	for (int i = 0; i < 10; i++)
		second(&bench, &spent_ns, 0, false);
	count_parts(&bench);
	assert_in_range(bench.timed_parts, 400, 900);
	assert_int_equal(bench.timed_parts + bench.host_parts, 2000);
	tear_down(&bench);
}

/* 2 % of a caller's time is fine where it was asked for, and too much where it was not. */
static void test_budget_unasked(void **state)
{
	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		struct message_source source = {0};
		struct bench bench;
		uint64_t spent_ns = 0;

		set_up_for(&bench, true, asked);
		for (int i = 0; i < 10; i++)
			second(&bench, &spent_ns, 200000, true);
		assert_int_equal(attach_events_off(bench.events, &source), !asked);
		tear_down(&bench);
	}
}

/* A call that NCCL's plug-in tells of, 1 ms later; and when the library timed it by events, that too. */
static void told_call(struct bench *bench, bool with_times, bool by_events)
{
	struct collective_part part = {.communicator_id = 1,
		.sequence = bench->sequence,
		.length_bytes = 1024,
		.arrival = {bench->now_ns},
		.departure = {bench->now_ns + (with_times ? MS : 0)},
		.enqueue = {bench->now_ns},
		.root = STEP_ROOT_NONE,
		.operation = OPERATION_ALL_REDUCE,
		.flags = with_times ? PART_DEVICE_TIME : PART_ENQUEUE_ONLY};

	bench->sequence++;
	if (by_events)
		attach_events_call(bench->events, &(struct ring_source_timed_call){.pid = PID,
							  .handle = HANDLE,
							  .thread_id = PID,
							  .entered = {bench->now_ns - 1000},
							  .returned = {bench->now_ns + 9000},
							  .launched = {bench->now_ns + 8000},
							  .start = {bench->now_ns + MS},
							  .stop = {bench->now_ns + 2 * MS}});
	attach_events_told(bench->events, PID, with_times);
	if (with_times || !job_untold_call(bench->job, PID, &part, PID, bench->sequence))
		job_device_call(bench->job, PID, &part, bench->sequence);
	bench->now_ns += 10 * MS;
	attach_events_tick(bench->events, (struct host_ns){bench->now_ns});
	job_match_times(bench->job, (struct host_ns){bench->now_ns});
	job_join_device_calls(bench->job);
}

static void told_second(struct bench *bench, bool by_events)
{
	for (int i = 0; i < 100; i++)
		told_call(bench, i % 4 == 0, by_events);
	attach_events_state(bench->events, PID,
		&(struct ring_timed_state){.pointers = 8, .settled_host_ns = bench->now_ns - S});
}

/* Three in four calls come without times from the plug-in: they get those of events, the others keep theirs. */
static void test_filled(void **state)
{
	struct message_source source = {0};
	struct bench bench;

	(void)state;
	set_up_for(&bench, false, true);
	attach_events_hello(bench.events, PID, &(struct ring_hello){.nccl_profiler_version = 5});
	job_device_process(bench.job, PID);
	told_second(&bench, false);
	for (int i = 0; i < 9; i++)
		told_second(&bench, true);
	assert_false(attach_events_serve(bench.events, PID));
	assert_false(attach_events_off(bench.events, &source));
	count_parts(&bench);
	assert_in_range(bench.timed_parts, 900, 925);
	assert_int_equal(bench.timed_parts + bench.host_parts, 1000);
	assert_int_equal(job_dropped(bench.job), 0);
	tear_down(&bench);
}

/* Events that fit no call, as where a group's calls are known by its end alone: it is not gone on with. */
static void test_filled_in_vain(void **state)
{
	struct message_source source = {0};
	struct bench bench;

	(void)state;
	set_up_for(&bench, false, true);
	job_device_process(bench.job, PID);
	told_second(&bench, false);
	told_call(&bench, false, true);
	for (int i = 0; i < 20; i++)
		told_second(&bench, false);
	assert_true(attach_events_off(bench.events, &source));
	assert_non_null(strstr(source.why, "got none by events"));
	told_second(&bench, true);
	count_parts(&bench);
	assert_int_equal(bench.timed_parts + bench.host_parts, 2201);
	assert_in_range(bench.timed_parts, 550, 560);
	tear_down(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timed),
		cmocka_unit_test(test_not_served),
		cmocka_unit_test(test_in_part),
		cmocka_unit_test(test_over_budget),
		cmocka_unit_test(test_budget_unasked),
		cmocka_unit_test(test_filled),
		cmocka_unit_test(test_filled_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
