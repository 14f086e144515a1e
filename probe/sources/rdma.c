/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/rdma.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/sources/text_file.h"

#define RDMA_FOLDER "/sys/class/infiniband"

#define RDMA_VERBS_FOLDER "/sys/class/infiniband_verbs"
#define DEVICE_NODE "/dev/infiniband/uverbs"

enum {
	PORTS_MAX = 64,
	PATH_LENGTH = 512,
	VALUE_LENGTH = 64,
	DESCRIPTORS_MAX = 65536, /* of a process, looked at */
	/* Devices are opened when a program starts; then it is looked less often. */
	LOOKS_AT_START = 60,
	LOOKS_LATER = 16,
};

/*
 * Counters of the InfiniBand specification (PortCounters, 16.1.3.5) and
 * of drivers (Documentation/ABI/stable/sysfs-class-infiniband; mlx5, rxe, bnxt_re, efa).
 */
static const struct counter_name {
	const char *name;
	enum rdma_figure figure;
} names[] = {
	{"counters/port_xmit_packets", RDMA_PACKETS_SENT},
	{"hw_counters/sent_pkts", RDMA_PACKETS_SENT}, /* rxe, which has no counters/ */
	{"hw_counters/tx_pkts", RDMA_PACKETS_SENT},   /* efa, likewise */
	{"counters/link_downed", RDMA_LINK_ERRORS},
	{"counters/link_error_recovery", RDMA_LINK_ERRORS},
	{"counters/symbol_error", RDMA_LINK_ERRORS},
	{"counters/local_link_integrity_errors", RDMA_LINK_ERRORS},
	{"counters/port_xmit_wait", RDMA_CONGESTION},
	{"hw_counters/np_cnp_sent", RDMA_CONGESTION},
	{"hw_counters/rp_cnp_handled", RDMA_CONGESTION},
	{"hw_counters/np_ecn_marked_roce_packets", RDMA_CONGESTION},
	{"hw_counters/rx_ecn_marked_pkts", RDMA_CONGESTION},
	{"hw_counters/out_of_sequence", RDMA_OUT_OF_ORDER},
	{"hw_counters/packet_seq_err", RDMA_RETRANSMITS},
	{"hw_counters/local_ack_timeout_err", RDMA_RETRANSMITS},
	{"hw_counters/rnr_nak_retry_err", RDMA_RETRANSMITS},
	{"hw_counters/roce_adp_retrans", RDMA_RETRANSMITS},
	{"hw_counters/completer_retry_err", RDMA_RETRANSMITS}, /* rcvd_seq_err is in it */
	{"hw_counters/out_of_seq_request", RDMA_OUT_OF_ORDER},
	{"hw_counters/to_retransmits", RDMA_RETRANSMITS},
	{"hw_counters/seq_err_naks_rcvd", RDMA_RETRANSMITS},
	{"hw_counters/retrans_pkts", RDMA_RETRANSMITS},
	{"hw_counters/link_downed", RDMA_LINK_ERRORS},
};
enum { NAME_COUNT = sizeof(names) / sizeof(names[0]) };

static bool is_active(const char *port)
{
	char text[VALUE_LENGTH];

	return text_file_read_at(text, sizeof(text), "%s/state", port) == 0 &&
	       strncmp(text, "4:", 2) == 0;
}

static void read_port(const char *port, struct rdma_totals *totals)
{
	char text[VALUE_LENGTH];

	for (size_t i = 0; i < NAME_COUNT; i++) {
		int64_t value, *sum = &totals->value[names[i].figure];

		if (text_file_read_at(text, sizeof(text), "%s/%s", port, names[i].name) < 0 ||
			!text_parse_number(text, &value))
			continue;
		totals->has[names[i].figure] = true;
		if (__builtin_add_overflow(*sum, value, sum))
			*sum = INT64_MAX;
	}
}

/* Calls on_entry for each entry of a folder. Returns 0 or -ENOENT. */
static int each_entry(
	const char *folder, void (*on_entry)(const char *path, void *context), void *context)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	char path[PATH_LENGTH];

	if (!directory)
		return -ENOENT;
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] != '.' && snprintf(path, sizeof(path), "%s/%s", folder,
						       entry->d_name) < (int)sizeof(path))
			on_entry(path, context);
	}
	closedir(directory);
	return 0;
}

struct look {
	const struct rdma_devices *devices;
	struct rdma_totals totals;
};

static void on_port(const char *path, void *context)
{
	struct rdma_totals *totals = &((struct look *)context)->totals;

	if (!is_active(path))
		return;
	if (totals->port_count == PORTS_MAX) {
		totals->skipped_count++;
		return;
	}
	totals->port_count++;
	read_port(path, totals);
}

static bool has_device(const struct rdma_devices *devices, const char *name)
{
	for (size_t i = 0; i < devices->count; i++) {
		if (strcmp(devices->names[i], name) == 0)
			return true;
	}
	return false;
}

