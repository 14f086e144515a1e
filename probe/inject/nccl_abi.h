/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own declarations of NCCL's profiler plug-in interface, versions 2 to 6, as in the public headers
 * plugins/profiler/example/nccl/profiler_vN.h (before 2.29.7: ext-profiler) of NCCL 2.24 to 2.30.
 * Only what is read has a name. Sizes and offsets are asserted for 64-bit machines;
 * scripts/check_nccl_headers.sh compares them with NCCL's headers.
 */
#ifndef SLOWRANK_PROBE_INJECT_NCCL_ABI_H
#define SLOWRANK_PROBE_INJECT_NCCL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NCCL_ABI_SUCCESS = 0,
	NCCL_ABI_SYSTEM_ERROR = 2,
};

/* Event types: bits of the activation mask too. */
enum {
	NCCL_EVENT_GROUP = 1 << 0,
	NCCL_EVENT_COLLECTIVE = 1 << 1,
	NCCL_EVENT_POINT_TO_POINT = 1 << 2,
	NCCL_EVENT_PROXY_OPERATION = 1 << 3,
	NCCL_EVENT_PROXY_STEP = 1 << 4,
	NCCL_EVENT_PROXY_CONTROL = 1 << 5,
	NCCL_EVENT_KERNEL_CHANNEL = 1 << 6,
	NCCL_EVENT_NET_PLUGIN = 1 << 7,
	NCCL_EVENT_GROUP_API = 1 << 8,
	NCCL_EVENT_COLLECTIVE_API = 1 << 9,
	NCCL_EVENT_POINT_TO_POINT_API = 1 << 10,
	NCCL_EVENT_KERNEL_LAUNCH = 1 << 11,
	NCCL_EVENT_COPY_ENGINE_COLLECTIVE = 1 << 12,
	NCCL_EVENT_COPY_ENGINE_SYNCHRONISATION = 1 << 13,
	NCCL_EVENT_COPY_ENGINE_BATCH = 1 << 14,
	NCCL_EVENTS_V4 = (NCCL_EVENT_NET_PLUGIN << 1) - 1,    /* all that version 4 knows */
	NCCL_EVENTS_V5 = (NCCL_EVENT_KERNEL_LAUNCH << 1) - 1, /* all that version 5 knows */
};

enum { NCCL_STATE_KERNEL_CHANNEL_STOP = 22 };

struct nccl_collective_v2 {
	const char *name;
	uint64_t communicator_hash, sequence;
	const char *function;
	const void *send_buffer;
	void *receive_buffer;
	size_t count;
	int root;
	const char *datatype;
	size_t traffic_bytes;
	uint8_t channels_max, warps;
	const char *algorithm, *protocol;
};
struct nccl_collective_v3 {
	const char *name;
	uint64_t communicator_hash, sequence;
	const char *function;
	const void *send_buffer;
	void *receive_buffer;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels_max, warps;
	const char *algorithm, *protocol;
};
struct nccl_point_to_point_v2 { /* v3 too */
	const char *name;
	uint64_t communicator_hash;
	const char *function;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
};
struct nccl_collective_v4 {
	uint64_t sequence;
	const char *function;
	const void *send_buffer;
	void *receive_buffer;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
};
struct nccl_point_to_point_v4 {
	const char *function;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
	uint8_t channels;
};
struct nccl_collective_v5 { /* v6 too */
	struct nccl_collective_v4 common;
	void *group; /* what the parent is in v4 */
};
struct nccl_point_to_point_v5 { /* v6 too */
	struct nccl_point_to_point_v4 common;
	void *group;
};
struct nccl_kernel_channel_v4 {
	uint8_t channel;
	uint64_t timer;
};
struct nccl_collective_api_v5 {
	const char *function;
	size_t count;
	const char *datatype;
	int root;
	void *stream;
	bool graph_captured;
};
struct nccl_point_to_point_api_v5 {
	const char *function;
	size_t count;
	const char *datatype;
	void *stream;
	bool graph_captured;
};
struct nccl_copy_engine_v6 {
	uint64_t sequence;
	const char *function;
	const void *send_buffer;
	void *receive_buffer;
	size_t count;
	int root;
	const char *datatype;
};

