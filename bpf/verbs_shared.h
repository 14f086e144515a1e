/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * What the verbs programs share with the probe. Fixed widths, sizes asserted; never leaves the
 * host. Offsets into the libibverbs ABI are written in before loading (probe/ring/verbs_abi.h).
 */
#ifndef SLOWRANK_BPF_VERBS_SHARED_H
#define SLOWRANK_BPF_VERBS_SHARED_H

#include "bpf/event_layout.h"

enum {
	VERBS_SHARED_QUEUE_PAIRS_MAX = 8192,
	VERBS_SHARED_STATUS_NR = 24,
	VERBS_SHARED_BUCKET_NR = 40,
	VERBS_SHARED_REQUESTS_MAX = 32, /* of one call; more are counted as unseen */
	VERBS_SHARED_PARTS_MAX = 8,	/* of one request, likewise */
	VERBS_SHARED_COMPLETIONS_MAX = 64,
};

/* Cookies: which function was called. */
enum verbs_cookie {
	VERBS_COOKIE_CONTEXT = 1, /* returns a context */
	VERBS_COOKIE_OBJECT = 2,  /* returns a queue pair or completion queue: context is first */
};

enum verbs_event_kind {
	VERBS_EVENT_CONTEXT = 1, /* a table of functions */
	VERBS_EVENT_PEER = 2,	 /* a queue pair has an address */
	VERBS_EVENT_DESTROYED = 3,
};

struct verbs_event {
	event_u32 kind; /* enum verbs_event_kind */
	event_u32 pid;
	event_u64 context;
	event_u64 post_send, poll; /* of a context */
	event_u32 number, peer_number;
	event_u16 peer_lid;
	event_u8 port, gid_index, is_global, timeout, retry_count, has_address;
	event_u8 peer_gid[16];
	char device[64];
};
_Static_assert(sizeof(struct verbs_event) == 128, "verbs_event layout");

struct verbs_count_key {
	event_u64 context;
	event_u32 pid; /* the kernel's number */
	event_u32 number;
};

struct verbs_count {
	event_u64 posted_requests, posted_bytes;
	event_u64 received_requests, received_bytes;
	event_u64 completed_sends; /* signaled ones */
	event_u64 unseen;	   /* requests or completions of calls too long to walk */
	event_u64 latency_count, latency_sum_ns, latency_max_ns, latency_unmeasured;
	event_u64 statuses[VERBS_SHARED_STATUS_NR];
	event_u64 latency[VERBS_SHARED_BUCKET_NR];
	event_u32 visible_pid, reserved;
};
_Static_assert(sizeof(struct verbs_count) == 600, "verbs_count layout");

#endif
