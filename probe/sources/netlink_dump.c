/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/netlink_dump.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "probe/sources/net_namespace.h"

enum {
	ANSWER_BYTES = 32 * 1024, /* the kernel fills at most 32 KiB per read of a dump */
	READS_MAX = 4096,	  /* of one dump: about 200,000 sockets */
	ANSWER_TIMEOUT_MS = 100,
	ERRNO_MAX = 4095, /* linux/err.h */
};

int netlink_follow(pid_t pid, int protocol, int *fd, uint64_t *namespace_id)
{
	struct timeval timeout = {.tv_usec = ANSWER_TIMEOUT_MS * 1000};
	int opened = -1, error;
	uint64_t id;

	error = net_namespace_id(pid, &id);
	if (error == 0 && *fd >= 0 && *namespace_id == id)
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	if (error == 0)
		error = net_namespace_socket(pid, AF_NETLINK, SOCK_RAW, protocol, &opened);
	if (error < 0)
		return error;
	if (setsockopt(opened, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0) {
		error = -errno;
		close(opened);
		return error;
	}
	*fd = opened;
	*namespace_id = id;
	return 1;
}

static bool is_errno(int error)
{
	return error < 0 && error >= -ERRNO_MAX;
}

static int error_of(const struct nlmsghdr *header)
{
	const struct nlmsgerr *error = NLMSG_DATA(header);

	if (header->nlmsg_len < NLMSG_LENGTH(sizeof(*error)) || !is_errno(error->error))
		return -EPROTO;
	return error->error;
}

/* A dump that could not be made, or not to its end, says so where it ends. */
static int end_of(const struct nlmsghdr *header)
{
	int error = 0;

	if (header->nlmsg_len >= NLMSG_LENGTH(sizeof(error)))
		memcpy(&error, NLMSG_DATA(header), sizeof(error));
	return is_errno(error) ? error : 0;
}

/* Takes one answer apart. Returns 1 when the dump goes on, 0 at its end, or a negative errno. */
static int take_answer(const char *bytes, size_t length, uint32_t sequence,
	void (*on_message)(void *context, const struct nlmsghdr *header), void *context)
{
	while (length >= sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *header = (const struct nlmsghdr *)bytes;
		size_t step;

		if (header->nlmsg_len < sizeof(*header) || header->nlmsg_len > length)
			return -EPROTO;
		if (header->nlmsg_seq == sequence) {
			if (header->nlmsg_type == NLMSG_DONE)
				return end_of(header);
			if (header->nlmsg_type == NLMSG_ERROR)
				return error_of(header);
			on_message(context, header);
		}
		step = NLMSG_ALIGN(header->nlmsg_len);
		if (step >= length)
			break;
		bytes += step;
		length -= step;
	}
	return 1;
}

int netlink_dump(int fd, const struct nlmsghdr *request,
	void (*on_message)(void *context, const struct nlmsghdr *header), void *context)
{
	_Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (sendto(fd, request, request->nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) <
		0)
		return -errno;
	for (int i = 0; i < READS_MAX; i++) {
		ssize_t length = recv(fd, answer, sizeof(answer), 0);
		int more;

		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0)
			return -errno;
		more = take_answer(answer, (size_t)length, request->nlmsg_seq, on_message, context);
		if (more <= 0)
			return more;
	}
	return -E2BIG;
}

void netlink_drain(int fd)
{
	_Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];

	for (int i = 0; i < READS_MAX && recv(fd, answer, sizeof(answer), MSG_DONTWAIT) >= 0; i++)
		;
}

void netlink_attributes(const void *first, size_t length,
	void (*on_attribute)(void *context, const struct rtattr *attribute), void *context)
{
	const char *bytes = first;

	while (length >= sizeof(struct rtattr)) {
		const struct rtattr *attribute = (const struct rtattr *)bytes;
		size_t step;

		if (attribute->rta_len < sizeof(*attribute) || attribute->rta_len > length)
			return;
		on_attribute(context, attribute);
		step = RTA_ALIGN(attribute->rta_len);
		if (step >= length)
			return;
		bytes += step;
		length -= step;
	}
}