static void on_device(const char *path, void *context)
{
	const struct look *look = context;
	char ports[PATH_LENGTH + 8];

	if (look->devices && !has_device(look->devices, strrchr(path, '/') + 1))
		return;
	snprintf(ports, sizeof(ports), "%s/ports", path);
	(void)each_entry(ports, on_port, context);
}

int rdma_read_totals(
	const char *folder, const struct rdma_devices *devices, struct rdma_totals *totals)
{
	struct look look = {.devices = devices};
	int error = each_entry(folder, on_device, &look);

	if (error < 0)
		return error;
	*totals = look.totals;
	return 0;
}

struct open_devices {
	const char *verbs;
	size_t looked;
	struct rdma_devices devices;
};

static void on_descriptor(const char *path, void *context)
{
	struct open_devices *open = context;
	char target[PATH_LENGTH], name[RDMA_NAME_LENGTH] = "";
	ssize_t length;

	if (open->looked++ >= DESCRIPTORS_MAX)
		return;
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return;
	target[length] = '\0';
	if (strncmp(target, DEVICE_NODE, strlen(DEVICE_NODE)) != 0 ||
		text_file_read_at(name, sizeof(name), "%s/%s/ibdev", open->verbs,
			strrchr(target, '/') + 1) < 0)
		return;
	name[strcspn(name, "\n")] = '\0';
	if (open->devices.count < RDMA_DEVICES_MAX && !has_device(&open->devices, name))
		memcpy(open->devices.names[open->devices.count++], name, sizeof(name));
}

int rdma_devices_open(const char *descriptors, const char *verbs, struct rdma_devices *devices)
{
	struct open_devices open = {.verbs = verbs};
	int error = each_entry(descriptors, on_descriptor, &open);

	if (error < 0)
		return error;
	*devices = open.devices;
	return 0;
}

struct rdma_sampler {
	struct sampler base;
	struct growing_counter counters[RDMA_FIGURE_NR];
	int64_t sums[RDMA_FIGURE_NR];
	struct rdma_devices devices; /* the rank's; none: all of the host's */
	unsigned looks;
};

/* Which devices are the rank's. With others, counters start anew. */
static void find_devices(struct rdma_sampler *sampler)
{
	struct rdma_devices devices = {0};
	char descriptors[64];

	if ((sampler->looks++ >= LOOKS_AT_START && sampler->looks % LOOKS_LATER != 0) ||
		access(RDMA_FOLDER, F_OK) < 0)
		return;
	snprintf(descriptors, sizeof(descriptors), "/proc/%d/fd", (int)sampler->base.pid);
	if (rdma_devices_open(descriptors, RDMA_VERBS_FOLDER, &devices) < 0 ||
		memcmp(&devices, &sampler->devices, sizeof(devices)) == 0)
		return;
	sampler->devices = devices;
	memset(sampler->counters, 0, sizeof(sampler->counters));
}

static int look(struct rdma_sampler *sampler, struct rdma_totals *totals)
{
	int error;

	find_devices(sampler);
	error = rdma_read_totals(
		RDMA_FOLDER, sampler->devices.count ? &sampler->devices : NULL, totals);
	if (error < 0 || totals->port_count == 0) {
		sampler_set_state(&sampler->base, error < 0 ? SOURCE_OFF : SOURCE_MISSING, "%s",
			error < 0 ? "this host has no RDMA device"
				  : "no port of an RDMA device is active");
		return -ENOENT;
	}
	for (size_t i = 0; i < RDMA_FIGURE_NR; i++) {
		if (totals->has[i])
			sampler->sums[i] +=
				growing_counter_step(&sampler->counters[i], totals->value[i]);
	}
	if (totals->skipped_count)
		sampler_set_state(&sampler->base, SOURCE_DEGRADED,
			"more than %d active ports: the rest is not seen", PORTS_MAX);
	else
		sampler_set_state(&sampler->base, SOURCE_ON, "%s", "");
	return 0;
}

static size_t rdma_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	static const enum metric metrics[RDMA_FIGURE_NR] = {METRIC_RDMA_RETRANSMITS,
		METRIC_RDMA_CONGESTION, METRIC_RDMA_LINK_ERRORS, METRIC_RDMA_PACKETS_SENT,
		METRIC_RDMA_OUT_OF_ORDER};
	struct rdma_sampler *sampler = (struct rdma_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};
	struct rdma_totals totals;

	if (look(sampler, &totals) < 0)
		return 0;
	for (size_t i = 0; i < RDMA_FIGURE_NR; i++) {
		if (totals.has[i])
			sample_list_add(&list, metrics[i], sampler->sums[i]);
	}
	return list.count;
}

static void rdma_destroy(struct sampler *base)
{
	free(base);
}

int rdma_sampler_create(pid_t pid, uint32_t rank, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = rdma_sample, .destroy = rdma_destroy};
	struct rdma_sampler *sampler = calloc(1, sizeof(*sampler));
	struct rdma_totals totals;

	if (!sampler)
		return -ENOMEM;
	sampler_init(&sampler->base, &operations, "rdma", pid, rank);
	(void)look(sampler, &totals); /* the first look, for the state and the bases */
	*result = &sampler->base;
	return 0;
}
