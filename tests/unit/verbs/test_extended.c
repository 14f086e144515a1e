/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs and completion queues made in the extended way: what still goes through the table is
 * counted, what does not is said to be not measurable, and all of it works as without wrappers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/inject/verbs_wrap.h"
#include "probe/ring/verbs_table.h"
#include "tests/unit/verbs/verbs_pair.h"

enum { UNMEASURABLE = VERBS_EXTENDED_POSTS | VERBS_EXTENDED_POLL };

static char directory[64];

static const struct verbs_queue_pair *entry_of(uint32_t number)
{
	const struct verbs_table *table = verbs_wrap_table();

	assert_non_null(table);
	for (size_t i = VERBS_QUEUE_PAIRS_MAX; i-- > 0;) {
		if (table->queue_pairs[i].state == VERBS_QUEUE_PAIR_LIVE &&
			table->queue_pairs[i].number == number)
			return &table->queue_pairs[i];
	}
	fail_msg("queue pair %u is not in the table", number);
	return NULL;
}

static struct ibv_qp *make_qp(
	struct verbs_pair *pair, struct ibv_cq *cq, uint64_t functions, uint32_t peer)
{
	struct ibv_qp_init_attr_ex wanted = {.send_cq = cq,
		.recv_cq = pair->receive_cq,
		.cap.max_send_wr = 64,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     (functions ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0u),
		.pd = pair->pd,
		.send_ops_flags = functions};
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTS, .dest_qp_num = peer};
	struct ibv_qp *qp = ibv_create_qp_ex(pair->context, &wanted);

	assert_non_null(qp);
	assert_int_equal(
		pair->functions.modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_DEST_QPN), 0);
	return qp;
}

static void post(struct ibv_qp *qp, int count)
{
	struct ibv_sge part = {.length = 100};

	for (int i = 0; i < count; i++) {
		struct ibv_send_wr request = {
			.sg_list = &part, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
		struct ibv_send_wr *bad;

		assert_int_equal(ibv_post_send(qp, &request, &bad), 0);
	}
}

static struct ibv_cq_ex *make_cq(struct verbs_pair *pair)
{
	struct ibv_cq_init_attr_ex wanted = {.cqe = 1024};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair->context, &wanted);

	assert_non_null(cq);
	return cq;
}

static void test_all_signaled(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;
	struct ibv_qp *qp;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	qp = make_qp(&pair, pair.send_cq, 0, pair.qps[1]->qp_num);
	post(qp, 5);
	verbs_pair_poll(pair.send_cq, 5);
	entry = entry_of(qp->qp_num);
	assert_int_equal(entry->posted_requests, 5);
	assert_int_equal(entry->completed_bytes, 500);
	assert_int_equal(entry->latency_count, 5);
	assert_int_equal(entry->flags & (UNMEASURABLE | VERBS_POSTS_UNSEEN), 0);
	pair.functions.destroy_qp(qp);
	verbs_pair_close(&pair);
}

static void test_posts_by_functions(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;
	struct ibv_qp_ex *extended;
	struct ibv_qp *qp;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	qp = make_qp(&pair, pair.send_cq, IBV_QP_EX_WITH_SEND, pair.qps[1]->qp_num);
	verbs_pair_receive(&pair, 1, 1);
	extended = (struct ibv_qp_ex *)qp;
	ibv_wr_start(extended);
	extended->wr_id = 42;
	extended->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(extended);
	ibv_wr_set_sge(extended, 0, 0, 100);
	assert_int_equal(ibv_wr_complete(extended), 0);
	verbs_pair_poll(pair.send_cq, 1);
	entry = entry_of(qp->qp_num);
	assert_int_equal(entry->flags & UNMEASURABLE, VERBS_EXTENDED_POSTS);
	assert_int_equal(entry->posted_requests, 0);
	assert_int_equal(entry->latency_count, 0);
	pair.functions.destroy_qp(qp);
	verbs_pair_close(&pair);
}

static void test_extended_queue_polled_as_ever(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	cq = make_cq(&pair);
	qp = make_qp(&pair, ibv_cq_ex_to_cq(cq), 0, pair.qps[1]->qp_num);
	post(qp, 3);
	verbs_pair_poll(ibv_cq_ex_to_cq(cq), 3);
	entry = entry_of(qp->qp_num);
	assert_int_equal(entry->completed_requests, 3);
	assert_int_equal(entry->latency_count, 3);
	assert_int_equal(entry->flags & UNMEASURABLE, 0);
	pair.functions.destroy_qp(qp);
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(cq));
	verbs_pair_close(&pair);
}

