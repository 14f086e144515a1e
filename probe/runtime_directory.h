/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's private folder of sockets and locks, where the probes of one job on one host meet. Any
 * thread.
 */
#ifndef SLOWRANK_PROBE_RUNTIME_DIRECTORY_H
#define SLOWRANK_PROBE_RUNTIME_DIRECTORY_H

/* Leaves room for a job's name in the address of a socket (108 bytes). */
enum { RUNTIME_DIRECTORY_LENGTH = 40 };

/*
 * Opens /run/slowrank for root; for others $XDG_RUNTIME_DIR/slowrank; where these cannot be had, the
 * first of /tmp/slowrank-UID, /tmp/slowrank-UID-1, ... that is the user's own or can be made. A folder
 * of another user, or one that others may enter, is passed over. Returns a descriptor that the caller
 * closes; a negative errno after *why says it in one line.
 */
int runtime_directory_open(char path[RUNTIME_DIRECTORY_LENGTH], char why[256])
	__attribute__((warn_unused_result));

/* The same of a folder on a disk, for files that may become large: always below /tmp. */
int runtime_directory_open_on_disk(char path[RUNTIME_DIRECTORY_LENGTH])
	__attribute__((warn_unused_result));

#endif
