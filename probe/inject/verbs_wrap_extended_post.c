/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that post by functions of their own (ibv_wr_start, ibv_wr_send, ...,
 * ibv_wr_complete). Requests are put down between start and complete, where the provider holds
 * the queue pair for one thread, and counted before it gets them, in one go.
 */
#include <string.h>
#include <sys/mman.h>

#include "probe/inject/verbs_wrap_internal.h"
#include "probe/ring/verbs_abi_extended.h"

enum { BATCH_MAX = 64 }; /* more are counted in several goes */

/* What was begun since start. */
struct batch {
	unsigned count;
	struct verbs_post posted; /* counted already: of a long batch */
	struct verbs_abi_send_request requests[BATCH_MAX];
	struct verbs_abi_sge parts[BATCH_MAX]; /* of each its length */
};

struct watched_pair {
	unsigned slot;
	struct verbs_abi_post_functions own; /* the provider's */
	struct batch batch;
};

static struct {
	struct verbs_addresses addresses;
	struct watched_pair *pairs; /* VERBS_ADDRESSES_MAX; NULL: none yet */
} state;

/* There as long as the queue pair is, and only called then. */
static struct watched_pair *pair_of(const struct verbs_abi_qp_extended *qp)
{
	return &state.pairs[verbs_addresses_find(&state.addresses, qp)];
}

/* Counts what was put down. */
static void count_batch(struct watched_pair *pair, const struct verbs_abi_qp_extended *qp)
{
	struct verbs_counter *counter = verbs_counter_of(pair->slot, qp->qp.number);
	struct batch *batch = &pair->batch;
	struct verbs_post *sum = &batch->posted, post;

	if (counter && batch->count) {
		batch->requests[batch->count - 1].next = NULL;
		verbs_counter_post(counter, batch->requests, &post);
		if (sum->requests == 0) {
			*sum = post;
		} else {
			sum->requests += post.requests;
			sum->bytes += post.bytes;
			sum->read_bytes += post.read_bytes;
			sum->signaled += post.signaled;
			sum->counted &= post.counted;
		}
	}
	batch->count = 0;
}

static void begin(
	struct watched_pair *pair, const struct verbs_abi_qp_extended *qp, uint32_t opcode)
{
	struct batch *batch = &pair->batch;
	struct verbs_abi_send_request *request;

	if (batch->count == BATCH_MAX)
		count_batch(pair, qp);
	request = &batch->requests[batch->count];
	batch->parts[batch->count].length = 0;
	*request = (struct verbs_abi_send_request){.next = request + 1,
		.parts = &batch->parts[batch->count],
		.part_count = 1,
		.opcode = opcode,
		.flags = qp->flags};
	batch->count++;
}

static void add_bytes(struct watched_pair *pair, uint64_t bytes)
{
	struct batch *batch = &pair->batch;

	if (batch->count && bytes <= UINT32_MAX - batch->parts[batch->count - 1].length)
		batch->parts[batch->count - 1].length += (uint32_t)bytes;
}

enum { OTHER = 0 }; /* an opcode that is not VERBS_ABI_REQUEST_READ */

/* One that begins a request: DECLARED as the ABI has it, PASSED to the provider's. */
#define BEGINS(name, opcode, DECLARED, PASSED)                                                     \
	static void name DECLARED                                                                  \
	{                                                                                          \
		struct watched_pair *pair = pair_of(qp);                                           \
                                                                                                   \
		begin(pair, qp, opcode);                                                           \
		pair->own.name PASSED;                                                             \
	}

BEGINS(atomic_compare, OTHER,
	(struct verbs_abi_qp_extended * qp, uint32_t key, uint64_t address, uint64_t compare,
		uint64_t swap),
	(qp, key, address, compare, swap))
BEGINS(atomic_add, OTHER,
	(struct verbs_abi_qp_extended * qp, uint32_t key, uint64_t address, uint64_t amount),
	(qp, key, address, amount))
BEGINS(atomic_write, OTHER,
	(struct verbs_abi_qp_extended * qp, uint32_t key, uint64_t address, const void *value),
	(qp, key, address, value))
BEGINS(bind, OTHER,
	(struct verbs_abi_qp_extended * qp, void *window, uint32_t key, const void *how),
	(qp, window, key, how))
BEGINS(invalidate, OTHER, (struct verbs_abi_qp_extended * qp, uint32_t key), (qp, key))
BEGINS(read, VERBS_ABI_REQUEST_READ,
	(struct verbs_abi_qp_extended * qp, uint32_t key, uint64_t address), (qp, key, address))
BEGINS(write, OTHER, (struct verbs_abi_qp_extended * qp, uint32_t key, uint64_t address),
	(qp, key, address))
BEGINS(write_immediate, OTHER,
	(struct verbs_abi_qp_extended * qp, uint32_t key, uint64_t address, uint32_t immediate),
	(qp, key, address, immediate))
BEGINS(send, OTHER, (struct verbs_abi_qp_extended * qp), (qp))
BEGINS(send_immediate, OTHER, (struct verbs_abi_qp_extended * qp, uint32_t immediate),
	(qp, immediate))
BEGINS(send_invalidate, OTHER, (struct verbs_abi_qp_extended * qp, uint32_t key), (qp, key))
BEGINS(send_segments, OTHER,
	(struct verbs_abi_qp_extended * qp, void *header, uint16_t length, uint16_t segment),
	(qp, header, length, segment))