static void test_start_poll(void **state)
{
	struct ibv_poll_cq_attr options = {0};
	struct verbs_pair pair;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp, *other, *later;
	void *watched, *own;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	cq = make_cq(&pair);
	qp = make_qp(&pair, ibv_cq_ex_to_cq(cq), 0, pair.qps[1]->qp_num);
	other = make_qp(&pair, pair.send_cq, 0, pair.qps[1]->qp_num);
	post(qp, 2);
	watched = *(void **)&cq->start_poll;
	assert_int_equal(ibv_start_poll(cq, &options), 0);
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	/* Its own function is back: the next polls pass by us. */
	own = *(void **)&cq->start_poll;
	assert_ptr_not_equal(own, watched);
	assert_int_equal(ibv_start_poll(cq, &options), ENOENT);
	assert_ptr_equal(*(void **)&cq->start_poll, own);
	assert_int_equal(entry_of(qp->qp_num)->flags & UNMEASURABLE, VERBS_EXTENDED_POLL);
	assert_int_equal(entry_of(qp->qp_num)->posted_requests, 2);
	assert_int_equal(entry_of(other->qp_num)->flags & UNMEASURABLE, 0);
	later = make_qp(&pair, ibv_cq_ex_to_cq(cq), 0, pair.qps[1]->qp_num);
	assert_int_equal(entry_of(later->qp_num)->flags & UNMEASURABLE, VERBS_EXTENDED_POLL);
	pair.functions.destroy_qp(qp);
	pair.functions.destroy_qp(other);
	pair.functions.destroy_qp(later);
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(cq));
	verbs_pair_close(&pair);
}

/* More queues than are watched; each address is used again and again. */
static void test_many_queues(void **state)
{
	struct ibv_poll_cq_attr options = {0};
	static struct ibv_cq_ex *queues[1200];
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 1200; i++)
			queues[i] = make_cq(&pair);
		for (int i = 0; i < 1200; i++) {
			assert_int_equal(ibv_start_poll(queues[i], &options), ENOENT);
			pair.functions.destroy_cq(ibv_cq_ex_to_cq(queues[i]));
		}
	}
	verbs_pair_close(&pair);
}

/* A child polls and makes what its parent's context can; nothing of it is counted. */
static void test_fork(void **state)
{
	struct ibv_poll_cq_attr options = {0};
	struct verbs_pair pair;
	struct ibv_cq_ex *cq;
	int status;
	pid_t child;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	cq = make_cq(&pair);
	child = fork();
	if (child == 0) {
		struct ibv_cq_ex *own = make_cq(&pair);

		_exit(ibv_start_poll(cq, &options) == ENOENT &&
					ibv_start_poll(own, &options) == ENOENT
				? 0
				: 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_start_poll(cq, &options), ENOENT);
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(cq));
	verbs_pair_close(&pair);
}

/* Last: a queue made before works after; new ones are the provider's alone. */
static void test_stop(void **state)
{
	struct ibv_poll_cq_attr options = {0};
	struct verbs_pair pair;
	struct ibv_cq_ex *before, *after;
	void *make_queue, *make_pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	before = make_cq(&pair);
	make_queue = *(void **)&verbs_get_ctx(pair.context)->create_cq_ex;
	make_pair = *(void **)&verbs_get_ctx(pair.context)->create_qp_ex;
	verbs_wrap_stop();
	assert_ptr_not_equal(*(void **)&verbs_get_ctx(pair.context)->create_cq_ex, make_queue);
	assert_ptr_not_equal(*(void **)&verbs_get_ctx(pair.context)->create_qp_ex, make_pair);
	assert_int_equal(ibv_start_poll(before, &options), ENOENT);
	after = make_cq(&pair);
	assert_ptr_equal(*(void **)&after->start_poll, *(void **)&before->start_poll);
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(before));
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(after));
	verbs_pair_close(&pair);
}

static int start(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/verbs-test.XXXXXX");
	if (!mkdtemp(directory) || setenv("SLOWRANK_RING_DIRECTORY", directory, 1) != 0)
		return -1;
	return verbs_wrap_start();
}

static int stop(void **state)
{
	(void)state;
	verbs_wrap_stop();
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_signaled),
		cmocka_unit_test(test_posts_by_functions),
		cmocka_unit_test(test_extended_queue_polled_as_ever),
		cmocka_unit_test(test_start_poll),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_many_queues),
		cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
