/* SPDX-License-Identifier: Apache-2.0 */
/* What the first line of /proc says of a process. No state; any thread. */
#ifndef SLOWRANK_PROBE_ATTACH_PROCESS_STAT_H
#define SLOWRANK_PROBE_ATTACH_PROCESS_STAT_H

#include <stdint.h>
#include <sys/types.h>

struct process_stat {
	char state; /* R, S, D, Z, ... */
	pid_t parent;
	uint64_t start_ticks; /* since the host's boot: with the number, who it is */
};

/* Returns 0, or -ENOENT where it has gone; stat is all zeros then. */
int process_stat_read(pid_t pid, struct process_stat *stat);

#endif
