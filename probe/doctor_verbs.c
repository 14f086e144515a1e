/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices: opened here as a program would, so that the provider is loaded and its post_send and
 * poll_cq can be looked at: in which file they are, and what a probe on them would cost.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach/verbs_attach.h"
#include "probe/doctor.h"
#include "probe/ring/verbs_abi.h"
#include "probe/sources/rdma.h"

enum { DEVICES_MAX = 16 };

struct verbs_library_calls {
	void **(*get_device_list)(int *count);
	void (*free_device_list)(void **list);
	struct verbs_abi_context *(*open_device)(void *device);
	int (*close_device)(struct verbs_abi_context *context);
};

static bool load(struct verbs_library_calls *calls)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
	*(void **)&calls->get_device_list = dlsym(library, "ibv_get_device_list");
	*(void **)&calls->free_device_list = dlsym(library, "ibv_free_device_list");
	*(void **)&calls->open_device = dlsym(library, "ibv_open_device");
	*(void **)&calls->close_device = dlsym(library, "ibv_close_device");
	return calls->get_device_list && calls->free_device_list && calls->open_device &&
	       calls->close_device;
}

static void check_context(struct doctor *doctor, const struct verbs_abi_context *context)
{
	struct verbs_place post, poll;
	struct doctor_line *line;
	const char *name = context->device ? context->device->name : "?", *slash;

	if (verbs_place_find(getpid(), (uint64_t)(uintptr_t)context->post_send, &post) < 0 ||
		verbs_place_find(getpid(), (uint64_t)(uintptr_t)context->poll, &poll) < 0) {
		doctor_advise(doctor_add(doctor, DOCTOR_DEGRADED, "rdma",
				      "%.64s: its provider's functions are in no file", name),
			"its traffic is measured only in processes that slowrank starts");
		return;
	}
	slash = strrchr(post.file.name, '/');
	line = doctor_add(doctor,
		post.cost == OPCODE_CHEAP && poll.cost == OPCODE_CHEAP ? DOCTOR_FINE
								       : DOCTOR_DEGRADED,
		"rdma",
		"%.64s: provider %.100s, post_send at 0x%llx (%s to probe), poll_cq at 0x%llx (%s)",
		name, slash ? slash + 1 : post.file.name, (unsigned long long)post.offset,
		post.cost == OPCODE_CHEAP ? "cheap" : "expensive", (unsigned long long)poll.offset,
		poll.cost == OPCODE_CHEAP ? "cheap" : "expensive");
	if (post.cost == OPCODE_EXPENSIVE || poll.cost == OPCODE_EXPENSIVE)
		doctor_advise(line, "a probe there is single-stepped (about 10 us a call): running "
				    "processes are looked at more seldom");
}

static void check_counters(struct doctor *doctor)
{
	struct rdma_totals totals;

	if (rdma_read_totals("/sys/class/infiniband", NULL, &totals) < 0 ||
		totals.port_count == 0) {
		doctor_add(doctor, DOCTOR_MISSING, "rdma counters", "no port is active");
		return;
	}
	doctor_add(doctor, totals.has[RDMA_RETRANSMITS] ? DOCTOR_FINE : DOCTOR_DEGRADED,
		"rdma counters", "%zu active ports; packets %s, retransmits %s, congestion %s",
		totals.port_count, totals.has[RDMA_PACKETS_SENT] ? "yes" : "no",
		totals.has[RDMA_RETRANSMITS] ? "yes" : "no",
		totals.has[RDMA_CONGESTION] ? "yes" : "no");
}

void doctor_check_rdma(struct doctor *doctor)
{
	struct verbs_library_calls calls;
	int count = 0, opened = 0;
	void **devices;

	if (access("/sys/class/infiniband", F_OK) < 0) {
		doctor_advise(doctor_add(doctor, DOCTOR_MISSING, "rdma", "no RDMA device"),
			"nothing to do on hosts without InfiniBand or RoCE");
		return;
	}
	check_counters(doctor);
	if (!load(&calls)) {
		doctor_advise(
			doctor_add(doctor, DOCTOR_DEGRADED, "rdma", "libibverbs.so.1 is not there"),
			"nothing to do when jobs bring their own (containers)");
		return;
	}
	devices = calls.get_device_list(&count);
	for (int i = 0; devices && i < count && i < DEVICES_MAX; i++) {
		struct verbs_abi_context *context = calls.open_device(devices[i]);

		if (!context)
			continue;
		opened++;
		check_context(doctor, context);
		calls.close_device(context);
	}
	if (devices)
		calls.free_device_list(devices);
	if (!opened)
		doctor_advise(doctor_add(doctor, DOCTOR_DEGRADED, "rdma",
				      "%d devices, none can be opened here", count),
			"needs access to /dev/infiniband/uverbs*");
}
