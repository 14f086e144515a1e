/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns of queue pairs and completion queues that are made in the extended way
 * (ibv_create_qp_ex, ibv_create_cq_ex), which may have functions of their own.
 */
#include <errno.h>

#include "probe/inject/verbs_wrap_internal.h"
#include "probe/ring/verbs_abi_extended.h"

struct extended_slot {
	const struct verbs_abi_context *_Atomic context;
	verbs_abi_create_cq_extended *create_cq;
	verbs_abi_create_qp_extended *create_qp;
};

static struct {
	struct extended_slot slots[VERBS_DEVICES_MAX];
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
		verbs_extended_watch_queue((unsigned)(slot - state.slots), cq);
	return cq;
}

static struct verbs_abi_qp *create_qp(
	struct verbs_abi_context *context, struct verbs_abi_qp_extended_options *options)
{
	const struct extended_slot *slot = slot_of(context);
	struct verbs_abi_qp *qp;
	bool unseen = false;
	int kept;

	if (!slot) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	qp = slot->create_qp(context, options);
	kept = errno;
	if (qp && (options->known & VERBS_ABI_HAS_POST_FUNCTIONS) && options->post_functions)
		unseen = !verbs_extended_watch_pair(
			(unsigned)(slot - state.slots), qp, options->post_functions);
	if (qp)
		verbs_wrap_see_queue_pair(
			qp, options->signal_all != 0, unseen ? VERBS_EXTENDED_POSTS : 0u);
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
