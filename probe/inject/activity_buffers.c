/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/activity_buffers.h"

#include <string.h>
#include <sys/mman.h>

#include "probe/inject/process.h"

enum {
	BUFFERS = 16,
	BUFFER_BYTES = 256 * 1024,
	NAMES_MAX = 2048, /* a power of two */
	NAME_BYTES_MAX = 512,
	NAME_PROBES = 16,
	LAUNCHES_MAX = 8192, /* a power of two */
};

static struct {
	const struct cupti_abi *cupti;
	uint8_t *memory;
	uint32_t busy[BUFFERS];	   /* atomic */
	uint32_t names[NAMES_MAX]; /* atomic; ids that were written */
	struct {		   /* atomic; the last launches by correlation */
		uint64_t key;	   /* correlation + 1 */
		int64_t start_ns;
		uint32_t thread;
	} launches[LAUNCHES_MAX];
	uint64_t records, dropped, invalid; /* atomic */
} pool;

bool activity_buffers_begin(const struct cupti_abi *cupti)
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
	memset(pool.launches, 0, sizeof(pool.launches));
	pool.records = pool.dropped = pool.invalid = 0;
	return true;
}

void activity_buffers_counts(struct activity_counts *counts)
{
	counts->records = __atomic_load_n(&pool.records, __ATOMIC_RELAXED);
	counts->dropped = __atomic_load_n(&pool.dropped, __ATOMIC_RELAXED);
	counts->invalid = __atomic_load_n(&pool.invalid, __ATOMIC_RELAXED);
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

static void take_kernel(const struct cupti_abi_kernel *kernel)
{
	size_t place = kernel->correlation & (LAUNCHES_MAX - 1);
	struct ring_kernel record = {.start_ns = (int64_t)kernel->start,
		.stop_ns = (int64_t)kernel->end,
		.graph_node = kernel->graph_node,
		.device = kernel->device,
		.context = kernel->context,
		.stream = kernel->stream,
		.correlation = kernel->correlation};

	if (!is_valid(kernel->start, kernel->end))
		return;
	record.name_id = write_name(kernel->name);
	if (__atomic_load_n(&pool.launches[place].key, __ATOMIC_ACQUIRE) ==
		(uint64_t)kernel->correlation + 1) {
		record.launch_host_ns =
			__atomic_load_n(&pool.launches[place].start_ns, __ATOMIC_RELAXED);
		record.thread_id = __atomic_load_n(&pool.launches[place].thread, __ATOMIC_RELAXED);
	}
	write_record(RING_RECORD_KERNEL, &record, sizeof(record));
}

static void take_call(const struct cupti_abi_call *call)
{
	size_t place = call->correlation & (LAUNCHES_MAX - 1);

	__atomic_store_n(&pool.launches[place].key, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&pool.launches[place].start_ns, (int64_t)call->start, __ATOMIC_RELAXED);
	__atomic_store_n(&pool.launches[place].thread, call->thread, __ATOMIC_RELAXED);
	__atomic_store_n(
		&pool.launches[place].key, (uint64_t)call->correlation + 1, __ATOMIC_RELEASE);
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
		if (pool.cupti->dropped_records &&
			pool.cupti->dropped_records(context, stream, &dropped) == CUPTI_ABI_SUCCESS)
			__atomic_fetch_add(&pool.dropped, dropped, __ATOMIC_RELAXED);
	}
	index = (size_t)(buffer - pool.memory) / BUFFER_BYTES;
	if (index < BUFFERS)
		__atomic_store_n(&pool.busy[index], 0, __ATOMIC_RELEASE);
}
