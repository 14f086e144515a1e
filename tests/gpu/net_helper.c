/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces for the ranks of a job on one machine, and a rate limit in one of them,
 * by rtnetlink alone: for machines without ip and tc. Needs root. One file, so that
 * `cc -O2 -o net_helper net_helper.c` builds it anywhere.
 *
 *   net_helper run COUNT -- COMMAND...   COMMAND runs in a namespace of its own, the hub, that
 *       forwards between COUNT others. Namespace i is that of process i of the list in
 *       GPU_TEST_NAMESPACE_PIDS, its interface is slr0 with 10.77.i.2/30; the hub has 10.77.i.1.
 *       All of it is gone when COMMAND has ended.
 *   net_helper limit DEVICE BYTES_PER_SECOND     tbf on what DEVICE sends (in this namespace)
 *   net_helper unlimit DEVICE
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	NAMESPACES_MAX = 64,
	REQUEST_BYTES = 1024,
	BURST_BYTES = 128 << 10,
	LINK_TRIES = 500,
	LINK_PAUSE_US = 10000
};

#define RANK_DEVICE "slr0"

struct request {
	_Alignas(struct nlmsghdr) char bytes[REQUEST_BYTES];
};

static struct nlmsghdr *header_of(struct request *request)
{
	return (struct nlmsghdr *)(void *)request->bytes;
}

/* Adds length bytes at the end, aligned; returns where. A request that is too long is a bug. */
static void *append(struct request *request, const void *data, size_t length)
{
	struct nlmsghdr *header = header_of(request);
	size_t offset = NLMSG_ALIGN(header->nlmsg_len);

	if (offset + length > sizeof(request->bytes))
		abort();
	if (data)
		memcpy(request->bytes + offset, data, length);
	header->nlmsg_len = (unsigned int)(offset + length);
	return request->bytes + offset;
}

static void start(struct request *request, unsigned short type, unsigned short flags,
	const void *body, size_t body_length)
{
	struct nlmsghdr *header = header_of(request);

	memset(request, 0, sizeof(*request));
	header->nlmsg_len = NLMSG_HDRLEN;
	header->nlmsg_type = type;
	header->nlmsg_flags = (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags);
	append(request, body, body_length);
}

static struct rtattr *attribute(
	struct request *request, unsigned short type, const void *data, size_t length)
{
	struct rtattr head = {.rta_type = type, .rta_len = (unsigned short)RTA_LENGTH(length)};
	struct rtattr *placed = append(request, &head, sizeof(head));

	if (length)
		append(request, data, length);
	return placed;
}

static void text_attribute(struct request *request, unsigned short type, const char *text)
{
	attribute(request, type, text, strlen(text) + 1);
}

/* Closes an attribute that holds all that came after it. */
static void close_attribute(struct request *request, struct rtattr *opened)
{
	opened->rta_len =
		(unsigned short)(request->bytes + header_of(request)->nlmsg_len - (char *)opened);
}

/* Sends the request to the kernel of this namespace. Returns 0 or a negative errno. */
static int ask(struct request *request)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct request reply;
	struct nlmsghdr *header = header_of(request);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t length;
	int result;

	if (fd < 0)
		return -errno;
	length = sendto(fd, request->bytes, header->nlmsg_len, 0, (struct sockaddr *)&kernel,
		sizeof(kernel));
	if (length >= 0)
		length = recv(fd, reply.bytes, sizeof(reply.bytes), 0);
	result = length < 0 ? -errno : -EPROTO;
	header = header_of(&reply);
	if (length >= (ssize_t)(NLMSG_HDRLEN + sizeof(struct nlmsgerr)) &&
		header->nlmsg_type == NLMSG_ERROR)
		result = ((struct nlmsgerr *)NLMSG_DATA(header))->error;
	close(fd);
	return result;
}

static int set_up(const char *device)
{
	struct ifinfomsg link = {.ifi_index = (int)if_nametoindex(device),
		.ifi_flags = IFF_UP,
		.ifi_change = IFF_UP};
	struct request request;

	start(&request, RTM_NEWLINK, 0, &link, sizeof(link));
	return link.ifi_index ? ask(&request) : -ENODEV;
}

/* Waits until the kernel has noticed that both ends are up: packets are refused before. */
static int wait_until_running(const char *device)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result = -ETIMEDOUT;

	if (fd < 0)
		return -errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
	for (int i = 0; i < LINK_TRIES && result == -ETIMEDOUT; i++) {
		if (ioctl(fd, SIOCGIFFLAGS, &request) != 0)
			result = -errno;
		else if (request.ifr_flags & IFF_RUNNING)
			result = 0;
		else
			usleep(LINK_PAUSE_US);
	}
	close(fd);
	return result;
}

