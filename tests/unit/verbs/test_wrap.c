/* SPDX-License-Identifier: Apache-2.0 */
/* The counting wrappers against the stand-in: what is counted, and that nothing else changes. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/inject/verbs_wrap.h"
#include "probe/ring/verbs_table.h"
#include "tests/unit/verbs/ring_folder.h"
#include "tests/unit/verbs/table_entry.h"
#include "tests/unit/verbs/verbs_pair.h"

static uint64_t bucket_sum(const struct verbs_queue_pair *entry, size_t from)
{
	uint64_t sum = 0;

	for (size_t i = from; i < VERBS_LATENCY_BUCKETS; i++)
		sum += entry->latency[i];
	return sum;
}

static void test_counts(void **state)
{
	const struct verbs_queue_pair *sender, *receiver;
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	sender = entry_of(pair.qps[0]->qp_num);
	receiver = entry_of(pair.qps[1]->qp_num);
	verbs_pair_receive(&pair, 1, 100);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_SEND, 10, 1001, 5), 0);
		verbs_pair_poll(pair.send_cq, 2);
	}
	verbs_pair_poll(pair.receive_cq, 100);
	assert_int_equal(verbs_pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 3, 4096, 3), 0);
	assert_int_equal(receiver->completed_requests, 0);
	verbs_pair_poll(pair.send_cq, 1);

	assert_int_equal(sender->posted_requests, 100);
	assert_int_equal(sender->posted_bytes, 100100);
	assert_int_equal(sender->completed_requests, 100);
	assert_int_equal(sender->completed_bytes, 100100);
	assert_int_equal(sender->statuses[IBV_WC_SUCCESS], 20);
	assert_int_equal(sender->latency_count, 20);
	assert_int_equal(bucket_sum(sender, 0), 20);
	assert_int_equal(sender->latency_unmeasured + sender->post_errors + sender->contended, 0);
	assert_int_equal(receiver->received_requests, 100);
	assert_int_equal(receiver->received_bytes, 100100);
	assert_int_equal(receiver->posted_bytes, 3 * 4096);
	assert_int_equal(receiver->completed_bytes, 3 * 4096);
	verbs_pair_close(&pair);
	assert_int_equal(sender->state, VERBS_QUEUE_PAIR_DESTROYED);
}

/* Devices number their queue pairs each for itself: the same number is two queue pairs. */
static void test_several_devices(void **state)
{
	const struct verbs_table *table;
	const struct verbs_queue_pair *entries[2] = {NULL, NULL};
	struct verbs_pair pairs[2];
	uint32_t own, same;

	(void)state;
	for (int i = 0; i < 2; i++)
		verbs_pair_open(&pairs[i], (struct verbs_pair_options){.device = i});
	same = pairs[0].qps[0]->qp_num;
	own = pairs[1].qps[0]->qp_num;
	pairs[1].qps[0]->qp_num = same;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			verbs_pair_post(&pairs[i], 0, IBV_WR_RDMA_WRITE, 3 + i, 10, 3 + i), 0);
		verbs_pair_poll(pairs[i].send_cq, 1);
	}
	table = verbs_wrap_table();
	for (size_t i = 0; i < VERBS_QUEUE_PAIRS_MAX; i++) {
		const struct verbs_queue_pair *entry = &table->queue_pairs[i];

		if (entry->state == VERBS_QUEUE_PAIR_LIVE && entry->number == same)
			entries[strcmp(table->devices[entry->device], "stand_in_1") == 0] = entry;
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_non_null(entries[i]);
		assert_int_equal(entries[i]->posted_requests, 3 + i);
		assert_int_equal(entries[i]->completed_requests, 3 + i);
	}
	assert_string_equal(table->devices[entries[0]->device], "stand_in_0");
	pairs[1].qps[0]->qp_num = own;
	verbs_pair_close(&pairs[0]);
	verbs_pair_close(&pairs[1]);
}

