/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that slowrank writes for its user. What it did not make is never emptied, appended to,
 * replaced or removed: a file that is there already must be empty or begin as one of slowrank's own.
 * Devices and pipes are written to as they are. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_OUTPUT_FILE_H
#define SLOWRANK_COORDINATOR_OUTPUT_FILE_H

#include <sys/types.h>

#include "coordinator/output/place.h"
#include "probe/wire/message.h"

struct output_kind {
	const char *name;		      /* "a record", "a report": for messages */
	bool (*is_own)(int fd, off_t length); /* of a file that is not empty: slowrank made it */
};

/* The line that says why path cannot be written; for an error of output_place_open(), too. */
void output_explain(const char *path, int error, char why[WIRE_DETAIL_LENGTH_MAX + 1]);

/*
 * Opens what is at place to be appended to, and makes it where nothing is. *is_file: it is a
 * regular file, not a device or pipe. Returns the descriptor, or a negative errno with one line in why;
 * a pipe that nobody reads is -ENXIO.
 */
int output_file_append(const struct output_place *place, const char *path,
	const struct output_kind *kind, bool *is_file, char why[WIRE_DETAIL_LENGTH_MAX + 1])
	__attribute__((warn_unused_result));

/* A file that is written whole beside its place and then takes that place, or does not. */
struct output_replacement {
	struct output_place place;
	char temporary[NAME_MAX + 1]; /* "" = a device or pipe: written to as it is */
	int fd;			      /* to write to; the caller closes it before the commit */
};

/* Returns 0, or a negative errno with one line in why; what was there stays until the commit. */
int output_replacement_begin(const char *path, const struct output_kind *kind,
	struct output_replacement *replacement, char why[WIRE_DETAIL_LENGTH_MAX + 1])
	__attribute__((warn_unused_result));

/* Ends a replacement. Returns 0 or a negative errno; then what was there before still is. */
int output_replacement_commit(struct output_replacement *replacement)
	__attribute__((warn_unused_result));
void output_replacement_abort(struct output_replacement *replacement);

#endif