static int add_address(const char *device, in_addr_t address)
{
	struct ifaddrmsg body = {
		.ifa_family = AF_INET, .ifa_prefixlen = 30, .ifa_index = if_nametoindex(device)};
	struct request request;

	start(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof(body));
	attribute(&request, IFA_LOCAL, &address, sizeof(address));
	attribute(&request, IFA_ADDRESS, &address, sizeof(address));
	return body.ifa_index ? ask(&request) : -ENODEV;
}

static int add_default_route(const char *device, in_addr_t gateway)
{
	struct rtmsg body = {.rtm_family = AF_INET,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_BOOT,
		.rtm_scope = RT_SCOPE_UNIVERSE,
		.rtm_type = RTN_UNICAST};
	unsigned int index = if_nametoindex(device);
	struct request request;

	start(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof(body));
	attribute(&request, RTA_GATEWAY, &gateway, sizeof(gateway));
	attribute(&request, RTA_OIF, &index, sizeof(index));
	return ask(&request);
}

/* A cable: `device` here, RANK_DEVICE in the namespace of a process. */
static int add_cable(const char *device, pid_t owner)
{
	struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
	struct request request;
	struct rtattr *information, *data, *peer;
	unsigned int pid = (unsigned int)owner;

	start(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
	text_attribute(&request, IFLA_IFNAME, device);
	information = attribute(&request, IFLA_LINKINFO, NULL, 0);
	text_attribute(&request, IFLA_INFO_KIND, "veth");
	data = attribute(&request, IFLA_INFO_DATA, NULL, 0);
	peer = attribute(&request, VETH_INFO_PEER, NULL, 0);
	append(&request, &link, sizeof(link));
	text_attribute(&request, IFLA_IFNAME, RANK_DEVICE);
	attribute(&request, IFLA_NET_NS_PID, &pid, sizeof(pid));
	close_attribute(&request, peer);
	close_attribute(&request, data);
	close_attribute(&request, information);
	return ask(&request);
}

/* 10.77.index.host */
static in_addr_t address_of(unsigned int index, unsigned int host)
{
	return htonl((10U << 24) | (77U << 16) | (index << 8) | host);
}

/* The process that keeps a namespace alive: makes it, waits for its cable, and sleeps. */
static void keep_namespace(unsigned int index, int ready_fd, int go_fd)
{
	char byte = 0;
	int result;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Kept open: the hub, and the cables with it, would go when its last process leaves it. */
	if (open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) < 0 || unshare(CLONE_NEWNET) != 0)
		_exit(1);
	if (write(ready_fd, &byte, 1) != 1 || read(go_fd, &byte, 1) != 1)
		_exit(1);
	result = set_up("lo");
	if (!result)
		result = add_address(RANK_DEVICE, address_of(index, 2));
	if (!result)
		result = set_up(RANK_DEVICE);
	if (!result)
		result = add_default_route(RANK_DEVICE, address_of(index, 1));
	if (!result)
		result = wait_until_running(RANK_DEVICE);
	byte = (char)-result;
	if (write(ready_fd, &byte, 1) != 1 || result)
		_exit(1);
	close(ready_fd);
	close(go_fd);
	for (;;)
		pause();
}

/* Makes namespace `index` with its cable. Returns 0 or a negative errno; *kept is its process. */
static int add_namespace(unsigned int index, pid_t *kept)
{
	int ready[2], go[2], result = -EIO;
	char device[IFNAMSIZ], byte;
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) != 0)
		return -errno;
	if (pipe2(go, O_CLOEXEC) != 0) {
		result = -errno;
		close(ready[0]);
		close(ready[1]);
		return result;
	}
	child = fork();
	if (child == 0) {
		close(ready[0]);
		close(go[1]);
		keep_namespace(index, ready[1], go[0]);
	}
	close(ready[1]);
	close(go[0]);
	snprintf(device, sizeof(device), "hub%u", index);
	if (child < 0 || read(ready[0], &byte, 1) != 1)
		goto out;
	result = add_cable(device, child);
	if (!result)
		result = add_address(device, address_of(index, 1));
	if (!result)
		result = set_up(device);
	if (result)
		goto out;
	result = -EIO;
	if (write(go[1], "", 1) == 1 && read(ready[0], &byte, 1) == 1)
		result = -(int)byte;
	if (!result)
		result = wait_until_running(device);
	if (!result)
		*kept = child;
