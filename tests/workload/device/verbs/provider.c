/* SPDX-License-Identifier: Apache-2.0 */
/* The provider: queues in memory. One lock for all; any thread. */
#include "tests/workload/device/verbs/provider.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEUE_PAIRS_MAX = 4096, COMPLETIONS_MAX = 65536, BUILT_MAX = 256 };

struct completion {
	struct ibv_wc entry;
	uint64_t ready_ns;
	struct queue_pair *sender; /* of a send: whose place it frees */
	unsigned frees;
};

struct context {
	struct verbs_context verbs; /* ends with the struct ibv_context */
	uint64_t delay_ns;
};

struct completion_queue {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex extended;
	};
	struct ibv_wc current; /* between start_poll and end_poll */
	unsigned first, count, limit;
	struct completion *entries;
};

struct queue_pair {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex extended;
	};
	unsigned built_count; /* between wr_start and wr_complete */
	struct ibv_send_wr built[BUILT_MAX];
	struct ibv_sge built_parts[BUILT_MAX]; /* each one's data, as if it were in one piece */
	unsigned send_limit, sends_in_use, unsignaled, receives;
	int signal_all;
	uint32_t peer;
};

static struct {
	pthread_mutex_t mutex;
	uint32_t next_number;
	struct queue_pair *queue_pairs[QUEUE_PAIRS_MAX];
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct context *context_of(struct ibv_context *ibv)
{
	return (struct context *)((char *)ibv - offsetof(struct context, verbs.context));
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct queue_pair *queue_pair_of(uint32_t number)
{
	struct queue_pair *found = state.queue_pairs[number % QUEUE_PAIRS_MAX];

	return found && found->ibv.qp_num == number ? found : NULL;
}

static void tell(struct ibv_cq *cq, const struct completion *completion)
{
	struct completion_queue *queue = (struct completion_queue *)cq;

	if (queue->count == queue->limit)
		abort(); /* a real one would be in error for good */
	queue->entries[(queue->first + queue->count++) % queue->limit] = *completion;
}

static uint32_t length_of(const struct ibv_send_wr *request)
{
	uint32_t length = 0;

	for (int i = 0; i < request->num_sge; i++)
		length += request->sg_list[i].length;
	return length;
}

/* The peer's side. Returns the status of the sender's. */
static enum ibv_wc_status deliver(
	struct queue_pair *qp, const struct ibv_send_wr *request, uint64_t ready_ns)
{
	struct queue_pair *peer = queue_pair_of(qp->peer);
	struct completion received = {.ready_ns = ready_ns};

	if (!peer)
		return IBV_WC_RETRY_EXC_ERR;
	if (request->opcode != IBV_WR_SEND)
		return IBV_WC_SUCCESS;
	if (peer->receives == 0)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	peer->receives--;
	received.entry = (struct ibv_wc){.opcode = IBV_WC_RECV,
		.byte_len = length_of(request),
		.qp_num = peer->ibv.qp_num,
		.src_qp = qp->ibv.qp_num};
	tell(peer->ibv.recv_cq, &received);
	return IBV_WC_SUCCESS;
}

static void send_one(struct queue_pair *qp, const struct ibv_send_wr *request)
{
	uint64_t ready_ns = now_ns() + context_of(qp->ibv.context)->delay_ns;
	enum ibv_wc_status status =
		qp->ibv.state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : deliver(qp, request, ready_ns);
	struct completion sent = {.ready_ns = ready_ns, .sender = qp};

	qp->sends_in_use++;
	qp->unsignaled++;
	if (status == IBV_WC_SUCCESS && !qp->signal_all &&
		!(request->send_flags & IBV_SEND_SIGNALED))
		return;
	sent.frees = qp->unsignaled;
	qp->unsignaled = 0;
	sent.entry = (struct ibv_wc){.wr_id = request->wr_id,
		.status = status,
		.opcode = request->opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE,
		.qp_num = qp->ibv.qp_num};
	tell(qp->ibv.send_cq, &sent);
	if (status != IBV_WC_SUCCESS)
		qp->ibv.state = IBV_QPS_ERR;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
	struct queue_pair *own = (struct queue_pair *)qp;
	int error = 0;

	pthread_mutex_lock(&state.mutex);
	for (; request && !error; request = request->next) {
		if (own->sends_in_use == own->send_limit) {
			*bad = request;
			error = ENOMEM;
			break;
		}
		send_one(own, request);
	}
	pthread_mutex_unlock(&state.mutex);
	return error;
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **bad)
{
	(void)bad;
	pthread_mutex_lock(&state.mutex);
	for (; request; request = request->next)
		((struct queue_pair *)qp)->receives++;
	pthread_mutex_unlock(&state.mutex);
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int entry_count, struct ibv_wc *entries)
{
	struct completion_queue *queue = (struct completion_queue *)cq;
	int count = 0;

	if (__atomic_load_n(&queue->count, __ATOMIC_RELAXED) == 0)
		return 0;
	pthread_mutex_lock(&state.mutex);
	while (count < entry_count && queue->count > 0) {
		struct completion *next = &queue->entries[queue->first];

		if (next->ready_ns > now_ns())
			break;
		if (next->sender)
			next->sender->sends_in_use -= next->frees;
		entries[count++] = next->entry;
		queue->first = (queue->first + 1) % queue->limit;
		queue->count--;
	}
	pthread_mutex_unlock(&state.mutex);
	return count;
}

static struct ibv_cq_ex *create_cq_ex(
	struct ibv_context *context, struct ibv_cq_init_attr_ex *options);
static struct ibv_qp *create_qp_ex(
	struct ibv_context *context, struct ibv_qp_init_attr_ex *options);

static struct ibv_context *open_context(struct ibv_device *device)
{
	struct context *context = calloc(1, sizeof(*context));
	struct ibv_context *ibv;

	if (!context)
		return NULL;
	context->verbs.sz = sizeof(context->verbs);
	context->verbs.create_cq_ex = create_cq_ex;
	context->verbs.create_qp_ex = create_qp_ex;
	ibv = &context->verbs.context;
	ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ibv->device = device;
	ibv->ops.post_send = post_send;
	ibv->ops.post_recv = post_receive;
	ibv->ops.poll_cq = poll_cq;
	return ibv;
}

static int close_context(struct ibv_context *context)
{
	free(context_of(context));
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entry_count)
{
	struct completion_queue *queue = calloc(1, sizeof(*queue));

	if (!queue || entry_count < 1 || entry_count > COMPLETIONS_MAX)
		goto fail;
	queue->limit = (unsigned)entry_count;
	queue->entries = calloc(queue->limit, sizeof(*queue->entries));
	if (!queue->entries)
		goto fail;
	queue->ibv.context = context;
	return &queue->ibv;
fail:
	free(queue);
	errno = EINVAL;
	return NULL;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *options)
{
	struct completion_queue *queue = (struct completion_queue *)cq;

	(void)options;
	if (poll_cq(ibv_cq_ex_to_cq(cq), 1, &queue->current) == 0)
		return ENOENT;
	cq->wr_id = queue->current.wr_id;
	cq->status = queue->current.status;
	return 0;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	return start_poll(cq, NULL);
}

static void end_poll(struct ibv_cq_ex *cq)
{
	(void)cq;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return ((struct completion_queue *)cq)->current.opcode;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return ((struct completion_queue *)cq)->current.byte_len;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return ((struct completion_queue *)cq)->current.qp_num;
}

static struct ibv_cq_ex *create_cq_ex(
	struct ibv_context *context, struct ibv_cq_init_attr_ex *options)
{
	struct ibv_cq *cq = create_cq(context, (int)options->cqe);
	struct completion_queue *queue = (struct completion_queue *)cq;

	if (!cq)
		return NULL;
	queue->extended.start_poll = start_poll;
	queue->extended.next_poll = next_poll;
	queue->extended.end_poll = end_poll;
	queue->extended.read_opcode = read_opcode;
	if (options->wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		queue->extended.read_byte_len = read_byte_len;
	if (options->wc_flags & IBV_WC_EX_WITH_QP_NUM)
		queue->extended.read_qp_num = read_qp_num;
	return &queue->extended;
}

static int destroy_cq(struct ibv_cq *cq)
{
	free(((struct completion_queue *)cq)->entries);
	free(cq);
	return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, const struct ibv_qp_init_attr *options)
{
	struct queue_pair *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->ibv.context = pd->context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = options->send_cq;
	qp->ibv.recv_cq = options->recv_cq;
	qp->ibv.qp_type = options->qp_type;
	qp->send_limit = options->cap.max_send_wr;
	qp->signal_all = options->sq_sig_all;
	pthread_mutex_lock(&state.mutex);
	do {
		qp->ibv.qp_num = ++state.next_number;
	} while (state.queue_pairs[qp->ibv.qp_num % QUEUE_PAIRS_MAX]);
	state.queue_pairs[qp->ibv.qp_num % QUEUE_PAIRS_MAX] = qp;
	pthread_mutex_unlock(&state.mutex);
	return &qp->ibv;
}

static void wr_start(struct ibv_qp_ex *qp)
{
	((struct queue_pair *)qp)->built_count = 0;
}

static void build(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct queue_pair *own = (struct queue_pair *)qp;
	unsigned i = own->built_count++;

	if (i >= BUILT_MAX)
		abort(); /* longer than any test's */
	own->built_parts[i] = (struct ibv_sge){0};
	own->built[i] = (struct ibv_send_wr){.wr_id = qp->wr_id,
		.send_flags = qp->wr_flags,
		.opcode = opcode,
		.sg_list = &own->built_parts[i],
		.num_sge = 1};
	if (i > 0)
		own->built[i - 1].next = &own->built[i];
}

static void wr_send(struct ibv_qp_ex *qp)
{
	build(qp, IBV_WR_SEND);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t address)
{
	(void)key;
	(void)address;
	build(qp, IBV_WR_RDMA_WRITE);
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t key, uint64_t address)
{
	(void)key;
	(void)address;
	build(qp, IBV_WR_RDMA_READ);
}

static void wr_atomic_fetch_add(
	struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint64_t amount)
{
	(void)key;
	(void)address;
	(void)amount;
	build(qp, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static void grow_built(struct ibv_qp_ex *qp, size_t length)
{
	struct queue_pair *own = (struct queue_pair *)qp;

	own->built_parts[own->built_count - 1].length += (uint32_t)length;
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint32_t length)
{
	(void)key;
	(void)address;
	grow_built(qp, length);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *parts)
{
	for (size_t i = 0; i < count; i++)
		grow_built(qp, parts[i].length);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *address, size_t length)
{
	(void)address;
	grow_built(qp, length);
}

static void wr_set_inline_data_list(
	struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *buffers)
{
	for (size_t i = 0; i < count; i++)
		grow_built(qp, buffers[i].length);
}

/* All or nothing, as ibv_wr_complete(3) asks. */
static int wr_complete(struct ibv_qp_ex *qp)
{
	struct queue_pair *own = (struct queue_pair *)qp;
	struct ibv_send_wr *bad;

	if (own->built_count == 0)
		return 0;
	if (own->sends_in_use + own->built_count > own->send_limit)
		return ENOMEM;
	return post_send(&qp->qp_base, own->built, &bad);
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	((struct queue_pair *)qp)->built_count = 0;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *options)
{
	struct ibv_qp *qp = create_qp(options->pd, (const struct ibv_qp_init_attr *)options);
	struct queue_pair *own = (struct queue_pair *)qp;

	(void)context;
	if (!qp)
		return NULL;
	if (options->send_ops_flags & IBV_QP_EX_WITH_SEND)
		own->extended.wr_send = wr_send;
	if (options->send_ops_flags & IBV_QP_EX_WITH_RDMA_WRITE)
		own->extended.wr_rdma_write = wr_rdma_write;
	if (options->send_ops_flags & IBV_QP_EX_WITH_RDMA_READ)
		own->extended.wr_rdma_read = wr_rdma_read;
	if (options->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		own->extended.wr_atomic_fetch_add = wr_atomic_fetch_add;
	own->extended.wr_set_sge = wr_set_sge;
	own->extended.wr_set_sge_list = wr_set_sge_list;
	own->extended.wr_set_inline_data = wr_set_inline_data;
	own->extended.wr_set_inline_data_list = wr_set_inline_data_list;
	own->extended.wr_start = wr_start;
	own->extended.wr_complete = wr_complete;
	own->extended.wr_abort = wr_abort;
	return qp;
}

static int modify_qp(struct ibv_qp *qp, const struct ibv_qp_attr *attributes, int mask)
{
	pthread_mutex_lock(&state.mutex);
	if (mask & IBV_QP_STATE)
		qp->state = attributes->qp_state;
	if (mask & IBV_QP_DEST_QPN)
		((struct queue_pair *)qp)->peer = attributes->dest_qp_num;
	pthread_mutex_unlock(&state.mutex);
	return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	struct queue_pair *own = (struct queue_pair *)qp;
	struct completion_queue *queue = (struct completion_queue *)qp->send_cq;

	pthread_mutex_lock(&state.mutex);
	state.queue_pairs[qp->qp_num % QUEUE_PAIRS_MAX] = NULL;
	for (unsigned i = 0; i < queue->count; i++) {
		struct completion *entry = &queue->entries[(queue->first + i) % queue->limit];

		if (entry->sender == own)
			entry->sender = NULL;
	}
	pthread_mutex_unlock(&state.mutex);
	free(own);
	return 0;
}

static void set_delay(struct ibv_context *context, uint64_t delay_ns)
{
	context_of(context)->delay_ns = delay_ns;
}

const struct stand_in_provider *stand_in_provider_entry(void);
__attribute__((visibility("default"))) const struct stand_in_provider *stand_in_provider_entry(void)
{
	static const struct stand_in_provider provider = {open_context, close_context, create_cq,
		destroy_cq, create_qp, modify_qp, destroy_qp, set_delay};

	return &provider;
}
