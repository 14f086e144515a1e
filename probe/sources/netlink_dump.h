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
#include <stdint.h>
#include <sys/types.h>

/*
 * Sees to a netlink socket in the network namespace of pid, with a bound on waiting; *fd is -1
 * at first, and the caller closes it at the end. A process that has entered another namespace
 * gets a new socket. Returns 1 when it was opened, 0 when the old one is still right, or what
 * net_namespace_socket() says; *fd is -1 then.
 */
int netlink_follow(pid_t pid, int protocol, int *fd, uint64_t *namespace_id)
	__attribute__((warn_unused_result));

/*
 * Sends the request (its header's length, type and a sequence number that differs from the
 * dump before are set by the caller) and calls on_message for each message of its answer;
 * header->nlmsg_len is within the received bytes. Returns 0 or a negative errno; after an
 * error the socket may hold the rest of the answer: netlink_drain().
 */
int netlink_dump(int fd, const struct nlmsghdr *request,
	void (*on_message)(void *context, const struct nlmsghdr *header), void *context)
	__attribute__((warn_unused_result));

/* Throws away what has come of an answer that is not wanted any more. */
void netlink_drain(int fd);

/* Walks attributes: calls on_attribute for each whole one in length bytes at first. */
void netlink_attributes(const void *first, size_t length,
	void (*on_attribute)(void *context, const struct rtattr *attribute), void *context);

#endif
