/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands; each lives in the room that does its work. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/base/version.h"
#include "coordinator/commands.h"
#include "probe/commands.h"
#include "probe/terminal_text.h"

struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static const struct subcommand subcommands[] = {
	{"run", cmd_run, "start a job and watch its ranks: slowrank run -- mpirun -n 4 ./app"},
	{"attach", cmd_attach, "watch a job that already runs: slowrank attach --pid PID"},
	{"coordinator", cmd_coordinator, "collect from probes on several hosts"},
	{"report", cmd_report, "read a record and say who was slow, and why"},
	{"watch", cmd_watch,
		"show a job in the terminal, while it runs or from a record: slowrank watch"},
	{"export", cmd_export, "write what records hold as CSV, SQLite or a trace for Perfetto"},
	{"history", cmd_history,
		"say which nodes were slow in job after job: slowrank history FOLDER"},
	{"import", cmd_import, "make a record of a trace that another tool took"},
	{"stacks", cmd_stacks,
		"say what a process or a rank does: slowrank stacks --pid PID, --rank R"},
	{"kernels", cmd_kernels, "say which kernels a rank's GPU runs: slowrank kernels --rank R"},
	{"key", cmd_key, "print what readers and webhooks need of the key: slowrank key http"},
	{"doctor", cmd_doctor, "say what can be measured on this host, and how to get the rest"},
};

static void print_usage(FILE *out)
{
	fprintf(out,
		"slowrank %s: finds the rank that slows a distributed job down, and says why\n\n"
		"usage: slowrank COMMAND [OPTION...]\n\ncommands:\n",
		SLOWRANK_VERSION);
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
		fprintf(out, "  %-12s %s\n", subcommands[i].name, subcommands[i].summary);
	fprintf(out, "\n'slowrank COMMAND --help' lists the options of a command.\n");
}

/*
 * Where the caller closed standard input, output or error, no file of ours may get its number: what
 * is printed would go into a record or a socket. Closed again for the command of `run`.
 */
static void occupy_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	occupy_standard_files();
	terminal_text_guard();
	if (argc < 2) {
		print_usage(stderr);
		return 2;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		strcmp(argv[1], "help") == 0) {
		print_usage(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("slowrank %s\n", SLOWRANK_VERSION);
		return 0;
	}
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++) {
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return subcommands[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "slowrank: no command '%s'; see 'slowrank --help'\n", argv[1]);
	return 2;
}
