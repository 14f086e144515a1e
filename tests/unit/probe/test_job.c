/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the kernel become ranks, communicators and steps of a batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/attach/collective_table.h"
#include "probe/job.h"

enum { FIRST_PID = 4200000 }; /* above pid_max: no such process */

static uint16_t row_of(const char *symbol)
{
	for (size_t i = 0; i < collective_row_count; i++) {
		if (strcmp(collective_rows[i].symbol, symbol) == 0)
			return (uint16_t)i;
	}
	fail_msg("no row %s", symbol);
	return 0;
}

static void no_program(void *context, pid_t pid)
{
	(void)pid;
	++*(int *)context;
}

static void push(struct job *job, struct event_header *header, uint16_t kind, size_t length,
	uint32_t pid, uint64_t time_ns)
{
	int programs = 0;

	header->kind = kind;
	header->length_bytes = (uint16_t)length;
	header->pid = header->tid = pid;
	header->time_ns = time_ns;
	job_event(job, header, no_program, &programs);
}

static void init_rank(struct job *job, uint32_t pid, int32_t rank, int32_t rank_count, uint8_t seed)
{
	struct event_communicator event = {.handle = 0x1000,
		.rank = rank,
		.rank_count = rank_count,
		.row = row_of("ncclCommInitRank"),
		.unique_id_valid = 1};

	memset(event.unique_id, seed, sizeof(event.unique_id));
	push(job, &event.header, EVENT_COMMUNICATOR, sizeof(event), pid, 1);
}

static void call(struct job *job, uint32_t pid, uint64_t sequence, uint64_t arrival_ns)
{
	struct event_collective event = {.handle = 0x1000,
		.sequence = sequence,
		.count = 256,
		.datatype = 7,
		.root = -1,
		.row = row_of("ncclAllReduce"),
		.arrival_ns = arrival_ns,
		.departure_ns = arrival_ns};

	push(job, &event.header, EVENT_COLLECTIVE, sizeof(event), pid, arrival_ns);
}

static struct job *new_job(void)
{
	struct job *job;

	assert_int_equal(job_create(&(struct job_options){.host = "here"}, &job), 0);
	return job;
}

static void test_rank_and_identity_from_communicator(void **state)
{
	struct job *job = new_job();
	struct message_batch batch = {0};

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++)
		init_rank(job, FIRST_PID + rank, (int32_t)rank, 2, 7);
	init_rank(job, FIRST_PID + 2, 0, 1, 8); /* another communicator */
	for (uint64_t i = 0; i < 400; i++) {
		for (uint32_t rank = 0; rank < 2; rank++)
			call(job, FIRST_PID + rank, i, 1000000 + i * 1000000);
	}
	job_finish(job, (struct host_ns){2000000000});
	assert_true(job_fill_batch(job, &batch));
	assert_int_equal(batch.rank_count, 2); /* the third took part in nothing */
	assert_int_equal(batch.ranks[0].rank, 0);
	assert_int_equal(batch.ranks[1].rank, 1);
	assert_int_equal(batch.ranks[1].world_size, 2);
	assert_string_equal(batch.ranks[0].host, "here");
	assert_int_equal(batch.communicator_count, 2);
	assert_true(batch.communicators[0].communicator.id != 0);
	assert_true(
		batch.communicators[0].communicator.id == batch.communicators[1].communicator.id);
	assert_true(job_enqueue_only(job));
	assert_int_equal(job_dropped(job), 0);

	size_t parts = 0;
	for (size_t i = 0; i < batch.step_count; i++) {
		parts += batch.steps[i].part_count;
		for (size_t p = 0; p < batch.steps[i].part_count; p++)
			assert_int_equal(batch.steps[i].parts[p].length_bytes, 256 * 4);
	}
	assert_int_equal(parts, 800); /* nothing is lost on the way */
	job_batch_done(job);
	assert_false(job_fill_batch(job, &batch));

	job_introduce(job); /* ranks and communicators again, steps not */
	assert_true(job_fill_batch(job, &batch));
	assert_int_equal(batch.rank_count, 2);
	assert_int_equal(batch.communicator_count, 2);
	assert_int_equal(batch.step_count, 0);
	job_batch_done(job);
	assert_false(job_fill_batch(job, &batch));
	job_destroy(job);
}

