/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a record frame by frame, also one whose writer crashed, one that is still being
 * written, and one that the disk damaged: what is whole is delivered, what is not is skipped
 * and counted. For one thread.
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_READER_H
#define SLOWRANK_COORDINATOR_RECORD_READER_H

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

/*
 * The next frame. *bytes belongs to the reader and is valid until the next call. Returns 0;
 * -ENODATA at the mark of a clean end; -EBADMSG where the record ends without it (cut short, or
 * still being written): all frames before it were delivered; -EIO or another negative errno
 * when reading fails; -ENOMEM. After a failure, further calls return the same. Damaged frames
 * are not a failure: they are skipped, see the state.
 */
int record_reader_next(struct record_reader *reader, const void **bytes, size_t *length,
	struct job_ns *received) __attribute__((warn_unused_result));

struct record_reader_state {
	char program[32]; /* who wrote it */
	struct job_ns created;
	int64_t created_unix_ns;
	uint64_t frames;	 /* delivered */
	uint64_t frames_end;	 /* where the last of them ends in the file, or the header */
	uint64_t damaged;	 /* stretches skipped because a checksum or a length was wrong */
	uint64_t skipped_bytes;	 /* in them, and in the part cut short */
	uint64_t frames_lost;	 /* that the writer could not write; known after a clean end */
	uint64_t frames_missing; /* written but not delivered; known after a clean end */
	bool ended;		 /* the mark of a clean end was read */
	bool truncated;		 /* the end was reached without it */
};
void record_reader_get_state(const struct record_reader *reader, struct record_reader_state *state);

#endif
