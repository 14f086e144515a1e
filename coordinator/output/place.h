/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a file that slowrank writes is to be: a folder, held open, and a name in it. What is done
 * there is done below that folder, so that nobody can lead it elsewhere in the meantime. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_OUTPUT_PLACE_H
#define SLOWRANK_COORDINATOR_OUTPUT_PLACE_H

#include <limits.h>
#include <stdbool.h>

struct output_place {
	int folder; /* an O_PATH descriptor; owned */
	char name[NAME_MAX + 1];
	bool is_descriptor; /* in /proc: /dev/stdout and its like, opened by whoever started us */
};

/*
 * Finds the place of path; the file itself may be missing. Symbolic links are followed, but as
 * root only those that root alone can make or change. Returns 0 or a negative errno: -ELOOP for a link
 * that is not followed (or too many), -EISDIR where path can only be a folder.
 */
int output_place_open(const char *path, struct output_place *place)
	__attribute__((warn_unused_result));

/* Once for each place that was opened. */
void output_place_close(struct output_place *place);

#endif
