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
	int (*start_poll)(struct verbs_abi_cq_extended *cq, void *options);
};

struct verbs_abi_qp_extended_options {
	void *qp_context, *send_cq, *recv_cq, *srq;
	uint32_t limits[5];
	uint32_t type;
	int signal_all;
	uint32_t known; /* VERBS_ABI_HAS_POST_FUNCTIONS ... */
};
enum { VERBS_ABI_HAS_POST_FUNCTIONS = 1 << 6 };

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
