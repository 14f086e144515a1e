/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers say, as they say it, and what broken environments say. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/host_list.h"
#include "probe/attach/launcher_environment.h"

/* A literal of NUL-separated strings; its own NUL ends the last one. */
#define PARSE(text, out) launcher_environment_parse(text, sizeof(text), out)

static void torchrun(void **state)
{
	struct launcher_environment seen;

	(void)state;
	PARSE("HOME=/root\0RANK=13\0WORLD_SIZE=16\0LOCAL_RANK=5\0LOCAL_WORLD_SIZE=8\0"
	      "TORCHELASTIC_RUN_ID=none\0MASTER_PORT=29500\0MASTER_ADDR=node-3.example",
		&seen);
	assert_int_equal(seen.rank, 13);
	assert_int_equal(seen.world_size, 16);
	assert_int_equal(seen.local_rank, 5);
	assert_int_equal(seen.local_size, 8);
	assert_int_equal(seen.restarts, 0);
	assert_string_equal(seen.job_id, "none.29500");
	assert_string_equal(seen.leader_address, "node-3.example");
	assert_true(seen.several_hosts);

	PARSE("RANK=1\0WORLD_SIZE=4\0LOCAL_RANK=1\0LOCAL_WORLD_SIZE=4\0MASTER_ADDR=node-3\0"
	      "TORCHELASTIC_RESTART_COUNT=2",
		&seen);
	assert_int_equal(seen.restarts, 2);
	assert_false(seen.several_hosts);
}

/* Kubernetes' PyTorchJob and scripts: no local size. */
static void torch_without_torchrun(void **state)
{
	struct launcher_environment seen;

	(void)state;
	PARSE("RANK=1\0WORLD_SIZE=2\0MASTER_PORT=23456\0MASTER_ADDR=job-master-0\0"
	      "PET_MASTER_ADDR=job-master-0",
		&seen);
	assert_int_equal(seen.rank, 1);
	assert_string_equal(seen.job_id, "23456");
	assert_string_equal(seen.leader_address, "job-master-0");
	assert_true(seen.several_hosts);

	PARSE("RANK=1\0WORLD_SIZE=2\0MASTER_PORT=23456\0MASTER_ADDR=127.0.0.1", &seen);
	assert_false(seen.several_hosts);

	/* Its first pod is told that it is the local host. */
	PARSE("RANK=0\0WORLD_SIZE=2\0MASTER_PORT=23456\0MASTER_ADDR=localhost\0"
	      "KUBERNETES_SERVICE_HOST=10.96.0.1\0HOSTNAME=job-master-0",
		&seen);
	assert_string_equal(seen.job_id, "23456");
	assert_string_equal(seen.leader_address, "job-master-0");
	assert_true(seen.several_hosts);
	PARSE("RANK=1\0WORLD_SIZE=2\0MASTER_PORT=23456\0MASTER_ADDR=localhost\0"
	      "KUBERNETES_SERVICE_HOST=10.96.0.1\0HOSTNAME=job-master-0",
		&seen);
	assert_string_equal(seen.leader_address, "job-master-0");
	PARSE("RANK=0\0WORLD_SIZE=2\0MASTER_ADDR=localhost\0HOSTNAME=job-master-0", &seen);
	assert_false(seen.several_hosts);
}

static void open_mpi(void **state)
{
	struct launcher_environment seen;

	(void)state;
	PARSE("OMPI_COMM_WORLD_RANK=3\0OMPI_COMM_WORLD_SIZE=8\0OMPI_COMM_WORLD_LOCAL_RANK=1\0"
	      "OMPI_COMM_WORLD_LOCAL_SIZE=2\0PMIX_NAMESPACE=2068905985\0PMIX_RANK=3\0"
	      "OMPI_MCA_orte_hnp_uri=2068905984.0;tcp://192.0.2.2,10.0.0.1:56941;"
	      "tcp6://[fd00::2]:59971",
		&seen);
	assert_int_equal(seen.rank, 3);
	assert_int_equal(seen.world_size, 8);
	assert_int_equal(seen.local_rank, 1);
	assert_int_equal(seen.local_size, 2);
	assert_string_equal(seen.job_id, "2068905985");
	assert_string_equal(seen.leader_address, "192.0.2.2");

	/* IPv6 alone. */
	PARSE("OMPI_COMM_WORLD_RANK=0\0OMPI_MCA_orte_hnp_uri=1.0;tcp6://[fd00::2]:59971", &seen);
	assert_string_equal(seen.leader_address, "fd00::2");

	/* mpirun on a node that runs no rank */
	PARSE("OMPI_COMM_WORLD_RANK=3\0OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_LOCAL_SIZE=2\0"
	      "OMPI_MCA_orte_num_nodes=2\0OMPI_MCA_ess_base_num_procs=3\0"
	      "OMPI_MCA_orte_node_regex=job-launcher,job-worker-[1:0-1].job@0(3)\0"
	      "OMPI_MCA_orte_hnp_uri=1953955840.0;tcp://10.213.0.1:38415",
		&seen);
	assert_string_equal(seen.leader_address, "job-worker-0.job");
	assert_true(seen.several_hosts);

	/* Open MPI 5 */
	PARSE("OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_LOCAL_RANK=1\0"
	      "OMPI_COMM_WORLD_LOCAL_SIZE=2\0PMIX_NAMESPACE=prterun-gpu-node-1-4021@1\0PMIX_RANK=1",
		&seen);
	assert_string_equal(seen.job_id, "prterun-gpu-node-1-4021@1");
	assert_string_equal(seen.leader_address, "gpu-node-1");
	assert_true(seen.several_hosts);
}

