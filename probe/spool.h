/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first-in-first-out queue of byte strings in a nameless file: it is gone when the process
 * ends, never larger than its bound, and given back to the disk whenever it runs empty. One
 * thread at a time.
 */
#ifndef SLOWRANK_PROBE_SPOOL_H
#define SLOWRANK_PROBE_SPOOL_H

#include <stddef.h>
#include <stdint.h>

struct spool;

/* Makes no file yet. folder is copied. Returns 0, -EINVAL or -ENOMEM. The caller owns it. */
int spool_create(const char *folder, size_t bytes_max, struct spool **spool)
	__attribute__((warn_unused_result));
void spool_destroy(struct spool *spool); /* NULL is fine; what is in it is gone */

/*
 * Appends a copy. Returns 0; -ENOBUFS when it does not fit within bytes_max; another negative
 * errno when the file cannot be made or written (the disk is full). The queue is unchanged then.
 */
int spool_push(struct spool *spool, const void *bytes, size_t length)
	__attribute__((warn_unused_result));

/*
 * Takes the oldest one: *bytes is malloc'ed for the caller. Returns 0; -ENODATA when empty;
 * -ENOMEM (it stays); -EIO when the file cannot be read, and then everything in it is lost: the
 * queue is empty afterwards.
 */
int spool_pop(struct spool *spool, void **bytes, size_t *length)
	__attribute__((warn_unused_result));

size_t spool_count(const struct spool *spool); /* byte strings in it */

#endif
