/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launcher told a process through its environment: torchrun, Open MPI, MPICH and its
 * relatives (PMI), Slurm. Reads /proc, keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LAUNCHER_ENVIRONMENT_H
#define SLOWRANK_PROBE_ATTACH_LAUNCHER_ENVIRONMENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "analysis/base/step.h"

struct launcher_environment {
	uint32_t rank;	     /* STEP_RANK_UNKNOWN = not said */
	uint32_t world_size; /* 0 = not said */
	uint32_t local_rank; /* STEP_RANK_UNKNOWN = not said */
	uint32_t local_size; /* ranks on this host; 0 = not said */
	uint32_t
		restarts; /* how often an elastic launcher started the rank again, as this host counts */
	char job_id[STEP_NAME_LENGTH_MAX + 1]; /* the same in all ranks of a job; "" = not said */
	const char *rank_variable; /* which one told the rank; constant text, NULL = none */
	bool several_hosts;	   /* ranks run on other hosts, too; false = not said, either */
	char leader_address[128]; /* the host of rank 0, as all ranks can reach it; "" = not said */
};

/*
 * What the environment does not say is taken from the launcher's command line where it stands there
 * (launcher_daemon.h). Returns 0; -ESRCH when the process is gone, -EACCES without rights: then nothing is
 * known.
 */
int launcher_environment_read(pid_t pid, struct launcher_environment *environment);

/* The same from NUL-separated NAME=VALUE strings, for tests. */
void launcher_environment_parse(
	const char *text, size_t length_bytes, struct launcher_environment *environment);

#endif