static void mpich_and_relatives(void **state)
{
	struct launcher_environment seen;

	(void)state;
	PARSE("PMI_RANK=2\0PMI_SIZE=4\0MPI_LOCALRANKID=0\0MPI_LOCALNRANKS=2\0"
	      "PMI_JOBID=kvs_77\0PMI_PORT=h1:4000",
		&seen);
	assert_int_equal(seen.rank, 2);
	assert_int_equal(seen.world_size, 4);
	assert_int_equal(seen.local_rank, 0);
	assert_int_equal(seen.local_size, 2);
	assert_string_equal(seen.job_id, "kvs_77");
	assert_string_equal(seen.leader_address, "");
}

/* Becomes what /proc shows of a proxy of Hydra's, whose child has a shell between it and its rank. */
static void be_proxy(int tell, bool with_port)
{
	static char rank_program[] = "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=1 sh -c "
				     "'sh -c \"echo \\$\\$; read word\"; true'; true";
	char *port[] = {"/usr/bin/hydra_pmi_proxy", "-c", rank_program, "--control-port",
		"node-1.example:40319", "--proxy-id", "0", NULL};
	char *no_port[] = {"/usr/bin/hydra_pmi_proxy", "-c", rank_program, NULL};
	char *environment[] = {"PATH=/usr/bin:/bin", NULL};

	dup2(tell, STDOUT_FILENO);
	execve("/bin/sh", with_port ? port : no_port, environment);
	_exit(1);
}

static void read_below_proxy(bool with_port, struct launcher_environment *seen)
{
	int tell[2], hold[2], rank = 0;
	char line[32] = "";
	pid_t proxy;

	assert_int_equal(pipe(tell), 0);
	assert_int_equal(pipe(hold), 0);
	proxy = fork();
	assert_true(proxy >= 0);
	if (proxy == 0) {
		dup2(hold[0], STDIN_FILENO);
		close(hold[1]);
		be_proxy(tell[1], with_port);
	}
	close(tell[1]);
	close(hold[0]);
	assert_true(read(tell[0], line, sizeof(line) - 1) > 0);
	rank = atoi(line);
	assert_true(rank > 0);
	assert_int_equal(launcher_environment_read(rank, seen), 0);
	close(hold[1]);
	close(tell[0]);
	assert_int_equal(waitpid(proxy, NULL, 0), proxy);
}

static void hydra_names_the_job_by_its_proxies(void **state)
{
	struct launcher_environment seen;

	(void)state;
	read_below_proxy(true, &seen);
	assert_int_equal(seen.rank, 1);
	assert_int_equal(seen.world_size, 2);
	assert_string_equal(seen.job_id, "node-1.example.40319");
	assert_string_equal(seen.leader_address, "node-1.example");
	read_below_proxy(false, &seen);
	assert_int_equal(seen.rank, 1);
	assert_string_equal(seen.job_id, "");
	assert_string_equal(seen.leader_address, "");
}

#define STEP                                                                                       \
	"SLURM_JOB_ID=4242\0SLURM_STEP_ID=1\0SLURM_NTASKS=32\0SLURM_STEP_NUM_NODES=2\0"            \
	"SLURM_STEP_NODELIST=gpu[07-08]\0SLURM_STEP_TASKS_PER_NODE=16(x2)\0"                       \
	"SLURM_LAUNCH_NODE_IPADDR=198.51.100.7\0SLURM_PROCID=7\0SLURM_LOCALID=3\0"

