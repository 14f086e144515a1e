/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the verbs probe share. One thread. */
#ifndef SLOWRANK_PROBE_SOURCES_VERBS_PROBE_INTERNAL_H
#define SLOWRANK_PROBE_SOURCES_VERBS_PROBE_INTERNAL_H

#include "bpf/verbs_shared.h"
#include "probe/sources/duty_cycle.h"
#include "probe/sources/kernel_ring.h"
#include "probe/sources/uprobe_link.h"
#include "probe/sources/verbs_probe.h"
#include "verbs.skel.h"

enum {
	VERBS_PROBE_PLACES_MAX = 32,
	VERBS_PROBE_LIBRARIES_MAX = 16,
	VERBS_PROBE_PEERS_MAX = 4096,
	VERBS_PROBE_RANKS_MAX = 1024,
	VERBS_PROBE_CONTEXTS_MAX = 64,
};

struct verbs_hooked_place {
	struct verbs_place place;
	int fd;				/* pins the very file */
	char path[LIBRARY_LINK_LENGTH]; /* opens it */
	bool is_poll;
	struct uprobe_link at_call, at_return;
};

struct verbs_hooked_library {
	uint64_t device, inode;
	struct uprobe_link makers, objects, modify, destroy;
};

/* What was told about a queue pair. */
struct verbs_peer {
	uint64_t context;
	uint32_t pid, number;
	struct verbs_event event;
	bool destroyed;
};

struct verbs_probe_rank {
	pid_t pid;
	uint32_t rank;
};

struct verbs_probe_context {
	uint64_t context;
	uint32_t pid;
	char device[64];
};

struct verbs_probe {
	struct verbs_probe_options options;
	struct verbs_bpf *skeleton;
	struct kernel_ring *ring;
	bool multi;
	int error;	   /* of the last attachment */
	uint64_t unplaced; /* functions that lie in no file */
	size_t context_count;
	struct duty_cycle duty;
	struct message_source state;
	size_t library_count, place_count, peer_count, rank_count;
	struct verbs_hooked_library libraries[VERBS_PROBE_LIBRARIES_MAX];
	struct verbs_hooked_place places[VERBS_PROBE_PLACES_MAX];
	struct verbs_probe_rank ranks[VERBS_PROBE_RANKS_MAX];
	struct verbs_probe_context contexts[VERBS_PROBE_CONTEXTS_MAX];
	struct verbs_peer peers[VERBS_PROBE_PEERS_MAX];
};

#endif
