/* SPDX-License-Identifier: Apache-2.0 */
/* The RDMA counters, in a folder laid out as mlx5 and rxe lay out /sys/class/infiniband. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sources/rdma.h"
#include "tests/unit/sources/samples.h"

static char folder[64];

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_totals(void **state)
{
	struct rdma_totals totals;

	(void)state;
	put("mlx5_0/ports/1/state", "4: ACTIVE\n");
	put("mlx5_0/ports/1/counters/link_downed", "1\n");
	put("mlx5_0/ports/1/counters/port_xmit_packets", "17\n");
	put("rxe0/ports/1/hw_counters/sent_pkts", "19\n");
	put("mlx5_0/ports/1/hw_counters/out_of_sequence", "5\n");
	put("mlx5_0/ports/1/hw_counters/local_ack_timeout_err", "7\n");
	put("mlx5_0/ports/1/hw_counters/np_cnp_sent", "11\n");
	put("mlx5_0/ports/2/state", "1: DOWN\n");
	put("mlx5_0/ports/2/hw_counters/out_of_sequence", "1000000\n");
	put("rxe0/ports/1/state", "4: ACTIVE\n");
	put("rxe0/ports/1/hw_counters/completer_retry_err", "13\n");
	put("rxe0/ports/1/hw_counters/rcvd_seq_err", "12\n"); /* retries for another reason */
	put("rxe0/ports/1/hw_counters/out_of_seq_request", "3\n");
	put("rxe0/ports/1/hw_counters/to_retransmits", "nonsense\n");
	assert_int_equal(rdma_read_totals(folder, NULL, &totals), 0);
	assert_int_equal(totals.port_count, 2);
	assert_int_equal(totals.value[RDMA_RETRANSMITS], 7 + 13);
	assert_int_equal(totals.value[RDMA_OUT_OF_ORDER], 5 + 3);
	assert_int_equal(totals.value[RDMA_CONGESTION], 11);
	assert_int_equal(totals.value[RDMA_LINK_ERRORS], 1);
	assert_int_equal(totals.value[RDMA_PACKETS_SENT], 17 + 19);
	put("rxe0/ports/1/hw_counters/completer_retry_err", "9223372036854775807\n");
	assert_int_equal(rdma_read_totals(folder, NULL, &totals), 0);
	assert_int_equal(totals.value[RDMA_RETRANSMITS], INT64_MAX);
}

/* A process that has one of two devices open, twice: its counters only. */
static void test_devices_of_a_process(void **state)
{
	struct rdma_devices devices;
	struct rdma_totals totals;
	char descriptors[128], verbs[128], path[256];

	(void)state;
	put("verbs/uverbs0/ibdev", "mlx5_0\n");
	put("verbs/uverbs1/ibdev", "rxe0\n");
	put("fd/0", "");
	snprintf(descriptors, sizeof(descriptors), "%s/fd", folder);
	snprintf(verbs, sizeof(verbs), "%s/verbs", folder);
	assert_int_equal(rdma_devices_open(descriptors, verbs, &devices), 0);
	assert_int_equal(devices.count, 0);
	for (int i = 3; i < 7; i++) {
		const char *targets[] = {"/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm",
			"/dev/infiniband/uverbs1", "/dev/infiniband/uverbs7"};

		snprintf(path, sizeof(path), "%s/%d", descriptors, i);
		assert_int_equal(symlink(targets[i - 3], path), 0);
	}
	assert_int_equal(rdma_devices_open(descriptors, verbs, &devices), 0);
	assert_int_equal(devices.count, 1);
	assert_string_equal(devices.names[0], "rxe0");
	put("mlx5_0/ports/1/state", "4: ACTIVE\n");
	put("mlx5_0/ports/1/hw_counters/out_of_sequence", "5\n");
	put("rxe0/ports/1/state", "4: ACTIVE\n");
	put("rxe0/ports/1/hw_counters/completer_retry_err", "13\n");
	assert_int_equal(rdma_read_totals(folder, &devices, &totals), 0);
	assert_int_equal(totals.port_count, 1);
	assert_int_equal(totals.value[RDMA_RETRANSMITS], 13);
	assert_int_equal(rdma_devices_open("/nonexistent", verbs, &devices), -ENOENT);
}

static void test_none(void **state)
{
	struct rdma_totals totals = {.port_count = 4711};

	(void)state;
	assert_true(rdma_read_totals("/nonexistent", NULL, &totals) < 0);
	assert_int_equal(totals.port_count, 4711);
}

/* Against this host: either it has a device, or the state says that it has none. */
static void test_sampler(void **state)
{
	struct metric_sample samples[SAMPLER_SAMPLES_MAX];
	struct sampler *sampler;
	size_t count;

	(void)state;
	assert_int_equal(rdma_sampler_create(getpid(), TEST_RANK, &sampler), 0);
	count = sampler_sample(sampler, clock_now(), samples, SAMPLER_SAMPLES_MAX);
	if (sampler_state(sampler)->state == SOURCE_MISSING) {
		assert_int_equal(count, 0);
		assert_true(sampler_state(sampler)->why[0] != '\0');
	} else {
		for (size_t i = 0; i < count; i++)
			assert_true(samples[i].value >= 0);
	}
	print_cost(sampler, "rdma");
	sampler_destroy(sampler);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/rdma-test.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_totals),
		cmocka_unit_test(test_devices_of_a_process),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_sampler),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
