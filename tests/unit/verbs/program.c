/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses verbs as programs do (linked, no lookups): COUNT sends of LENGTH bytes from
 * one queue pair to another. Prints "NUMBER PEER" before and "done" after; waits for a byte or the
 * end of its input then, with "wait" also before.
 * usage: program COUNT LENGTH [wait]
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/workload/device/verbs/provider.h"

enum { POLL_MAX = 16 };

static void drain(struct ibv_cq *cq, int count)
{
	struct ibv_wc entries[POLL_MAX];

	while (count > 0) {
		int got = ibv_poll_cq(cq, count < POLL_MAX ? count : POLL_MAX, entries);

		if (got < 0)
			exit(3);
		count -= got;
	}
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[1]) : 0, device_count;
	struct ibv_device **devices = ibv_get_device_list(&device_count);
	struct ibv_context *context = devices ? ibv_open_device(devices[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = pd ? ibv_create_cq(context, 65536, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr wanted = {
		.send_cq = cq, .recv_cq = cq, .cap.max_send_wr = 64, .qp_type = IBV_QPT_RC};
	struct ibv_sge part = {.length = argc > 2 ? (uint32_t)atoi(argv[2]) : 0};
	struct ibv_qp *qps[2];
	char byte;

	if (!cq)
		return 2;
	for (int i = 0; i < 2; i++)
		qps[i] = ibv_create_qp(pd, &wanted);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attributes = {
			.qp_state = IBV_QPS_RTR, .dest_qp_num = qps[!i]->qp_num};

		ibv_modify_qp(qps[i], &attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
	}
	printf("%u %u\n", qps[0]->qp_num, qps[1]->qp_num);
	fflush(stdout);
	if (argc > 3 && read(0, &byte, 1) < 0)
		return 5;
	for (int i = 0; i < count; i++) {
		struct ibv_send_wr request = {.wr_id = (uint64_t)i,
			.sg_list = &part,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED};
		struct ibv_recv_wr receive = {0}, *bad_receive;
		struct ibv_send_wr *bad;

		if (ibv_post_recv(qps[1], &receive, &bad_receive) ||
			ibv_post_send(qps[0], &request, &bad))
			return 4;
		drain(cq, 2);
	}
	printf("done\n");
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		return 5;
	ibv_destroy_qp(qps[0]);
	ibv_destroy_qp(qps[1]);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(devices);
	return 0;
}
