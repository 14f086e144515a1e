/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues that are read by functions of their own (ibv_start_poll, ibv_next_poll). What
 * these find is counted as polls do. A queue that does not tell the number of the queue pair, or
 * the length (both are asked for when it is made), is not measurable: at the first
 * ibv_start_poll it is said to be so, and its own function is put back.
 */
#include <errno.h>

#include "probe/inject/verbs_wrap_internal.h"
#include "probe/ring/verbs_abi_extended.h"

struct watched_queue {
	unsigned slot;
	verbs_abi_start_poll *start_poll;
	verbs_abi_next_poll *next_poll;
	atomic_bool unmeasurable; /* it was polled that way, and could not be counted */
};

static struct {
	struct verbs_addresses addresses;
	struct watched_queue queues[VERBS_ADDRESSES_MAX];
} state;

static struct watched_queue *queue_of(const void *cq)
{
	int place = verbs_addresses_find(&state.addresses, cq);

	return place < 0 ? NULL : &state.queues[place];
}

bool verbs_extended_polls_unseen(const void *cq)
{
	const struct watched_queue *queue = queue_of(cq);

	return queue && atomic_load(&queue->unmeasurable);
}

static __attribute__((noinline)) void count_current(
	const struct watched_queue *queue, struct verbs_abi_cq_extended *cq)
{
	struct verbs_abi_completion entry = {
		.id = cq->id, .status = cq->status, .qp_number = cq->read_qp_number(cq)};

	if (entry.status == 0)
		entry.opcode = cq->read_opcode(cq);
	if (entry.opcode & VERBS_ABI_COMPLETION_RECEIVE)
		entry.length_bytes = cq->read_length_bytes(cq);
	verbs_counter_complete(queue->slot, &entry, verbs_clock_ticks());
}

/* Both are there as long as the queue is. ENOENT: empty. */
static int start_poll(struct verbs_abi_cq_extended *cq, void *options)
{
	const struct watched_queue *queue = queue_of(cq);
	int error = queue ? queue->start_poll(cq, options) : ENOENT;

	if (__builtin_expect(error == 0, 0))
		count_current(queue, cq);
	return error;
}

static int next_poll(struct verbs_abi_cq_extended *cq)
{
	const struct watched_queue *queue = queue_of(cq);
	int error = queue ? queue->next_poll(cq) : ENOENT;

	if (__builtin_expect(error == 0, 0))
		count_current(queue, cq);
	return error;
}

static int first_unseen_poll(struct verbs_abi_cq_extended *cq, void *options)
{
	struct watched_queue *queue = queue_of(cq);

	if (!queue)
		return ENOENT;
	__atomic_store_n(&cq->start_poll, queue->start_poll, __ATOMIC_RELEASE);
	if (!atomic_exchange(&queue->unmeasurable, true))
		verbs_counters_flag_queue(cq, VERBS_EXTENDED_POLL);
	return queue->start_poll(cq, options);
}

void verbs_extended_watch_queue(unsigned slot, struct verbs_abi_cq_extended *cq)
{
	bool counted =
		cq->next_poll && cq->read_opcode && cq->read_length_bytes && cq->read_qp_number;
	int place;

	if (!cq->start_poll || cq->start_poll == start_poll ||
		!verbs_addresses_lock(&state.addresses))
		return;
	place = verbs_addresses_place(&state.addresses, cq);
	if (place >= 0) {
		struct watched_queue *queue = &state.queues[place];

		queue->slot = slot;
		queue->start_poll = cq->start_poll;
		queue->next_poll = cq->next_poll;
		atomic_store(&queue->unmeasurable, false);
		verbs_addresses_set(&state.addresses, place, cq);
		if (counted)
			__atomic_store_n(&cq->next_poll, next_poll, __ATOMIC_RELEASE);
		__atomic_store_n(&cq->start_poll, counted ? start_poll : first_unseen_poll,
			__ATOMIC_RELEASE);
	}
	verbs_addresses_unlock(&state.addresses);
}

uint32_t verbs_extended_queue_generation(const void *cq)
{
	return verbs_addresses_generation(&state.addresses, cq);
}

void verbs_extended_forget_queue(const void *cq, uint32_t generation)
{
	verbs_addresses_remove(&state.addresses, cq, generation);
}
