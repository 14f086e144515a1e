/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where frames go while the record's disk is full: a record of its own on another disk, which is there only then. They go
 * on to the record as soon as they can, in their order, and one that a killed coordinator left is gone on with. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_OVERFLOW_H
#define SLOWRANK_COORDINATOR_RECORD_OVERFLOW_H

#include "coordinator/record/writer.h"

enum { OVERFLOW_BYTES = 64 << 20 };

/* Zero-initialised: there is none, and no room but the record's. */
struct overflow {
	char *path;
	struct record_writer *writer; /* NULL: nothing waits */
	struct record_reader *reader; /* behind the frames that moved, and the next one: */
	const void *bytes;	      /* NULL: not read */
	size_t length;
	struct job_ns received;
	uint64_t frames; /* that wait, */
	uint64_t moved;	 /* behind so many that have moved on */
};

/*
 * path: NULL for none; copied. continues: what waits there goes on; else it is removed. newest: the time of the
 * record's newest frame; 0: it has none. Returns 0 or -ENOMEM.
 */
int overflow_open(struct overflow *overflow, const char *path, bool continues, struct job_ns newest)
	__attribute__((warn_unused_result));

/* Appends a frame to the record, behind what waits, or to what waits. Returns as record_writer_append(). */
int overflow_append(struct overflow *overflow, struct record_writer *record, const void *bytes,
	size_t length, struct job_ns received) __attribute__((warn_unused_result));

/* Moves on what waits; what cannot be counts as lost. */
void overflow_wait_no_more(struct overflow *overflow, struct record_writer *record);

/* What waits is for the next one. */
void overflow_close(struct overflow *overflow);

#endif