static void test_rank_is_numbered_when_nobody_says_it(void **state)
{
	struct job *job = new_job();
	struct message_batch batch = {0};

	(void)state;
	for (uint32_t p = 0; p < 3; p++)
		call(job, FIRST_PID + p, 0, 1000);
	job_tick(job, (struct host_ns){1000000});
	(void)job_fill_batch(job, &batch);
	assert_int_equal(batch.rank_count, 0); /* it may still be told */
	job_batch_done(job);
	job_tick(job, (struct host_ns){3000000000});
	assert_true(job_fill_batch(job, &batch));
	assert_int_equal(batch.rank_count, 3);
	for (uint32_t p = 0; p < 3; p++)
		assert_int_equal(batch.ranks[p].rank, p);
	job_destroy(job);
}

static void test_exit_of_a_rank_is_told(void **state)
{
	struct job *job = new_job();
	struct message_batch batch = {0};
	struct event_process exit_event = {.action = EVENT_PROCESS_EXIT, .exit_code = 9};

	(void)state;
	init_rank(job, FIRST_PID, 0, 1, 1);
	call(job, FIRST_PID, 0, 1000);
	job_tick(job, (struct host_ns){3000000000});
	assert_int_equal(job_process_count(job), 1);
	push(job, &exit_event.header, EVENT_PROCESS, sizeof(exit_event), FIRST_PID, 5000);
	assert_int_equal(job_process_count(job), 0);
	assert_true(job_fill_batch(job, &batch));
	assert_int_equal(batch.rank_count, 1);
	assert_int_equal(batch.ranks[0].exited, 1);
	assert_int_equal(batch.ranks[0].exit_code, 9);
	job_destroy(job);
}

static void test_exec_is_passed_on(void **state)
{
	struct job *job = new_job();
	struct event_process event = {
		.header = {.kind = EVENT_PROCESS, .length_bytes = sizeof(event), .pid = FIRST_PID},
		.action = EVENT_PROCESS_EXEC};
	int programs = 0;

	(void)state;
	job_event(job, &event.header, no_program, &programs);
	assert_int_equal(programs, 1);
	job_destroy(job);
}

/* Of a rank in one communicator of two: to the other one, or to itself. */
static void message(struct job *job, uint32_t pid, const char *symbol, int32_t peer,
	uint64_t sequence, uint64_t arrival_ns)
{
	struct event_collective event = {.handle = 0x1000,
		.sequence = sequence,
		.count = 256,
		.datatype = 7,
		.root = peer,
		.row = row_of(symbol),
		.arrival_ns = arrival_ns,
		.departure_ns = arrival_ns};

	push(job, &event.header, EVENT_COLLECTIVE, sizeof(event), pid, arrival_ns);
}

static void test_messages_are_parts(void **state)
{
	struct job *job = new_job();
	struct message_batch batch = {0};
	size_t parts = 0;

	(void)state;
	job_started_before(job);
	for (uint32_t rank = 0; rank < 2; rank++)
		init_rank(job, FIRST_PID + rank, (int32_t)rank, 2, 7);
	for (uint64_t i = 0; i < 100; i++) {
		message(job, FIRST_PID, "ncclSend", 1, i, 1000000 + i * 1000000);
		message(job, FIRST_PID + 1, "ncclRecv", 0, i, 1000000 + i * 1000000);
		message(job, FIRST_PID + 1, "ncclSend", 1, i, 1000500 + i * 1000000);
	}
	job_finish(job, (struct host_ns){2000000000});
	assert_true(job_fill_batch(job, &batch));
	assert_int_equal(batch.rank_count, 2); /* they are ranks without any collective */
	for (size_t i = 0; i < batch.step_count; i++) {
		for (size_t p = 0; p < batch.steps[i].part_count; p++, parts++) {
			const struct collective_part *part = &batch.steps[i].parts[p];
			bool sends = part->operation == OPERATION_SEND;
			bool with_oneself = sends && batch.steps[i].rank == 1;

			assert_true(sends || part->operation == OPERATION_RECEIVE);
			assert_int_equal(part->peer, with_oneself ? 0 : 2 - batch.steps[i].rank);
			assert_int_equal(part->length_bytes, 256 * 4);
			assert_int_equal(part->root, STEP_ROOT_NONE);
			assert_int_equal(part->flags, PART_ENQUEUE_ONLY | PART_SEQUENCE_RELATIVE);
			assert_true(
				part->communicator_id == batch.steps[0].parts[0].communicator_id);
		}
	}
	assert_int_equal(parts, 300);
	job_destroy(job);
}

