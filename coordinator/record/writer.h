/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a record: the frames the coordinator accepted, as they came, with their receive times.
 * Each frame is appended with one write, so that a crash leaves at most its last one cut short.
 * A frame that cannot be written is its caller's to try again or to give up: those are counted, and
 * the count is written at the end. For one thread, but for record_writer_sync().
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_WRITER_H
#define SLOWRANK_COORDINATOR_RECORD_WRITER_H

#include "probe/wire/message.h"

struct record_writer;

struct record_writer_options {
	const char *program;	 /* who writes, e.g. "slowrank 0.1.0"; at most 31 bytes are kept */
	struct job_ns created;	 /* now, on the clock of the receive times */
	int64_t created_unix_ns; /* now, since the epoch */
	bool whole;	/* the file appears in record_writer_finish(), whole, or not at all */
	bool continues; /* a record that is there is appended to, behind its last whole frame */
	/*
	 * Where frames go, RECORD_OVERFLOW_BYTES of them, while the record's disk is full; NULL: nowhere. A file of
	 * another disk, which is there only then: they go on to the record as soon as they can, in their order.
	 */
	const char *overflow;
};

enum { RECORD_OVERFLOW_BYTES = 64 << 20 };

/*
 * Makes the file, or empties the record that is there, and writes its header. Refused are a file that
 * is no record (-EEXIST) and one that another process is recording to (-EBUSY). A record of a writer
 * that was killed is not emptied but renamed: FILE.1, FILE.2 and so on (see kept_number); where the
 * new one is to be whole, it is refused. With continues, what was cut short behind its last whole frame,
 * or a mark of the end, is taken off a record that is there, and its frames count as this writer's.
 * Returns 0 or the negative errno of opening or writing; why (when
 * not NULL) gets one line. The caller owns the writer. An overflow that a writer before left is gone on with, or removed.
 */
int record_writer_create(const char *path, const struct record_writer_options *options,
	struct record_writer **writer, char why[WIRE_DETAIL_LENGTH_MAX + 1])
	__attribute__((warn_unused_result));

/*
 * Appends one frame of at most WIRE_MESSAGE_LENGTH_MAX bytes, or puts it where the overflow is. Returns 0,
 * -EMSGSIZE, or the negative errno of the write; then the file ends with the last whole frame.
 */
int record_writer_append(struct record_writer *writer, const void *bytes, size_t length,
	struct job_ns received) __attribute__((warn_unused_result));

/* A frame that could not be written is given up: it counts as lost. */
void record_writer_lose(struct record_writer *writer);

/*
 * The file's name and header outlive a power cut after this call: to be called before the first frame is
 * acknowledged. May take as long as the disk does. Returns 0 or a negative errno.
 */
int record_writer_settle(struct record_writer *writer) __attribute__((warn_unused_result));

/*
 * What was appended before this call outlives a power cut after it. Returns 0 or a negative errno. Any
 * thread, between record_writer_create() and the call that ends the writer.
 */
int record_writer_sync(const struct record_writer *writer) __attribute__((warn_unused_result));

/* Moves on what is where the overflow is; what cannot be counts as lost. record_writer_finish() does so, too. */
void record_writer_wait_no_more(struct record_writer *writer);

/*
 * Writes the mark of a clean end (of a live record, after all before it is on the disk) and closes the
 * file. Returns 0 or a negative errno: the record is readable all the same. The writer is gone either way.
 * NULL is fine.
 */
int record_writer_finish(struct record_writer *writer);

/* Closes without the mark: the record reads as cut short; a whole one never appears. NULL is fine. */
void record_writer_destroy(struct record_writer *writer);

struct record_writer_state {
	uint64_t frames;	  /* written */
	uint64_t bytes;		  /* of the file */
	uint64_t overflow_frames; /* not written yet: they are where the overflow is, */
	uint64_t overflow_moved;  /* behind so many that are written */
	uint64_t frames_lost;
	unsigned kept_number; /* what was there was renamed to FILE.number; 0 = nothing was */
};
void record_writer_get_state(const struct record_writer *writer, struct record_writer_state *state);

#endif