static void test_peer(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){.device = 1});
	entry = entry_of(pair.qps[1]->qp_num);
	assert_int_equal(entry->peer_number, pair.qps[0]->qp_num);
	assert_int_equal(entry->flags, VERBS_HAS_PEER | VERBS_PEER_GLOBAL);
	assert_int_equal(entry->peer_lid, 18);
	assert_int_equal(entry->peer_gid[15], 0xa1);
	assert_int_equal(entry->gid_index, 3);
	assert_int_equal(entry->port, 1);
	assert_int_equal(entry->retry_count, 7);
	assert_int_equal(entry->timeout, 14);
	assert_int_equal(entry->type, IBV_QPT_RC);
	assert_string_equal(verbs_wrap_table()->devices[entry->device], "stand_in_1");
	verbs_pair_close(&pair);
}

static void test_latency(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){.signal_all = 1});
	entry = entry_of(pair.qps[0]->qp_num);
	stand_in_set_delay(pair.context, 3000000);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 8, 100), 0);
		verbs_pair_poll(pair.send_cq, 1);
	}
	assert_int_equal(entry->latency_count, 20);
	/* 3 ms lie in the bucket from 2^21 ns on; a busy machine makes it later, never earlier. */
	assert_int_equal(bucket_sum(entry, 21), 20);
	assert_true(entry->latency_sum_ns >= 20 * 2990000ull);
	assert_true(entry->latency_max_ns >= entry->latency_sum_ns / 20);
	verbs_pair_close(&pair);
}

static void test_empty_polls_touch_nothing(void **state)
{
	struct verbs_table before;
	struct ibv_wc entry;
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	memcpy(&before, verbs_wrap_table(), sizeof(before));
	errno = 4711;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(ibv_poll_cq(pair.send_cq, 1, &entry), 0);
	assert_int_equal(errno, 4711);
	assert_memory_equal(&before, verbs_wrap_table(), sizeof(before));
	verbs_pair_close(&pair);
}

static void test_refused_requests_do_not_count(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){.send_limit = 16});
	entry = entry_of(pair.qps[0]->qp_num);
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 20, 100, 2), ENOMEM);
	assert_int_equal(entry->posted_requests, 16);
	assert_int_equal(entry->posted_bytes, 1600);
	assert_int_equal(entry->post_errors, 4);
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 100, 1), ENOMEM);
	assert_int_equal(entry->post_errors, 5);
	verbs_pair_poll(pair.send_cq, 8);
	/* Times and counts are in step again. */
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 10, 100, 10), 0);
	verbs_pair_poll(pair.send_cq, 1);
	assert_int_equal(entry->completed_requests, 26);
	assert_int_equal(entry->completed_bytes, 2600);
	assert_int_equal(entry->latency_count, 9);
	assert_int_equal(entry->latency_unmeasured, 0);
	verbs_pair_close(&pair);
}

static void test_errors_by_status(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	entry = entry_of(pair.qps[0]->qp_num);
	/* Nobody receives: the first fails, the others are flushed. */
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_SEND, 5, 10, 1), 0);
	verbs_pair_poll(pair.send_cq, 5);
	assert_int_equal(entry->statuses[IBV_WC_RNR_RETRY_EXC_ERR], 1);
	assert_int_equal(entry->statuses[IBV_WC_WR_FLUSH_ERR], 4);
	assert_int_equal(entry->completed_requests, 0);
	assert_int_equal(entry->latency_count, 0);
	verbs_pair_close(&pair);
}

static void test_reset_starts_anew(void **state)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RESET};
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	entry = entry_of(pair.qps[0]->qp_num);
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_SEND, 1, 10, 1), 0);
	verbs_pair_poll(pair.send_cq, 1);
	assert_int_equal(pair.functions.modify_qp(pair.qps[0], &attributes, IBV_QP_STATE), 0);
	verbs_pair_connect(&pair, 0);
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 4, 10, 2), 0);
	verbs_pair_poll(pair.send_cq, 2);
	assert_int_equal(entry->latency_count, 2);
	assert_int_equal(entry->completed_requests, 5);
	verbs_pair_close(&pair);
}

