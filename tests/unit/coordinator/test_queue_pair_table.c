/* SPDX-License-Identifier: Apache-2.0 */
/* Whose other end a queue pair is, and whose it is not; numbers that are used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "coordinator/queue_pair_table.h"

/* From (rank, number) to (address, peer_number); a rank's address is rank + 1. */
static struct message_queue_pair make(
	uint32_t rank, uint32_t number, uint8_t peer_address, uint32_t peer_number)
{
	struct message_queue_pair pair = {.rank = rank,
		.number = number,
		.peer_number = peer_number,
		.flags = QUEUE_PAIR_HAS_PEER | QUEUE_PAIR_PEER_GLOBAL | QUEUE_PAIR_OWN_ADDRESS,
		.device = "d0"};

	pair.own_gid[15] = (uint8_t)(rank + 1);
	pair.peer_gid[15] = peer_address;
	return pair;
}

static void set_counts(struct message_queue_pair *pair, uint64_t count, uint64_t mean_ns)
{
	pair->posted_requests = pair->completed_requests = pair->latency_count = count;
	pair->posted_bytes = pair->completed_bytes = 100 * count;
	pair->latency_sum_ns = count * mean_ns;
	pair->latency_max_ns = mean_ns;
}

static bool take(struct queue_pair_table *table, const struct message_queue_pair *pair,
	int64_t time_ns, struct link_sample *sample)
{
	bool has_sample;

	assert_int_equal(
		queue_pair_table_take(table, pair, (struct job_ns){time_ns}, sample, &has_sample),
		0);
	return has_sample;
}

static void both_ends_join(void **state)
{
	struct message_queue_pair one = make(0, 7, 2, 9), other = make(1, 9, 1, 7);
	struct queue_pair_table table;
	struct report_model model = {0};
	struct link_sample sample;

	(void)state;
	queue_pair_table_init(&table);
	set_counts(&one, 10, 1000);
	assert_false(take(&table, &one, 1, &sample)); /* nobody is its peer yet */
	assert_false(take(&table, &other, 2, &sample));
	set_counts(&one, 15, 1000);
	assert_true(take(&table, &one, 3, &sample)); /* all that was not told */
	assert_int_equal(sample.from, 0);
	assert_int_equal(sample.to, 1);
	assert_int_equal(sample.latency_count, 15);
	assert_int_equal(sample.latency_sum_ns, 15000);
	set_counts(&one, 18, 1000);
	assert_true(take(&table, &one, 4, &sample));
	assert_int_equal(sample.latency_count, 3);
	assert_false(take(&table, &one, 5, &sample)); /* nothing new */
	queue_pair_table_report(&table, &model);
	assert_int_equal(model.pair_count, 2);
	assert_int_equal(model.pairs[0].peer, 1);
	assert_int_equal(model.pairs[1].peer, 0);
	queue_pair_table_fini(&table);
}

/* An RDMA read brings the peer's data here: the flow goes the other way. */
static void reads_flow_backwards(void **state)
{
	struct message_queue_pair one = make(0, 7, 2, 9), other = make(1, 9, 1, 7);
	struct queue_pair_table table;
	struct link_sample sample;

	(void)state;
	queue_pair_table_init(&table);
	assert_false(take(&table, &other, 1, &sample));
	set_counts(&one, 4, 1000);
	one.read_bytes = 390;
	assert_true(take(&table, &one, 2, &sample));
	assert_int_equal(sample.from, 1);
	assert_int_equal(sample.to, 0);
	queue_pair_table_fini(&table);
}

/* Containers with the same address: nobody may be named by it. */
static void claimed_twice_is_nobodys(void **state)
{
	struct message_queue_pair one = make(0, 7, 2, 9), other = make(1, 9, 1, 7);
	struct message_queue_pair third = make(2, 9, 1, 7);
	struct queue_pair_table table;
	struct report_model model = {0};
	struct link_sample sample;

	(void)state;
	queue_pair_table_init(&table);
	third.own_gid[15] = 2;
	assert_false(take(&table, &other, 1, &sample));
	assert_false(take(&table, &third, 2, &sample));
	set_counts(&one, 10, 1000);
	assert_false(take(&table, &one, 3, &sample));
	queue_pair_table_report(&table, &model);
	assert_int_equal(model.pairs[0].peer, STEP_RANK_UNKNOWN);
	queue_pair_table_fini(&table);
}

