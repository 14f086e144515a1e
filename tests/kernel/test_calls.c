/* SPDX-License-Identifier: Apache-2.0 */
/* Library calls as the kernel tells them: arguments, sequence, nesting, communicators, markers. */
#include "tests/kernel/harness.h"

#include <stdio.h>

static test_communicator handle(uintptr_t value)
{
	return (test_communicator)value;
}

#define ALPHA handle(0x7f0012345678)
#define BETA handle(0x7f00aaaa0008)

static void use_arguments(void)
{
	for (int i = 0; i < 3; i++) {
		MPI_Allreduce(NULL, NULL, 100 + i, (void *)0x1234, NULL, ALPHA);
		if (i < 2)
			MPI_Bcast(NULL, 7, (void *)0x99, 5 + i, BETA);
	}
	/* The communicator is the seventh argument: on the stack. */
	MPI_Reduce(NULL, NULL, 3, (void *)0x77, NULL, 2, ALPHA);
	ncclAllReduce(NULL, NULL, 1ull << 33, 7, 0, BETA, (void *)0x5555);
	MPI_Ibarrier(ALPHA, NULL);
}

static void arguments_and_sequences(void **state)
{
	struct harness *harness = *state;
	pid_t pid = harness_run(harness, use_arguments);
	uint64_t last_ns = 0;

	assert_int_equal(harness_count(harness, EVENT_COLLECTIVE, pid), 8);
	for (size_t i = 0; i < 5; i++) {
		const struct event_collective *event = harness_collective(harness, pid, i);
		bool broadcast = i % 2;

		assert_int_equal(event->row, row_of(broadcast ? "MPI_Bcast" : "MPI_Allreduce"));
		assert_int_equal(event->sequence, i / 2);
		assert_int_equal(event->handle, (uintptr_t)(broadcast ? BETA : ALPHA));
		assert_int_equal(event->count, broadcast ? 7 : 100 + i / 2);
		assert_int_equal(event->datatype, broadcast ? 0x99 : 0x1234);
		assert_int_equal(event->root, broadcast ? 5 + (int)i / 2 : -1);
		assert_int_equal(event->flags, 0);
		assert_true(event->arrival_ns > last_ns);
		assert_true(event->departure_ns > event->arrival_ns);
		last_ns = event->departure_ns;
	}
	const struct event_collective *reduce = harness_collective(harness, pid, 5);
	assert_int_equal(reduce->handle, (uintptr_t)ALPHA);
	assert_int_equal(reduce->sequence, 3);
	assert_int_equal(reduce->root, 2);
	const struct event_collective *enqueued = harness_collective(harness, pid, 6);
	assert_int_equal(enqueued->row, row_of("ncclAllReduce"));
	assert_int_equal(enqueued->count, 1ull << 33);
	assert_int_equal(enqueued->stream, 0x5555);
	assert_int_equal(enqueued->sequence, 2);
	assert_int_equal(enqueued->departure_ns, enqueued->arrival_ns);
	assert_int_equal(harness_collective(harness, pid, 7)->sequence, 4);
}

static void sleep_20_ms(void)
{
	sleep_ns(20 * MILLISECONDS);
}

static void use_others_inside(void)
{
	during_call = sleep_20_ms;
	MPI_Recv(NULL, 0, NULL, 0, 0, ALPHA, NULL);
	MPI_Barrier(BETA);
	ncclAllReduce(NULL, NULL, 1, 0, 0, BETA, NULL);
}

static void use_nested(void)
{
	MPI_Barrier(ALPHA);
	during_call = sleep_20_ms;
	MPI_Recv(NULL, 0, NULL, 0, 0, ALPHA, NULL);
	sleep_ns(10 * MILLISECONDS);
	during_call = use_others_inside;
	MPI_Allreduce(NULL, NULL, 1, NULL, NULL, ALPHA);
	MPI_Barrier(BETA);
}

