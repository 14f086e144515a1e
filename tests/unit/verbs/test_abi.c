/* SPDX-License-Identifier: Apache-2.0 */
/* Our declarations of the ABI against the real header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "probe/ring/verbs_abi.h"
#include "probe/ring/verbs_abi_extended.h"
#include "probe/ring/verbs_table.h"

#define SAME(ours, our_field, theirs, their_field)                                                 \
	assert_int_equal(offsetof(struct ours, our_field), offsetof(struct theirs, their_field));  \
	assert_int_equal(                                                                          \
		sizeof(((struct ours *)0)->our_field), sizeof(((struct theirs *)0)->their_field))

static void test_queue_pair(void **state)
{
	(void)state;
	SAME(verbs_abi_qp, context, ibv_qp, context);
	SAME(verbs_abi_qp, number, ibv_qp, qp_num);
	SAME(verbs_abi_qp, type, ibv_qp, qp_type);
	SAME(verbs_abi_pd, context, ibv_pd, context);
	SAME(verbs_abi_cq, context, ibv_cq, context);
	SAME(verbs_abi_qp_options, type, ibv_qp_init_attr, qp_type);
	SAME(verbs_abi_qp_options, signal_all, ibv_qp_init_attr, sq_sig_all);
}

static void test_context(void **state)
{
	(void)state;
	SAME(verbs_abi_context, device, ibv_context, device);
	SAME(verbs_abi_context, poll, ibv_context, ops.poll_cq);
	SAME(verbs_abi_context, post_send, ibv_context, ops.post_send);
	SAME(verbs_abi_context, post_receive, ibv_context, ops.post_recv);
	SAME(verbs_abi_device, name, ibv_device, name);
	assert_int_equal(VERBS_DEVICE_NAME_LENGTH, IBV_SYSFS_NAME_MAX);
}

static size_t from_context(size_t offset)
{
	return offsetof(struct verbs_context, context) - offset;
}

static void test_extended(void **state)
{
	const size_t own = offsetof(struct verbs_abi_extended, whole);

	(void)state;
	assert_int_equal(sizeof(struct verbs_abi_context_whole), sizeof(struct ibv_context));
	assert_int_equal(offsetof(struct verbs_abi_context_whole, extended),
		offsetof(struct ibv_context, abi_compat));
	assert_ptr_equal(VERBS_ABI_IS_EXTENDED, __VERBS_ABI_IS_EXTENDED);
	assert_int_equal(own - offsetof(struct verbs_abi_extended, create_cq),
		from_context(offsetof(struct verbs_context, create_cq_ex)));
	assert_int_equal(own - offsetof(struct verbs_abi_extended, create_qp),
		from_context(offsetof(struct verbs_context, create_qp_ex)));
	assert_int_equal(own - offsetof(struct verbs_abi_extended, size),
		from_context(offsetof(struct verbs_context, sz)));
	SAME(verbs_abi_cq_extended, context, ibv_cq_ex, context);
	SAME(verbs_abi_cq_extended, start_poll, ibv_cq_ex, start_poll);
	SAME(verbs_abi_qp_extended_options, signal_all, ibv_qp_init_attr_ex, sq_sig_all);
	SAME(verbs_abi_qp_extended_options, known, ibv_qp_init_attr_ex, comp_mask);
	SAME(verbs_abi_qp_extended_options, post_functions, ibv_qp_init_attr_ex, send_ops_flags);
	assert_int_equal(VERBS_ABI_HAS_POST_FUNCTIONS, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
	SAME(verbs_abi_qp, send_cq, ibv_qp, send_cq);
}

static void test_extended_polls(void **state)
{
	(void)state;
	SAME(verbs_abi_cq_extended, status, ibv_cq_ex, status);
	SAME(verbs_abi_cq_extended, id, ibv_cq_ex, wr_id);
	SAME(verbs_abi_cq_extended, next_poll, ibv_cq_ex, next_poll);
	SAME(verbs_abi_cq_extended, end_poll, ibv_cq_ex, end_poll);
	SAME(verbs_abi_cq_extended, read_opcode, ibv_cq_ex, read_opcode);
	SAME(verbs_abi_cq_extended, read_length_bytes, ibv_cq_ex, read_byte_len);
	SAME(verbs_abi_cq_extended, read_qp_number, ibv_cq_ex, read_qp_num);
}

static void test_extended_posts(void **state)
{
	(void)state;
	SAME(verbs_abi_qp_extended, known, ibv_qp_ex, comp_mask);
	SAME(verbs_abi_qp_extended, id, ibv_qp_ex, wr_id);
	SAME(verbs_abi_qp_extended, flags, ibv_qp_ex, wr_flags);
	SAME(verbs_abi_qp_extended, post.atomic_compare, ibv_qp_ex, wr_atomic_cmp_swp);
	SAME(verbs_abi_qp_extended, post.atomic_add, ibv_qp_ex, wr_atomic_fetch_add);
	SAME(verbs_abi_qp_extended, post.bind, ibv_qp_ex, wr_bind_mw);
	SAME(verbs_abi_qp_extended, post.invalidate, ibv_qp_ex, wr_local_inv);
	SAME(verbs_abi_qp_extended, post.read, ibv_qp_ex, wr_rdma_read);
	SAME(verbs_abi_qp_extended, post.write, ibv_qp_ex, wr_rdma_write);
	SAME(verbs_abi_qp_extended, post.write_immediate, ibv_qp_ex, wr_rdma_write_imm);
	SAME(verbs_abi_qp_extended, post.send, ibv_qp_ex, wr_send);
	SAME(verbs_abi_qp_extended, post.send_immediate, ibv_qp_ex, wr_send_imm);
	SAME(verbs_abi_qp_extended, post.send_invalidate, ibv_qp_ex, wr_send_inv);
	SAME(verbs_abi_qp_extended, post.send_segments, ibv_qp_ex, wr_send_tso);
	SAME(verbs_abi_qp_extended, post.set_inline, ibv_qp_ex, wr_set_inline_data);
	SAME(verbs_abi_qp_extended, post.set_inline_list, ibv_qp_ex, wr_set_inline_data_list);
	SAME(verbs_abi_qp_extended, post.set_part, ibv_qp_ex, wr_set_sge);
	SAME(verbs_abi_qp_extended, post.set_parts, ibv_qp_ex, wr_set_sge_list);
	SAME(verbs_abi_qp_extended, post.start, ibv_qp_ex, wr_start);
	SAME(verbs_abi_qp_extended, post.complete, ibv_qp_ex, wr_complete);
	SAME(verbs_abi_qp_extended, post.abort, ibv_qp_ex, wr_abort);
	SAME(verbs_abi_qp_extended, post.atomic_write, ibv_qp_ex, wr_atomic_write);
	SAME(verbs_abi_buffer, address, ibv_data_buf, addr);
	SAME(verbs_abi_buffer, length, ibv_data_buf, length);
	assert_int_equal(VERBS_ABI_POST_FUNCTIONS,
		IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
			IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_TSO);
	assert_int_equal(VERBS_ABI_POST_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE);
}

static void test_requests(void **state)
{
	(void)state;
	SAME(verbs_abi_sge, address, ibv_sge, addr);
	SAME(verbs_abi_sge, length, ibv_sge, length);
	SAME(verbs_abi_send_request, id, ibv_send_wr, wr_id);
	SAME(verbs_abi_send_request, next, ibv_send_wr, next);
	SAME(verbs_abi_send_request, parts, ibv_send_wr, sg_list);
	SAME(verbs_abi_send_request, part_count, ibv_send_wr, num_sge);
	SAME(verbs_abi_send_request, opcode, ibv_send_wr, opcode);
	SAME(verbs_abi_send_request, flags, ibv_send_wr, send_flags);
	assert_int_equal(VERBS_ABI_SEND_SIGNALED, IBV_SEND_SIGNALED);
	assert_int_equal(VERBS_ABI_REQUEST_READ, IBV_WR_RDMA_READ);
}

static void test_completions(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct verbs_abi_completion), sizeof(struct ibv_wc));
	SAME(verbs_abi_completion, id, ibv_wc, wr_id);
	SAME(verbs_abi_completion, status, ibv_wc, status);
	SAME(verbs_abi_completion, opcode, ibv_wc, opcode);
	SAME(verbs_abi_completion, length_bytes, ibv_wc, byte_len);
	SAME(verbs_abi_completion, qp_number, ibv_wc, qp_num);
	assert_int_equal(VERBS_ABI_COMPLETION_RECEIVE, IBV_WC_RECV);
	assert_in_range(IBV_WC_TM_RNDV_INCOMPLETE, 0, VERBS_STATUS_NR - 1);
}

static void test_attributes(void **state)
{
	(void)state;
	SAME(verbs_abi_qp_attributes, state, ibv_qp_attr, qp_state);
	SAME(verbs_abi_qp_attributes, peer_number, ibv_qp_attr, dest_qp_num);
	SAME(verbs_abi_qp_attributes, address, ibv_qp_attr, ah_attr);
	SAME(verbs_abi_qp_attributes, port, ibv_qp_attr, port_num);
	SAME(verbs_abi_qp_attributes, timeout, ibv_qp_attr, timeout);
	SAME(verbs_abi_qp_attributes, retry_count, ibv_qp_attr, retry_cnt);
	SAME(verbs_abi_address, route, ibv_ah_attr, grh);
	SAME(verbs_abi_address, lid, ibv_ah_attr, dlid);
	SAME(verbs_abi_address, is_global, ibv_ah_attr, is_global);
	SAME(verbs_abi_address, port, ibv_ah_attr, port_num);
	SAME(verbs_abi_global_route, gid, ibv_global_route, dgid);
	SAME(verbs_abi_global_route, gid_index, ibv_global_route, sgid_index);
	assert_int_equal(VERBS_ABI_STATE, IBV_QP_STATE);
	assert_int_equal(VERBS_ABI_ADDRESS, IBV_QP_AV);
	assert_int_equal(VERBS_ABI_TIMEOUT, IBV_QP_TIMEOUT);
	assert_int_equal(VERBS_ABI_RETRY_COUNT, IBV_QP_RETRY_CNT);
	assert_int_equal(VERBS_ABI_PEER_NUMBER, IBV_QP_DEST_QPN);
	assert_int_equal(VERBS_ABI_STATE_RESET, IBV_QPS_RESET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queue_pair),
		cmocka_unit_test(test_context),
		cmocka_unit_test(test_extended),
		cmocka_unit_test(test_extended_polls),
		cmocka_unit_test(test_extended_posts),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
