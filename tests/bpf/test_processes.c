/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes are followed: children, new programs, ends of leaders; nobody else. */
#include "tests/bpf/harness.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct bpf_source_options options = {.collectives = true, .sched = true};

static const struct event_process *process(
	const struct harness *harness, pid_t pid, uint32_t action, size_t number)
{
	for (size_t i = 0;; i++) {
		const struct event_process *event = harness_find(harness, EVENT_PROCESS, pid, i);

		if (!event)
			return NULL;
		if (event->action == action && number-- == 0)
			return event;
	}
}

static void children_are_followed(void **state)
{
	struct harness harness;
	struct rank rank = rank_start();

	(void)state;
	harness_start(&harness, &options);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	pid_t child = (pid_t)rank_do(&rank, "fork 7");
	rank_do(&rank, "barrier 0");
	harness_collect(&harness);
	const struct event_process *made = process(&harness, child, EVENT_PROCESS_FORK, 0);
	const struct event_process *ended = process(&harness, child, EVENT_PROCESS_EXIT, 0);
	assert_true(made && ended);
	assert_int_equal(made->parent_pid, rank.pid);
	assert_int_equal(ended->exit_code, 7);
	assert_int_equal(harness_count(&harness, EVENT_COLLECTIVE, child), 1);
	/* Sequence numbers are of a process: the child's call is not the parent's. */
	const struct event_collective *own = harness_find(&harness, EVENT_COLLECTIVE, rank.pid, 0);
	assert_non_null(own);
	assert_int_equal(own->sequence, 0);
	rank_order(&rank, "exit 3");
	waitpid(rank.pid, NULL, 0);
	harness_collect(&harness);
	ended = process(&harness, rank.pid, EVENT_PROCESS_EXIT, 0);
	assert_non_null(ended);
	assert_int_equal(ended->exit_code, 3);
	rank_end(&rank);
	harness_end(&harness);
}

static void strangers_give_no_events(void **state)
{
	struct rank rank = rank_start(), stranger = rank_start();
	struct harness harness;

	(void)state;
	harness_start(&harness, &options);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&stranger, "burst 100");
	rank_do(&stranger, "fork 0");
	rank_do(&rank, "barrier 0");
	rank_end(&stranger);
	harness_collect(&harness);
	assert_int_equal(harness.count, harness_count(&harness, EVENT_COLLECTIVE, rank.pid) +
						harness_count(&harness, EVENT_OFF_CPU, rank.pid));
	assert_int_equal(harness_count(&harness, EVENT_COLLECTIVE, rank.pid), 1);
	rank_end(&rank);
	harness_end(&harness);
}

/* After an exec the pid is the same, the program another: its calls count from 0. */
static void new_programs(const char *order)
{
	struct harness harness;
	struct rank rank = rank_start();

	harness_start(&harness, &options);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	int64_t address = rank_do(&rank, "address 0");
	rank_do(&rank, "burst 5");
	assert_int_equal(rank_do(&rank, "%s", order), 0);
	rank_do(&rank, "barrier 0");
	harness_collect(&harness);
	assert_non_null(process(&harness, rank.pid, EVENT_PROCESS_EXEC, 0));
	assert_null(process(&harness, rank.pid, EVENT_PROCESS_EXIT, 0));
	assert_int_equal(harness_count(&harness, EVENT_COLLECTIVE, rank.pid), 6);
	const struct event_collective *call = harness_find(&harness, EVENT_COLLECTIVE, rank.pid, 5);
	/* Only where the new program has its communicator elsewhere, the 0 is no news. */
	print_message("communicator at %s address\n",
		(int64_t)call->handle == address ? "the same" : "another");
	assert_int_equal(call->sequence, 0);
	kill(rank.pid, SIGTERM);
	waitpid(rank.pid, NULL, 0);
	harness_collect(&harness);
	const struct event_process *ended = process(&harness, rank.pid, EVENT_PROCESS_EXIT, 0);
	assert_non_null(ended);
	assert_int_equal(ended->exit_code, 128 + SIGTERM);
	assert_null(process(&harness, rank.pid, EVENT_PROCESS_EXIT, 1));
	rank_end(&rank);
	harness_end(&harness);
}

static void a_program_replaces_itself(void **state)
{
	(void)state;
	new_programs("exec");
}

