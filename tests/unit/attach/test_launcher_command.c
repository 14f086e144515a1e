/* SPDX-License-Identifier: Apache-2.0 */
/* Where the program begins in a launcher's command line, and where its ranks will run. */
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

#include "probe/attach/launcher_command.h"

/* With a folder of programs that are called as launchers are. */
struct fixture {
	char folder[64], environment[128];
};

static void make_program(const struct fixture *fixture, const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", fixture->folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(chmod(path, 0755), 0);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	strcpy(fixture->folder, "/tmp/launchers-XXXXXX");
	assert_non_null(mkdtemp(fixture->folder));
	make_program(fixture, "orterun");
	make_program(fixture, "mpiexec.hydra");
	snprintf(fixture->environment, sizeof(fixture->environment), "PATH=%s", fixture->folder);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	char command[96];

	snprintf(command, sizeof(command), "rm -r %s", fixture->folder);
	assert_int_equal(system(command), 0);
	free(fixture);
	return 0;
}

#define PARSE(out, ...)                                                                            \
	launcher_command_parse((char *[]){__VA_ARGS__, NULL}, fixture->environment,                \
		sizeof(fixture->environment), out)

static void slurm(void **state)
{
	const struct fixture *fixture = *state;
	struct launcher_command command;

	PARSE(&command, "/usr/bin/srun", "-N2", "--ntasks-per-node=2", "--mpi", "pmix", "-ln", "4",
		"-K1", "--immediate=3", "--unknown=but-whole", "./app", "-N", "3");
	assert_int_equal(command.kind, LAUNCHER_SRUN);
	assert_int_equal(command.program, 10);
	PARSE(&command, "srun", "-N", "2", "--exclusive", "--", "./app");
	assert_int_equal(command.program, 5);
	PARSE(&command, "srun", "--pty", "-I5", "bash");
	assert_int_equal(command.program, 3);
}

static void slurm_refused(void **state)
{
	const struct fixture *fixture = *state;
	struct launcher_command command;

	PARSE(&command, "srun", "--unknown", "word", "./app");
	assert_int_equal(command.program, 0);
	PARSE(&command, "srun", "--multi-prog", "programs");
	assert_int_equal(command.program, 0);
	PARSE(&command, "srun", "--bcast=/tmp/app", "./app");
	assert_int_equal(command.program, 0);
	PARSE(&command, "srun", "./one", ":", "./other");
	assert_int_equal(command.program, 0);
	PARSE(&command, "srun", "-N");
	assert_int_equal(command.program, 0);
	PARSE(&command, "srun");
	assert_int_equal(command.program, 0);
}

static void hydra(void **state)
{
	const struct fixture *fixture = *state;
	struct launcher_command command;

	PARSE(&command, "mpiexec.hydra", "-n", "4", "-hosts", "one:2,two:2", "-genv", "A", "B",
		"./app", "-f", "file");
	assert_int_equal(command.kind, LAUNCHER_HYDRA);
	assert_true(command.several_hosts);
	assert_string_equal(command.first_host, "one");
	assert_int_equal(command.program, 8);
	PARSE(&command, "mpiexec.hydra", "-n", "4", "./app", "-hosts", "one,two");
	assert_false(command.several_hosts);
	PARSE(&command, "mpiexec.hydra", "-configfile", "file");
	assert_int_equal(command.program, 0);
}

static void open_mpi(void **state)
{
	const struct fixture *fixture = *state;
	struct launcher_command command;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/hosts", fixture->folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("# all\n  one slots=2\n\ntwo:3\n", file);
	fclose(file);
	PARSE(&command, "orterun", "-n", "4", "--hostfile", path, "./app");
	assert_int_equal(command.kind, LAUNCHER_OPEN_MPI);
	assert_true(command.several_hosts);
	assert_string_equal(command.first_host, "one");
	PARSE(&command, "orterun", "--mca", "a", "b", "-H", "localhost:4", "./app");
	assert_false(command.several_hosts);
	PARSE(&command, "orterun", "--mca", "a", "b", "-np", "2", "./app", "--host", "one,two");
	assert_false(command.several_hosts);
	PARSE(&command, "orterun", "--host", "localhost,two", "./app");
	assert_true(command.several_hosts);
	assert_string_not_equal(command.first_host, "localhost"); /* it is another one there */
	PARSE(&command, "mpirun", "--host", "one,two", "./app");
	assert_int_equal(command.kind, LAUNCHER_OTHER); /* there is no such program */
}

static void allocations(void **state)
{
	static const char slurm_job[] = "PATH=/x\0SLURM_JOB_NODELIST=n[3-5]\0SLURM_JOB_NUM_NODES=3";
	static const char lsf_job[] = "LSB_HOSTS=h1 h1 h2";
	const struct fixture *fixture = *state;
	struct launcher_command command;
	char orterun[128];

	snprintf(orterun, sizeof(orterun), "%s/orterun", fixture->folder);
	launcher_command_parse(
		(char *[]){orterun, "./app", NULL}, slurm_job, sizeof(slurm_job), &command);
	assert_true(command.several_hosts);
	assert_string_equal(command.first_host, "n3");
	launcher_command_parse(
		(char *[]){orterun, "./app", NULL}, lsf_job, sizeof(lsf_job), &command);
	assert_true(command.several_hosts);
	assert_string_equal(command.first_host, "h1");
	launcher_command_parse((char *[]){orterun, "./app", NULL}, "", 0, &command);
	assert_false(command.several_hosts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(slurm, set_up, tear_down),
		cmocka_unit_test_setup_teardown(slurm_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(hydra, set_up, tear_down),
		cmocka_unit_test_setup_teardown(open_mpi, set_up, tear_down),
		cmocka_unit_test_setup_teardown(allocations, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
