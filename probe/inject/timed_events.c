/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/timed_events.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "probe/inject/cuda_abi.h"
#include "probe/inject/event_cost.h"
#include "probe/inject/process.h"

enum {
	POOLS = 16,	  /* contexts of a process: one a device */
	PAIRS_MAX = 1024, /* in flight in a context */
	WORD_BITS = 64,
	STREAMS_WAITED = 16,
	DEVICES = 16,
	SETTLE_NS = 1000000000, /* a group's calls get their pair by its end */
	SAMPLES_EARLY = 20,	/* at once: the narrowest counts */
	SAMPLE_PERIOD_NS = 1000000000,
	SAMPLE_PATIENCE_NS = 200000, /* 10 us as a rule; a queue full of others' work takes long */
	SAMPLE_REST_NS = 200000000,  /* after one in vain */
};

enum pair_state { PAIR_BUSY = 0, PAIR_PENDING = 1 };

/* As a rule one call, in one line of the cache, which the helper's thread has had meanwhile. */
struct timed_pair {
	_Alignas(64) uint16_t state; /* atomic; busy: free or the caller's, pending: the helper's */
	uint16_t call_count;
	uint32_t thread_id;
	void *stream;
	void *start, *stop;
	int64_t launched_ns;
	struct timed_call calls[TIMED_CALLS_MAX];
};
_Static_assert(offsetof(struct timed_pair, calls) + sizeof(struct timed_call) == 64, "a line");

enum pool_state { POOL_EMPTY = 0, POOL_WANTED = 1, POOL_READY = 2, POOL_FAILED = 3 };

struct pool {
	uint32_t state; /* atomic */
	void *context;
	int device;
	void *stream; /* own: nothing but the clock's events is on it */
	void *references[2];
	bool has_reference;
	unsigned reference;   /* the one in use */
	int64_t reference_ns; /* its device time */
	unsigned samples;
	int64_t next_sample_ns;
	/*
	 * Atomic: a bit for each pair that nobody has. The first is taken, so that few pairs go round, whose memory, the
	 * driver's too, is still in the caches.
	 */
	_Alignas(64) uint64_t free_pairs[PAIRS_MAX / WORD_BITS];
	struct timed_pair pairs[PAIRS_MAX];
};

static struct {
	struct cuda_abi_events cuda;
	bool loaded; /* atomic */
	bool ended;  /* atomic: the process exits */
	struct pool pools[POOLS];
	uint64_t timed, captured, unplaced, failed, spent_ns; /* atomic */
	struct event_cost cost;
	/* The helper's: */
	int64_t settled_ns;
	struct timed_pair *pending[PAIRS_MAX];
} events;

static void count(uint64_t *counter, size_t calls)
{
	__atomic_fetch_add(counter, calls, __ATOMIC_RELAXED);
}

void timed_events_count_failed(size_t call_count)
{
	count(&events.failed, call_count);
}

void timed_events_spent(int64_t before_ns, int64_t after_ns, size_t pair_count)
{
	size_t recordings = pair_count ? pair_count : 1;

	count(&events.spent_ns, event_cost_of(&events.cost, before_ns, recordings) +
					event_cost_of(&events.cost, after_ns, recordings));
}

/* Registered late, so it runs before the vendor's own: no call may come when their libraries go. */
static void end_at_exit(void)
{
	__atomic_store_n(&events.ended, true, __ATOMIC_RELEASE);
}

static bool find(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

bool timed_events_load(void)
{
	struct cuda_abi_events *cuda = &events.cuda;
	int mode = CUDA_ABI_CAPTURE_MODE_RELAXED;
	void *library;

	if (events.loaded)
		return true;
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!library || !find(library, "cuCtxSetCurrent", &cuda->context_set_current) ||
		!find(library, "cuCtxGetDevice", &cuda->context_get_device) ||
		!find(library, "cuThreadExchangeStreamCaptureMode", &cuda->exchange_capture_mode) ||
		!find(library, "cuStreamCreate", &cuda->stream_create) ||
		!find(library, "cuStreamGetCtx", &cuda->stream_get_context) ||
		!find(library, "cuStreamIsCapturing", &cuda->stream_is_capturing) ||
		!find(library, "cuEventCreate", &cuda->event_create) ||
		!find(library, "cuEventRecord", &cuda->event_record) ||
		!find(library, "cuEventQuery", &cuda->event_query) ||
		!find(library, "cuEventElapsedTime", &cuda->event_elapsed))
		return false;
	/* A capture of the program's must not be broken by what this thread asks of events. */
	if (cuda->exchange_capture_mode(&mode) != CUDA_ABI_SUCCESS || atexit(end_at_exit))
		return false;
	__atomic_store_n(&events.loaded, true, __ATOMIC_RELEASE);
	return true;
}

