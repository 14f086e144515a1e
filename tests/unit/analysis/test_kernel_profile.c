/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kernels, and what differs between a suspect's kernels and its control's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/kernel_profile.h"

static void names(void **state)
{
	static const struct {
		const char *name, *simplified;
	} cases[] = {
		{"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15FillFunctorIfEEEEviT0_T1_",
			"vectorized_elementwise_kernel"},
		{"_ZN2at6native59_GLOBAL__N__a_b_c_d_e_f_g_h_i_j_k_l_m_n_o_p_q_r_s_t_u_v_w_"
		 "x18elementwise_kernel",
			"elementwise_kernel"},
		{"_Z8my_saxpyifPfS_", "my_saxpy"},
		{"void cutlass::Kernel2<cutlass_80_wmma>(Params)", "Kernel2"},
		{"nvjet_tst_192x192_64x4_2x1_v_bz_coopA_NNT",
			"nvjet_tst_192x192_64x4_2x1_v_bz_coopA_NNT"},
		{"", ""},
		{"_ZN999999999999999999999", "_ZN999999999999999999999"},
		{"_Z", "_Z"},
	};
	char simplified[KERNEL_NAME_LENGTH];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kernel_name_simplify(cases[i].name, simplified);
		assert_string_equal(simplified, cases[i].simplified);
	}
	assert_true(kernel_name_is_collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL"));
	assert_false(kernel_name_is_collective("gemm"));
}

static void add(struct kernel_profile *profile, const char *name, uint64_t count, int64_t us_each)
{
	struct kernel_sum *sum = &profile->sums[profile->sum_count++];

	strcpy(sum->name, name);
	sum->count = count;
	sum->time_ns = (int64_t)count * us_each * 1000;
	profile->kernel_count += count;
	profile->kernel_ns += sum->time_ns;
}

static void longer_or_more(void **state)
{
	struct kernel_profile control = {0}, slow = {0}, busy = {0}, same = {0};
	struct kernel_difference difference;

	(void)state;
	add(&control, "gemm", 480, 100);
	add(&control, "add", 2000, 5);
	add(&slow, "gemm", 480, 160); /* the same kernels, longer */
	add(&slow, "add", 2000, 8);
	add(&busy, "gemm", 480, 100); /* others besides */
	add(&busy, "add", 2000, 5);
	add(&busy, "extra", 120, 250);
	add(&same, "gemm", 240, 101); /* half as many steps */
	add(&same, "add", 1000, 5);
	kernel_profile_compare(&slow, 20, &control, 20, &difference);
	assert_int_equal(difference.cause, CAUSE_LONGER_KERNELS);
	assert_non_null(strstr(difference.detail, "gemm 3.84 ms a step (24 calls), control 2.40"));
	kernel_profile_compare(&busy, 20, &control, 20, &difference);
	assert_int_equal(difference.cause, CAUSE_MORE_KERNELS);
	assert_non_null(strstr(difference.detail, "extra"));
	kernel_profile_compare(&same, 10, &control, 20, &difference);
	assert_int_equal(difference.cause, CAUSE_UNKNOWN);
	kernel_profile_compare(&slow, 0, &control, 20, &difference);
	assert_int_equal(difference.cause, CAUSE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(longer_or_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