/* Only outermost calls count; a receive is communication, not the program's own time. */
static void nested_calls(void **state)
{
	struct harness *harness = *state;
	pid_t pid = harness_run(harness, use_nested);
	const struct event_collective *outer = harness_collective(harness, pid, 1);

	assert_int_equal(harness_count(harness, EVENT_COLLECTIVE, pid), 3);
	assert_int_equal(outer->row, row_of("MPI_Allreduce"));
	int64_t before_ns =
		(int64_t)(outer->arrival_ns - harness_collective(harness, pid, 0)->departure_ns);
	assert_in_range(outer->before.comm_call_ns, 20 * MILLISECONDS, before_ns);
	assert_in_range(outer->before.asleep_ns + outer->before.preempted_ns, 10 * MILLISECONDS,
		before_ns - (int64_t)outer->before.comm_call_ns);
	assert_in_range(outer->inside.asleep_ns + outer->inside.preempted_ns, 20 * MILLISECONDS,
		outer->departure_ns - outer->arrival_ns);
	assert_int_equal(outer->inside.comm_call_ns, 0);
	const struct event_collective *after = harness_collective(harness, pid, 2);
	assert_int_equal(after->handle, (uintptr_t)BETA);
	assert_int_equal(after->sequence, 0);
	assert_int_equal(after->before.asleep_ns, 0);
}

static jmp_buf out;

static void leave_by_jump(void)
{
	longjmp(out, 1);
}

static void use_jump(void)
{
	if (setjmp(out) == 0) {
		during_call = leave_by_jump;
		MPI_Barrier(ALPHA);
	}
	MPI_Barrier(ALPHA);
}

static void return_not_seen(void **state)
{
	struct harness *harness = *state;
	pid_t pid = harness_run(harness, use_jump);

	assert_int_equal(harness_count(harness, EVENT_COLLECTIVE, pid), 2);
	assert_int_equal(harness_collective(harness, pid, 0)->flags, EVENT_COLLECTIVE_NO_RETURN);
	assert_int_equal(harness_collective(harness, pid, 1)->flags, 0);
	assert_int_equal(harness_collective(harness, pid, 1)->sequence, 1);
}

static void use_communicators(void)
{
	test_communicator made;
	ncclUniqueId ids[2];
	int value;

	next_communicator = BETA;
	MPI_Comm_split(ALPHA, 3, 9, &made);
	MPI_Barrier(made);
	MPI_Barrier(made);
	MPI_Comm_free(&made);
	MPI_Comm_split(ALPHA, 4, 8, &made);
	MPI_Barrier(made);
	for (size_t i = 0; i < sizeof(ids[0].internal); i++)
		ids[0].internal[i] = (char)(i * 3 + 1);
	ncclCommInitRank(&made, 16, ids[0], 11);
	ncclCommInitRankScalable(&made, 32, 21, 2, ids, NULL);
	next_rank = 6;
	for (int i = 0; i < 10; i++) {
		MPI_Comm_rank(ALPHA, &value);
		MPI_Comm_size(ALPHA, &value);
	}
	next_rank = 2;
	MPI_Comm_rank(ALPHA, &value);
}

static const struct event_communicator *communicator(
	const struct harness *harness, pid_t pid, size_t number)
{
	const struct event_communicator *event =
		harness_find(harness, EVENT_COMMUNICATOR, pid, number);

	assert_non_null(event);
	return event;
}

static void expect_unique_id(
	const struct event_communicator *event, const char *symbol, int rank, int rank_count)
{
	assert_int_equal(event->row, row_of(symbol));
	assert_int_equal(event->handle, (uintptr_t)BETA);
	assert_int_equal(event->parent, 0);
	assert_int_equal(event->rank, rank);
	assert_int_equal(event->rank_count, rank_count);
	assert_int_equal(event->unique_id_valid, 1);
	for (size_t i = 0; i < EVENT_UNIQUE_ID_BYTES; i++)
		assert_int_equal(event->unique_id[i], (uint8_t)(i * 3 + 1));
}

