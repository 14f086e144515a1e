/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs and completion queues made in the extended way: what goes through the table and what
 * goes by functions of their own is counted, what does not tell whose it is is said to be not
 * measurable, and all of it works as without wrappers.
 */
#include <errno.h>
#include <pthread.h>
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
#include "tests/unit/verbs/ring_folder.h"
#include "tests/unit/verbs/table_entry.h"
#include "tests/unit/verbs/verbs_pair.h"

enum { UNMEASURABLE = VERBS_EXTENDED_POSTS | VERBS_EXTENDED_POLL };

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

static struct ibv_cq_ex *make_cq_with(struct verbs_pair *pair, uint64_t fields)
{
	struct ibv_cq_init_attr_ex wanted = {.cqe = 1024, .wc_flags = fields};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair->context, &wanted);

	assert_non_null(cq);
	return cq;
}

/* One that does not tell whose completions it has. */
static struct ibv_cq_ex *make_cq(struct verbs_pair *pair)
{
	return make_cq_with(pair, 0);
}

enum {
	ALL_FUNCTIONS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
			IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
};

static struct ibv_qp_ex *make_extended(struct verbs_pair *pair, struct ibv_cq *cq)
{
	return (struct ibv_qp_ex *)make_qp(pair, cq, ALL_FUNCTIONS, pair->qps[1]->qp_num);
}

/* Writes of 100 bytes. Returns the error of ibv_wr_complete. */
static int write_batch(struct ibv_qp_ex *qp, int count)
{
	ibv_wr_start(qp);
	for (int i = 0; i < count; i++) {
		ibv_wr_rdma_write(qp, 1, 0x1000);
		ibv_wr_set_sge(qp, 2, 0x2000, 100);
	}
	return ibv_wr_complete(qp);
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

/* One request of each kind, with each way to give it data. */
static void test_kinds(void **state)
{
	struct ibv_sge parts[] = {{.length = 30}, {.length = 12}};
	struct ibv_data_buf buffers[] = {{.length = 5}, {.length = 6}};
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;
	struct ibv_qp_ex *qp;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	qp = make_extended(&pair, pair.send_cq);
	verbs_pair_receive(&pair, 1, 1);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, 0, 0, 1000);
	ibv_wr_rdma_write(qp, 1, 0x1000);
	ibv_wr_set_sge_list(qp, 2, parts);
	ibv_wr_rdma_read(qp, 1, 0x1000);
	ibv_wr_set_sge(qp, 0, 0, 500);
	ibv_wr_rdma_write(qp, 1, 0x1000);
	ibv_wr_set_inline_data(qp, parts, 7);
	ibv_wr_rdma_write(qp, 1, 0x1000);
	ibv_wr_set_inline_data_list(qp, 2, buffers);
	ibv_wr_atomic_fetch_add(qp, 1, 0x1000, 1);
	ibv_wr_set_sge(qp, 0, 0, 8);
	entry = entry_of(qp->qp_base.qp_num);
	assert_int_equal(entry->posted_requests, 0); /* nothing is posted yet */
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(entry->posted_requests, 6);
	assert_int_equal(entry->posted_bytes, 1000 + 42 + 500 + 7 + 11 + 8);
	assert_int_equal(entry->read_bytes, 500);
	assert_int_equal(entry->completed_requests, 0);
	verbs_pair_poll(pair.send_cq, 6);
	assert_int_equal(entry->completed_requests, 6);
	assert_int_equal(entry->completed_bytes, entry->posted_bytes);
	assert_int_equal(entry->latency_count, 6);
	assert_int_equal(entry->flags & (UNMEASURABLE | VERBS_POSTS_UNSEEN), 0);
	assert_int_equal(entry_of(pair.qps[1]->qp_num)->received_requests, 0);
	verbs_pair_poll(pair.receive_cq, 1);
	assert_int_equal(entry_of(pair.qps[1]->qp_num)->received_bytes, 1000);
	pair.functions.destroy_qp(&qp->qp_base);
	verbs_pair_close(&pair);
}

