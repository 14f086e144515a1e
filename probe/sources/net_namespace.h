/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets in another process's network namespace. A socket stays in the namespace it was made
 * in, so one switch at the start is enough; a helper thread makes it, and no other thread ever
 * leaves its own namespace. Any thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_NET_NAMESPACE_H
#define SLOWRANK_PROBE_SOURCES_NET_NAMESPACE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Like socket(2), with SOCK_CLOEXEC, in the namespace of pid. Returns 0 and the socket, which
 * the caller closes; -EPERM without CAP_SYS_ADMIN for a namespace that is not this process's
 * own, -EACCES without the right to look at pid, -ESRCH when pid is gone, or what socket() said.
 */
int net_namespace_socket(pid_t pid, int family, int type, int protocol, int *fd)
	__attribute__((warn_unused_result));

/* The namespace's inode number: it changes when the process enters another one. Same errors. */
int net_namespace_id(pid_t pid, uint64_t *id) __attribute__((warn_unused_result));

#endif
