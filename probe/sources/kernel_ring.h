/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of a BPF ring buffer. libbpf's maps the data twice, one behind the other, so that no record is cut at
 * the end; the kernel then counts each page twice as our memory. Here it is mapped once, and a record that goes
 * round the end is copied. One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_KERNEL_RING_H
#define SLOWRANK_PROBE_SOURCES_KERNEL_RING_H

#include <stddef.h>

enum { KERNEL_RING_RECORD_MAX = 64 * 1024 }; /* longer ones that go round the end are passed over */

struct bpf_map;
struct kernel_ring;

/* on_record: of a record, aligned to 8 bytes; negative ends the reading behind it. Returns 0 or a negative errno. */
int kernel_ring_create(const struct bpf_map *map,
	int (*on_record)(void *context, const void *data, size_t length), void *context,
	struct kernel_ring **ring) __attribute__((warn_unused_result));
void kernel_ring_destroy(struct kernel_ring *ring); /* NULL is fine */

/* Hands out all records that are whole, in their order. Returns how many, or what on_record ended it with. */
int kernel_ring_read(struct kernel_ring *ring) __attribute__((warn_unused_result));

#endif