/* Only some are signaled; both ways to post take turns. */
static void test_signaled_and_mixed(void **state)
{
	struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp_init_attr_ex wanted = {.cap.max_send_wr = 64,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTS};
	const struct verbs_queue_pair *entry;
	struct ibv_send_wr *bad;
	struct ibv_wc told[5];
	struct verbs_pair pair;
	struct ibv_qp_ex *qp;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	wanted.pd = pair.pd;
	wanted.send_cq = pair.send_cq;
	wanted.recv_cq = pair.receive_cq;
	attributes.dest_qp_num = pair.qps[1]->qp_num;
	qp = (struct ibv_qp_ex *)ibv_create_qp_ex(pair.context, &wanted);
	assert_non_null(qp);
	assert_int_equal(
		pair.functions.modify_qp(&qp->qp_base, &attributes, IBV_QP_STATE | IBV_QP_DEST_QPN),
		0);
	for (int round = 0; round < 3; round++) {
		ibv_wr_start(qp);
		for (int i = 0; i < 4; i++) {
			qp->wr_flags = i == 2 ? IBV_SEND_SIGNALED : 0u;
			ibv_wr_rdma_write(qp, 1, 0x1000);
			ibv_wr_set_sge(qp, 2, 0x2000, 10);
		}
		assert_int_equal(ibv_wr_complete(qp), 0);
		assert_int_equal(ibv_post_send(&qp->qp_base, &request, &bad), 0);
	}
	assert_int_equal(ibv_poll_cq(pair.send_cq, 5, told), 5);
	entry = entry_of(qp->qp_base.qp_num);
	assert_int_equal(entry->posted_requests, 15);
	assert_int_equal(entry->posted_bytes, 120);
	assert_int_equal(entry->completed_requests, 13); /* two and a half rounds */
	assert_int_equal(entry->completed_bytes, 110);
	verbs_pair_poll(pair.send_cq, 1);
	assert_int_equal(entry->completed_requests, 15);
	assert_int_equal(entry->latency_count, 6);
	pair.functions.destroy_qp(&qp->qp_base);
	verbs_pair_close(&pair);
}

/* A batch that is longer than what is put down at once; refused and aborted ones, short and long. */
static void test_long_refused_aborted(void **state)
{
	const struct verbs_queue_pair *entry;
	struct verbs_pair pair;
	struct ibv_qp_ex *qp;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	qp = make_extended(&pair, pair.send_cq); /* 64 at a time */
	entry = entry_of(qp->qp_base.qp_num);
	assert_int_equal(write_batch(qp, 0), 0);
	assert_int_equal(write_batch(qp, 64), 0);
	assert_int_equal(write_batch(qp, 1), ENOMEM);
	assert_int_equal(entry->posted_requests, 64);
	assert_int_equal(entry->post_errors, 1);
	verbs_pair_poll(pair.send_cq, 64);
	assert_int_equal(write_batch(qp, 150), ENOMEM);
	assert_int_equal(entry->posted_requests, 64);
	assert_int_equal(entry->posted_bytes, 6400);
	assert_int_equal(entry->post_errors, 151);
	for (int count = 1; count <= 100; count += 99) {
		ibv_wr_start(qp);
		for (int i = 0; i < count; i++)
			ibv_wr_rdma_write(qp, 1, 0x1000);
		ibv_wr_abort(qp);
		assert_int_equal(entry->posted_requests, 64);
	}
	/* Times go on as if these had never been. */
	assert_int_equal(write_batch(qp, 3), 0);
	verbs_pair_poll(pair.send_cq, 3);
	assert_int_equal(entry->completed_requests, 67);
	assert_int_equal(entry->latency_count, 67);
	assert_int_equal(entry->flags & (UNMEASURABLE | VERBS_POSTS_UNSEEN), 0);
	pair.functions.destroy_qp(&qp->qp_base);
	verbs_pair_close(&pair);
}

