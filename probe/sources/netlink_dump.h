/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One dump over a netlink socket: sends the request, walks the answers, checks every length.
 * No state; one thread per socket.
 */
#ifndef SLOWRANK_PROBE_SOURCES_NETLINK_DUMP_H
#define SLOWRANK_PROBE_SOURCES_NETLINK_DUMP_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <sys/types.h>

/* Opens a netlink socket in the namespace of pid, with a bound on waiting. Errors: net_namespace_socket(). */
int netlink_dump_open(pid_t pid, int protocol, int *fd) __attribute__((warn_unused_result));

/*
 * Sends the request (its header's length, type and a sequence number that differs from the
 * dump before are set by the caller) and calls on_message for each message of its answer;
 * header->nlmsg_len is within the received bytes. Returns 0 or a negative errno; after an
 * error the socket may hold the rest of the answer: close it.
 */
int netlink_dump(int fd, const struct nlmsghdr *request,
	void (*on_message)(void *context, const struct nlmsghdr *header), void *context)
	__attribute__((warn_unused_result));

/* Walks attributes: calls on_attribute for each whole one in length bytes at first. */
void netlink_attributes(const void *first, size_t length,
	void (*on_attribute)(void *context, const struct rtattr *attribute), void *context);

#endif