/* The pool of a context; where there is none yet, the helper makes one, and this call goes untimed. */
static struct pool *find_pool(void *context)
{
	for (size_t i = 0; i < POOLS; i++) {
		struct pool *pool = &events.pools[i];
		uint32_t state = __atomic_load_n(&pool->state, __ATOMIC_ACQUIRE);
		void *empty = NULL;

		if (state == POOL_EMPTY &&
			__atomic_compare_exchange_n(&pool->context, &empty, context, false,
				__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			__atomic_store_n(&pool->state, POOL_WANTED, __ATOMIC_RELEASE);
			return NULL;
		}
		if (__atomic_load_n(&pool->context, __ATOMIC_RELAXED) == context)
			return state == POOL_READY ? pool : NULL;
	}
	return NULL;
}

static struct timed_pair *take_pair(struct pool *pool)
{
	for (size_t i = 0; i < PAIRS_MAX / WORD_BITS; i++) {
		uint64_t free_bits = __atomic_load_n(&pool->free_pairs[i], __ATOMIC_RELAXED);

		while (free_bits) {
			uint64_t first = free_bits & -free_bits;

			if (__atomic_compare_exchange_n(&pool->free_pairs[i], &free_bits,
				    free_bits & ~first, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return &pool->pairs[i * WORD_BITS + (size_t)__builtin_ctzll(first)];
		}
	}
	return NULL;
}

static struct pool *pool_of(const struct timed_pair *pair)
{
	return &events.pools[((uintptr_t)pair - (uintptr_t)events.pools) / sizeof(struct pool)];
}

static void give_back(struct timed_pair *pair)
{
	struct pool *pool = pool_of(pair);
	size_t place = (size_t)(pair - pool->pairs);

	__atomic_store_n(&pair->state, PAIR_BUSY, __ATOMIC_RELAXED);
	__atomic_fetch_or(&pool->free_pairs[place / WORD_BITS], UINT64_C(1) << (place % WORD_BITS),
		__ATOMIC_RELEASE);
}

static void fail(struct pool *pool, size_t call_count)
{
	count(&events.failed, call_count);
	__atomic_store_n(&pool->state, POOL_FAILED, __ATOMIC_RELEASE);
}

struct timed_pair *timed_events_start(void *stream, size_t call_count)
{
	int capturing = CUDA_ABI_CAPTURE_NONE;
	void *context = NULL;
	struct timed_pair *pair;
	struct pool *pool;

	if (!__atomic_load_n(&events.loaded, __ATOMIC_ACQUIRE) ||
		__atomic_load_n(&events.ended, __ATOMIC_ACQUIRE))
		return NULL;
	/* An error is said of the default stream beside a capture. */
	if (events.cuda.stream_is_capturing(stream, &capturing) != CUDA_ABI_SUCCESS ||
		capturing != CUDA_ABI_CAPTURE_NONE) {
		count(&events.captured, call_count);
		return NULL;
	}
	if (events.cuda.stream_get_context(stream, &context) != CUDA_ABI_SUCCESS || !context) {
		count(&events.failed, call_count);
		return NULL;
	}
	pool = find_pool(context);
	pair = pool ? take_pair(pool) : NULL;
	if (!pair) {
		count(&events.unplaced, call_count);
		return NULL;
	}
	pair->stream = stream;
	pair->thread_id = process_thread_id();
	__builtin_prefetch(pair->stop, 1);
	if (events.cuda.event_record(pair->start, stream) == CUDA_ABI_SUCCESS)
		return pair;
	fail(pool, call_count);
	give_back(pair);
	return NULL;
}

void timed_events_stop(struct timed_pair *pair, const struct timed_call *calls, size_t call_count,
	int64_t launched_ns)
{
	if (events.cuda.event_record(pair->stop, pair->stream) != CUDA_ABI_SUCCESS) {
		fail(pool_of(pair), call_count);
		give_back(pair);
		return;
	}
	pair->launched_ns = launched_ns;
	pair->call_count = (uint16_t)(call_count < TIMED_CALLS_MAX ? call_count : TIMED_CALLS_MAX);
	memcpy(pair->calls, calls, pair->call_count * sizeof(calls[0]));
	__atomic_store_n(&pair->state, PAIR_PENDING, __ATOMIC_RELEASE);
}

void timed_events_cancel(struct timed_pair *pair, size_t call_count)
{
	count(&events.failed, call_count);
	give_back(pair);
}

/* From here on: the helper's. */

void timed_events_forget(void)
{
	for (size_t i = 0; i < POOLS; i++) {
		struct pool *pool = &events.pools[i];
		bool ready = __atomic_load_n(&pool->state, __ATOMIC_ACQUIRE) == POOL_READY;

		for (size_t k = 0; ready && k < PAIRS_MAX; k++) {
			struct timed_pair *pair = &pool->pairs[k];

			if (__atomic_load_n(&pair->state, __ATOMIC_ACQUIRE) == PAIR_PENDING)
				give_back(pair);
		}
	}
}

static bool make_events(struct pool *pool)
{
	const struct cuda_abi_events *cuda = &events.cuda;
	bool made = cuda->stream_create(&pool->stream, CUDA_ABI_STREAM_NON_BLOCKING) ==
		    CUDA_ABI_SUCCESS;

	for (size_t i = 0; i < 2 && made; i++)
		made = cuda->event_create(&pool->references[i], 0) == CUDA_ABI_SUCCESS;
	for (size_t i = 0; i < PAIRS_MAX && made; i++)
		made = cuda->event_create(&pool->pairs[i].start, 0) == CUDA_ABI_SUCCESS &&
		       cuda->event_create(&pool->pairs[i].stop, 0) == CUDA_ABI_SUCCESS;
	memset(pool->free_pairs, 0xff, sizeof(pool->free_pairs));
	return made;
}

static void make_pool(struct pool *pool)
{
	bool made = events.cuda.context_get_device(&pool->device) == CUDA_ABI_SUCCESS &&
		    pool->device >= 0 && pool->device < DEVICES && make_events(pool);

	__atomic_store_n(&pool->state, made ? POOL_READY : POOL_FAILED, __ATOMIC_RELEASE);
}

/* Device time from the reference to an event. CUDA_ABI_NOT_READY: it is not reached. */
static int elapsed_ns(const struct pool *pool, void *event, int64_t *length_ns)
{
	float milliseconds = 0;
	int result =
		events.cuda.event_elapsed(&milliseconds, pool->references[pool->reference], event);

	*length_ns = (int64_t)((double)milliseconds * 1e6);
	return result;
}

/* The next event of the clock is reached between two stamps of the host: it is the new reference. */
static void take_reference(struct pool *pool, int64_t before_ns, int64_t after_ns)
{
	int64_t middle_ns = before_ns + (after_ns - before_ns) / 2, length_ns = 0;
	unsigned next = 1 - pool->reference;
	struct ring_clock_pair pair = {.domain = RING_CLOCK_EVENTS,
		.device = pool->device,
		.host_ns = middle_ns,
		.error_ns = (after_ns - before_ns + 1) / 2,
		.sample_count = 1};

	if (!pool->has_reference)
		pool->reference_ns = middle_ns;
	else if (elapsed_ns(pool, pool->references[next], &length_ns) == CUDA_ABI_SUCCESS)
		pool->reference_ns += length_ns;
	else
		return;
	pool->has_reference = true;
	pool->reference = next;
	pool->next_sample_ns = ++pool->samples < SAMPLES_EARLY ? 0 : after_ns + SAMPLE_PERIOD_NS;
	pair.gpu_ns = pool->reference_ns;
	process_write(RING_RECORD_CLOCK_PAIR, &pair, sizeof(pair));
}

static void sample_clock(struct pool *pool)
{
	void *event = pool->references[1 - pool->reference];
	int64_t before_ns = process_now_ns(), after_ns = before_ns;

	if (before_ns < pool->next_sample_ns)
		return;
	pool->next_sample_ns = before_ns + SAMPLE_REST_NS;
	if (events.cuda.event_record(event, pool->stream) != CUDA_ABI_SUCCESS) {
		fail(pool, 0);
		return;
	}
	while (after_ns - before_ns < SAMPLE_PATIENCE_NS) {
		bool reached = events.cuda.event_query(event) == CUDA_ABI_SUCCESS;

		after_ns = process_now_ns();
		if (reached) {
			take_reference(pool, before_ns, after_ns);
			return;
		}
	}
}

static void write_pair(
	const struct pool *pool, const struct timed_pair *pair, int64_t start_ns, int64_t stop_ns)
{
	for (size_t i = 0; i < pair->call_count; i++) {
		struct ring_timed_call call = {.handle = pair->calls[i].handle,
			.entered_host_ns = pair->calls[i].entered_ns,
			.returned_host_ns = pair->calls[i].returned_ns,
			.launched_host_ns = pair->launched_ns,
			.start_ns = pool->reference_ns + start_ns,
			.stop_ns = pool->reference_ns + stop_ns,
			.device = (uint32_t)pool->device,
			.thread_id = pair->thread_id};

		process_write(RING_RECORD_TIMED_CALL, &call, sizeof(call));
	}
	count(&events.timed, pair->call_count);
}

/* Streams of which something is not done: what is behind it is not done either. */
struct waiting {
	void *streams[STREAMS_WAITED];
	size_t count;
};

/* Writes what a pair has to tell, and gives it back; false: it is not done. */
static bool finish_pair(struct pool *pool, struct timed_pair *pair, struct waiting *waiting)
{
	int64_t start_ns, stop_ns;
	int result;

	for (size_t i = 0; i < waiting->count; i++) {
		if (waiting->streams[i] == pair->stream)
			return false;
	}
	if (waiting->count == STREAMS_WAITED)
		return false;
	result = elapsed_ns(pool, pair->stop, &stop_ns);
	if (result == CUDA_ABI_NOT_READY) {
		waiting->streams[waiting->count++] = pair->stream;
		return false;
	}
	if (result == CUDA_ABI_SUCCESS)
		result = elapsed_ns(pool, pair->start, &start_ns);
	if (result == CUDA_ABI_SUCCESS)
		write_pair(pool, pair, start_ns, stop_ns);
	else
		fail(pool, pair->call_count);
	give_back(pair);
	return true;
}

/* Pairs that wait for the device, from the oldest on. callers: there are some that callers still have. */
static size_t gather_pending(struct pool *pool, bool *callers)
{
	size_t count = 0;

	for (size_t i = 0; i < PAIRS_MAX; i++) {
		struct timed_pair *pair = &pool->pairs[i];
		size_t at;

		if (__atomic_load_n(&pool->free_pairs[i / WORD_BITS], __ATOMIC_ACQUIRE) >>
				(i % WORD_BITS) &
			1)
			continue;
		if (__atomic_load_n(&pair->state, __ATOMIC_ACQUIRE) != PAIR_PENDING) {
			*callers = true;
			continue;
		}
		/* Taken in order as a rule: nothing moves. */
		for (at = count++; at > 0 && events.pending[at - 1]->calls[0].entered_ns >
						     pair->calls[0].entered_ns;
			at--)
			events.pending[at] = events.pending[at - 1];
		events.pending[at] = pair;
	}
	return count;
}

/* Returns when the first call that is still in flight was made, at most settled_ns. */
static int64_t write_done(struct pool *pool, int64_t settled_ns)
{
	struct waiting waiting = {.count = 0};
	bool callers = false; /* theirs are not known yet */
	size_t count;

	if (!pool->has_reference)
		return events.settled_ns;
	count = gather_pending(pool, &callers);
	for (size_t i = 0; i < count; i++) {
		struct timed_pair *pair = events.pending[i];

		if (!finish_pair(pool, pair, &waiting) && pair->calls[0].entered_ns < settled_ns)
			settled_ns = pair->calls[0].entered_ns;
	}
	return callers && events.settled_ns < settled_ns ? events.settled_ns : settled_ns;
}

void timed_events_poll(void)
{
	int64_t settled_ns = process_now_ns() - SETTLE_NS;

	for (size_t i = 0; i < POOLS; i++) {
		struct pool *pool = &events.pools[i];
		uint32_t state = __atomic_load_n(&pool->state, __ATOMIC_ACQUIRE);

		if ((state != POOL_WANTED && state != POOL_READY) ||
			__atomic_load_n(&events.ended, __ATOMIC_ACQUIRE))
			continue;
		if (events.cuda.context_set_current(pool->context) != CUDA_ABI_SUCCESS) {
			fail(pool, 0);
			continue;
		}
		if (state == POOL_WANTED)
			make_pool(pool);
		if (__atomic_load_n(&pool->state, __ATOMIC_RELAXED) != POOL_READY)
			continue;
		sample_clock(pool);
		settled_ns = write_done(pool, settled_ns);
	}
	if (settled_ns > events.settled_ns)
		events.settled_ns = settled_ns;
}

void timed_events_report(uint32_t pointers)
{
	struct ring_timed_state state = {.timed = __atomic_load_n(&events.timed, __ATOMIC_RELAXED),
		.captured = __atomic_load_n(&events.captured, __ATOMIC_RELAXED),
		.unplaced = __atomic_load_n(&events.unplaced, __ATOMIC_RELAXED),
		.failed = __atomic_load_n(&events.failed, __ATOMIC_RELAXED),
		.spent_ns = __atomic_load_n(&events.spent_ns, __ATOMIC_RELAXED),
		.pointers = pointers,
		.settled_host_ns = events.settled_ns};

	process_write(RING_RECORD_TIMED_STATE, &state, sizeof(state));
}
