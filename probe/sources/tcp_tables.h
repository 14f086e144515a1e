/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP sockets of the network namespaces that ranks live in. The kernel walks all sockets of
 * the host for one answer, the dearest thing that a sampler asks for: the ranks of one namespace
 * share it. For one thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_TCP_TABLES_H
#define SLOWRANK_PROBE_SOURCES_TCP_TABLES_H

#include <sys/types.h>

#include "analysis/base/step.h"
#include "probe/sources/tcp_dump.h"

struct tcp_tables;

/* Returns 0 and tables that the caller destroys, or -ENOMEM. */
int tcp_tables_create(struct tcp_tables **tables) __attribute__((warn_unused_result));
void tcp_tables_destroy(struct tcp_tables *tables); /* NULL is fine */

/*
 * Opens the namespace that pid is in, which a look does as well: while there is the right to enter it. What cannot be opened is
 * told by the look.
 */
void tcp_tables_open(struct tcp_tables *tables, pid_t pid);

/*
 * Calls on_socket for each connected TCP socket of the namespace that pid is in and that some
 * process holds. The kernel is asked only when nobody looked at this namespace with the same now.
 * Returns 0 or a negative errno: what net_namespace_socket() and tcp_dump() say, -E2BIG when the
 * namespace has more than TCP_TABLE_SOCKETS_MAX sockets.
 */
enum { TCP_TABLE_SOCKETS_MAX = 131072 };
int tcp_tables_look(struct tcp_tables *tables, pid_t pid, struct host_ns now,
	void (*on_socket)(void *context, const struct tcp_socket *socket), void *context)
	__attribute__((warn_unused_result));

#endif
