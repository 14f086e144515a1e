/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel belongs to which call, and when nobody can say. */
#include "probe/kernel_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

static const char reduce_name[] = "_Z33ncclDevKernel_AllReduce_Sum_f32_RING_LL20ncclDevKernelArgs";

#define SETTLED_NS INT64_C(150000000)

static struct kernel_calls *begin(void)
{
	struct kernel_calls *calls = kernel_calls_create();

	assert_non_null(calls);
	kernel_calls_switch(calls, true);
	return calls;
}

static void call(struct kernel_calls *calls, uint64_t sequence, int64_t time_ns, uint64_t handle,
	uint8_t operation)
{
	kernel_calls_call(calls,
		&(struct collective_part){.sequence = sequence,
			.arrival = {time_ns},
			.departure = {time_ns},
			.operation = operation,
			.flags = PART_ENQUEUE_ONLY | PART_SEQUENCE_RELATIVE},
		handle);
}

static void kernel(struct kernel_calls *calls, const char *name, uint32_t stream, int64_t launch_ns,
	int64_t start_ns, int64_t stop_ns)
{
	kernel_calls_kernel(calls, &(struct kernel_calls_kernel){.name = name,
					   .stream = stream,
					   .launch = {launch_ns},
					   .start = {start_ns},
					   .stop = {stop_ns}});
}

static struct collective_part take(struct kernel_calls *calls, int64_t now_ns, bool finish)
{
	struct collective_part part;

	assert_true(kernel_calls_take(calls, (struct host_ns){now_ns}, finish, &part));
	return part;
}

static void assert_timed(
	struct collective_part part, uint64_t sequence, int64_t start_ns, int64_t stop_ns)
{
	assert_int_equal(part.sequence, sequence);
	assert_int_equal(part.flags, PART_DEVICE_TIME | PART_SEQUENCE_RELATIVE);
	assert_int_equal(part.arrival.value, start_ns);
	assert_int_equal(part.departure.value, stop_ns);
}

static void assert_untimed(struct collective_part part, uint64_t sequence, int64_t time_ns)
{
	assert_int_equal(part.sequence, sequence);
	assert_int_equal(part.flags, PART_ENQUEUE_ONLY | PART_SEQUENCE_RELATIVE);
	assert_int_equal(part.arrival.value, time_ns);
	assert_int_equal(part.departure.value, time_ns);
	assert_int_equal(part.enqueue.value, time_ns);
}

static void test_one_after_another(void **state)
{
	struct kernel_calls *calls = begin();
	struct collective_part part;

	(void)state;
	call(calls, 0, 1000, 1, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 1010, 1500, 1600);
	kernel(calls, "gemm", 7, 1700, 1800, 1900);
	call(calls, 1, 2000, 1, OPERATION_ALL_REDUCE);
	/* The second one's kernel is not known yet: whether the first had another is not sure. */
	assert_false(kernel_calls_take(calls, (struct host_ns){2100}, false, &part));
	kernel(calls, reduce_name, 7, 2010, 2500, 2600);
	/* Nor is it whether all of it came: other streams' kernels come by other buffers. */
	assert_false(kernel_calls_take(calls, (struct host_ns){2700}, false, &part));
	part = take(calls, 2700 + SETTLED_NS, false);
	assert_timed(part, 0, 1500, 1600);
	assert_int_equal(part.enqueue.value, 1000);
	assert_false(kernel_calls_take(calls, (struct host_ns){2700 + SETTLED_NS}, false, &part));
	assert_timed(take(calls, 2000 + KERNEL_CALLS_WAIT_NS + 1, false), 1, 2500, 2600);
	kernel_calls_destroy(calls);
}

static void test_kernels_in_any_order(void **state)
{
	struct kernel_calls *calls = begin();

	(void)state;
	for (int i = 0; i < 4; i++)
		call(calls, (uint64_t)i, 1000 * i + 1000, 1 + (uint64_t)i % 2,
			OPERATION_ALL_REDUCE);
	/* Two streams: what is launched first is done last. */
	kernel(calls, reduce_name, 8, 2010, 2100, 2200);
	kernel(calls, reduce_name, 8, 4010, 4100, 4200);
	kernel(calls, reduce_name, 7, 3010, 3100, 3200);
	kernel(calls, reduce_name, 7, 1010, 5100, 5200);
	assert_timed(take(calls, 6000, true), 0, 5100, 5200);
	assert_timed(take(calls, 6000, true), 1, 2100, 2200);
	assert_timed(take(calls, 6000, true), 2, 3100, 3200);
	assert_timed(take(calls, 6000, true), 3, 4100, 4200);
	kernel_calls_destroy(calls);
}

