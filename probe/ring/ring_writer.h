/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing side of the ring, in the training process. Any thread; lock-free; no system call
 * and no allocation after ring_writer_create(). Writers never wait: a full ring counts a drop.
 */
#ifndef SLOWRANK_PROBE_RING_RING_WRITER_H
#define SLOWRANK_PROBE_RING_RING_WRITER_H

#include <stdbool.h>

#include "probe/ring/ring_layout.h"

struct ring_writer {
	struct ring_header *header;
	struct ring_record *slots;
	uint32_t slot_count; /* own copies: the file is not believed */
	int descriptor;	     /* 0: none is kept */
};

/*
 * Makes DIRECTORY/slowrank-ring.UID.PID.START (O_EXCL, 0600, space reserved) and maps it. The file
 * stays when the writer is destroyed: the reader removes it. slot_count: a power of two within
 * [RING_SLOT_COUNT_MIN, RING_SLOT_COUNT_MAX]; there are fewer where the file system is small (RING_PARTS). Returns -EINVAL, or what the system said.
 */
int ring_writer_create(const char *directory, uint32_t slot_count, struct ring_writer *writer)
	__attribute__((warn_unused_result));
/* Unmaps. No thread may write any more. */
void ring_writer_destroy(struct ring_writer *writer);

/*
 * Copies a payload of at most RING_PAYLOAD_BYTES into the ring. False: dropped, and counted in the
 * header. About 30 ns (bench/bench_ring).
 */
bool ring_write(struct ring_writer *writer, enum ring_record_kind kind, const void *payload,
	size_t payload_bytes);

/* Field 22 of /proc/self/stat or /proc/PID/stat, as the kernel itself has it. 0 or a negative errno. */
int ring_start_time(int proc_fd, const char *pid, uint64_t *start_time)
	__attribute__((warn_unused_result));

#endif
