/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launcher's command line, which has not been started yet, says: where the program's words begin,
 * and whether ranks will run on other hosts. Looks programs up and reads lists of hosts; asks no name
 * server. Any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LAUNCHER_COMMAND_H
#define SLOWRANK_PROBE_ATTACH_LAUNCHER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum launcher_kind {
	LAUNCHER_OTHER = 0,
	LAUNCHER_SRUN = 1,
	LAUNCHER_OPEN_MPI = 2,
	LAUNCHER_HYDRA = 3, /* MPICH and its relatives */
};

struct launcher_command {
	enum launcher_kind kind;
	bool several_hosts; /* of srun not asked: its ranks are never below it */
	char first_host
		[128]; /* of the list that says so, where rank 0 is by default; "" = not said */
	/*
	 * Index of the program's word, for srun and Hydra. 0: it was not found, since there is an option
	 * that is not known, or are several programs.
	 */
	size_t program;
};

/* argv ends with NULL; environment as in environment_text.h. */
void launcher_command_parse(char *const argv[], const char *environment, size_t length_bytes,
	struct launcher_command *command);

#endif