/* Beside collectives, they are none until the library times both. */
static void test_messages_beside_collectives(void **state)
{
	struct job *job = new_job();
	struct message_batch batch = {0};
	uint64_t time_ns = 1000000;
	size_t counts[2] = {0};

	(void)state;
	job_started_before(job);
	init_rank(job, FIRST_PID, 0, 2, 7);
	for (uint64_t i = 0; i < 200; i++, time_ns += 1000000) {
		if (i == 100)
			job_calls_timed(job, FIRST_PID, (struct host_ns){(int64_t)time_ns});
		call(job, FIRST_PID, i, time_ns);
		message(job, FIRST_PID, "ncclSend", 1, i, time_ns + 1000);
		message(job, FIRST_PID, "ncclRecv", 0, i, time_ns + 2000); /* from itself */
	}
	job_calls_untimed(job, FIRST_PID, (struct host_ns){(int64_t)time_ns});
	job_finish(job, (struct host_ns){2000000000});
	assert_true(job_fill_batch(job, &batch));
	for (size_t i = 0; i < batch.step_count; i++) {
		bool timed = batch.steps[i].start.value > 100500000;

		assert_true(batch.steps[i].part_count <= (timed ? 2 : 1));
		counts[timed] += batch.steps[i].part_count;
	}
	assert_in_range(counts[0], 99, 101);
	assert_in_range(counts[1], 198, 201);
	job_destroy(job);
}

/* Rank 0 alone calls something of its own between two calls of all. */
static void test_a_call_by_itself_is_own_time(void **state)
{
	struct job *job = new_job();
	struct message_batch batch = {0};
	struct event_collective event = {
		.count = 1, .root = -1, .row = row_of("MPI_Allreduce"), .handle = 0x1000};
	size_t parts = 0;

	(void)state;
	init_rank(job, FIRST_PID, 0, 2, 7);
	struct event_communicator alone = {.handle = 0x2000,
		.rank_count = 1,
		.row = row_of("ncclCommInitRank"),
		.unique_id_valid = 1};
	push(job, &alone.header, EVENT_COMMUNICATOR, sizeof(alone), FIRST_PID, 2);
	for (uint64_t i = 0; i < 800; i++) {
		event.handle = i % 2 ? 0x1000 : 0x2000;
		event.sequence = i / 2;
		event.arrival_ns = 1000000 + i * 1000000;
		event.departure_ns = event.arrival_ns + 500000;
		event.before.preempted_ns = 100000;
		event.inside.preempted_ns = 20000;
		push(job, &event.header, EVENT_COLLECTIVE, sizeof(event), FIRST_PID,
			event.departure_ns);
	}
	job_finish(job, (struct host_ns){2000000000});
	assert_true(job_fill_batch(job, &batch));
	for (size_t i = 0; i < batch.step_count; i++) {
		parts += batch.steps[i].part_count;
		for (size_t p = 0; p < batch.steps[i].part_count; p++) {
			assert_int_equal(batch.steps[i].parts[p].before.preempted_ns, 220000);
			assert_int_equal(batch.steps[i].parts[p].inside.preempted_ns, 20000);
		}
	}
	assert_int_equal(parts, 400);
	job_batch_done(job);
	job_destroy(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rank_and_identity_from_communicator),
		cmocka_unit_test(test_rank_is_numbered_when_nobody_says_it),
		cmocka_unit_test(test_exit_of_a_rank_is_told),
		cmocka_unit_test(test_exec_is_passed_on),
		cmocka_unit_test(test_messages_are_parts),
		cmocka_unit_test(test_messages_beside_collectives),
		cmocka_unit_test(test_a_call_by_itself_is_own_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
