/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a record frame by frame, also one whose writer crashed, one that is still being
 * written, and one that the disk damaged: what is whole is delivered, what is not is skipped
 * and counted. For one thread.
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_READER_H
#define SLOWRANK_COORDINATOR_RECORD_READER_H

#include "coordinator/record/kind.h"
#include "probe/wire/message.h"

struct record_reader;

/*
 * Opens a record and checks its header. Returns 0; -EBADMSG when it is no record;
 * -EPROTONOSUPPORT when a newer version wrote it; the negative errno of opening or reading.
 * On failure why (when not NULL) holds one line that names the file. The caller owns the reader.
 */
int record_reader_open(const char *path, struct record_reader **reader,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
void record_reader_close(struct record_reader *reader); /* NULL is fine */

struct record_frame {
	enum record_kind kind;
	const void *bytes; /* unpacked; the reader's, valid until the next call */
	size_t length;
	struct job_ns stamp;   /* when it was written; of a batch, when it was received */
	uint64_t offset, size; /* where it is in the file, and how long there */
};

/*
 * The next frame. Returns 0; -ENODATA at the mark of a clean end; -EBADMSG where the record ends without it
 * (cut short, or still being written): all frames before it were delivered; -EIO or another negative errno
 * when reading fails; -ENOMEM. After a failure, further calls return the same. Damaged frames, and those
 * packed with what is not known here, are not a failure: they are skipped, see the state.
 */
int record_reader_frame(struct record_reader *reader, struct record_frame *frame)
	__attribute__((warn_unused_result));

/*
 * For a record that is still being written: from here on (or no more), where frames end without the mark of an end,
 * -EINPROGRESS each time until there is another one, and nothing is skipped.
 */
void record_reader_follow(struct record_reader *reader, bool follows);

/* Somebody has the record open to write. */
bool record_reader_is_written(const char *path);

/* The same, of batches alone. */
int record_reader_next(struct record_reader *reader, const void **bytes, size_t *length,
	struct job_ns *received) __attribute__((warn_unused_result));

struct record_reader_state {
	char program[32]; /* who wrote it */
	struct job_ns created;
	int64_t created_unix_ns;
	uint32_t version;	 /* of the record */
	uint64_t frames;	 /* batches delivered */
	uint64_t frames_thinned; /* batches of which sums are kept alone (RECORD_GAP) */
	uint64_t frames_end;	 /* where the last frame ends in the file, or the header */
	uint64_t damaged;	 /* stretches skipped because a checksum or a length was wrong */
	uint64_t skipped_bytes;	 /* in them, and in the part cut short */
	uint64_t frames_lost;	 /* that the writer could not write; known after a clean end */
	uint64_t frames_missing; /* written but not delivered; known after a clean end */
	bool ended;		 /* the mark of a clean end was read */
	bool truncated;		 /* the end was reached without it */
};
void record_reader_get_state(const struct record_reader *reader, struct record_reader_state *state);

#endif
