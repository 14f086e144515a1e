/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading side of a ring, in the probe. One reader per file (a file lock keeps others out),
 * one thread. The file belongs to the job and may hold anything: sizes are checked once and
 * copied, records are copied before they are checked, positions are bounded.
 */
#ifndef SLOWRANK_PROBE_RING_RING_READER_H
#define SLOWRANK_PROBE_RING_RING_READER_H

#include <stdbool.h>

#include "probe/ring/ring_layout.h"

/* A writer that claimed a slot and does not publish it is given up after this long. */
#define RING_STALL_NS INT64_C(2000000000)

struct ring_reader;

struct ring_reader_counts {
	uint64_t records;
	uint64_t damaged;	 /* failed the checksum */
	uint64_t abandoned;	 /* slots given up: their writer died or slept for RING_STALL_NS */
	uint64_t resynchronised; /* positions made no sense: everything was skipped */
	uint64_t dropped_full, dropped_late; /* as the writers counted */
};

struct ring_identity {
	int32_t pid;
	uint32_t user_id;
	uint64_t start_time, pid_namespace;
};

/*
 * Takes over fd (closed on failure too). -EAGAIN: not written yet; -EBUSY: another reader;
 * -EBADMSG: not a ring; or what the system said.
 */
int ring_reader_open(int fd, struct ring_reader **reader) __attribute__((warn_unused_result));
/* The same where fd is for reading alone, with another one of the same file, which the caller keeps, to write by. */
int ring_reader_open_by(int fd, int writable, struct ring_reader **reader)
	__attribute__((warn_unused_result));
void ring_reader_close(struct ring_reader *reader); /* NULL is fine */

/*
 * Copies the next record. 0, or -EAGAIN when there is none now, or -EIO when the file was cut.
 * now_ns: any clock that does not go back. writers_gone: the process has ended, so nothing is
 * waited for.
 */
int ring_reader_next(struct ring_reader *reader, int64_t now_ns, bool writers_gone,
	struct ring_record *record) __attribute__((warn_unused_result));

void ring_reader_identity(const struct ring_reader *reader, struct ring_identity *identity);
void ring_reader_counts(const struct ring_reader *reader, struct ring_reader_counts *counts);

/* Publishes a deep request; kinds 0 stops it. Times are CLOCK_MONOTONIC. Returns its number. */
uint32_t ring_reader_request(struct ring_reader *reader, uint32_t kinds, int64_t stop_host_ns);
/* Has the library tell launchers_cpu_ns. */
void ring_reader_want_launchers_cpu(struct ring_reader *reader);
void ring_reader_pause(struct ring_reader *reader, bool paused);
/* Collectives are to be timed by events until then (CLOCK_MONOTONIC); 0: no more. */
void ring_reader_time_calls(struct ring_reader *reader, int64_t until_host_ns);

#endif
