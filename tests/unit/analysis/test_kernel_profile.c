/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kernels, and what differs between a suspect's kernels and its control's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/explain/kernel_profile.h"

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
		{"_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
			"ncclDevKernel_AllReduce_Sum_bf16_RING_LL"},
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

/* Looks of 20 steps of 10 ms, but for what a test changes. */
static struct kernel_profile look(void)
{
	return (struct kernel_profile){.steps = 20, .stop = {200000000}};
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
	struct kernel_profile control = look(), slow = look(), busy = look(), same = look();
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
	same.steps = 10;
	kernel_profile_compare(&slow, &control, "control", &difference);
	assert_int_equal(difference.cause, CAUSE_LONGER_KERNELS);
	assert_non_null(strstr(difference.detail, "gemm 3.84 ms a step (24 calls), control 2.40"));
	assert_float_equal(difference.own_ms, 4.64, 0.001);
	assert_float_equal(difference.control_ms, 2.9, 0.001);
	kernel_profile_compare(&busy, &control, "control", &difference);
	assert_int_equal(difference.cause, CAUSE_MORE_KERNELS);
	assert_non_null(strstr(difference.detail, "extra"));
	kernel_profile_compare(&same, &control, "control", &difference);
	assert_int_equal(difference.cause, CAUSE_UNKNOWN);
	slow.steps = 0;
	kernel_profile_compare(&slow, &control, "control", &difference);
	assert_int_equal(difference.cause, CAUSE_UNKNOWN);
}

/* Lost records must not make the other rank look as if it did more. */
static void lost_records(void **state)
{
	struct kernel_profile control = look(), busy = look();
	struct kernel_difference difference;

	(void)state;
	add(&control, "gemm", 100, 100);
	add(&busy, "gemm", 480, 100);
	control.dropped = 380;
	kernel_profile_compare(&busy, &control, "control", &difference);
	assert_int_equal(difference.cause, CAUSE_UNKNOWN);
	assert_non_null(strstr(difference.detail, "lost records"));
}

static void copies_and_gaps(void **state)
{
	struct kernel_profile control = look(), copying = look(), idle = look();
	struct kernel_difference difference;

	(void)state;
	add(&control, "gemm", 480, 100);
	add(&copying, "gemm", 480, 100);
	add(&idle, "gemm", 480, 100);
	control.copy_count = 20;
	control.copy_ns = 2000000;
	control.idle_ns = 3000000;
	copying.copy_count = 60;
	copying.copy_bytes = 400000000;
	copying.copy_ns = 62000000;
	idle.copy_count = 20;
	idle.copy_ns = 2000000;
	idle.idle_ns = 83000000;
	kernel_profile_compare(&copying, &control, "control", &difference);
	assert_int_equal(difference.cause, CAUSE_MORE_COPIES);
	assert_float_equal(difference.own_ms, 3.1, 0.001);
	assert_non_null(strstr(difference.detail, "3 copies of 20.0 MB a step, control 1 of"));
	kernel_profile_compare(&idle, &control, "control", &difference);
	assert_int_equal(difference.cause, CAUSE_LAUNCH_GAPS);
	assert_float_equal(difference.own_ms, 4.15, 0.001);
	assert_float_equal(difference.control_ms, 0.15, 0.001);
}

static void launch_histogram(void **state)
{
	uint64_t launches[KERNEL_LAUNCH_BUCKET_NR] = {0};

	(void)state;
	assert_int_equal(kernel_launch_bucket(-5000), 0); /* started before its launch: clocks */
	assert_int_equal(kernel_launch_bucket(1999), 0);
	assert_int_equal(kernel_launch_bucket(2000), 1);
	assert_int_equal(kernel_launch_bucket(4000), 2);
	assert_int_equal(kernel_launch_bucket(INT64_MAX), KERNEL_LAUNCH_BUCKET_NR - 1);
	assert_float_equal(kernel_launch_quantile_us(launches, 0.5), 0, 0);
	launches[kernel_launch_bucket(7000)] = 98; /* 4 to 8 us */
	launches[kernel_launch_bucket(900000)] = 2;
	assert_float_equal(kernel_launch_quantile_us(launches, 0.5), 8, 0);
	assert_float_equal(kernel_launch_quantile_us(launches, 0.99), 1024, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(longer_or_more),
		cmocka_unit_test(lost_records),
		cmocka_unit_test(copies_and_gaps),
		cmocka_unit_test(launch_histogram),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