static void test_stop_gives_everything_back(void **state)
{
	int (*post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*poll)(struct ibv_cq *, int, struct ibv_wc *);
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	void *open_wrapped = dlvsym(library, "ibv_open_device", "IBVERBS_1.1"), *open_own;
	char path[128];
	struct verbs_pair pair, second;

	(void)state;
	assert_ptr_equal(open_wrapped, (void *)verbs_wrap_open_device);
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	post = pair.context->ops.post_send;
	poll = pair.context->ops.poll_cq;
	verbs_wrap_stop();
	assert_null(verbs_wrap_table());
	assert_true(pair.context->ops.post_send != post);
	assert_true(pair.context->ops.poll_cq != poll);
	open_own = dlvsym(library, "ibv_open_device", "IBVERBS_1.1");
	assert_ptr_not_equal(open_own, open_wrapped);
	verbs_pair_open(&second, (struct verbs_pair_options){0});
	assert_true(second.context->ops.post_send == pair.context->ops.post_send);
	/* A wrapper's pointer that somebody kept goes on to the provider. */
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 10, 2), 0);
	struct ibv_wc entry;
	assert_int_equal(poll(pair.send_cq, 1, &entry), 1);
	verbs_pair_close(&second);
	snprintf(path, sizeof(path), "ls %s | grep -q .", ring_folder);
	assert_int_not_equal(system(path), 0);

	assert_int_equal(verbs_wrap_start(), 0);
	/* A context from before is seen at its next create. */
	second.receive_cq = pair.functions.create_cq(pair.context, 16, NULL, NULL, 0);
	pair.functions.destroy_cq(second.receive_cq);
	verbs_pair_close(&pair);
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 10, 2), 0);
	assert_int_equal(entry_of(pair.qps[0]->qp_num)->posted_requests, 2);
	verbs_pair_close(&pair);
	dlclose(library);
}

static void *spin(void *context)
{
	struct verbs_pair *pair = context;
	struct ibv_wc entry;

	for (int i = 0; i < 200000; i++) {
		if (ibv_poll_cq(pair->send_cq, 1, &entry) < 0)
			abort();
	}
	return NULL;
}

static void test_contexts_come_and_go_while_others_poll(void **state)
{
	struct verbs_pair kept, passing;
	pthread_t thread;

	(void)state;
	verbs_pair_open(&kept, (struct verbs_pair_options){0});
	assert_int_equal(pthread_create(&thread, NULL, spin, &kept), 0);
	for (int i = 0; i < 100; i++) {
		verbs_pair_open(&passing, (struct verbs_pair_options){.device = 1});
		assert_int_equal(verbs_pair_post(&passing, 0, IBV_WR_RDMA_WRITE, 3, 10, 3), 0);
		assert_int_equal(entry_of(passing.qps[0]->qp_num)->posted_requests, 3);
		if (i % 2) {
			verbs_pair_close(&passing);
		} else { /* the context goes first: its queue pairs are in use */
			passing.functions.close_device(passing.context);
			passing.functions.destroy_cq(passing.send_cq);
			passing.functions.destroy_cq(passing.receive_cq);
			passing.functions.dealloc_pd(passing.pd);
		}
	}
	pthread_join(thread, NULL);
	assert_int_equal(verbs_wrap_table()->contexts_unseen, 0);
	verbs_pair_close(&kept);
}

struct poster {
	struct verbs_pair *pair;
	int calls;
};

static void *post_many(void *context)
{
	struct poster *poster = context;

	for (int i = 0; i < poster->calls; i++) {
		while (verbs_pair_post(poster->pair, 0, IBV_WR_RDMA_WRITE, 1, 64, 1) != 0)
			;
	}
	return NULL;
}