/* Functions that a later libibverbs may add: nothing is taken over, and it is said. */
static void test_unknown_functions(void **state)
{
	struct verbs_pair pair;
	struct ibv_qp_ex *known, *qp;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	known = make_extended(&pair, pair.send_cq);
	qp = (struct ibv_qp_ex *)make_qp(
		&pair, pair.send_cq, ALL_FUNCTIONS | UINT64_C(1) << 11, pair.qps[1]->qp_num);
	assert_ptr_not_equal(*(void **)&qp->wr_start, *(void **)&known->wr_start);
	assert_int_equal(write_batch(qp, 2), 0);
	verbs_pair_poll(pair.send_cq, 2);
	assert_int_equal(entry_of(qp->qp_base.qp_num)->flags & UNMEASURABLE, VERBS_EXTENDED_POSTS);
	assert_int_equal(entry_of(known->qp_base.qp_num)->flags & UNMEASURABLE, 0);
	pair.functions.destroy_qp(&qp->qp_base);
	pair.functions.destroy_qp(&known->qp_base);
	verbs_pair_close(&pair);
}

/* Addresses are used again, with other functions, and without any. */
static void test_queue_pairs_come_and_go(void **state)
{
	struct verbs_pair pair;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	for (int i = 0; i < 5000; i++) {
		struct ibv_qp_ex *qp = make_extended(&pair, pair.send_cq);
		struct ibv_qp *plain = make_qp(&pair, pair.send_cq, 0, pair.qps[1]->qp_num);

		assert_int_equal(write_batch(qp, 2), 0);
		post(plain, 1);
		verbs_pair_poll(pair.send_cq, 3);
		assert_int_equal(entry_of(qp->qp_base.qp_num)->completed_requests, 2);
		assert_int_equal(entry_of(qp->qp_base.qp_num)->flags & UNMEASURABLE, 0);
		assert_int_equal(entry_of(plain->qp_num)->completed_requests, 1);
		pair.functions.destroy_qp(&qp->qp_base);
		pair.functions.destroy_qp(plain);
	}
	verbs_pair_close(&pair);
}

struct busy {
	struct ibv_qp_ex *qp;
	struct ibv_cq_ex *cq;
	int rounds;
};

static void *post_and_poll(void *context)
{
	struct ibv_poll_cq_attr options = {0};
	struct busy *busy = context;

	for (int i = 0; i < busy->rounds; i++) {
		if (write_batch(busy->qp, 3) != 0 || ibv_start_poll(busy->cq, &options) != 0 ||
			ibv_next_poll(busy->cq) != 0 || ibv_next_poll(busy->cq) != 0)
			abort();
		ibv_end_poll(busy->cq);
	}
	return NULL;
}

/* Nobody is held up, and nothing is lost, while others are made and destroyed. */
static void test_others_come_and_go(void **state)
{
	struct busy busy[2];
	struct verbs_pair pair;
	pthread_t threads[2];

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	for (int i = 0; i < 2; i++) {
		busy[i].rounds = 20000;
		busy[i].cq = make_cq_with(&pair, IBV_WC_STANDARD_FLAGS);
		busy[i].qp = make_extended(&pair, ibv_cq_ex_to_cq(busy[i].cq));
		assert_int_equal(pthread_create(&threads[i], NULL, post_and_poll, &busy[i]), 0);
	}
	for (int i = 0; i < 500; i++) {
		struct ibv_cq_ex *cq = make_cq_with(&pair, i % 2 ? IBV_WC_STANDARD_FLAGS : 0);
		struct ibv_qp_ex *qp = make_extended(&pair, ibv_cq_ex_to_cq(cq));

		assert_int_equal(write_batch(qp, 1), 0);
		pair.functions.destroy_qp(&qp->qp_base);
		pair.functions.destroy_cq(ibv_cq_ex_to_cq(cq));
	}
	for (int i = 0; i < 2; i++) {
		const struct verbs_queue_pair *entry = entry_of(busy[i].qp->qp_base.qp_num);

		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(entry->posted_requests, 60000);
		assert_int_equal(entry->completed_requests, 60000);
		assert_int_equal(entry->latency_count, 60000);
		pair.functions.destroy_qp(&busy[i].qp->qp_base);
		pair.functions.destroy_cq(ibv_cq_ex_to_cq(busy[i].cq));
	}
	verbs_pair_close(&pair);
}

