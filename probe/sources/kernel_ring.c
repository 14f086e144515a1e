/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/kernel_ring.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The layout is the kernel's (kernel/bpf/ringbuf.c): a page with our position, one with its own, the data. */
struct kernel_ring {
	int (*on_record)(void *context, const void *data, size_t length);
	void *context;
	size_t page_bytes, data_bytes; /* the latter a power of two */
	unsigned long *read_until;
	const unsigned long *written_until;
	const uint8_t *data;
	_Alignas(8) uint8_t copy[KERNEL_RING_RECORD_MAX];
};

int kernel_ring_create(const struct bpf_map *map,
	int (*on_record)(void *context, const void *data, size_t length), void *context,
	struct kernel_ring **result)
{
	struct kernel_ring *ring = calloc(1, sizeof(*ring));
	int fd = bpf_map__fd(map), error;
	void *ours, *theirs;

	if (!ring)
		return -ENOMEM;
	ring->on_record = on_record;
	ring->context = context;
	ring->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	ring->data_bytes = bpf_map__max_entries(map);
	ours = mmap(NULL, ring->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ours == MAP_FAILED) {
		error = -errno;
		free(ring);
		return error;
	}
	theirs = mmap(NULL, ring->page_bytes + ring->data_bytes, PROT_READ, MAP_SHARED, fd,
		(off_t)ring->page_bytes);
	if (theirs == MAP_FAILED) {
		error = -errno;
		munmap(ours, ring->page_bytes);
		free(ring);
		return error;
	}
	ring->read_until = ours;
	ring->written_until = theirs;
	ring->data = (const uint8_t *)theirs + ring->page_bytes;
	*result = ring;
	return 0;
}

void kernel_ring_destroy(struct kernel_ring *ring)
{
	if (!ring)
		return;
	munmap(ring->read_until, ring->page_bytes);
	munmap((void *)(uintptr_t)ring->written_until, ring->page_bytes + ring->data_bytes);
	free(ring);
}

/* NULL: it goes round the end, and is too long to copy. */
static const void *record_at(struct kernel_ring *ring, size_t offset, size_t length)
{
	size_t first = ring->data_bytes - offset;

	if (length <= first)
		return ring->data + offset;
	if (length > sizeof(ring->copy))
		return NULL;
	memcpy(ring->copy, ring->data + offset, first);
	memcpy(ring->copy + first, ring->data, length - first);
	return ring->copy;
}

int kernel_ring_read(struct kernel_ring *ring)
{
	unsigned long at = __atomic_load_n(ring->read_until, __ATOMIC_ACQUIRE);
	unsigned long end = __atomic_load_n(ring->written_until, __ATOMIC_ACQUIRE);
	size_t mask = ring->data_bytes - 1;
	int result = 0, count = 0;

	while (at < end && result >= 0) {
		/* A header never goes round the end: all is in steps of its eight bytes. */
		uint32_t header =
			__atomic_load_n((const uint32_t *)(const void *)(ring->data + (at & mask)),
				__ATOMIC_ACQUIRE);
		size_t length = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		const void *record;

		if (header & BPF_RINGBUF_BUSY_BIT)
			break; /* is being written */
		record = record_at(ring, (at + BPF_RINGBUF_HDR_SZ) & mask, length);
		if (record && !(header & BPF_RINGBUF_DISCARD_BIT)) {
			result = ring->on_record(ring->context, record, length);
			count++;
		}
		at += (BPF_RINGBUF_HDR_SZ + length + 7) & ~(size_t)7;
		__atomic_store_n(ring->read_until, at, __ATOMIC_RELEASE);
	}
	return result < 0 ? result : count;
}