/* It names the other, but the other names a third: an old number, not a pair. */
static void one_sided_is_no_pair(void **state)
{
	struct message_queue_pair one = make(0, 7, 2, 9), other = make(1, 9, 5, 7);
	struct queue_pair_table table;
	struct link_sample sample;

	(void)state;
	queue_pair_table_init(&table);
	assert_false(take(&table, &other, 1, &sample));
	set_counts(&one, 10, 1000);
	assert_false(take(&table, &one, 2, &sample));
	queue_pair_table_fini(&table);
}

static void infiniband_by_lid(void **state)
{
	struct message_queue_pair one = make(0, 7, 0, 9), other = make(1, 9, 0, 7);
	struct queue_pair_table table;
	struct link_sample sample;

	(void)state;
	queue_pair_table_init(&table);
	one.flags = other.flags = QUEUE_PAIR_HAS_PEER | QUEUE_PAIR_OWN_ADDRESS;
	one.own_lid = other.peer_lid = 3;
	one.peer_lid = other.own_lid = 4;
	assert_false(take(&table, &other, 1, &sample));
	set_counts(&one, 10, 1000);
	assert_true(take(&table, &one, 2, &sample));
	assert_int_equal(sample.to, 1);
	queue_pair_table_fini(&table);
}

/* Destroyed, and a new one has its number: counts add up, and its peer is looked for anew. */
static void number_used_again(void **state)
{
	struct message_queue_pair one = make(0, 7, 2, 9), other = make(1, 9, 1, 7);
	struct message_queue_pair third = make(2, 11, 1, 7);
	struct queue_pair_table table;
	struct report_model model = {0};
	struct link_sample sample;

	(void)state;
	queue_pair_table_init(&table);
	assert_false(take(&table, &other, 1, &sample));
	set_counts(&one, 10, 1000);
	assert_true(take(&table, &one, 2, &sample));
	one = make(0, 7, 3, 11);
	set_counts(&one, 4, 2000);
	assert_false(take(&table, &one, 3, &sample));
	assert_false(take(&table, &third, 4, &sample));
	set_counts(&one, 6, 2000);
	assert_true(take(&table, &one, 5, &sample));
	assert_int_equal(sample.to, 2);
	assert_int_equal(sample.latency_count, 6);
	/* A spooled batch from before changes nothing. */
	set_counts(&one, 5, 2000);
	assert_false(take(&table, &one, 4, &sample));
	queue_pair_table_report(&table, &model);
	assert_int_equal(model.pairs[0].rank, 0);
	assert_int_equal(model.pairs[0].posted_requests, 16);
	queue_pair_table_fini(&table);
}

static void many_grow(void **state)
{
	struct queue_pair_table table;
	struct report_model model = {0};
	struct link_sample sample;

	(void)state;
	queue_pair_table_init(&table);
	for (uint32_t i = 0; i < 5000; i++) {
		struct message_queue_pair one = make(0, i, 2, i), other = make(1, i, 1, i);

		set_counts(&other, 1, 1000);
		assert_false(take(&table, &one, 1, &sample));
		assert_true(take(&table, &other, 1, &sample));
		assert_int_equal(sample.from, 1);
	}
	queue_pair_table_report(&table, &model);
	assert_int_equal(model.pair_count, 2);
	assert_int_equal(model.pairs[1].queue_pairs, 5000);
	assert_int_equal(model.pairs[1].posted_requests, 5000);
	queue_pair_table_fini(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_join),
		cmocka_unit_test(reads_flow_backwards),
		cmocka_unit_test(claimed_twice_is_nobodys),
		cmocka_unit_test(one_sided_is_no_pair),
		cmocka_unit_test(infiniband_by_lid),
		cmocka_unit_test(number_used_again),
		cmocka_unit_test(many_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