/* Sends, receives and failures that ibv_start_poll and ibv_next_poll find. */
static void test_polls_by_functions(void **state)
{
	struct ibv_poll_cq_attr options = {0};
	const struct verbs_queue_pair *entry;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct verbs_pair pair;
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *from;
	struct ibv_cq *own_queue;
	struct ibv_qp *to;
	int count = 0;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	cq = make_cq_with(&pair, IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM);
	own_queue = pair.receive_cq;
	pair.receive_cq = ibv_cq_ex_to_cq(cq); /* both ends of the next two in one queue */
	from = make_extended(&pair, ibv_cq_ex_to_cq(cq));
	to = make_qp(&pair, ibv_cq_ex_to_cq(cq), 0, from->qp_base.qp_num);
	assert_int_equal(pair.functions.modify_qp(&from->qp_base,
				 &(struct ibv_qp_attr){.dest_qp_num = to->qp_num}, IBV_QP_DEST_QPN),
		0);
	for (int i = 0; i < 3; i++) {
		struct ibv_recv_wr request = {0}, *bad;

		assert_int_equal(ibv_post_recv(to, &request, &bad), 0);
	}
	assert_int_equal(ibv_start_poll(cq, &options), ENOENT);
	ibv_wr_start(from);
	for (int i = 0; i < 3; i++) {
		ibv_wr_send(from);
		ibv_wr_set_sge(from, 0, 0, 200);
	}
	assert_int_equal(ibv_wr_complete(from), 0);
	assert_int_equal(ibv_start_poll(cq, &options), 0);
	do {
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
		count++;
	} while (ibv_next_poll(cq) == 0);
	ibv_end_poll(cq);
	assert_int_equal(count, 6);
	entry = entry_of(from->qp_base.qp_num);
	assert_int_equal(entry->completed_requests, 3);
	assert_int_equal(entry->completed_bytes, 600);
	assert_int_equal(entry->latency_count, 3);
	assert_int_equal(entry->statuses[IBV_WC_SUCCESS], 3);
	assert_int_equal(entry->flags & (UNMEASURABLE | VERBS_POSTS_UNSEEN), 0);
	assert_int_equal(entry_of(to->qp_num)->received_requests, 3);
	assert_int_equal(entry_of(to->qp_num)->received_bytes, 600);
	assert_int_equal(pair.functions.modify_qp(&from->qp_base, &error, IBV_QP_STATE), 0);
	assert_int_equal(write_batch(from, 1), 0);
	assert_int_equal(ibv_start_poll(cq, &options), 0);
	assert_int_equal(entry->statuses[IBV_WC_WR_FLUSH_ERR], 1);
	ibv_end_poll(cq);
	pair.functions.destroy_qp(&from->qp_base);
	pair.functions.destroy_qp(to);
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(cq));
	pair.receive_cq = own_queue;
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

