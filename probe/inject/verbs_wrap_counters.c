/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts per queue pair. Found by (context slot, number) in a hash table without locks; a queue
 * pair's two sides have a lock each, which is tried for a bounded time: a call that does not get it
 * is counted by atomic additions and without a time. The provider takes a lock of its own around
 * the same call, so two threads on one queue pair meet there anyway.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "probe/inject/verbs_wrap_internal.h"

enum {
	HASH_SIZE = 4096, /* four times the queue pairs; power of two */
	PROBES_MAX = 64,
	IN_FLIGHT_MAX = 1024, /* signaled requests with a time, per queue pair; power of two */
	LOCK_TRIES = 2000,    /* about 20 us */
	REQUESTS_PER_CALL_MAX = 1 << 20,
};

#define KEY_FREE UINT64_C(0)
#define KEY_GONE UINT64_MAX

/* A signaled request: cumulative counts say what its completion implies. */
struct in_flight {
	uint64_t sequence; /* 1 + its number */
	uint64_t ticks;
	uint64_t requests, bytes; /* posted up to and with it */
	bool refused;
};

struct verbs_counter {
	struct verbs_queue_pair *shared;
	struct in_flight *in_flight;
	const void *send_cq; /* NULL: made before we came */
	bool signal_all;
	_Alignas(64) atomic_uint post_lock;
	uint64_t signaled; /* posted so far, with a completion to come */
	_Alignas(64) atomic_uint poll_lock;
	uint64_t told; /* completions so far of those */
	bool out_of_step;
};

struct memory {
	_Atomic uint64_t keys[HASH_SIZE];
	uint16_t indexes[HASH_SIZE];
	struct verbs_counter counters[VERBS_QUEUE_PAIRS_MAX];
	struct in_flight in_flight[VERBS_QUEUE_PAIRS_MAX][IN_FLIGHT_MAX];
};

static struct {
	_Atomic(struct verbs_table *) table;
	struct memory *memory;
	atomic_uint change_lock; /* entries are added and removed under it */
	uint32_t used;		 /* entries that ever held one */
} state;

static bool try_lock(atomic_uint *lock)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!atomic_exchange_explicit(lock, 1, memory_order_acquire))
			return true;
		while (i++ < LOCK_TRIES && atomic_load_explicit(lock, memory_order_relaxed)) {
#if defined(__x86_64__)
			__builtin_ia32_pause();
#endif
		}
	}
	return false;
}

static void unlock(atomic_uint *lock)
{
	atomic_store_explicit(lock, 0, memory_order_release);
}

/* Only one thread writes at a time: a plain addition, stored whole. */
static void add(uint64_t *number, uint64_t amount)
{
	__atomic_store_n(number, *number + amount, __ATOMIC_RELAXED);
}

static void add_shared(uint64_t *number, uint64_t amount)
{
	__atomic_fetch_add(number, amount, __ATOMIC_RELAXED);
}

struct verbs_table *verbs_counters_table(void)
{
	return atomic_load_explicit(&state.table, memory_order_acquire);
}

void verbs_counters_stop(void)
{
	atomic_store(&state.table, NULL);
}

int verbs_counters_start(struct verbs_table *table)
{
	verbs_counters_stop();
	if (!state.memory) {
		void *memory = mmap(NULL, sizeof(*state.memory), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (memory == MAP_FAILED)
			return -errno;
		state.memory = memory;
	}
	for (size_t i = 0; i < HASH_SIZE; i++)
		atomic_store_explicit(&state.memory->keys[i], KEY_FREE, memory_order_relaxed);
	state.used = 0;
	atomic_store(&state.change_lock, 0);
	atomic_store(&state.table, table);
	return 0;
}

static uint64_t key_of(unsigned slot, uint32_t number)
{
	return (uint64_t)(slot + 1) << 32 | number;
}

/* Fibonacci hashing (Knuth, TAOCP 3, 6.4). */
static size_t place_of(uint64_t key)
{
	return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 52);
}

static inline struct verbs_counter *find(uint64_t key)
{
	size_t place = place_of(key);

	for (size_t i = 0; i < PROBES_MAX; i++, place = (place + 1) % HASH_SIZE) {
		uint64_t found =
			atomic_load_explicit(&state.memory->keys[place], memory_order_acquire);

		if (found == key)
			return &state.memory->counters[state.memory->indexes[place]];
		if (found == KEY_FREE)
			return NULL;
	}
	return NULL;
}

/* An entry that was never used, or that of a destroyed queue pair. */
static struct verbs_queue_pair *take_entry(struct verbs_table *table)
{
	if (state.used < VERBS_QUEUE_PAIRS_MAX)
		return &table->queue_pairs[state.used++];
	for (size_t i = 0; i < VERBS_QUEUE_PAIRS_MAX; i++) {
		if (table->queue_pairs[i].state == VERBS_QUEUE_PAIR_DESTROYED) {
			add(&table->queue_pairs_reused, 1);
			return &table->queue_pairs[i];
		}
	}
	return NULL;
}