static void communicators(void **state)
{
	struct harness *harness = *state;
	pid_t pid = harness_run(harness, use_communicators);
	const struct event_communicator *split = communicator(harness, pid, 0);

	assert_int_equal(harness_count(harness, EVENT_COMMUNICATOR, pid), 5);
	assert_int_equal(split->parent, (uintptr_t)ALPHA);
	assert_int_equal(split->handle, (uintptr_t)BETA);
	assert_int_equal(split->color, 3);
	assert_int_equal(split->key, 9);
	assert_int_equal(split->sequence, 0);
	assert_int_equal(split->destroyed, 0);
	const struct event_communicator *freed = communicator(harness, pid, 1);
	assert_int_equal(freed->destroyed, 1);
	assert_int_equal(freed->handle, (uintptr_t)BETA);
	assert_int_equal(communicator(harness, pid, 2)->sequence, 1);
	assert_int_equal(communicator(harness, pid, 2)->color, 4);
	expect_unique_id(communicator(harness, pid, 3), "ncclCommInitRank", 11, 16);
	expect_unique_id(communicator(harness, pid, 4), "ncclCommInitRankScalable", 21, 32);
	/* The handle's second life counts from 0 again. */
	assert_int_equal(harness_collective(harness, pid, 1)->sequence, 1);
	assert_int_equal(harness_collective(harness, pid, 2)->sequence, 0);
}

static void ranks_are_told_once(void **state)
{
	struct harness *harness = *state;
	pid_t pid = harness_run(harness, use_communicators);
	static const int expected[][2] = {{6, 0}, {7, 1}, {2, 0}};

	assert_int_equal(harness_count(harness, EVENT_RANK, pid), 3);
	for (size_t i = 0; i < 3; i++) {
		const struct event_rank *event = harness_find(harness, EVENT_RANK, pid, i);

		assert_int_equal(event->handle, (uintptr_t)ALPHA);
		assert_int_equal(event->value, expected[i][0]);
		assert_int_equal(event->is_size, expected[i][1]);
	}
}

static void use_markers(void)
{
	char name[32];

	slowrank_step_begin(41);
	slowrank_step_end(41);
	nvtxRangePushA("forward");
	/* On the stack, as profilers build it: a page that was never touched cannot be read. */
	snprintf(name, sizeof(name), "ProfilerStep#%d", 1207);
	nvtxRangePushA(name);
	nvtxRangePushA("ProfilerStepX3");
	nvtxRangePop();
	nvtxRangePop();
	nvtxRangePop();
	nvtxRangePop(); /* one too many */
}

static void markers(void **state)
{
	struct harness *harness = *state;
	pid_t pid = harness_run(harness, use_markers);
	static const struct {
		uint64_t step;
		uint32_t action, from_nvtx;
	} expected[] = {
		{41, EVENT_MARKER_STEP_BEGIN, 0},
		{41, EVENT_MARKER_STEP_END, 0},
		{1207, EVENT_MARKER_STEP_BEGIN, 1},
		{1207, EVENT_MARKER_STEP_END, 1},
	};

	assert_int_equal(harness_count(harness, EVENT_MARKER, pid), 4);
	for (size_t i = 0; i < 4; i++) {
		const struct event_marker *event = harness_find(harness, EVENT_MARKER, pid, i);

		assert_int_equal(event->step, expected[i].step);
		assert_int_equal(event->action, expected[i].action);
		assert_int_equal(event->from_nvtx, expected[i].from_nvtx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_and_sequences),
		cmocka_unit_test(nested_calls),
		cmocka_unit_test(return_not_seen),
		cmocka_unit_test(communicators),
		cmocka_unit_test(ranks_are_told_once),
		cmocka_unit_test(markers),
	};
	return cmocka_run_group_tests(tests, harness_set_up, harness_tear_down);
}