static void test_threads_on_one_queue_pair(void **state)
{
	enum { THREADS = 4, CALLS = 5000 };
	const struct verbs_queue_pair *entry;
	struct poster poster = {.calls = CALLS};
	pthread_t threads[THREADS];
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){.send_limit = 1000});
	poster.pair = &pair;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, post_many, &poster), 0);
	verbs_pair_poll(pair.send_cq, THREADS * CALLS);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	entry = entry_of(pair.qps[0]->qp_num);
	assert_int_equal(entry->posted_requests + entry->contended_requests, THREADS * CALLS);
	assert_int_equal(entry->posted_bytes + entry->contended_bytes, THREADS * CALLS * 64);
	assert_int_equal(entry->statuses[0] + entry->contended_statuses[0], THREADS * CALLS);
	assert_true(entry->latency_count + entry->latency_unmeasured <= THREADS * CALLS);
	assert_true(entry->contended > 0 || entry->latency_count == THREADS * CALLS ||
		    entry->post_errors > 0);
	verbs_pair_close(&pair);
}

static void test_more_queue_pairs_than_entries(void **state)
{
	struct ibv_qp_init_attr wanted = {.cap.max_send_wr = 8, .qp_type = IBV_QPT_RC};
	static struct ibv_qp *qps[VERBS_QUEUE_PAIRS_MAX + 20];
	const struct verbs_table *table = verbs_wrap_table();
	uint64_t unseen = table ? table->queue_pairs_unseen : 0;
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	wanted.send_cq = wanted.recv_cq = pair.send_cq;
	for (size_t i = 0; i < VERBS_QUEUE_PAIRS_MAX + 20; i++) {
		qps[i] = pair.functions.create_qp(pair.pd, &wanted);
		assert_non_null(qps[i]);
	}
	assert_true(verbs_wrap_table()->queue_pairs_unseen > unseen);
	/* One without a counter works, too. */
	struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	assert_int_equal(ibv_post_send(qps[VERBS_QUEUE_PAIRS_MAX + 19], &request, &bad), 0);
	verbs_pair_poll(pair.send_cq, 1);
	for (size_t i = 0; i < VERBS_QUEUE_PAIRS_MAX + 20; i++)
		pair.functions.destroy_qp(qps[i]);
	verbs_pair_close(&pair);
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	assert_int_equal(entry_of(pair.qps[0]->qp_num)->posted_requests, 0);
	assert_true(verbs_wrap_table()->queue_pairs_reused > 0);
	verbs_pair_close(&pair);
}

static void test_fork(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair, own;
	int status;
	pid_t child;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	entry = entry_of(pair.qps[0]->qp_num);
	assert_int_equal(verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 10, 1), 0);
	child = fork();
	if (child == 0) {
		if (verbs_wrap_table() != NULL)
			_exit(1);
		/* The parent's queue pair, then one of its own. */
		if (verbs_pair_post(&pair, 0, IBV_WR_RDMA_WRITE, 7, 10, 7) != 0)
			_exit(2);
		verbs_pair_poll(pair.send_cq, 2);
		verbs_pair_open(&own, (struct verbs_pair_options){.device = 1});
		if (verbs_pair_post(&own, 0, IBV_WR_RDMA_WRITE, 5, 10, 5) != 0 ||
			!verbs_wrap_table() || verbs_wrap_table()->pid != (uint32_t)getpid() ||
			entry_of(own.qps[0]->qp_num)->posted_requests != 5)
			_exit(3);
		verbs_wrap_stop();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(entry->posted_requests, 1);
	verbs_pair_poll(pair.send_cq, 1);
	assert_int_equal(entry->latency_count, 1);
	verbs_pair_close(&pair);
}

static int start(void **state)
{
	(void)state;
	return ring_folder_make() < 0 ? -1 : verbs_wrap_start();
}

static int stop(void **state)
{
	(void)state;
	verbs_wrap_stop();
	return ring_folder_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_several_devices),
		cmocka_unit_test(test_peer),
		cmocka_unit_test(test_latency),
		cmocka_unit_test(test_empty_polls_touch_nothing),
		cmocka_unit_test(test_refused_requests_do_not_count),
		cmocka_unit_test(test_errors_by_status),
		cmocka_unit_test(test_reset_starts_anew),
		cmocka_unit_test(test_contexts_come_and_go_while_others_poll),
		cmocka_unit_test(test_threads_on_one_queue_pair),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_stop_gives_everything_back),
		cmocka_unit_test(test_more_queue_pairs_than_entries),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
