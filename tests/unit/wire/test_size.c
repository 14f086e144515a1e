/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on the wire, against the budget of the design: 1 KiB per rank and step with 64 collectives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/wire/encode.h"
#include "tests/unit/wire/random_batch.h"

enum { BUDGET_BYTES = 1024 };

static double bytes_per_rank_step(const struct job_batch *job, const char *what)
{
	struct wire_buffer buffer = {0};
	struct message_batch batch;
	double bytes;

	job_batch_init(&batch, job, 11);
	assert_int_equal(wire_encode_batch(&batch, &buffer), 0);
	bytes = (double)buffer.length / (double)batch.step_count;
	print_message(
		"%7.1f bytes per rank-step, %7zu per batch: %s\n", bytes, buffer.length, what);
	random_batch_fini(&batch);
	wire_buffer_fini(&buffer);
	return bytes;
}

static void test_one_second_of_one_rank(void **state)
{
	struct job_batch job = {.rank_count = 1,
		.steps_per_rank = 50,
		.collectives_per_step = 64,
		.step_ns = 20000000,
		.activity_percent = 5};

	(void)state;
	assert_true(bytes_per_rank_step(&job, "1 rank, 50 steps of 20 ms, 64 collectives") <=
		    BUDGET_BYTES);
	job.activity_percent = 0;
	bytes_per_rank_step(&job, "the same, no activities");
	job.activity_percent = 50;
	assert_true(bytes_per_rank_step(&job, "the same, every other segment has an activity") <=
		    BUDGET_BYTES);
	job.activity_percent = 5;
	job.varying_lengths = true;
	assert_true(bytes_per_rank_step(&job, "the same, a third of the payloads always vary") <=
		    BUDGET_BYTES);
}

static void test_several_ranks_share_a_schedule(void **state)
{
	struct job_batch job = {.rank_count = 8,
		.steps_per_rank = 50,
		.collectives_per_step = 64,
		.step_ns = 20000000,
		.activity_percent = 5};

	(void)state;
	assert_true(bytes_per_rank_step(&job, "8 ranks, 50 steps of 20 ms, 64 collectives") <=
		    BUDGET_BYTES);
}

static void test_slow_steps(void **state)
{
	struct job_batch job = {.rank_count = 1,
		.steps_per_rank = 1,
		.collectives_per_step = 64,
		.step_ns = 1000000000,
		.activity_percent = 5};

	(void)state;
	/* One step a batch carries its schedule alone; longer times take more bytes, too. */
	assert_true(bytes_per_rank_step(&job, "1 rank, 1 step of 1 s, 64 collectives") <=
		    2 * BUDGET_BYTES);
	job.rank_count = 8;
	assert_true(bytes_per_rank_step(&job, "8 ranks, 1 step of 1 s, 64 collectives") <=
		    BUDGET_BYTES);
	job.rank_count = 1;
	job.step_ns = 60000000;
	job.steps_per_rank = 16;
	assert_true(bytes_per_rank_step(&job, "1 rank, 16 steps of 60 ms, 64 collectives") <=
		    BUDGET_BYTES);
	job.step_ns = 200000000;
	job.steps_per_rank = 5;
	assert_true(bytes_per_rank_step(&job, "1 rank, 5 steps of 200 ms, 64 collectives") <=
		    BUDGET_BYTES);
}

/* The probe sends every 250 ms: what its batches hold then. */
static void test_a_quarter_second(void **state)
{
	struct job_batch job = {.rank_count = 1,
		.steps_per_rank = 12,
		.collectives_per_step = 64,
		.step_ns = 20000000,
		.activity_percent = 5};

	(void)state;
	assert_true(bytes_per_rank_step(&job, "1 rank, 12 steps of 20 ms, 64 collectives") <=
		    BUDGET_BYTES);
	job.steps_per_rank = 4;
	job.step_ns = 60000000;
	assert_true(bytes_per_rank_step(&job, "1 rank, 4 steps of 60 ms, 64 collectives") <=
		    BUDGET_BYTES);
	job.steps_per_rank = 1;
	job.step_ns = 200000000;
	assert_true(bytes_per_rank_step(&job, "1 rank, 1 step of 200 ms, 64 collectives") <=
		    BUDGET_BYTES * 5 / 4);
	job.rank_count = 8;
	assert_true(bytes_per_rank_step(&job, "8 ranks, 1 step of 200 ms, 64 collectives") <=
		    BUDGET_BYTES);
}

static void test_many_collectives(void **state)
{
	struct job_batch job = {.rank_count = 8,
		.steps_per_rank = 5,
		.collectives_per_step = 1500,
		.step_ns = 200000000,
		.activity_percent = 5};

	(void)state;
	assert_true(bytes_per_rank_step(&job, "8 ranks, 5 steps of 200 ms, 1500 collectives") <=
		    1500 * BUDGET_BYTES / 64);
}

/* A busy queue pair, once a second: with 8 peers under 2 KiB/s for a rank. */
static void test_queue_pairs(void **state)
{
	struct message_queue_pair pairs[8] = {0};
	struct message_batch batch = {.sent = {INT64_C(86400) * 1000000000}};
	struct wire_buffer buffer = {0};
	size_t empty;

	(void)state;
	assert_int_equal(wire_encode_batch(&batch, &buffer), 0);
	empty = buffer.length;
	for (uint32_t i = 0; i < 8; i++) {
		struct message_queue_pair *pair = &pairs[i];

		pair->rank = 4711;
		pair->number = 0x8a00 + i;
		pair->peer_number = 0x9b00 + i;
		pair->time = batch.sent;
		pair->flags = QUEUE_PAIR_HAS_PEER | QUEUE_PAIR_PEER_GLOBAL | QUEUE_PAIR_OWN_ADDRESS;
		memset(pair->own_gid, 0xfe, sizeof(pair->own_gid));
		memset(pair->peer_gid, 0xfd, sizeof(pair->peer_gid));
		strcpy(pair->device, "mlx5_0");
		pair->posted_requests = pair->completed_requests = 1234567890;
		pair->posted_bytes = pair->completed_bytes = UINT64_C(80000000000000);
		pair->received_requests = 1234567890;
		pair->received_bytes = UINT64_C(80000000000000);
		pair->latency_count = 1200000000;
		pair->latency_sum_ns = UINT64_C(20000000000000);
		pair->latency_max_ns = 200000000;
		pair->statuses[0] = 2400000000;
		for (size_t b = 12; b < 24; b++)
			pair->latency[b] = 100000000;
	}
	batch.queue_pair_count = 8;
	batch.queue_pairs = pairs;
	assert_int_equal(wire_encode_batch(&batch, &buffer), 0);
	print_message("%zu bytes per queue pair\n", (buffer.length - empty) / 8);
	assert_true(buffer.length - empty <= 8 * 256);
	wire_buffer_fini(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_second_of_one_rank),
		cmocka_unit_test(test_several_ranks_share_a_schedule),
		cmocka_unit_test(test_slow_steps),
		cmocka_unit_test(test_a_quarter_second),
		cmocka_unit_test(test_many_collectives),
		cmocka_unit_test(test_queue_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