static void start_entry(struct verbs_queue_pair *shared, unsigned slot, uint32_t number)
{
	uint32_t generation = shared->generation + 1;

	__atomic_store_n(&shared->state, VERBS_QUEUE_PAIR_FREE, __ATOMIC_SEQ_CST);
	memset((char *)shared + sizeof(shared->state), 0, sizeof(*shared) - sizeof(shared->state));
	shared->generation = generation;
	shared->number = number;
	shared->device = (uint16_t)slot;
	__atomic_store_n(&shared->state, VERBS_QUEUE_PAIR_LIVE, __ATOMIC_RELEASE);
}

static struct verbs_counter *add_counter(
	struct verbs_table *table, uint64_t key, unsigned slot, uint32_t number)
{
	struct verbs_queue_pair *shared;
	struct verbs_counter *counter;
	size_t place = place_of(key), index;

	for (size_t i = 0; i < PROBES_MAX; i++, place = (place + 1) % HASH_SIZE) {
		uint64_t found = atomic_load(&state.memory->keys[place]);

		if (found != KEY_FREE && found != KEY_GONE)
			continue;
		shared = take_entry(table);
		if (!shared)
			return NULL;
		index = (size_t)(shared - table->queue_pairs);
		counter = &state.memory->counters[index];
		start_entry(shared, slot, number);
		memset(counter, 0, sizeof(*counter));
		counter->shared = shared;
		counter->in_flight = state.memory->in_flight[index];
		/* Sequences of the entry's last owner. */
		memset(counter->in_flight, 0, sizeof(state.memory->in_flight[index]));
		state.memory->indexes[place] = (uint16_t)index;
		atomic_store_explicit(&state.memory->keys[place], key, memory_order_release);
		return counter;
	}
	return NULL;
}

struct verbs_counter *verbs_counter_of(unsigned slot, uint32_t number)
{
	struct verbs_table *table = verbs_counters_table();
	uint64_t key = key_of(slot, number);
	struct verbs_counter *counter;

	if (!table)
		return NULL;
	counter = find(key);
	if (__builtin_expect(counter != NULL, 1))
		return counter;
	if (!try_lock(&state.change_lock)) {
		add_shared(&table->queue_pairs_unseen, 1);
		return NULL;
	}
	counter = find(key);
	if (!counter)
		counter = add_counter(table, key, slot, number);
	if (!counter)
		add_shared(&table->queue_pairs_unseen, 1);
	unlock(&state.change_lock);
	return counter;
}

static uint64_t length_of(const struct verbs_abi_send_request *request)
{
	uint64_t bytes = 0;

	for (int i = 0; i < request->part_count; i++)
		bytes += request->parts[i].length;
	return bytes;
}

static bool is_signaled(
	const struct verbs_counter *counter, const struct verbs_abi_send_request *request)
{
	return counter->signal_all || (request->flags & VERBS_ABI_SEND_SIGNALED);
}

void verbs_counter_post(struct verbs_counter *counter, struct verbs_abi_send_request *request,
	struct verbs_post *post)
{
	struct verbs_queue_pair *shared = counter->shared;
	bool locked = try_lock(&counter->post_lock);
	uint64_t ticks = verbs_clock_ticks();

	*post = (struct verbs_post){.first_signaled = counter->signaled, .counted = locked};
	for (; request && post->requests < REQUESTS_PER_CALL_MAX; request = request->next) {
		uint64_t bytes = length_of(request);

		post->requests++;
		post->bytes += bytes;
		post->read_bytes += request->opcode == VERBS_ABI_REQUEST_READ ? bytes : 0;
		if (!is_signaled(counter, request))
			continue;
		post->signaled++;
		if (!locked)
			continue;
		struct in_flight *entry = &counter->in_flight[counter->signaled++ % IN_FLIGHT_MAX];

		entry->ticks = ticks;
		entry->requests = shared->posted_requests + post->requests;
		entry->bytes = shared->posted_bytes + post->bytes;
		entry->refused = false;
		__atomic_store_n(&entry->sequence, counter->signaled, __ATOMIC_RELEASE);
	}
	if (locked) {
		add(&shared->posted_requests, post->requests);
		add(&shared->posted_bytes, post->bytes);
		if (post->read_bytes)
			add(&shared->read_bytes, post->read_bytes);
		unlock(&counter->post_lock);
		return;
	}
	add_shared(&shared->contended_requests, post->requests);
	add_shared(&shared->contended_bytes, post->bytes);
	add_shared(&shared->contended_read_bytes, post->read_bytes);
	add_shared(&shared->contended, 1);
	__atomic_store_n(&counter->out_of_step, true, __ATOMIC_RELAXED);
}

