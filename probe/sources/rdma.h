/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampler of the counters that RDMA devices keep themselves: of every active port,
 * /sys/class/infiniband/DEVICE/ports/PORT/counters (InfiniBand PMA counters, kept by the device
 * also where nothing of slowrank looks at verbs) and hw_counters (of the driver; names differ).
 * A rank's are those of the devices that its process has open, as long as that is known and it has
 * any; else those of the host. Ranks that open the same devices (NCCL opens all) see the same counts.
 * Source "rdma".
 */
#ifndef SLOWRANK_PROBE_SOURCES_RDMA_H
#define SLOWRANK_PROBE_SOURCES_RDMA_H

#include "probe/sources/sampler.h"

/* What the counters of a port say, summed over ports. Times in ns, else counts. */
enum rdma_figure {
	RDMA_RETRANSMITS = 0, /* the sender's: timeouts, sequence errors told by the receiver */
	RDMA_CONGESTION = 1,  /* congestion notifications sent or handled, waits to transmit */
	RDMA_LINK_ERRORS = 2, /* link down, link recovery, symbol errors */
	RDMA_PACKETS_SENT = 3,
	RDMA_OUT_OF_ORDER = 4, /* the receiver's: something sent to it was lost, or came late */
	RDMA_FIGURE_NR = 5,
};

/* One look at all ports below a folder (/sys/class/infiniband). */
struct rdma_totals {
	size_t port_count;	  /* active ones */
	size_t skipped_count;	  /* ports beyond the limit */
	bool has[RDMA_FIGURE_NR]; /* some port has a counter for it */
	int64_t value[RDMA_FIGURE_NR];
};

enum { RDMA_DEVICES_MAX = 64, RDMA_NAME_LENGTH = 64 };

struct rdma_devices {
	size_t count;
	char names[RDMA_DEVICES_MAX]
		  [RDMA_NAME_LENGTH]; /* as in /sys/class/infiniband; 0 after them */
};

/*
 * The devices that a process has open, by its descriptors (descriptors: /proc/PID/fd; verbs:
 * /sys/class/infiniband_verbs). Each once. Returns 0 or a negative errno; count 0: none.
 */
int rdma_devices_open(const char *descriptors, const char *verbs, struct rdma_devices *devices)
	__attribute__((warn_unused_result));

/* devices: only of these; NULL: of all. Returns 0, or -ENOENT when there is no RDMA device. */
int rdma_read_totals(const char *folder, const struct rdma_devices *devices,
	struct rdma_totals *totals) __attribute__((warn_unused_result));

/* Returns 0 or -ENOMEM; what cannot be measured is in the state. */
int rdma_sampler_create(pid_t pid, uint32_t rank, struct sampler **sampler)
	__attribute__((warn_unused_result));

#endif