static void expect_step(const struct launcher_environment *seen)
{
	assert_int_equal(seen->rank, 7);
	assert_int_equal(seen->world_size, 32);
	assert_int_equal(seen->local_rank, 3);
	assert_string_equal(seen->job_id, "slurm.4242.1");
	assert_string_equal(seen->leader_address, "gpu07"); /* not the log-in node */
	assert_true(seen->several_hosts);
}

static void slurm(void **state)
{
	struct launcher_environment seen;

	(void)state;
	PARSE(STEP, &seen);
	expect_step(&seen);
	/* srun --mpi=pmix, srun --mpi=pmi2, a script that sets what torch.distributed reads */
	PARSE(STEP "PMIX_RANK=7\0PMIX_NAMESPACE=slurm.pmix.4242.1", &seen);
	expect_step(&seen);
	PARSE(STEP "PMI_RANK=7\0PMI_SIZE=32\0PMI_JOBID=4242.1\0PMI_FD=11", &seen);
	expect_step(&seen);
	PARSE(STEP "RANK=7\0WORLD_SIZE=32\0MASTER_ADDR=gpu07\0MASTER_PORT=29500", &seen);
	expect_step(&seen);

	/* A batch script is no rank. */
	PARSE("SLURM_PROCID=0\0SLURM_NTASKS=32\0SLURM_JOB_ID=4242\0SLURM_JOB_NODELIST=gpu[07-08]",
		&seen);
	assert_int_equal(seen.rank, STEP_RANK_UNKNOWN);
}

/* Launchers that start their daemons by srun: the inner one knows the rank. */
static void launchers_within_slurm(void **state)
{
	struct launcher_environment seen;

	(void)state;
	PARSE(STEP "OMPI_COMM_WORLD_RANK=5\0OMPI_COMM_WORLD_SIZE=8\0PMIX_NAMESPACE=77", &seen);
	assert_int_equal(seen.rank, 5);
	assert_int_equal(seen.world_size, 8);
	assert_string_equal(seen.job_id, "77");
	PARSE(STEP "PMI_RANK=5\0PMI_SIZE=8\0MPI_LOCALRANKID=1\0MPI_LOCALNRANKS=4", &seen);
	assert_int_equal(seen.rank, 5);
	assert_int_equal(seen.world_size, 8);
	PARSE(STEP "RANK=5\0WORLD_SIZE=8\0LOCAL_RANK=1\0LOCAL_WORLD_SIZE=4\0MASTER_ADDR=gpu07",
		&seen);
	assert_int_equal(seen.rank, 5);
	assert_int_equal(seen.world_size, 8);
	assert_true(seen.several_hosts);
}

static void first_host_of_a_list(void **state)
{
	static const struct {
		const char *list, *first;
	} cases[] = {{"node1", "node1"}, {"node1,node2", "node1"}, {"n[01-03,7],m1", "n01"},
		{"n[7,9-11]", "n7"}, {"rack[2-4]-node[00-15]", "rack2-node00"},
		{"n[5]-ib", "n5-ib"}, {"", ""}, {"n[3", "n3"}};
	char name[16], small[4];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		host_list_first(cases[i].list, name, sizeof(name));
		assert_string_equal(name, cases[i].first);
	}
	host_list_first("node[1-2]", small, sizeof(small));
	assert_string_equal(small, "nod");
}

static void expect_nothing(const char *text, size_t length)
{
	struct launcher_environment seen;

	memset(&seen, 0x5a, sizeof(seen));
	launcher_environment_parse(text, length, &seen);
	assert_int_equal(seen.rank, STEP_RANK_UNKNOWN);
	assert_int_equal(seen.local_rank, STEP_RANK_UNKNOWN);
	assert_int_equal(seen.world_size, 0);
	assert_int_equal(seen.local_size, 0);
	assert_string_equal(seen.job_id, "");
	assert_string_equal(seen.leader_address, "");
}

static void nonsense_is_not_a_rank(void **state)
{
	static const char *const values[] = {"", "x", "-1", "-18446744073709551611", "3x", " 3",
		"+3", "0x3", "4294967295", "99999999999999999999999", "131072"};
	char text[64];
	struct launcher_environment seen;

	(void)state;
	expect_nothing("", 0);
	expect_nothing("", 1);
	expect_nothing("RANKS=1\0XRANK=2", 16);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		int length = snprintf(text, sizeof(text), "RANK=%s", values[i]);

		expect_nothing(text, (size_t)length + 1);
	}
	/* A shell's own RANK must not hide what the launcher says. */
	PARSE("RANK=captain\0OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=2", &seen);
	assert_int_equal(seen.rank, 1);
	/* A rank outside its world is no rank. */
	PARSE("RANK=8\0WORLD_SIZE=8\0OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=2", &seen);
	assert_int_equal(seen.rank, 1);
	assert_int_equal(seen.world_size, 2);
}

