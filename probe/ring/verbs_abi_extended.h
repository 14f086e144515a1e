/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extended part of the libibverbs ABI that the wrappers look at: struct verbs_context, which
 * grows to the front of struct ibv_context, and the objects that carry functions of their own.
 * tests/unit/verbs compares it with the real header. Layout only, no code.
 */
#ifndef SLOWRANK_PROBE_RING_VERBS_ABI_EXTENDED_H
#define SLOWRANK_PROBE_RING_VERBS_ABI_EXTENDED_H

#include <pthread.h>
#include <stddef.h>

#include "probe/ring/verbs_abi.h"

/* The whole of struct ibv_context. */
struct verbs_abi_context_whole {
	struct verbs_abi_context context;
	void *operations[5]; /* the last ones */
	int command_fd, event_fd, vector_count;
	pthread_mutex_t mutex;
	void *extended; /* VERBS_ABI_IS_EXTENDED: a struct verbs_abi_extended is before it */
};
#define VERBS_ABI_IS_EXTENDED ((void *)UINTPTR_MAX)

struct verbs_abi_cq_extended;
typedef int verbs_abi_start_poll(struct verbs_abi_cq_extended *cq, void *options);
typedef int verbs_abi_next_poll(struct verbs_abi_cq_extended *cq);

struct verbs_abi_cq_extended {
	struct verbs_abi_context *context;
	void *channel, *cq_context;
	uint32_t handle;
	int entry_count;
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	uint32_t completion_events, other_events;
	uint32_t known;
	uint32_t status;
	uint64_t id;
	verbs_abi_start_poll *start_poll;
	verbs_abi_next_poll *next_poll;
	void *end_poll;
	/* Of the completion that is looked at; NULL: the queue was made without it. */
	uint32_t (*read_opcode)(struct verbs_abi_cq_extended *cq);
	void *read_vendor_error;
	uint32_t (*read_length_bytes)(struct verbs_abi_cq_extended *cq);
	void *read_immediate;
	uint32_t (*read_qp_number)(struct verbs_abi_cq_extended *cq);
};

struct verbs_abi_qp_extended_options {
	void *qp_context, *send_cq, *recv_cq, *srq;
	uint32_t limits[5];
	uint32_t type;
	int signal_all;
	uint32_t known; /* VERBS_ABI_HAS_POST_FUNCTIONS ... */
	void *pd, *xrcd;
	uint32_t create_flags;
	uint16_t header_bytes_max;
	void *table;
	struct {
		uint8_t function, key_length;
		uint8_t *key;
		uint64_t fields;
	} hash;
	uint32_t source_number;
	uint64_t post_functions; /* enum ibv_qp_create_send_ops_flags */
};
enum {
	VERBS_ABI_HAS_POST_FUNCTIONS = 1 << 6,
	/* The functions that struct verbs_abi_post_functions has all of. */
	VERBS_ABI_POST_FUNCTIONS = 0x7ff,
	VERBS_ABI_POST_ATOMIC_WRITE = 1 << 12,
};

struct verbs_abi_qp_extended;
struct verbs_abi_buffer {
	void *address;
	size_t length;
};

/* ibv_wr_...: a program calls start, then for each request one of those that begin it and those
 * that give it data, then complete or abort. NULL: not asked for. */
struct verbs_abi_post_functions {
	void (*atomic_compare)(struct verbs_abi_qp_extended *qp, uint32_t key, uint64_t address,
		uint64_t compare, uint64_t swap);
	void (*atomic_add)(
		struct verbs_abi_qp_extended *qp, uint32_t key, uint64_t address, uint64_t amount);
	void (*bind)(struct verbs_abi_qp_extended *qp, void *window, uint32_t key, const void *how);
	void (*invalidate)(struct verbs_abi_qp_extended *qp, uint32_t key);
	void (*read)(struct verbs_abi_qp_extended *qp, uint32_t key, uint64_t address);
	void (*write)(struct verbs_abi_qp_extended *qp, uint32_t key, uint64_t address);
	void (*write_immediate)(struct verbs_abi_qp_extended *qp, uint32_t key, uint64_t address,
		uint32_t immediate);
	void (*send)(struct verbs_abi_qp_extended *qp);
	void (*send_immediate)(struct verbs_abi_qp_extended *qp, uint32_t immediate);
	void (*send_invalidate)(struct verbs_abi_qp_extended *qp, uint32_t key);
	void (*send_segments)(
		struct verbs_abi_qp_extended *qp, void *header, uint16_t length, uint16_t segment);
	void *set_datagram_address, *set_shared_queue;
	void (*set_inline)(struct verbs_abi_qp_extended *qp, void *address, size_t length);
	void (*set_inline_list)(struct verbs_abi_qp_extended *qp, size_t count,
		const struct verbs_abi_buffer *buffers);
	void (*set_part)(
		struct verbs_abi_qp_extended *qp, uint32_t key, uint64_t address, uint32_t length);
	void (*set_parts)(
		struct verbs_abi_qp_extended *qp, size_t count, const struct verbs_abi_sge *parts);
	void (*start)(struct verbs_abi_qp_extended *qp);
	int (*complete)(struct verbs_abi_qp_extended *qp);
	void (*abort)(struct verbs_abi_qp_extended *qp);
	/* Since rdma-core 42; there if VERBS_ABI_POST_ATOMIC_WRITE was asked for. */
	void (*atomic_write)(struct verbs_abi_qp_extended *qp, uint32_t key, uint64_t address,
		const void *value);
};

struct verbs_abi_qp_extended {
	struct verbs_abi_qp qp;
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	uint32_t events;
	uint64_t known;
	uint64_t id;
	unsigned flags; /* enum ibv_send_flags, of the next request */
	struct verbs_abi_post_functions post;
};

typedef struct verbs_abi_cq_extended *verbs_abi_create_cq_extended(
	struct verbs_abi_context *context, void *options);
typedef struct verbs_abi_qp *verbs_abi_create_qp_extended(
	struct verbs_abi_context *context, struct verbs_abi_qp_extended_options *options);

/* The end of struct verbs_context, from the first member that is of use here. */
struct verbs_abi_extended {
	verbs_abi_create_cq_extended *create_cq;
	void *between[7];
	verbs_abi_create_qp_extended *create_qp;
	void *later[5];
	size_t size; /* of the whole struct, as its maker knew it */
	struct verbs_abi_context_whole whole;
};

#endif