out:
	close(ready[0]);
	close(go[1]);
	return result;
}

static int switch_forwarding_on(void)
{
	int fd = open("/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC);
	int result = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, "1", 1) != 1)
		result = -errno;
	close(fd);
	return result;
}

static int fail(const char *what, int result)
{
	fprintf(stderr, "net_helper: %s: %s\n", what, strerror(-result));
	return 1;
}

static int run(unsigned int count, char **command)
{
	char pids[NAMESPACES_MAX * 12] = "";
	size_t used = 0;
	int result;

	if (unshare(CLONE_NEWNET) != 0)
		return fail("cannot make a network namespace", -errno);
	result = set_up("lo");
	if (result)
		return fail("lo", result);
	result = switch_forwarding_on();
	if (result)
		return fail("/proc/sys/net/ipv4/ip_forward", result);
	for (unsigned int i = 0; i < count; i++) {
		pid_t kept = 0;

		result = add_namespace(i, &kept);
		if (result)
			return fail("cannot make the network of a rank", result);
		used += (size_t)snprintf(
			pids + used, sizeof(pids) - used, i ? ",%d" : "%d", (int)kept);
	}
	setenv("GPU_TEST_NAMESPACE_PIDS", pids, 1);
	execvp(command[0], command);
	return fail(command[0], -errno);
}

static int limit(const char *device, unsigned long long bytes_per_second)
{
	struct tcmsg body = {.tcm_family = AF_UNSPEC,
		.tcm_ifindex = (int)if_nametoindex(device),
		.tcm_parent = TC_H_ROOT,
		.tcm_handle = 1U << 16};
	unsigned long long queue = bytes_per_second / 10; /* as a switch's buffer: 100 ms */
	struct tc_tbf_qopt options = {.rate = {.linklayer = TC_LINKLAYER_ETHERNET},
		.limit = (unsigned int)(queue < BURST_BYTES * 2 ? BURST_BYTES * 2
					: queue > 64U << 20	? 64U << 20
								: queue)};
	unsigned int burst = BURST_BYTES;
	struct request request;
	struct rtattr *opened;

	if (!body.tcm_ifindex)
		return -ENODEV;
	options.rate.rate =
		bytes_per_second > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes_per_second;
	start(&request, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));
	text_attribute(&request, TCA_KIND, "tbf");
	opened = attribute(&request, TCA_OPTIONS, NULL, 0);
	attribute(&request, TCA_TBF_PARMS, &options, sizeof(options));
	attribute(&request, TCA_TBF_BURST, &burst, sizeof(burst));
	if (bytes_per_second > UINT32_MAX)
		attribute(&request, TCA_TBF_RATE64, &bytes_per_second, sizeof(bytes_per_second));
	close_attribute(&request, opened);
	return ask(&request);
}

static int unlimit(const char *device)
{
	struct tcmsg body = {.tcm_family = AF_UNSPEC,
		.tcm_ifindex = (int)if_nametoindex(device),
		.tcm_parent = TC_H_ROOT};
	struct request request;

	start(&request, RTM_DELQDISC, 0, &body, sizeof(body));
	return body.tcm_ifindex ? ask(&request) : -ENODEV;
}

static unsigned long long number(const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	return *end || text[0] == '-' ? 0 : value;
}

int main(int argc, char **argv)
{
	unsigned long long value = argc > 3 || (argc == 3 && strcmp(argv[1], "run") == 0)
					   ? number(strcmp(argv[1], "run") == 0 ? argv[2] : argv[3])
					   : 0;
	int result;

	if (argc > 4 && strcmp(argv[1], "run") == 0 && strcmp(argv[3], "--") == 0 && value > 0 &&
		value <= NAMESPACES_MAX)
		return run((unsigned int)value, argv + 4);
	if (argc == 4 && strcmp(argv[1], "limit") == 0 && value > 0) {
		result = limit(argv[2], value);
		return result ? fail("tbf", result) : 0;
	}
	if (argc == 3 && strcmp(argv[1], "unlimit") == 0) {
		result = unlimit(argv[2]);
		return result ? fail("tbf", result) : 0;
	}
	fprintf(stderr, "usage: net_helper run COUNT -- COMMAND... | limit DEVICE "
			"BYTES_PER_SECOND | unlimit DEVICE\n");
	return 2;
}
