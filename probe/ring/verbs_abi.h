/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the libibverbs ABI (infiniband/verbs.h, stable since IBVERBS_1.1 of 2007) that
 * slowrank reads, declared anew so that building needs no RDMA packages. tests/unit/verbs
 * compares every size and offset with the real header. Layout only, no code.
 */
#ifndef SLOWRANK_PROBE_RING_VERBS_ABI_H
#define SLOWRANK_PROBE_RING_VERBS_ABI_H

#include <stdint.h>

struct verbs_abi_context;
struct verbs_abi_pd {
	struct verbs_abi_context *context;
};
struct verbs_abi_cq {
	struct verbs_abi_context *context;
};

struct verbs_abi_qp {
	struct verbs_abi_context *context;
	void *qp_context, *pd, *send_cq, *recv_cq, *srq;
	uint32_t handle;
	uint32_t number;
	uint32_t state;
	uint32_t type;
};
_Static_assert(sizeof(struct verbs_abi_qp) == 64, "the used part of ibv_qp");

struct verbs_abi_sge {
	uint64_t address;
	uint32_t length;
	uint32_t key;
};
_Static_assert(sizeof(struct verbs_abi_sge) == 16, "ibv_sge");

struct verbs_abi_send_request {
	uint64_t id;
	struct verbs_abi_send_request *next;
	struct verbs_abi_sge *parts;
	int part_count;
	uint32_t opcode;
	uint32_t flags;
};
enum { VERBS_ABI_SEND_SIGNALED = 1 << 1, VERBS_ABI_REQUEST_READ = 4 };

struct verbs_abi_completion {
	uint64_t id;
	uint32_t status;
	uint32_t opcode; /* not valid when the status is not 0 */
	uint32_t vendor_error;
	uint32_t length_bytes; /* of a receive, or an RDMA read */
	uint32_t immediate;
	uint32_t qp_number;
	uint32_t source_qp;
	uint32_t flags;
	uint16_t pkey_index, source_lid;
	uint8_t service_level, path_bits;
	uint8_t padding[2];
};
_Static_assert(sizeof(struct verbs_abi_completion) == 48, "ibv_wc");
enum { VERBS_ABI_COMPLETION_RECEIVE = 1 << 7 };

typedef int verbs_abi_post_send(struct verbs_abi_qp *qp, struct verbs_abi_send_request *request,
	struct verbs_abi_send_request **bad);
typedef int verbs_abi_poll(
	struct verbs_abi_cq *cq, int entry_count, struct verbs_abi_completion *entries);

struct verbs_abi_device {
	void *operations[2];
	uint32_t node_type, transport;
	char name[64];
};

/* The device, then struct ibv_context_ops: 32 pointers. */
struct verbs_abi_context {
	struct verbs_abi_device *device;
	void *before_poll[11];
	verbs_abi_poll *poll;
	void *before_post[13];
	verbs_abi_post_send *post_send;
	void *post_receive;
};

struct verbs_abi_global_route {
	uint8_t gid[16];
	uint32_t flow_label;
	uint8_t gid_index, hop_limit, traffic_class;
	uint8_t padding[1];
};
struct verbs_abi_address {
	struct verbs_abi_global_route route;
	uint16_t lid;
	uint8_t service_level, source_path_bits, static_rate, is_global, port;
	uint8_t padding[1];
};
_Static_assert(sizeof(struct verbs_abi_address) == 32, "ibv_ah_attr");

struct verbs_abi_qp_attributes {
	uint32_t state, current_state, path_mtu, path_migration, qkey, receive_psn, send_psn;
	uint32_t peer_number;
	uint32_t access;
	uint32_t limits[5];
	struct verbs_abi_address address, alternative;
	uint16_t pkey_index, alternative_pkey_index;
	uint8_t notify, draining, read_atomic, peer_read_atomic, receiver_timer;
	uint8_t port, timeout, retry_count;
};
enum verbs_abi_attribute {
	VERBS_ABI_STATE = 1 << 0,
	VERBS_ABI_ADDRESS = 1 << 7,
	VERBS_ABI_TIMEOUT = 1 << 9,
	VERBS_ABI_RETRY_COUNT = 1 << 10,
	VERBS_ABI_PEER_NUMBER = 1 << 20,
};
enum { VERBS_ABI_STATE_RESET = 0 };

struct verbs_abi_qp_options {
	void *qp_context, *send_cq, *recv_cq, *srq;
	uint32_t limits[5];
	uint32_t type;
	int signal_all;
};

#endif
