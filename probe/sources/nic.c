/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/nic.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/gen_stats.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "probe/sources/netlink_dump.h"

enum {
	INTERFACES_MAX = 256,
	LINK_MODE_WORDS_MAX = 127, /* ETHTOOL_GLINKSETTINGS: an s8 */
};

struct interface {
	int index;
	bool seen;
	char name[IF_NAMESIZE];
	struct growing_counter link_drops, queue_drops, bytes;
	int64_t bytes_step; /* sent since the last sample */
};

struct nic_sampler {
	struct sampler base;
	int fd; /* NETLINK_ROUTE in the rank's namespace; -1: not open */
	uint64_t namespace_id;
	bool cut; /* more interfaces than fit */
	int64_t drops;
	size_t count;
	struct interface interfaces[INTERFACES_MAX];
};

static struct interface *interface_of(struct nic_sampler *sampler, int index, bool add)
{
	for (size_t i = 0; i < sampler->count; i++) {
		if (sampler->interfaces[i].index == index)
			return &sampler->interfaces[i];
	}
	if (!add || sampler->count == INTERFACES_MAX) {
		sampler->cut |= add;
		return NULL;
	}
	sampler->interfaces[sampler->count] = (struct interface){.index = index};
	return &sampler->interfaces[sampler->count++];
}

struct link_values {
	const char *name;
	size_t name_length;
	bool has_stats;
	struct rtnl_link_stats64 stats;
};

static void on_link_attribute(void *context, const struct rtattr *attribute)
{
	struct link_values *values = context;
	size_t length = RTA_PAYLOAD(attribute);

	if (attribute->rta_type == IFLA_IFNAME) {
		values->name = RTA_DATA(attribute);
		values->name_length = strnlen(values->name, length);
	} else if (attribute->rta_type == IFLA_STATS64) {
		memcpy(&values->stats, RTA_DATA(attribute),
			length < sizeof(values->stats) ? length : sizeof(values->stats));
		values->has_stats = true;
	}
}

static void on_link(void *context, const struct nlmsghdr *header)
{
	struct nic_sampler *sampler = context;
	const struct ifinfomsg *message = NLMSG_DATA(header);
	struct link_values values = {0};
	struct interface *interface;

	if (header->nlmsg_type != RTM_NEWLINK ||
		header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)) ||
		(message->ifi_flags & IFF_LOOPBACK) || !(message->ifi_flags & IFF_UP))
		return;
	netlink_attributes((const char *)message + NLMSG_ALIGN(sizeof(*message)),
		header->nlmsg_len - NLMSG_LENGTH(sizeof(*message)), on_link_attribute, &values);
	if (!values.has_stats || !values.name || values.name_length >= IF_NAMESIZE)
		return;
	interface = interface_of(sampler, message->ifi_index, true);
	if (!interface)
		return;
	memset(interface->name, 0, sizeof(interface->name));
	memcpy(interface->name, values.name, values.name_length);
	interface->seen = true;
	interface->bytes_step =
		growing_counter_step(&interface->bytes, (int64_t)values.stats.tx_bytes);
	sampler->drops +=
		growing_counter_step(&interface->link_drops, (int64_t)values.stats.tx_dropped);
}

static void on_queue_stat(void *context, const struct rtattr *attribute)
{
	int64_t *drops = context;
	struct gnet_stats_queue stats = {0};
	size_t length = RTA_PAYLOAD(attribute);

	if (attribute->rta_type != TCA_STATS_QUEUE)
		return;
	memcpy(&stats, RTA_DATA(attribute), length < sizeof(stats) ? length : sizeof(stats));
	*drops = stats.drops;
}

static void on_queue_attribute(void *context, const struct rtattr *attribute)
{
	if (attribute->rta_type == TCA_STATS2)
		netlink_attributes(
			RTA_DATA(attribute), RTA_PAYLOAD(attribute), on_queue_stat, context);
}

/* Only root disciplines: their counts include those below them. */
static void on_queue(void *context, const struct nlmsghdr *header)
{
	struct nic_sampler *sampler = context;
	const struct tcmsg *message = NLMSG_DATA(header);
	struct interface *interface;
	int64_t drops = -1;

	if (header->nlmsg_type != RTM_NEWQDISC ||
		header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)) ||
		message->tcm_parent != TC_H_ROOT)
		return;
	interface = interface_of(sampler, message->tcm_ifindex, false);
	if (!interface)
		return;
	netlink_attributes((const char *)message + NLMSG_ALIGN(sizeof(*message)),
		header->nlmsg_len - NLMSG_LENGTH(sizeof(*message)), on_queue_attribute, &drops);
	if (drops >= 0)
		sampler->drops += growing_counter_step(&interface->queue_drops, drops);
}

