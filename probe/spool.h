/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first-in-first-out queue of byte strings in a file: never larger than its bound, given back to the disk
 * whenever it runs empty, and removed with the queue. What a process that was killed left is there for the next
 * one of the same name, for a quarter of an hour. One thread at a time.
 */
#ifndef SLOWRANK_PROBE_SPOOL_H
#define SLOWRANK_PROBE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool;

struct spool_options {
	const char *folder; /* nobody else may write there */
	const char *name;   /* of who may take it over; the file is FOLDER/NAME.N.spool */
	uint64_t epoch;	    /* what was left with another one is of no use: it is removed */
	bool takes_over;    /* else what is left is removed, too */
	size_t bytes_max;
};

/*
 * Takes over a file that is left, the first that nobody holds, or makes one when it is needed. Returns 0,
 * -EINVAL or -ENOMEM. The caller owns it.
 */
int spool_create(const struct spool_options *options, struct spool **spool)
	__attribute__((warn_unused_result));
void spool_destroy(struct spool *spool); /* NULL is fine; what is in it is gone */

/*
 * Appends a copy. Returns 0; -ENOBUFS when it does not fit within bytes_max; another negative
 * errno when the file cannot be made or written (the disk is full). The queue is unchanged then.
 */
int spool_push(struct spool *spool, const void *bytes, size_t length)
	__attribute__((warn_unused_result));

/*
 * The oldest one, which stays: *bytes is malloc'ed for the caller. Returns 0; -ENODATA when empty;
 * -ENOMEM; -EIO when the file cannot be read or is damaged, and then everything in it is lost: the
 * queue is empty afterwards.
 */
int spool_peek(struct spool *spool, void **bytes, size_t *length)
	__attribute__((warn_unused_result));
/* The same of the newest one. */
int spool_peek_newest(struct spool *spool, void **bytes, size_t *length)
	__attribute__((warn_unused_result));

/* The oldest one has gone its way. There is one. */
void spool_drop(struct spool *spool);

size_t spool_count(const struct spool *spool); /* byte strings in it */

#endif
