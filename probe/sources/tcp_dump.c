/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/tcp_dump.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "probe/sources/netlink_dump.h"

enum {
	/* Those that may have data to send, from include/net/tcp_states.h: established (1),
	 * fin-wait-1 (4), close-wait (8), last-ack (9). */
	STATES = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9,
};

/*
 * The request of before Linux 3.3, which every kernel since answers: for both families in one walk through the
 * host's table of sockets, which is what costs. The newer one is for one family.
 */
struct request {
	struct nlmsghdr header;
	struct inet_diag_req body;
};

struct listener {
	void (*on_socket)(void *context, const struct tcp_socket *socket);
	void *context;
	struct tcp_socket socket;
	bool has_info;
};

static void on_attribute(void *context, const struct rtattr *attribute)
{
	struct listener *listener = context;
	struct tcp_info info = {0}; /* older kernels send less: the rest stays 0 */
	size_t length = RTA_PAYLOAD(attribute);

	if (attribute->rta_type != INET_DIAG_INFO)
		return;
	memcpy(&info, RTA_DATA(attribute), length < sizeof(info) ? length : sizeof(info));
	listener->has_info = true;
	listener->socket.has_bytes = length >= offsetof(struct tcp_info, tcpi_bytes_retrans) +
						       sizeof(info.tcpi_bytes_retrans);
	/* Who waits for its receiver to read has no slow link. */
	listener->socket.busy_us = (int64_t)(info.tcpi_busy_time - info.tcpi_rwnd_limited);
	listener->socket.bytes_sent = (int64_t)info.tcpi_bytes_sent;
	listener->socket.bytes_retransmitted = (int64_t)info.tcpi_bytes_retrans;
}

static void on_message(void *context, const struct nlmsghdr *header)
{
	struct listener *listener = context;
	const struct inet_diag_msg *message = NLMSG_DATA(header);

	if (header->nlmsg_type != TCPDIAG_GETSOCK ||
		header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)))
		return;
	listener->has_info = false;
	listener->socket = (struct tcp_socket){
		.cookie = (uint64_t)message->id.idiag_cookie[1] << 32 | message->id.idiag_cookie[0],
		.inode = message->idiag_inode,
	};
	netlink_attributes(message + 1, header->nlmsg_len - NLMSG_LENGTH(sizeof(*message)),
		on_attribute, listener);
	if (listener->has_info)
		listener->on_socket(listener->context, &listener->socket);
}

int tcp_dump(int fd, uint32_t sequence,
	void (*on_socket)(void *context, const struct tcp_socket *socket), void *context)
{
	struct listener listener = {.on_socket = on_socket, .context = context};
	struct request request = {
		.header = {.nlmsg_len = sizeof(request),
			.nlmsg_type = TCPDIAG_GETSOCK,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			.nlmsg_seq = sequence},
		.body = {.idiag_ext = 1 << (INET_DIAG_INFO - 1), .idiag_states = STATES},
	};
	int error = netlink_dump(fd, &request.header, on_message, &listener);

	return error == -EOPNOTSUPP ? -ENOENT : error; /* inet_diag is missing, or tcp_diag */
}