static void a_thread_replaces_the_program(void **state)
{
	(void)state;
	new_programs("thread-exec");
}

static void a_process_outlives_its_leader(void **state)
{
	struct harness harness;
	struct rank rank = rank_start();

	(void)state;
	harness_start(&harness, &options);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "barrier 0");
	rank_do(&rank, "leave-leader");
	rank_do(&rank, "barrier 0");
	rank_do(&rank, "barrier 0");
	rank_order(&rank, "exit 5");
	waitpid(rank.pid, NULL, 0);
	harness_collect(&harness);
	assert_int_equal(harness_count(&harness, EVENT_COLLECTIVE, rank.pid), 3);
	const struct event_collective *call = harness_find(&harness, EVENT_COLLECTIVE, rank.pid, 2);
	assert_int_not_equal(call->header.tid, rank.pid);
	assert_int_equal(call->sequence, 2); /* of the process, not of the thread */
	const struct event_process *ended = process(&harness, rank.pid, EVENT_PROCESS_EXIT, 0);
	assert_non_null(ended);
	assert_int_equal(ended->exit_code, 5);
	assert_null(process(&harness, rank.pid, EVENT_PROCESS_EXIT, 1));
	rank_end(&rank);
	harness_end(&harness);
}

static void tracking_twice_changes_nothing(void **state)
{
	struct harness harness;
	struct rank rank = rank_start();

	(void)state;
	harness_start(&harness, &options);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "burst 4");
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "burst 1");
	harness_collect(&harness);
	const struct event_collective *call = harness_find(&harness, EVENT_COLLECTIVE, rank.pid, 4);
	assert_non_null(call);
	assert_int_equal(call->sequence, 4);
	/* Of a process that is gone nothing is kept: its number will be given to another. */
	rank_end(&rank);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), -ESRCH);
	harness_end(&harness);
}

/*
 * Children that live shortly come and go by the thousands under a shell; what was counted for
 * them must neither fill up nor push out what was counted for a rank.
 */
static void ended_processes_leave_nothing(void **state)
{
	struct harness harness;
	struct rank rank = rank_start();

	(void)state;
	harness_start(&harness, &options);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "burst 3");
	for (int i = 0; i < 300; i++)
		rank_do(&rank, "fork 0");
	rank_do(&rank, "burst 1");
	harness_collect(&harness);
	assert_int_equal(harness_count(&harness, EVENT_COLLECTIVE, 0), 304);
	const struct event_collective *call = harness_find(&harness, EVENT_COLLECTIVE, rank.pid, 3);
	assert_non_null(call);
	assert_int_equal(call->sequence, 3);
	assert_int_equal(bpf_source_dropped(harness.source), 0);
	rank_end(&rank);
	harness_end(&harness);
}

/*
 * A program that never frees its communicators, more of them than are remembered: those in use
 * must go on counting, or the ranks' calls would no longer be told apart.
 */
static void forgotten_communicators_push_out_no_others(void **state)
{
	enum { CHUNK = 10000, CHUNKS = 15 };
	struct harness harness;
	struct rank rank = rank_start();
	uint64_t next = 0;

	(void)state;
	harness_start(&harness, &(struct bpf_source_options){.collectives = true});
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	uint64_t handle = (uint64_t)rank_do(&rank, "address 0");
	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		assert_int_equal(rank_do(&rank, "churn %d", CHUNK), 0);
		harness_collect(&harness);
		const struct event_collective *events = (const void *)harness.bytes;
		for (size_t i = 0; i < harness.count; i++) {
			uint64_t expected = events[i].handle == handle ? next++ : 0;

			assert_int_equal(events[i].sequence, expected);
		}
		harness_clear(&harness);
	}
	assert_int_equal(next, CHUNKS * CHUNK / 100);
	assert_int_equal(bpf_source_dropped(harness.source), 0);
	rank_end(&rank);
	harness_end(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_are_followed),
		cmocka_unit_test(strangers_give_no_events),
		cmocka_unit_test(a_program_replaces_itself),
		cmocka_unit_test(a_thread_replaces_the_program),
		cmocka_unit_test(a_process_outlives_its_leader),
		cmocka_unit_test(tracking_twice_changes_nothing),
		cmocka_unit_test(ended_processes_leave_nothing),
		cmocka_unit_test(forgotten_communicators_push_out_no_others),
	};
	int skipped = harness_check();

	return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