void verbs_counter_refused(struct verbs_counter *counter, struct verbs_abi_send_request *bad,
	const struct verbs_post *post)
{
	uint64_t requests = 0, bytes = 0, read_bytes = 0, signaled = 0, from;

	/* A provider that names none refused them all. */
	for (; bad && requests < post->requests; bad = bad->next) {
		requests++;
		bytes += length_of(bad);
		read_bytes += bad->opcode == VERBS_ABI_REQUEST_READ ? length_of(bad) : 0;
		signaled += is_signaled(counter, bad);
	}
	if (requests == 0) {
		requests = post->requests;
		bytes = post->bytes;
		read_bytes = post->read_bytes;
		signaled = post->signaled;
	}
	add_shared(&counter->shared->post_errors, requests);
	if (!post->counted || !try_lock(&counter->post_lock)) {
		add_shared(&counter->shared->contended_requests, -requests);
		add_shared(&counter->shared->contended_bytes, -bytes);
		add_shared(&counter->shared->contended_read_bytes, -read_bytes);
		__atomic_store_n(&counter->out_of_step, true, __ATOMIC_RELAXED);
		return;
	}
	add(&counter->shared->posted_requests, -requests);
	add(&counter->shared->posted_bytes, -bytes);
	add(&counter->shared->read_bytes, -read_bytes);
	from = post->first_signaled + post->signaled - signaled;
	if (counter->signaled == post->first_signaled + post->signaled) {
		counter->signaled = from;
	} else {
		/* Another thread posted since: these places are passed over. */
		for (uint64_t i = from; i < from + signaled; i++)
			counter->in_flight[i % IN_FLIGHT_MAX].refused = true;
		__atomic_store_n(&counter->out_of_step, true, __ATOMIC_RELAXED);
	}
	unlock(&counter->post_lock);
}

static void count_latency(struct verbs_queue_pair *shared, uint64_t ns)
{
	unsigned bucket = ns ? 63u - (unsigned)__builtin_clzll(ns) : 0;

	if (bucket >= VERBS_LATENCY_BUCKETS)
		bucket = VERBS_LATENCY_BUCKETS - 1;
	add(&shared->latency[bucket], 1);
	add(&shared->latency_count, 1);
	add(&shared->latency_sum_ns, ns);
	if (ns > shared->latency_max_ns)
		__atomic_store_n(&shared->latency_max_ns, ns, __ATOMIC_RELAXED);
}

/* Requests of one queue complete in order: this completion is that of the oldest signaled one. */
static void complete_send(struct verbs_counter *counter, uint64_t ticks)
{
	struct verbs_queue_pair *shared = counter->shared;
	struct in_flight *entry = &counter->in_flight[counter->told % IN_FLIGHT_MAX];

	while (__atomic_load_n(&entry->sequence, __ATOMIC_ACQUIRE) == counter->told + 1 &&
		entry->refused)
		entry = &counter->in_flight[++counter->told % IN_FLIGHT_MAX];
	if (__atomic_load_n(&entry->sequence, __ATOMIC_ACQUIRE) != counter->told + 1) {
		/* Posted unseen, or so many since that the place was taken over. */
		bool unseen = entry->sequence < counter->told + 1;

		add(&shared->latency_unmeasured, 1);
		add(&shared->completed_requests, 1);
		if (unseen)
			__atomic_fetch_or(&shared->flags, VERBS_POSTS_UNSEEN, __ATOMIC_RELAXED);
		else
			counter->told++;
		return;
	}
	counter->told++;
	__atomic_store_n(&shared->completed_requests, entry->requests, __ATOMIC_RELAXED);
	__atomic_store_n(&shared->completed_bytes, entry->bytes, __ATOMIC_RELAXED);
	if (counter->out_of_step || (shared->flags & VERBS_POSTS_UNSEEN))
		add(&shared->latency_unmeasured, 1);
	else
		count_latency(shared, verbs_clock_ns(ticks - entry->ticks));
}