/* The length bounds the text; a string without its NUL was cut and is left out. */
static void text_without_end(void **state)
{
	static const char whole[] = "RANK=1\0WORLD_SIZE=24\0MASTER_ADDR=host";
	struct launcher_environment seen;

	(void)state;
	for (size_t length = 0; length < sizeof(whole); length++) {
		char *exact = malloc(length ? length : 1);

		assert_non_null(exact);
		memcpy(exact, whole, length);
		launcher_environment_parse(exact, length, &seen);
		assert_int_equal(seen.rank, length < 7 ? STEP_RANK_UNKNOWN : 1);
		/* Half a number is no number. */
		assert_int_equal(seen.world_size, length < 21 ? 0 : 24);
		free(exact);
	}
}

static void long_values_are_cut(void **state)
{
	static const char start[] = "RANK=0\0LOCAL_WORLD_SIZE=1";
	struct launcher_environment seen;
	char text[4096], *at = text + sizeof(start);

	(void)state;
	memset(text, 0, sizeof(text));
	memcpy(text, start, sizeof(start));
	memcpy(at, "MASTER_ADDR=", 12);
	memset(at + 12, 'a', 1000);
	at += 12 + 1000 + 1;
	memcpy(at, "TORCHELASTIC_RUN_ID=", 20);
	memset(at + 20, 'b', 1000);
	launcher_environment_parse(text, sizeof(text), &seen);
	assert_int_equal(strlen(seen.leader_address), sizeof(seen.leader_address) - 1);
	assert_in_range(strlen(seen.job_id), 1, STEP_NAME_LENGTH_MAX);
}

static void of_a_live_process(void **state)
{
	struct launcher_environment seen;
	int ready[2], hold[2];
	char byte;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(hold), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		char *environment[] = {"RANK=2", "WORLD_SIZE=3", NULL};
		char *command[] = {"sh", "-c", "echo; read line", NULL};

		dup2(ready[1], STDOUT_FILENO);
		dup2(hold[0], STDIN_FILENO);
		close(ready[0]);
		close(ready[1]);
		close(hold[1]);
		execve("/bin/sh", command, environment);
		_exit(127);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(launcher_environment_read(child, &seen), 0);
	assert_int_equal(seen.rank, 2);
	assert_int_equal(seen.world_size, 3);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(hold[0]);
	close(hold[1]);
	assert_int_equal(launcher_environment_read(child, &seen), -ESRCH);
	assert_int_equal(seen.rank, STEP_RANK_UNKNOWN);
}

static void check_name(const char *list, unsigned long index, const char *name)
{
	char found[32];

	host_list_open_mpi(list, index, found, sizeof(found));
	assert_string_equal(found, name);
}

static void hosts_of_open_mpi(void **state)
{
	(void)state;
	check_name("node[1:0-2]@0(3)", 1, "node1");
	check_name("node[1:0-2]@0(3)", 3, "");
	check_name("m1,n[3:1-3,7].site,10.0.0.9@0(6)", 0, "m1");
	check_name("m1,n[3:1-3,7].site,10.0.0.9@0(6)", 3, "n003.site");
	check_name("m1,n[3:1-3,7].site,10.0.0.9@0(6)", 4, "n007.site");
	check_name("m1,n[3:1-3,7].site,10.0.0.9@0(6)", 5, "10.0.0.9");
	check_name("", 0, "");
	check_name("n[", 0, "");
	check_name("n[2:5-1", 0, "");
	check_name("a-name-that-is-much-too-long-for-this-buffer", 0,
		"a-name-that-is-much-too-long-fo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(torchrun),
		cmocka_unit_test(torch_without_torchrun),
		cmocka_unit_test(open_mpi),
		cmocka_unit_test(mpich_and_relatives),
		cmocka_unit_test(hydra_names_the_job_by_its_proxies),
		cmocka_unit_test(hosts_of_open_mpi),
		cmocka_unit_test(slurm),
		cmocka_unit_test(launchers_within_slurm),
		cmocka_unit_test(first_host_of_a_list),
		cmocka_unit_test(nonsense_is_not_a_rank),
		cmocka_unit_test(text_without_end),
		cmocka_unit_test(long_values_are_cut),
		cmocka_unit_test(of_a_live_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
