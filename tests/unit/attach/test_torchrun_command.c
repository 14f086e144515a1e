/* SPDX-License-Identifier: Apache-2.0 */
/* What torchrun's command lines and PET_... variables tell of a job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/attach/torchrun_command.h"

#define PARSE(environment, out, ...)                                                               \
	torchrun_command_parse((char *[]){__VA_ARGS__, NULL}, environment, sizeof(environment), out)

static void rendezvous_of_c10d(void **state)
{
	struct torchrun_command command;

	(void)state;
	assert_true(PARSE("", &command, "/usr/bin/torchrun", "--nnodes", "2", "--nproc-per-node=4",
		"--rdzv-backend", "c10d", "--rdzv_endpoint=node-1:29777", "--rdzv-id", "run7",
		"train.py", "--nnodes", "1"));
	assert_true(command.several_hosts);
	assert_string_equal(command.job_id, "torchrun.run7.29777");
	assert_string_equal(command.address, "node-1");

	assert_true(PARSE("", &command, "torchrun", "--nnodes=1:4", "--rdzv-backend=c10d",
		"--rdzv-endpoint=[fd00::7]", "-m", "train"));
	assert_true(command.several_hosts);
	assert_string_equal(command.job_id, "torchrun.none.29400");
	assert_string_equal(command.address, "fd00::7");
}

static void static_rendezvous(void **state)
{
	struct torchrun_command command;

	(void)state;
	assert_true(PARSE("", &command, "python3", "-m", "torch.distributed.run", "--nnodes", "2",
		"--node-rank", "1", "--master-addr", "192.0.2.4", "--master_port", "29501",
		"train.py"));
	assert_true(command.several_hosts);
	assert_string_equal(command.job_id, "torchrun.none.29501");
	assert_string_equal(command.address, "192.0.2.4");
}

static void variables_where_the_command_says_nothing(void **state)
{
	struct torchrun_command command;

	(void)state;
	assert_true(PARSE("PET_NNODES=2\0PET_RDZV_BACKEND=c10d\0PET_RDZV_ENDPOINT=job-0:23456\0"
			  "PET_RDZV_ID=job",
		&command, "torchrun", "--rdzv-id=other", "train.py"));
	assert_true(command.several_hosts);
	assert_string_equal(command.job_id, "torchrun.other.23456");
	assert_string_equal(command.address, "job-0");
}

static void one_host(void **state)
{
	struct torchrun_command command;

	(void)state;
	assert_true(
		PARSE("", &command, "torchrun", "--nproc-per-node", "4", "train.py", "--nnodes=2"));
	assert_false(command.several_hosts);
	assert_true(PARSE("PET_NNODES=2", &command, "torchrun", "--standalone", "train.py"));
	assert_false(command.several_hosts);
	assert_false(PARSE("PET_NNODES=2", &command, "mpirun", "-n", "4", "app"));
	assert_true(PARSE("", &command, "torchrun", "--nnodes")); /* cut short */
	assert_false(command.several_hosts);
}

/* A key-value store that is none of the job's hosts. */
static void etcd(void **state)
{
	struct torchrun_command command;

	(void)state;
	assert_true(PARSE("", &command, "torchrun", "--nnodes=2", "--rdzv-backend=etcd-v2",
		"--rdzv-endpoint=store:2379", "--rdzv-id=9", "train.py"));
	assert_true(command.several_hosts);
	assert_string_equal(command.address, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rendezvous_of_c10d),
		cmocka_unit_test(static_rendezvous),
		cmocka_unit_test(variables_where_the_command_says_nothing),
		cmocka_unit_test(one_host),
		cmocka_unit_test(etcd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