/* More queues than are watched at once; those that come after they went are watched. */
static void test_many_queues(void **state)
{
	struct ibv_poll_cq_attr options = {0};
	static struct ibv_cq_ex *queues[3000];
	struct verbs_pair pair;
	void *watched;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3000; i++)
			queues[i] = make_cq(&pair);
		for (int i = 0; i < 3000; i++) {
			assert_int_equal(ibv_start_poll(queues[i], &options), ENOENT);
			pair.functions.destroy_cq(ibv_cq_ex_to_cq(queues[i]));
		}
	}
	queues[0] = make_cq(&pair);
	watched = *(void **)&queues[0]->start_poll;
	assert_int_equal(ibv_start_poll(queues[0], &options), ENOENT);
	assert_ptr_not_equal(*(void **)&queues[0]->start_poll, watched);
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(queues[0]));
	verbs_pair_close(&pair);
}

/* A child polls and makes what its parent's context can; nothing of it is counted. */
static void test_fork(void **state)
{
	struct ibv_poll_cq_attr options = {0};
	struct verbs_pair pair;
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
	int status;
	pid_t child;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	cq = make_cq_with(&pair, IBV_WC_STANDARD_FLAGS);
	qp = make_extended(&pair, ibv_cq_ex_to_cq(cq));
	child = fork();
	if (child == 0) {
		struct ibv_cq_ex *own = make_cq(&pair);

		_exit(write_batch(qp, 1) == 0 && ibv_start_poll(cq, &options) == 0 &&
					ibv_start_poll(own, &options) == ENOENT
				? 0
				: 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_start_poll(cq, &options), ENOENT);
	assert_int_equal(entry_of(qp->qp_base.qp_num)->posted_requests, 0);
	pair.functions.destroy_qp(&qp->qp_base);
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(cq));
	verbs_pair_close(&pair);
}

/* Last: a queue made before works after; new ones are the provider's alone. */
static void test_stop(void **state)
{
	struct ibv_poll_cq_attr options = {0};
	struct verbs_pair pair;
	struct ibv_cq_ex *before, *after, *counted;
	void *make_queue, *make_pair;
	struct ibv_qp_ex *qp;

	(void)state;
	verbs_pair_open(&pair, (struct verbs_pair_options){0});
	before = make_cq(&pair);
	counted = make_cq_with(&pair, IBV_WC_STANDARD_FLAGS);
	qp = make_extended(&pair, ibv_cq_ex_to_cq(counted));
	make_queue = *(void **)&verbs_get_ctx(pair.context)->create_cq_ex;
	make_pair = *(void **)&verbs_get_ctx(pair.context)->create_qp_ex;
	verbs_wrap_stop();
	assert_ptr_not_equal(*(void **)&verbs_get_ctx(pair.context)->create_cq_ex, make_queue);
	assert_ptr_not_equal(*(void **)&verbs_get_ctx(pair.context)->create_qp_ex, make_pair);
	assert_int_equal(ibv_start_poll(before, &options), ENOENT);
	after = make_cq(&pair);
	assert_ptr_equal(*(void **)&after->start_poll, *(void **)&before->start_poll);
	/* Those that were counted work on, uncounted. */
	assert_ptr_not_equal(*(void **)&counted->start_poll, *(void **)&after->start_poll);
	assert_int_equal(write_batch(qp, 2), 0);
	assert_int_equal(ibv_start_poll(counted, &options), 0);
	assert_int_equal(ibv_next_poll(counted), 0);
	assert_int_equal(ibv_next_poll(counted), ENOENT);
	ibv_end_poll(counted);
	pair.functions.destroy_qp(&qp->qp_base);
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(counted));
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(before));
	pair.functions.destroy_cq(ibv_cq_ex_to_cq(after));
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
		cmocka_unit_test(test_all_signaled),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_signaled_and_mixed),
		cmocka_unit_test(test_long_refused_aborted),
		cmocka_unit_test(test_unknown_functions),
		cmocka_unit_test(test_queue_pairs_come_and_go),
		cmocka_unit_test(test_others_come_and_go),
		cmocka_unit_test(test_polls_by_functions),
		cmocka_unit_test(test_extended_queue_polled_as_ever),
		cmocka_unit_test(test_start_poll),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_many_queues),
		cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