static void test_group_in_one_kernel(void **state)
{
	struct kernel_calls *calls = begin();

	(void)state;
	call(calls, 0, 1000, 1, OPERATION_ALL_REDUCE);
	call(calls, 1, 1001, 1, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 1010, 1500, 1600);
	/* Of two communicators: one kernel cannot have carried both. */
	call(calls, 2, 2000, 1, OPERATION_ALL_REDUCE);
	call(calls, 0, 2001, 2, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 2010, 2500, 2600);
	assert_timed(take(calls, 3000, true), 0, 1500, 1600);
	assert_timed(take(calls, 3000, true), 1, 1500, 1600);
	assert_untimed(take(calls, 3000, true), 2, 2000);
	assert_untimed(take(calls, 3000, true), 0, 2001);
	kernel_calls_destroy(calls);
}

/* Two calls and one kernel are no group when time lies between: a kernel is missing. */
static void test_missing_kernel_is_no_group(void **state)
{
	struct kernel_calls *calls = begin();

	(void)state;
	call(calls, 0, 1000000, 1, OPERATION_ALL_REDUCE);
	call(calls, 1, 11000000, 1, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 11001000, 11500000, 11600000);
	for (int i = 0; i < 2; i++)
		assert_true(take(calls, 20000000, true).flags & PART_ENQUEUE_ONLY);
	kernel_calls_destroy(calls);
}

static void test_what_does_not_fit(void **state)
{
	struct kernel_calls *calls = begin();
	struct kernel_calls_counts counts;

	(void)state;
	/* Two kernels for one call; another kind's kernel; one that began before its call. */
	call(calls, 0, 1000, 1, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 1010, 1500, 1600);
	kernel(calls, reduce_name, 7, 1020, 1700, 1800);
	call(calls, 1, 2000, 1, OPERATION_BROADCAST);
	kernel(calls, reduce_name, 7, 2010, 2500, 2600);
	call(calls, 2, 3000, 1, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 3010, 2900, 3100);
	call(calls, 3, 4000, 1, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 4010, 4500, 4600);
	for (uint64_t i = 0; i < 3; i++)
		assert_untimed(take(calls, 5000, true), i, 1000 * ((int64_t)i + 1));
	assert_timed(take(calls, 5000, true), 3, 4500, 4600);
	kernel_calls_get_counts(calls, &counts);
	assert_int_equal(counts.matched, 1);
	assert_int_equal(counts.unmatched, 3);
	kernel_calls_destroy(calls);
}

static void test_kernels_from_before_and_gaps(void **state)
{
	struct kernel_calls *calls = begin();

	(void)state;
	/* Of a call from before, and of calls whose kernels were not shown. */
	kernel(calls, reduce_name, 7, 500, 600, 700);
	call(calls, 0, 1000, 1, OPERATION_ALL_REDUCE);
	call(calls, 1, 2000, 1, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 2010, 2500, 2600);
	/* One kernel for two calls of one communicator: carried by it, for all that is known. */
	call(calls, 2, 3000, 1, OPERATION_ALL_REDUCE);
	kernel(calls, reduce_name, 7, 3010, 3500, 3600);
	(void)take(calls, 4000, true);
	assert_timed(take(calls, 4000, true), 1, 2500, 2600);
	assert_timed(take(calls, 4000, true), 2, 3500, 3600);
	kernel_calls_destroy(calls);
}

static void test_no_kernels_shown(void **state)
{
	struct kernel_calls *calls = begin();
	struct collective_part part;

	(void)state;
	call(calls, 0, 1000, 1, OPERATION_ALL_REDUCE);
	assert_false(kernel_calls_take(calls, (struct host_ns){1100}, false, &part));
	kernel_calls_switch(calls, false);
	assert_untimed(take(calls, 1200, false), 0, 1000);
	call(calls, 1, 2000, 1, OPERATION_ALL_REDUCE);
	assert_untimed(take(calls, 2100, false), 1, 2000);
	kernel_calls_destroy(calls);
}

static void test_more_than_fits(void **state)
{
	struct kernel_calls *calls = begin();
	struct kernel_calls_counts counts;
	struct collective_part part;
	uint64_t taken = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		call(calls, (uint64_t)i, 1000 * i + 1000, 1, OPERATION_ALL_REDUCE);
		kernel(calls, reduce_name, 7, 1000 * i + 1010, 1000 * i + 1100, 1000 * i + 1200);
	}
	while (kernel_calls_take(calls, (struct host_ns){30000000}, true, &part))
		taken++;
	kernel_calls_get_counts(calls, &counts);
	assert_int_equal(counts.matched + counts.unmatched, taken);
	assert_true(counts.matched > 8000);
	assert_int_equal(counts.dropped, 2 * 20000 - 2 * 8192);
	kernel_calls_destroy(calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_after_another),
		cmocka_unit_test(test_kernels_in_any_order),
		cmocka_unit_test(test_group_in_one_kernel),
		cmocka_unit_test(test_missing_kernel_is_no_group),
		cmocka_unit_test(test_what_does_not_fit),
		cmocka_unit_test(test_kernels_from_before_and_gaps),
		cmocka_unit_test(test_no_kernels_shown),
		cmocka_unit_test(test_more_than_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