void verbs_counter_complete(unsigned slot, const struct verbs_abi_completion *entry, uint64_t ticks)
{
	uint32_t status = entry->status < VERBS_STATUS_NR ? entry->status : VERBS_STATUS_NR - 1;
	struct verbs_table *table = verbs_counters_table();
	struct verbs_counter *counter = table ? find(key_of(slot, entry->qp_number)) : NULL;
	struct verbs_queue_pair *shared;

	if (!table)
		return;
	if (!counter) { /* of a queue pair that was destroyed, or was there before we came */
		add_shared(&table->completions_unseen, 1);
		return;
	}
	shared = counter->shared;
	if (!try_lock(&counter->poll_lock)) {
		add_shared(&shared->contended_statuses[status], 1);
		if (status == 0 && (entry->opcode & VERBS_ABI_COMPLETION_RECEIVE)) {
			add_shared(&shared->contended_received_requests, 1);
			add_shared(&shared->contended_received_bytes, entry->length_bytes);
		}
		add_shared(&shared->contended, 1);
		__atomic_store_n(&counter->out_of_step, true, __ATOMIC_RELAXED);
		return;
	}
	add(&shared->statuses[status], 1);
	if (status != 0) {
		/* From here on every request is flushed, the unsignaled ones, too. */
		counter->out_of_step = true;
	} else if (entry->opcode & VERBS_ABI_COMPLETION_RECEIVE) {
		add(&shared->received_requests, 1);
		add(&shared->received_bytes, entry->length_bytes);
	} else {
		complete_send(counter, ticks);
	}
	unlock(&counter->poll_lock);
}

void verbs_counter_set_options(struct verbs_counter *counter, const struct verbs_abi_qp *qp,
	bool signal_all, uint32_t flags)
{
	counter->shared->type = qp->type;
	counter->signal_all = signal_all;
	__atomic_store_n(&counter->send_cq, qp->send_cq, __ATOMIC_RELEASE);
	/* Looked at after it is set, so that a first poll meanwhile is not missed. */
	if (verbs_extended_polls_unseen(qp->send_cq))
		flags |= VERBS_EXTENDED_POLL;
	if (flags)
		__atomic_fetch_or(&counter->shared->flags, flags, __ATOMIC_RELAXED);
}

void verbs_counters_flag_queue(const void *cq, uint32_t flags)
{
	if (!verbs_counters_table())
		return;
	for (size_t i = 0; i < VERBS_QUEUE_PAIRS_MAX; i++) {
		struct verbs_counter *counter = &state.memory->counters[i];

		if (__atomic_load_n(&counter->send_cq, __ATOMIC_ACQUIRE) == cq && counter->shared)
			__atomic_fetch_or(&counter->shared->flags, flags, __ATOMIC_RELAXED);
	}
}

/* A queue pair that is reset starts anew: what was in flight never completes. */
static void reset(struct verbs_counter *counter)
{
	if (!try_lock(&counter->post_lock))
		return;
	if (try_lock(&counter->poll_lock)) {
		counter->told = counter->signaled;
		counter->out_of_step = false;
		unlock(&counter->poll_lock);
	}
	unlock(&counter->post_lock);
}

void verbs_counter_set_attributes(struct verbs_counter *counter,
	const struct verbs_abi_qp_attributes *attributes, unsigned mask)
{
	struct verbs_queue_pair *shared = counter->shared;

	if ((mask & VERBS_ABI_STATE) && attributes->state == VERBS_ABI_STATE_RESET)
		reset(counter);
	if (mask & VERBS_ABI_TIMEOUT)
		shared->timeout = attributes->timeout;
	if (mask & VERBS_ABI_RETRY_COUNT)
		shared->retry_count = attributes->retry_count;
	if (mask & VERBS_ABI_PEER_NUMBER)
		shared->peer_number = attributes->peer_number;
	if (mask & VERBS_ABI_ADDRESS) {
		const struct verbs_abi_address *address = &attributes->address;

		shared->peer_lid = address->lid;
		shared->port = address->port;
		shared->gid_index = address->route.gid_index;
		memcpy(shared->peer_gid, address->route.gid, sizeof(shared->peer_gid));
		__atomic_fetch_or(&shared->flags,
			VERBS_HAS_PEER | (address->is_global ? VERBS_PEER_GLOBAL : 0u),
			__ATOMIC_RELEASE);
	}
}

static void forget_key(size_t place)
{
	struct verbs_counter *counter = &state.memory->counters[state.memory->indexes[place]];

	atomic_store(&state.memory->keys[place], KEY_GONE);
	__atomic_store_n(&counter->send_cq, NULL, __ATOMIC_RELEASE);
	__atomic_store_n(&counter->shared->state, VERBS_QUEUE_PAIR_DESTROYED, __ATOMIC_RELEASE);
}

static void forget(unsigned slot, bool all, uint32_t number)
{
	if (!verbs_counters_table() || !try_lock(&state.change_lock))
		return;
	for (size_t i = 0; i < HASH_SIZE; i++) {
		uint64_t key = atomic_load(&state.memory->keys[i]);

		if (key != KEY_GONE && key >> 32 == slot + 1 && (all || (uint32_t)key == number))
			forget_key(i);
	}
	unlock(&state.change_lock);
}

void verbs_counter_destroyed(unsigned slot, uint32_t number)
{
	forget(slot, false, number);
}

void verbs_counter_context_closed(unsigned slot)
{
	forget(slot, true, 0);
}