struct nccl_event_v2 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct nccl_collective_v2 collective;
		struct nccl_point_to_point_v2 point_to_point;
	};
};
struct nccl_event_v3 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct nccl_collective_v3 collective;
		struct nccl_point_to_point_v2 point_to_point;
	};
};
struct nccl_event_v4 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct nccl_collective_v4 collective;
		struct nccl_point_to_point_v4 point_to_point;
		struct nccl_kernel_channel_v4 kernel_channel;
	};
};
struct nccl_event_v5 { /* v6 too */
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct nccl_collective_api_v5 collective_api;
		struct nccl_point_to_point_api_v5 point_to_point_api;
		struct nccl_collective_v5 collective;
		struct nccl_point_to_point_v5 point_to_point;
		struct nccl_kernel_channel_v4 kernel_channel;
		struct nccl_copy_engine_v6 copy_engine;
	};
};

union nccl_state_arguments { /* v4 to v6; v2 and v3 have no kernel channels in it */
	struct {
		uint64_t timer;
	} kernel_channel;
};

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct nccl_collective_v2) == 104, "coll of v2");
_Static_assert(offsetof(struct nccl_collective_v2, root) == 56, "coll of v2");
_Static_assert(offsetof(struct nccl_collective_v2, channels_max) == 80, "coll of v2");
_Static_assert(sizeof(struct nccl_collective_v3) == 96, "coll of v3");
_Static_assert(offsetof(struct nccl_collective_v3, channels_max) == 72, "coll of v3");
_Static_assert(sizeof(struct nccl_point_to_point_v2) == 56, "p2p of v2");
_Static_assert(offsetof(struct nccl_point_to_point_v2, peer) == 48, "p2p of v2");
_Static_assert(sizeof(struct nccl_collective_v4) == 80, "coll of v4");
_Static_assert(offsetof(struct nccl_collective_v4, channels) == 56, "coll of v4");
_Static_assert(offsetof(struct nccl_collective_v4, datatype) == 48, "coll of v4");
_Static_assert(offsetof(struct nccl_point_to_point_v4, channels) == 36, "p2p of v4");
_Static_assert(offsetof(struct nccl_collective_v5, group) == 80, "coll of v5");
_Static_assert(offsetof(struct nccl_point_to_point_v5, group) == 40, "p2p of v5");
_Static_assert(offsetof(struct nccl_kernel_channel_v4, timer) == 8, "kernelCh of v4");
_Static_assert(offsetof(struct nccl_collective_api_v5, graph_captured) == 40, "collApi of v5");
_Static_assert(offsetof(struct nccl_point_to_point_api_v5, graph_captured) == 32, "p2pApi of v5");
_Static_assert(offsetof(struct nccl_copy_engine_v6, datatype) == 48, "ceColl of v6");
_Static_assert(offsetof(struct nccl_event_v2, collective) == 24, "descriptor of v2");
_Static_assert(offsetof(struct nccl_event_v4, collective) == 24, "descriptor of v4");
_Static_assert(offsetof(struct nccl_event_v5, rank) == 16, "descriptor of v5");
_Static_assert(offsetof(struct nccl_event_v5, collective) == 24, "descriptor of v5");
#endif

typedef void (*nccl_logger)(
	int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct nccl_profiler_v2 { /* v3 too, with its own descriptor */
	const char *name;
	int (*init)(void **context, int *activation_mask);
	int (*start_event)(void *context, void **handle, void *event);
	int (*stop_event)(void *handle);
	int (*record_event_state)(void *handle, int state, const void *arguments);
	int (*finalize)(void *context);
};
struct nccl_profiler_v4 {
	const char *name;
	int (*init)(void **context, int *activation_mask, const char *communicator_name,
		uint64_t communicator_hash, int node_count, int rank_count, int rank,
		nccl_logger logger);
	int (*start_event)(void *context, void **handle, void *event);
	int (*stop_event)(void *handle);
	int (*record_event_state)(void *handle, int state, const void *arguments);
	int (*finalize)(void *context);
};
struct nccl_profiler_v5 { /* v6 too */
	const char *name;
	int (*init)(void **context, uint64_t communicator_hash, int *activation_mask,
		const char *communicator_name, int node_count, int rank_count, int rank,
		nccl_logger logger);
	int (*start_event)(void *context, void **handle, void *event);
	int (*stop_event)(void *handle);
	int (*record_event_state)(void *handle, int state, const void *arguments);
	int (*finalize)(void *context);
};

#endif
