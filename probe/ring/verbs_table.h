/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the counting wrappers around post_send and poll_cq share with the probe: one file, mapped by
 * both, with one entry per queue pair. Only the process writes; the probe reads whenever it likes.
 * Each number is written whole (64 bits, relaxed) and only grows, so a reader may see numbers of
 * one entry that are a call apart, never torn ones. The process is not trusted: the reader checks
 * magic, version, size and every index. Layout only, no code: any thread.
 *
 * The file is $SLOWRANK_RING_DIRECTORY (default /dev/shm) / slowrank-verbs.UID.PID.START, START
 * being field 22 of /proc/PID/stat, made with O_EXCL and mode 0600. The reader removes it when
 * its process has ended.
 */
#ifndef SLOWRANK_PROBE_RING_VERBS_TABLE_H
#define SLOWRANK_PROBE_RING_VERBS_TABLE_H

#include <stdint.h>

#define VERBS_TABLE_DIRECTORY "/dev/shm"
#define VERBS_TABLE_PREFIX "slowrank-verbs."
#define VERBS_TABLE_MAGIC UINT64_C(0x31736272657672) /* "rverbs1" */

enum {
	VERBS_TABLE_VERSION = 2,
	VERBS_QUEUE_PAIRS_MAX = 1024,
	VERBS_DEVICES_MAX = 32,	       /* contexts, which programs open one per device */
	VERBS_DEVICE_NAME_LENGTH = 64, /* IBV_SYSFS_NAME_MAX, infiniband/verbs.h */
	VERBS_STATUS_NR = 24,	       /* enum ibv_wc_status; later ones count as the last */
	VERBS_LATENCY_BUCKETS = 40,    /* bucket b: 2^b <= ns < 2^(b+1); the last is open */
	VERBS_GID_BYTES = 16,
};

enum verbs_queue_pair_state {
	VERBS_QUEUE_PAIR_FREE = 0,
	VERBS_QUEUE_PAIR_LIVE = 1,
	VERBS_QUEUE_PAIR_DESTROYED = 2,
};

enum verbs_queue_pair_flag {
	VERBS_HAS_PEER = 1 << 0,    /* was moved to ready-to-receive with an address */
	VERBS_PEER_GLOBAL = 1 << 1, /* peer_gid is set (RoCE, or a routed InfiniBand network) */
	/* Completions came that no post was seen for: the program posts by another way (direct
	 * verbs), or asked for all completions in ibv_create_qp_ex. Times are not measured. */
	VERBS_POSTS_UNSEEN = 1 << 2,
	/* Made for functions to post by that are not counted: what it posts so is not measurable. */
	VERBS_EXTENDED_POSTS = 1 << 6,
	/* Its send completions go to a queue that is read by ibv_start_poll and does not tell
	 * whose they are: not measurable. */
	VERBS_EXTENDED_POLL = 1 << 7,
};

struct verbs_queue_pair {
	uint32_t state;	     /* enum verbs_queue_pair_state, written last */
	uint32_t generation; /* grows when the entry gets another queue pair */
	uint32_t number;
	uint32_t type; /* enum ibv_qp_type: 2 RC, 3 UC, 4 UD */
	uint32_t peer_number;
	uint32_t flags;	 /* enum verbs_queue_pair_flag */
	uint16_t device; /* index into devices */
	uint16_t peer_lid;
	uint8_t port;	   /* own port */
	uint8_t gid_index; /* of the own address, in /sys/class/infiniband/DEVICE/ports/PORT/gids */
	uint8_t retry_count, timeout; /* as asked for: 4.096 us * 2^timeout */
	uint8_t peer_gid[VERBS_GID_BYTES];
	uint64_t contended; /* calls counted without a time, for another thread was at it */

	/* Of the send queue. A request that the provider took. */
	uint64_t posted_requests, posted_bytes;
	uint64_t post_errors;	     /* requests that the provider refused */
	uint64_t completed_requests; /* told or implied by a later completion */
	uint64_t completed_bytes;
	/* Of the receive queue. */
	uint64_t received_requests, received_bytes;
	uint64_t statuses[VERBS_STATUS_NR]; /* completions, both queues */
	/* From the call that posted a request to the poll that told its completion. */
	uint64_t latency_count, latency_sum_ns, latency_max_ns;
	uint64_t latency_unmeasured; /* completions without a time */
	uint64_t latency[VERBS_LATENCY_BUCKETS];
	/* What calls counted that did not get the lock: to be added to those above (modulo 2^64).
	 * Kept apart, so that the usual calls need no atomic additions. */
	uint64_t contended_requests, contended_bytes;
	uint64_t contended_received_requests, contended_received_bytes;
	uint64_t contended_statuses[VERBS_STATUS_NR];
	uint64_t read_bytes, contended_read_bytes; /* of the posted ones: by RDMA reads */
};
_Static_assert(sizeof(struct verbs_queue_pair) == 896, "verbs_queue_pair layout");

struct verbs_table {
	uint64_t magic;
	uint32_t version;
	uint32_t length_bytes; /* sizeof(struct verbs_table) */
	uint32_t pid, queue_pair_limit;
	uint64_t contexts_unseen;    /* opened, but there was no room to count them */
	uint64_t queue_pairs_unseen; /* likewise */
	uint64_t queue_pairs_reused; /* entries of destroyed ones that went to new ones */
	uint64_t completions_unseen; /* of queue pairs that were destroyed, or not seen before */
	uint64_t reserved[1];
	char devices[VERBS_DEVICES_MAX][VERBS_DEVICE_NAME_LENGTH];
	struct verbs_queue_pair queue_pairs[VERBS_QUEUE_PAIRS_MAX];
};
_Static_assert(sizeof(struct verbs_table) == 64 + 2048 + 1024 * 896, "verbs_table layout");

#endif
