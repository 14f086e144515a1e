/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel for the state of all TCP sockets of a network namespace (NETLINK_SOCK_DIAG,
 * sock_diag(7)). Every netlink length is checked. One thread per socket.
 */
#ifndef SLOWRANK_PROBE_SOURCES_TCP_DUMP_H
#define SLOWRANK_PROBE_SOURCES_TCP_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tcp_socket {
	uint64_t cookie; /* never used twice while the kernel runs */
	uint32_t inode;
	bool has_bytes;	 /* bytes_* and busy_us are known: kernel 4.19 and newer */
	int64_t busy_us; /* it had data to send, and its receiver room for it */
	int64_t bytes_sent, bytes_retransmitted;
};

/*
 * Calls on_socket for each connected TCP socket, IPv4 and IPv6, of the namespace that fd (of
 * netlink_follow(), NETLINK_SOCK_DIAG) is in. Blocks no longer than the kernel needs. sequence: another number than the dump
 * before on this socket. Returns 0 or a negative errno: -ENOENT when the module tcp_diag is missing.
 */
int tcp_dump(int fd, uint32_t sequence,
	void (*on_socket)(void *context, const struct tcp_socket *socket), void *context)
	__attribute__((warn_unused_result));

#endif
