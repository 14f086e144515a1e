/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in of libibverbs and its provider: real ABI (infiniband/verbs.h), queue pairs of one
 * process that reach each other by number. The provider is a library of its own, stripped, whose
 * functions are reached only through the tables it hands out, as real providers' are.
 */
#ifndef SLOWRANK_TESTS_STAND_IN_VERBS_PROVIDER_H
#define SLOWRANK_TESTS_STAND_IN_VERBS_PROVIDER_H

#include <infiniband/verbs.h>

/* What the library calls a provider for. */
struct stand_in_provider {
	struct ibv_context *(*open)(struct ibv_device *device);
	int (*close)(struct ibv_context *context);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int entry_count);
	int (*destroy_cq)(struct ibv_cq *cq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, const struct ibv_qp_init_attr *options);
	int (*modify_qp)(struct ibv_qp *qp, const struct ibv_qp_attr *attributes, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	/* Completions become visible so long after their posting. */
	void (*set_delay)(struct ibv_context *context, uint64_t delay_ns);
};

#define STAND_IN_PROVIDER_ENTRY "stand_in_provider_entry"

/* Beyond the ABI, exported by the stand-in library. */
void stand_in_set_delay(struct ibv_context *context, uint64_t delay_ns);

#endif
