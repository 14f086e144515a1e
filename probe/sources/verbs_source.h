/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tables that processes with counting wrappers write (probe/ring/verbs_table.h): finds
 * their files, checks all that is in them, and tells the queue pairs whose counts changed. Files
 * of ended processes are read a last time and removed. Source "verbs". One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_VERBS_SOURCE_H
#define SLOWRANK_PROBE_SOURCES_VERBS_SOURCE_H

#include <stdbool.h>
#include <sys/types.h>

#include "probe/wire/message.h"

struct verbs_source;

/*
 * directory: NULL = $SLOWRANK_RING_DIRECTORY, else /dev/shm. Returns 0 or -ENOMEM; a directory
 * that is not there has no files.
 */
int verbs_source_create(const char *directory, struct verbs_source **source)
	__attribute__((warn_unused_result));
void verbs_source_destroy(struct verbs_source *source); /* NULL is fine */

/*
 * Follows this process: its table is looked for from now on. Again: its rank changes. Returns 0,
 * -ENOSPC, or -ESRCH.
 */
int verbs_source_follow(struct verbs_source *source, pid_t pid, uint32_t rank)
	__attribute__((warn_unused_result));

/* True when the process's table was found: it counts itself. */
bool verbs_source_counts(const struct verbs_source *source, pid_t pid);

/*
 * Writes the queue pairs that changed since the last call, at most capacity; the rest comes with
 * the next call. Counts only grow. Returns how many.
 */
size_t verbs_source_read(struct verbs_source *source, struct host_ns now,
	struct message_queue_pair *out, size_t capacity);

/* What it sees; valid until the source is destroyed. */
const struct message_source *verbs_source_state(struct verbs_source *source);

#endif
