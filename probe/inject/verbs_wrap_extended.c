/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs and completion queues that are made in the extended way (ibv_create_qp_ex,
 * ibv_create_cq_ex). What goes by functions of their own (ibv_wr_..., ibv_start_poll) is not
 * counted, and said to be so: at the first ibv_start_poll of a queue, and never again, for then its
 * own function is put back.
 */
#include <errno.h>

#include "probe/inject/verbs_wrap_internal.h"
#include "probe/ring/verbs_abi_extended.h"

enum { QUEUES_MAX = 1024, LOCK_TRIES = 20000 };

typedef int verbs_abi_start_poll(struct verbs_abi_cq_extended *cq, void *options);

/* A completion queue whose first poll is waited for. Entries stay: a queue that is destroyed is
 * never called again, and a new one at its address takes its entry over. */
struct watched_queue {
	struct verbs_abi_cq_extended *_Atomic cq;
	verbs_abi_start_poll *_Atomic start_poll;
	atomic_bool extended; /* it was polled that way */
};

struct extended_slot {
	const struct verbs_abi_context *_Atomic context;
	verbs_abi_create_cq_extended *create_cq;
	verbs_abi_create_qp_extended *create_qp;
};

static struct {
	struct extended_slot slots[VERBS_DEVICES_MAX];
	struct watched_queue queues[QUEUES_MAX];
	atomic_uint queue_count;
	atomic_uint change_lock;
} state;

static struct verbs_abi_extended *extended_of(struct verbs_abi_context *context, size_t offset)
{
	struct verbs_abi_context_whole *whole = (struct verbs_abi_context_whole *)context;
	struct verbs_abi_extended *extended =
		(struct verbs_abi_extended *)((char *)context -
					      offsetof(struct verbs_abi_extended, whole));

	/* As verbs_get_ctx_op() in infiniband/verbs.h asks. */
	if (whole->extended != VERBS_ABI_IS_EXTENDED || extended->size < sizeof(*extended) - offset)
		return NULL;
	return extended;
}

static struct extended_slot *slot_of(const struct verbs_abi_context *context)
{
	for (size_t i = 0; i < VERBS_DEVICES_MAX; i++) {
		if (atomic_load(&state.slots[i].context) == context)
			return &state.slots[i];
	}
	return NULL;
}

static struct watched_queue *queue_of(const void *cq)
{
	unsigned count = atomic_load(&state.queue_count);

	for (unsigned i = 0; i < count; i++) {
		if (atomic_load(&state.queues[i].cq) == cq)
			return &state.queues[i];
	}
	return NULL;
}

bool verbs_extended_polls(const void *cq)
{
	const struct watched_queue *queue = queue_of(cq);

	return queue && atomic_load(&queue->extended);
}

static int first_start_poll(struct verbs_abi_cq_extended *cq, void *options)
{
	struct watched_queue *queue = queue_of(cq);
	verbs_abi_start_poll *original;

	if (!queue) /* a copy of a queue, which nobody makes: it is empty */
		return ENOENT;
	original = atomic_load(&queue->start_poll);
	__atomic_store_n(&cq->start_poll, original, __ATOMIC_RELEASE);
	if (!atomic_exchange(&queue->extended, true))
		verbs_counters_flag_queue(cq, VERBS_EXTENDED_POLL);
	return original(cq, options);
}

static void watch(struct verbs_abi_cq_extended *cq)
{
	struct watched_queue *queue;
	int tries = 0;

	/* Held for some instructions; in a child that was forked meanwhile, for ever. */
	while (atomic_exchange(&state.change_lock, 1)) {
		if (++tries == LOCK_TRIES)
			return;
	}
	queue = queue_of(cq);
	if (!queue && atomic_load(&state.queue_count) < QUEUES_MAX)
		queue = &state.queues[atomic_load(&state.queue_count)];
	if (queue && cq->start_poll && cq->start_poll != first_start_poll) {
		atomic_store(&queue->start_poll, cq->start_poll);
		atomic_store(&queue->extended, false);
		atomic_store(&queue->cq, cq);
		if (queue == &state.queues[atomic_load(&state.queue_count)])
			atomic_fetch_add(&state.queue_count, 1);
		__atomic_store_n(&cq->start_poll, first_start_poll, __ATOMIC_RELEASE);
	}
	atomic_store(&state.change_lock, 0);
}

static struct verbs_abi_cq_extended *create_cq(struct verbs_abi_context *context, void *options)
{
	const struct extended_slot *slot = slot_of(context);
	struct verbs_abi_cq_extended *cq;

	if (!slot) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	cq = slot->create_cq(context, options);
	if (cq)
		watch(cq);
	return cq;
}

static struct verbs_abi_qp *create_qp(
	struct verbs_abi_context *context, struct verbs_abi_qp_extended_options *options)
{
	const struct extended_slot *slot = slot_of(context);
	struct verbs_abi_qp *qp;
	int kept;

	if (!slot) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	qp = slot->create_qp(context, options);
	kept = errno;
	if (qp)
		verbs_wrap_see_queue_pair(qp, options->signal_all != 0,
			options->known & VERBS_ABI_HAS_POST_FUNCTIONS ? VERBS_EXTENDED_POSTS : 0u);
	errno = kept;
	return qp;
}

void verbs_extended_wrap(size_t index, struct verbs_abi_context *context)
{
	struct extended_slot *slot = &state.slots[index];
	struct verbs_abi_extended *extended;

	atomic_store(&slot->context, NULL);
	slot->create_cq = NULL;
	slot->create_qp = NULL;
	extended = extended_of(context, offsetof(struct verbs_abi_extended, create_cq));
	if (extended && extended->create_cq && extended->create_cq != create_cq)
		slot->create_cq = extended->create_cq;
	extended = extended_of(context, offsetof(struct verbs_abi_extended, create_qp));
	if (!extended)
		return;
	if (extended->create_qp && extended->create_qp != create_qp)
		slot->create_qp = extended->create_qp;
	atomic_store(&slot->context, context);
	if (slot->create_cq)
		__atomic_store_n(&extended->create_cq, create_cq, __ATOMIC_RELEASE);
	if (slot->create_qp)
		__atomic_store_n(&extended->create_qp, create_qp, __ATOMIC_RELEASE);
}

void verbs_extended_unwrap(size_t index, struct verbs_abi_context *context)
{
	const struct extended_slot *slot = &state.slots[index];
	struct verbs_abi_extended *extended =
		extended_of(context, offsetof(struct verbs_abi_extended, create_qp));

	if (!extended || atomic_load(&slot->context) != context)
		return;
	if (slot->create_cq && extended->create_cq == create_cq)
		__atomic_store_n(&extended->create_cq, slot->create_cq, __ATOMIC_RELEASE);
	if (slot->create_qp && extended->create_qp == create_qp)
		__atomic_store_n(&extended->create_qp, slot->create_qp, __ATOMIC_RELEASE);
}