static void set_inline(struct verbs_abi_qp_extended *qp, void *address, size_t length)
{
	struct watched_pair *pair = pair_of(qp);

	add_bytes(pair, length);
	pair->own.set_inline(qp, address, length);
}

static void set_inline_list(
	struct verbs_abi_qp_extended *qp, size_t count, const struct verbs_abi_buffer *buffers)
{
	struct watched_pair *pair = pair_of(qp);

	for (size_t i = 0; i < count; i++)
		add_bytes(pair, buffers[i].length);
	pair->own.set_inline_list(qp, count, buffers);
}

static void set_part(
	struct verbs_abi_qp_extended *qp, uint32_t key, uint64_t address, uint32_t length)
{
	struct watched_pair *pair = pair_of(qp);

	add_bytes(pair, length);
	pair->own.set_part(qp, key, address, length);
}

static void set_parts(
	struct verbs_abi_qp_extended *qp, size_t count, const struct verbs_abi_sge *parts)
{
	struct watched_pair *pair = pair_of(qp);

	for (size_t i = 0; i < count; i++)
		add_bytes(pair, parts[i].length);
	pair->own.set_parts(qp, count, parts);
}

static void start(struct verbs_abi_qp_extended *qp)
{
	struct watched_pair *pair = pair_of(qp);

	pair->own.start(qp);
	pair->batch.count = 0;
	pair->batch.posted = (struct verbs_post){0};
}

/* What was counted is not posted. */
static void take_back(
	const struct watched_pair *pair, uint32_t number, const struct verbs_post *posted)
{
	struct verbs_counter *counter = verbs_counter_of(pair->slot, number);

	if (counter && posted->requests)
		verbs_counter_refused(counter, NULL, posted);
}

static int complete(struct verbs_abi_qp_extended *qp)
{
	struct watched_pair *pair = pair_of(qp);
	struct verbs_post posted;
	int error;

	count_batch(pair, qp); /* before the call: its completion may be polled before it returns */
	posted = pair->batch.posted; /* the call lets the next thread in */
	error = pair->own.complete(qp);
	if (__builtin_expect(error != 0, 0))
		take_back(pair, qp->qp.number, &posted);
	return error;
}

static void abort_batch(struct verbs_abi_qp_extended *qp)
{
	struct watched_pair *pair = pair_of(qp);

	take_back(pair, qp->qp.number, &pair->batch.posted);
	pair->own.abort(qp);
}

/* Those that the provider gave. */
static void put_ours(struct verbs_abi_post_functions *post, bool has_atomic_write)
{
#define PUT(member, wrapper)                                                                       \
	do {                                                                                       \
		if (post->member)                                                                  \
			post->member = wrapper;                                                    \
	} while (0)
	PUT(atomic_compare, atomic_compare);
	PUT(atomic_add, atomic_add);
	PUT(bind, bind);
	PUT(invalidate, invalidate);
	PUT(read, read);
	PUT(write, write);
	PUT(write_immediate, write_immediate);
	PUT(send, send);
	PUT(send_immediate, send_immediate);
	PUT(send_invalidate, send_invalidate);
	PUT(send_segments, send_segments);
	PUT(set_inline, set_inline);
	PUT(set_inline_list, set_inline_list);
	PUT(set_part, set_part);
	PUT(set_parts, set_parts);
	PUT(start, start);
	PUT(complete, complete);
	PUT(abort, abort_batch);
	if (has_atomic_write)
		PUT(atomic_write, atomic_write);
#undef PUT
}

static bool reserve_pairs(void)
{
	void *memory;

	if (state.pairs)
		return true;
	memory = mmap(NULL, VERBS_ADDRESSES_MAX * sizeof(*state.pairs), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	state.pairs = memory;
	return true;
}

bool verbs_extended_watch_pair(unsigned slot, struct verbs_abi_qp *qp, uint64_t functions)
{
	struct verbs_abi_qp_extended *extended = (struct verbs_abi_qp_extended *)qp;
	bool has_atomic_write = functions & VERBS_ABI_POST_ATOMIC_WRITE;
	size_t known = has_atomic_write ? sizeof(extended->post)
					: offsetof(struct verbs_abi_post_functions, atomic_write);
	int place = -1;

	if (functions & ~(uint64_t)(VERBS_ABI_POST_FUNCTIONS | VERBS_ABI_POST_ATOMIC_WRITE) ||
		!extended->post.start || !extended->post.complete ||
		!verbs_addresses_lock(&state.addresses))
		return false;
	if (reserve_pairs())
		place = verbs_addresses_place(&state.addresses, qp);
	if (place >= 0) {
		struct watched_pair *pair = &state.pairs[place];

		pair->slot = slot;
		pair->batch.count = 0;
		memset(&pair->own, 0, sizeof(pair->own));
		memcpy(&pair->own, &extended->post, known);
		verbs_addresses_set(&state.addresses, place, qp);
		put_ours(&extended->post, has_atomic_write);
	}
	verbs_addresses_unlock(&state.addresses);
	return place >= 0;
}

uint32_t verbs_extended_pair_generation(const void *qp)
{
	return verbs_addresses_generation(&state.addresses, qp);
}

void verbs_extended_forget_pair(const void *qp, uint32_t generation)
{
	verbs_addresses_remove(&state.addresses, qp, generation);
}
