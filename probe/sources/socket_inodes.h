/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inode numbers of a process's sockets, from /proc/PID/fd. Plain values; one thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_SOCKET_INODES_H
#define SLOWRANK_PROBE_SOURCES_SOCKET_INODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SOCKET_INODES_MAX = 4096,	/* sockets of one rank that are looked at */
	SOCKET_DESCRIPTORS_MAX = 65536, /* descriptors of one rank that are looked at */
};

struct socket_inodes {
	size_t count;
	bool cut;			    /* there were more than fit */
	uint32_t inodes[SOCKET_INODES_MAX]; /* ascending */
};

/* Returns 0, -ESRCH when pid is gone, -EACCES without the right to look at it. */
int socket_inodes_read(pid_t pid, struct socket_inodes *inodes) __attribute__((warn_unused_result));
bool socket_inodes_has(const struct socket_inodes *inodes, uint32_t inode);

#endif
