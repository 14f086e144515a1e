/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a record: the frames the coordinator accepted, as they came, with their receive times.
 * Each frame is appended with one write, so that a crash leaves at most its last one cut short.
 * A frame that cannot be written is its caller's to try again or to give up: those are counted, and
 * the count is written at the end. A record that becomes too large is thinned: of its older minutes, sums are
 * kept alone. For one thread, but for record_writer_sync().
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_WRITER_H
#define SLOWRANK_COORDINATOR_RECORD_WRITER_H

#include "coordinator/record/kind.h"
#include "probe/wire/message.h"

struct record_writer;

/* What was received then is kept whole for as long as that can be. */
struct record_span {
	struct job_ns from, until;
};

struct record_writer_options {
	const char *program;	 /* who writes, e.g. "slowrank 0.1.0"; at most 31 bytes are kept */
	struct job_ns created;	 /* now, on the clock of the receive times */
	int64_t created_unix_ns; /* now, since the epoch */
	bool whole;	/* the file appears in record_writer_finish(), whole, or not at all */
	bool continues; /* a record that is there is appended to, behind its last whole frame */

	/*
	 * What the file may have, and what it is thinned to beside it, in all; 0: no limit. A device or pipe has none.
	 * When it is thinned, get_spans is asked for the stretches around incidents (valid until the next call),
	 * and save saves all verdicts and sums, which are then in front of what comes.
	 */
	uint64_t bytes_max;
	const struct record_span *(*get_spans)(void *context, size_t *count);
	int (*save)(void *context, struct record_writer *writer);
	void *context;
};

/*
 * Makes the file, or empties the record that is there, and writes its header. Refused are a file that
 * is no record (-EEXIST) and one that another process is recording to (-EBUSY). A record of a writer
 * that was killed is not emptied but renamed: FILE.1, FILE.2 and so on (see kept_number); where the
 * new one is to be whole, it is refused. With continues, what was cut short behind its last whole frame,
 * or a mark of the end, is taken off a record that is there, and its frames count as this writer's.
 * Returns 0 or the negative errno of opening or writing; why (when
 * not NULL) gets one line. The caller owns the writer.
 */
int record_writer_create(const char *path, const struct record_writer_options *options,
	struct record_writer **writer, char why[WIRE_DETAIL_LENGTH_MAX + 1])
	__attribute__((warn_unused_result));

/*
 * Appends one frame of at most WIRE_MESSAGE_LENGTH_MAX bytes. Returns 0, -EMSGSIZE, or the
 * negative errno of the write; then the file ends with the last whole frame.
 */
int record_writer_append(struct record_writer *writer, const void *bytes, size_t length,
	struct job_ns received) __attribute__((warn_unused_result));

/*
 * Appends a frame of what the coordinator came to; stamp: now. Sums are all RECORD_RANKS of them, and then
 * RECORD_JOB. As record_writer_append().
 */
int record_writer_save(struct record_writer *writer, enum record_kind kind, const void *bytes,
	size_t length, struct job_ns stamp) __attribute__((warn_unused_result));

/* A minute has passed since the last sums, or what is large for one was written: it is time to save them. */
bool record_writer_wants_sums(const struct record_writer *writer);

/*
 * Keeps the record within its limit: to be called after each batch was appended and judged. Does so much at a time
 * that it is done long before the limit is reached. Returns 0, or a negative errno after which the record is
 * as it was, and grows; it is tried again later.
 */
int record_writer_thin(struct record_writer *writer) __attribute__((warn_unused_result));

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

/*
 * Writes the mark of a clean end (of a live record, after all before it is on the disk) and closes the
 * file. Returns 0 or a negative errno: the record is readable all the same. The writer is gone either way.
 * NULL is fine.
 */
int record_writer_finish(struct record_writer *writer);

/* Closes without the mark: the record reads as cut short; a whole one never appears. NULL is fine. */
void record_writer_destroy(struct record_writer *writer);

struct record_writer_state {
	uint64_t frames; /* batches written, also those that were thinned since */
	uint64_t bytes;	 /* of the file */
	uint64_t frames_lost;
	uint64_t frames_found; /* batches that were in it when it was opened, */
	struct job_ns newest;  /* the last of them */
	bool thinned;	       /* it has sums without their batches */
	unsigned kept_number;  /* what was there was renamed to FILE.number; 0 = nothing was */
};
void record_writer_get_state(const struct record_writer *writer, struct record_writer_state *state);

#endif