/* ETHTOOL_GLINKSETTINGS (linux/ethtool.h): ask for the size of the masks, then ask again. */
static int64_t speed_mbps(int fd, const char *name)
{
	_Alignas(struct ethtool_link_settings) char
		bytes[sizeof(struct ethtool_link_settings) +
			3 * LINK_MODE_WORDS_MAX * sizeof(uint32_t)] = {0};
	struct ethtool_link_settings *settings = (struct ethtool_link_settings *)bytes;
	struct ifreq interface = {.ifr_data = bytes};

	memcpy(interface.ifr_name, name, IF_NAMESIZE);
	settings->cmd = ETHTOOL_GLINKSETTINGS;
	if (ioctl(fd, SIOCETHTOOL, &interface) < 0 || settings->link_mode_masks_nwords >= 0)
		return -1;
	settings->cmd = ETHTOOL_GLINKSETTINGS;
	settings->link_mode_masks_nwords = (int8_t)-settings->link_mode_masks_nwords;
	if (ioctl(fd, SIOCETHTOOL, &interface) < 0 || settings->speed == 0 ||
		settings->speed == (uint32_t)SPEED_UNKNOWN)
		return -1;
	return settings->speed;
}

/* Of the interface that sent most since the last sample; -1 when it is not known. */
static int64_t busiest_speed(const struct nic_sampler *sampler)
{
	const struct interface *busiest = NULL;

	for (size_t i = 0; i < sampler->count; i++) {
		const struct interface *interface = &sampler->interfaces[i];

		if (interface->bytes_step > 0 &&
			(!busiest || interface->bytes_step > busiest->bytes_step))
			busiest = interface;
	}
	return busiest ? speed_mbps(sampler->fd, busiest->name) : -1;
}

static void forget_unseen(struct nic_sampler *sampler)
{
	size_t kept = 0;

	for (size_t i = 0; i < sampler->count; i++) {
		if (sampler->interfaces[i].seen)
			sampler->interfaces[kept++] = sampler->interfaces[i];
	}
	sampler->count = kept;
}

static int dump(struct nic_sampler *sampler, uint16_t type,
	void (*on_message)(void *context, const struct nlmsghdr *header))
{
	struct {
		struct nlmsghdr header;
		union {
			struct ifinfomsg link;
			struct tcmsg queue;
		} body;
	} request = {
		.header = {.nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			.nlmsg_seq = type,
			.nlmsg_len =
				NLMSG_LENGTH(type == RTM_GETLINK ? sizeof(request.body.link)
								 : sizeof(request.body.queue))},
	};

	return netlink_dump(sampler->fd, &request.header, on_message, sampler);
}

static int read_interfaces(struct nic_sampler *sampler)
{
	int error = netlink_follow(
		sampler->base.pid, NETLINK_ROUTE, &sampler->fd, &sampler->namespace_id);

	if (error < 0)
		return error;
	if (error == 1)
		sampler->count = 0; /* other interfaces */
	sampler->cut = false;
	for (size_t i = 0; i < sampler->count; i++)
		sampler->interfaces[i].seen = false;
	error = dump(sampler, RTM_GETLINK, on_link);
	if (error == 0) {
		forget_unseen(sampler);
		error = dump(sampler, RTM_GETQDISC, on_queue);
	}
	if (error < 0) { /* the rest of its answer must not be taken for the next one's */
		close(sampler->fd);
		sampler->fd = -1;
	}
	return error;
}

static void explain(struct nic_sampler *sampler, int error)
{
	if (error == -EPERM || error == -EACCES)
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"no right to look into the rank's network namespace: needs CAP_SYS_ADMIN "
			"and CAP_SYS_PTRACE");
	else
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"the rank's network interfaces cannot be read: %s", strerror(-error));
}

static void describe(struct nic_sampler *sampler)
{
	if (sampler->cut)
		sampler_set_state(&sampler->base, SOURCE_DEGRADED,
			"more than %d interfaces: the rest is not seen", INTERFACES_MAX);
	else if (sampler->count == 0)
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"the rank's network namespace has no interface that is up but loopback");
	else
		sampler_set_state(&sampler->base, SOURCE_ON, "%s", "");
}

static size_t nic_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct nic_sampler *sampler = (struct nic_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};
	int error = read_interfaces(sampler);
	int64_t speed;

	if (error == -ESRCH)
		return 0; /* gone: keeps the state it had */
	if (error < 0) {
		explain(sampler, error);
		return 0;
	}
	describe(sampler);
	if (sampler->count == 0)
		return 0;
	sample_list_add(&list, METRIC_NIC_TRANSMIT_DROPS, sampler->drops);
	speed = busiest_speed(sampler);
	if (speed > 0)
		sample_list_add(&list, METRIC_NIC_SPEED_MBPS, speed);
	return list.count;
}

static void nic_destroy(struct sampler *base)
{
	struct nic_sampler *sampler = (struct nic_sampler *)base;

	if (sampler->fd >= 0)
		close(sampler->fd);
	free(sampler);
}

int nic_sampler_create(pid_t pid, uint32_t rank, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = nic_sample, .destroy = nic_destroy};
	struct nic_sampler *sampler = calloc(1, sizeof(*sampler));
	int error;

	if (!sampler)
		return -ENOMEM;
	sampler_init(&sampler->base, &operations, "nic", pid, rank);
	sampler->fd = -1;
	error = read_interfaces(sampler); /* the first look, for the state and the bases */
	if (error < 0)
		explain(sampler, error);
	else
		describe(sampler);
	*result = &sampler->base;
	return 0;
}
