/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/activity_buffers.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "probe/inject/process.h"

enum {
	BUFFERS = 16,
	BUFFER_BYTES = 256 * 1024,
	NAMES_MAX = 2048, /* a power of two */
	NAME_BYTES_MAX = 512,
	NAME_PROBES = 16,
	LAUNCHES_MAX = 65536, /* a power of two; of a few tenths of a second */
	WAITING_MAX = 8192,
};

static struct {
	const struct cupti_abi *cupti;
	uint8_t *memory;
	uint32_t busy[BUFFERS];	   /* atomic */
	uint32_t names[NAMES_MAX]; /* atomic; ids that were written */
	bool has_launches;
	uint32_t look; /* number of it, from 1 */
	struct {       /* atomic; the last launches by correlation */
		uint64_t key;
		int64_t start_ns;
		uint32_t thread;
	} launches[LAUNCHES_MAX];
	pthread_mutex_t lock; /* of what follows */
	uint32_t flushes;
	size_t waiting_count;
	struct {
		struct ring_kernel kernel;
		uint32_t flushes; /* when it came */
		bool collective;
	} waiting[WAITING_MAX]; /* for their launches, in the order in which they came */
	uint64_t records, dropped, invalid; /* atomic */
	uint64_t launched, unlaunched; /* atomic; NCCL's kernels, with and without their launches */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool activity_buffers_begin(const struct cupti_abi *cupti, bool launches)
{
	if (!pool.memory) {
		void *memory = mmap(NULL, (size_t)BUFFERS * BUFFER_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return false;
		pool.memory = memory;
	}
	pool.cupti = cupti;
	memset(pool.names, 0, sizeof(pool.names));
	pool.has_launches = launches;
	pool.look++;
	pool.waiting_count = 0;
	pool.launched = pool.unlaunched = 0;
	pool.records = pool.dropped = pool.invalid = 0;
	return true;
}

void activity_buffers_counts(struct activity_counts *counts)
{
	counts->records = __atomic_load_n(&pool.records, __ATOMIC_RELAXED);
	counts->dropped = __atomic_load_n(&pool.dropped, __ATOMIC_RELAXED);
	counts->invalid = __atomic_load_n(&pool.invalid, __ATOMIC_RELAXED);
}

bool activity_buffers_idle(void)
{
	for (size_t i = 0; i < BUFFERS; i++) {
		if (__atomic_load_n(&pool.busy[i], __ATOMIC_ACQUIRE))
			return false;
	}
	return true;
}

bool activity_buffers_launches_known(void)
{
	return __atomic_load_n(&pool.unlaunched, __ATOMIC_RELAXED) <=
	       __atomic_load_n(&pool.launched, __ATOMIC_RELAXED);
}

void activity_buffer_requested(uint8_t **buffer, size_t *size, size_t *record_max)
{
	*record_max = 0;
	for (size_t i = 0; i < BUFFERS; i++) {
		uint32_t free_now = 0;

		if (!__atomic_compare_exchange_n(
			    &pool.busy[i], &free_now, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		*buffer = pool.memory + i * BUFFER_BYTES;
		*size = BUFFER_BYTES;
		return;
	}
	*buffer = NULL;
	*size = 0;
	__atomic_fetch_add(&pool.dropped, 1, __ATOMIC_RELAXED);
}

static bool is_collective(const char *name)
{
	return name && strstr(name, "nccl");
}

static bool write_record(enum ring_record_kind kind, const void *record, size_t bytes)
{
	bool written = process_write(kind, record, bytes);

	__atomic_fetch_add(written ? &pool.records : &pool.dropped, 1, __ATOMIC_RELAXED);
	return written;
}

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/); never 0. */
static uint32_t hash_name(const char *name, size_t length)
{
	uint32_t hash = 2166136261U;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)name[i]) * 16777619U;
	return hash ? hash : 1;
}

/* True once per id; an id may come twice when many share a place. */
static bool is_new_name(uint32_t id)
{
	for (uint32_t i = 0; i < NAME_PROBES; i++) {
		uint32_t *place = &pool.names[(id + i) & (NAMES_MAX - 1)], empty = 0;

		if (__atomic_load_n(place, __ATOMIC_RELAXED) == id)
			return false;
		if (__atomic_compare_exchange_n(
			    place, &empty, id, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return true;
	}
	return true;
}

static uint32_t write_name(const char *name)
{
	size_t length = name ? strnlen(name, NAME_BYTES_MAX) : 0;
	uint32_t id = hash_name(name, length);

	if (!length)
		return 0;
	if (!is_new_name(id))
		return id;
	for (size_t offset = 0; offset < length; offset += RING_NAME_PIECE_BYTES) {
		size_t bytes = length - offset < RING_NAME_PIECE_BYTES ? length - offset
								       : RING_NAME_PIECE_BYTES;
		struct ring_kernel_name piece = {.name_id = id,
			.total_bytes = (uint16_t)length,
			.piece_offset = (uint16_t)offset,
			.piece_bytes = (uint16_t)bytes};

		memcpy(piece.text, name + offset, bytes);
		process_write(RING_RECORD_KERNEL_NAME, &piece, sizeof(piece));
	}
	return id;
}

/* Kernels of graphs can have impossible times: counted, not shown. */
static bool is_valid(uint64_t start, uint64_t end)
{
	if (start && end >= start && end <= INT64_MAX)
		return true;
	__atomic_fetch_add(&pool.invalid, 1, __ATOMIC_RELAXED);
	return false;
}

static uint64_t launch_key(uint32_t correlation)
{
	return (uint64_t)pool.look << 32 | correlation;
}

static bool find_launch(struct ring_kernel *kernel)
{
	size_t place = kernel->correlation & (LAUNCHES_MAX - 1);

	if (__atomic_load_n(&pool.launches[place].key, __ATOMIC_ACQUIRE) !=
		launch_key(kernel->correlation))
		return false;
	kernel->launch_host_ns = __atomic_load_n(&pool.launches[place].start_ns, __ATOMIC_RELAXED);
	kernel->thread_id = __atomic_load_n(&pool.launches[place].thread, __ATOMIC_RELAXED);
	return true;
}

static void write_kernel(const struct ring_kernel *kernel, bool collective, bool launched)
{
	if (collective)
		__atomic_fetch_add(
			launched ? &pool.launched : &pool.unlaunched, 1, __ATOMIC_RELAXED);
	write_record(RING_RECORD_KERNEL, kernel, sizeof(*kernel));
}

/* False: it does not wait. */
static bool wait_for_launch(const struct ring_kernel *kernel, bool collective)
{
	bool waits;

	pthread_mutex_lock(&pool.lock);
	waits = pool.has_launches && pool.waiting_count < WAITING_MAX;
	if (waits) {
		pool.waiting[pool.waiting_count].kernel = *kernel;
		pool.waiting[pool.waiting_count].collective = collective;
		pool.waiting[pool.waiting_count++].flushes = pool.flushes;
	}
	pthread_mutex_unlock(&pool.lock);
	return waits;
}

/* Writes those whose launch is known by now, or that came before so many flushes. */
static void write_waiting(uint32_t before)
{
	size_t kept = 0;

	pthread_mutex_lock(&pool.lock);
	for (size_t i = 0; i < pool.waiting_count; i++) {
		bool found = find_launch(&pool.waiting[i].kernel);

		if (found || pool.waiting[i].flushes < before)
			write_kernel(&pool.waiting[i].kernel, pool.waiting[i].collective, found);
		else
			pool.waiting[kept++] = pool.waiting[i];
	}
	pool.waiting_count = kept;
	pthread_mutex_unlock(&pool.lock);
}

void activity_buffers_flushed(bool all)
{
	uint32_t flushes;

	pthread_mutex_lock(&pool.lock);
	flushes = pool.flushes++;
	pthread_mutex_unlock(&pool.lock);
	write_waiting(all ? UINT32_MAX : flushes);
}

static void take_kernel(const struct cupti_abi_kernel *kernel)
{
	struct ring_kernel record = {.start_ns = (int64_t)kernel->start,
		.stop_ns = (int64_t)kernel->end,
		.graph_node = kernel->graph_node,
		.device = kernel->device,
		.context = kernel->context,
		.stream = kernel->stream,
		.correlation = kernel->correlation};
	bool collective, found;

	if (!is_valid(kernel->start, kernel->end))
		return;
	record.name_id = write_name(kernel->name);
	collective = is_collective(kernel->name);
	found = find_launch(&record);
	if (found || !wait_for_launch(&record, collective))
		write_kernel(&record, collective, found);
}

static void take_call(const struct cupti_abi_call *call)
{
	size_t place = call->correlation & (LAUNCHES_MAX - 1);

	__atomic_store_n(&pool.launches[place].key, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&pool.launches[place].start_ns, (int64_t)call->start, __ATOMIC_RELAXED);
	__atomic_store_n(&pool.launches[place].thread, call->thread, __ATOMIC_RELAXED);
	__atomic_store_n(
		&pool.launches[place].key, launch_key(call->correlation), __ATOMIC_RELEASE);
}

static void take_memcpy(const struct cupti_abi_memcpy *copy)
{
	struct ring_memcpy record = {.start_ns = (int64_t)copy->start,
		.stop_ns = (int64_t)copy->end,
		.length_bytes = copy->bytes,
		.device = copy->device,
		.context = copy->context,
		.stream = copy->stream,
		.correlation = copy->correlation,
		.copy_kind = copy->copy_kind};

	if (is_valid(copy->start, copy->end))
		write_record(RING_RECORD_MEMCPY, &record, sizeof(record));
}

static void take_synchronization(const struct cupti_abi_synchronization *synchronization)
{
	struct ring_synchronisation record = {.start_ns = (int64_t)synchronization->start,
		.stop_ns = (int64_t)synchronization->end,
		.type = synchronization->type,
		.context = synchronization->context,
		.stream = synchronization->stream,
		.correlation = synchronization->correlation};

	if (is_valid(synchronization->start, synchronization->end))
		write_record(RING_RECORD_SYNCHRONISATION, &record, sizeof(record));
}

/* Calls first, so that kernels of the same buffer find their launch; then all else. */
static void take_records(uint8_t *buffer, size_t valid_size, bool calls)
{
	void *record = NULL;

	while (pool.cupti->next_record(buffer, valid_size, &record) == CUPTI_ABI_SUCCESS) {
		uint32_t kind;

		memcpy(&kind, record, sizeof(kind));
		if (kind == CUPTI_ABI_KIND_DRIVER || kind == CUPTI_ABI_KIND_RUNTIME) {
			if (calls)
				take_call(record);
		} else if (calls) {
			continue;
		} else if (kind == CUPTI_ABI_KIND_CONCURRENT_KERNEL) {
			take_kernel(record);
		} else if (kind == CUPTI_ABI_KIND_MEMCPY) {
			take_memcpy(record);
		} else if (kind == CUPTI_ABI_KIND_SYNCHRONIZATION) {
			take_synchronization(record);
		}
	}
}

void activity_buffer_completed(
	void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size)
{
	size_t dropped = 0, index;

	(void)size;
	if (!buffer)
		return;
	if (process_is_live() && valid_size) {
		take_records(buffer, valid_size, true);
		take_records(buffer, valid_size, false);
		write_waiting(0);
		if (pool.cupti->dropped_records &&
			pool.cupti->dropped_records(context, stream, &dropped) == CUPTI_ABI_SUCCESS)
			__atomic_fetch_add(&pool.dropped, dropped, __ATOMIC_RELAXED);
	}
	index = (size_t)(buffer - pool.memory) / BUFFER_BYTES;
	if (index < BUFFERS)
		__atomic_store_n(&pool.busy[index], 0, __ATOMIC_RELEASE);
}
