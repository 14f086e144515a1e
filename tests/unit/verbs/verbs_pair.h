/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two connected queue pairs on one device of the stand-in. The library's functions are looked up
 * with dlvsym(), as NCCL does. Included by test programs; any thread, one per pair.
 */
#ifndef SLOWRANK_TESTS_VERBS_PAIR_H
#define SLOWRANK_TESTS_VERBS_PAIR_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/workload/device/verbs/provider.h"

struct verbs_functions {
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int entry_count, void *cq_context,
		struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *options);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
};

static inline struct verbs_functions verbs_functions_find(void)
{
	static const char *const names[] = {"ibv_get_device_list", "ibv_free_device_list",
		"ibv_open_device", "ibv_close_device", "ibv_alloc_pd", "ibv_dealloc_pd",
		"ibv_create_cq", "ibv_destroy_cq", "ibv_create_qp", "ibv_modify_qp",
		"ibv_destroy_qp"};
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	struct verbs_functions functions;
	void **next = (void **)&functions;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		next[i] = library ? dlvsym(library, names[i], "IBVERBS_1.1") : NULL;
		if (!next[i])
			abort();
	}
	return functions;
}

struct verbs_pair {
	struct verbs_functions functions;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *receive_cq; /* of both */
	struct ibv_qp *qps[2];
};

struct verbs_pair_options {
	int device;
	unsigned send_limit; /* 0: 512 */
	int signal_all;
};

static inline void verbs_pair_connect(struct verbs_pair *pair, int own)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR,
		.dest_qp_num = pair->qps[!own]->qp_num,
		.ah_attr = {.dlid = (uint16_t)(17 + own),
			.is_global = 1,
			.port_num = 1,
			.grh.sgid_index = 3},
		.timeout = 14,
		.retry_cnt = 7};

	memset(attributes.ah_attr.grh.dgid.raw, 0xa0 + own, 16);
	if (pair->functions.modify_qp(
		    pair->qps[own], &attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN) != 0)
		abort();
	attributes.qp_state = IBV_QPS_RTS;
	if (pair->functions.modify_qp(pair->qps[own], &attributes,
		    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT) != 0)
		abort();
}

static inline void verbs_pair_open(struct verbs_pair *pair, struct verbs_pair_options options)
{
	struct ibv_device **devices;
	int count;

	pair->functions = verbs_functions_find();
	devices = pair->functions.get_device_list(&count);
	if (!devices || options.device >= count)
		abort();
	pair->context = pair->functions.open_device(devices[options.device]);
	pair->functions.free_device_list(devices);
	if (!pair->context)
		abort();
	pair->pd = pair->functions.alloc_pd(pair->context);
	pair->send_cq = pair->functions.create_cq(pair->context, 65536, NULL, NULL, 0);
	pair->receive_cq = pair->functions.create_cq(pair->context, 65536, NULL, NULL, 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr wanted = {.send_cq = pair->send_cq,
			.recv_cq = pair->receive_cq,
			.cap.max_send_wr = options.send_limit ? options.send_limit : 512,
			.qp_type = IBV_QPT_RC,
			.sq_sig_all = options.signal_all};

		pair->qps[i] = pair->functions.create_qp(pair->pd, &wanted);
		if (!pair->qps[i])
			abort();
	}
	verbs_pair_connect(pair, 0);
	verbs_pair_connect(pair, 1);
}

static inline void verbs_pair_close(struct verbs_pair *pair)
{
	for (int i = 0; i < 2; i++)
		pair->functions.destroy_qp(pair->qps[i]);
	pair->functions.destroy_cq(pair->send_cq);
	pair->functions.destroy_cq(pair->receive_cq);
	pair->functions.dealloc_pd(pair->pd);
	pair->functions.close_device(pair->context);
}

/* Posts a list of count requests of length_bytes; each every-th is signaled. Returns the error. */
static inline int verbs_pair_post(struct verbs_pair *pair, int from, enum ibv_wr_opcode opcode,
	int count, uint32_t length_bytes, int every)
{
	struct ibv_send_wr requests[64] = {0}, *bad = NULL;
	struct ibv_sge parts[2] = {
		{.length = length_bytes / 2}, {.length = length_bytes - length_bytes / 2}};

	for (int i = 0; i < count; i++)
		requests[i] = (struct ibv_send_wr){.next = i + 1 < count ? &requests[i + 1] : NULL,
			.sg_list = parts,
			.num_sge = 2,
			.opcode = opcode,
			.send_flags = (i + 1) % every == 0 ? IBV_SEND_SIGNALED : 0};
	return ibv_post_send(pair->qps[from], requests, &bad);
}

static inline void verbs_pair_receive(struct verbs_pair *pair, int at, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_recv_wr request = {0}, *bad;

		if (ibv_post_recv(pair->qps[at], &request, &bad) != 0)
			abort();
	}
}

/* Polls until so many came. */
static inline void verbs_pair_poll(struct ibv_cq *cq, int count)
{
	struct ibv_wc entries[16];

	while (count > 0) {
		int got = ibv_poll_cq(cq, 16, entries);

		if (got < 0)
			abort();
		count -= got;
	}
}

#endif
