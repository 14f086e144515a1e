/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capabilities that a probe goes on with once it has started, whoever started it. They are a thread's: to be
 * called before there are others.
 */
#ifndef SLOWRANK_PROBE_RIGHTS_H
#define SLOWRANK_PROBE_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * By their numbers: uprobes and maps (BPF, PERFMON), other users' processes (SYS_PTRACE), their libraries
 * (DAC_READ_SEARCH), their rings (DAC_OVERRIDE to write what was read, FOWNER to remove them); and, of processes that ran
 * before, sockets in other network namespaces (SYS_ADMIN, for setns()).
 */
uint64_t rights_kept(bool attached);

/* Of a process that only looks at stacks (probe/looks): it reads. */
uint64_t rights_of_sampler(void);

/* Gives up all others, for good. Before Linux 5.8, where BPF needs SYS_ADMIN: nothing. */
void rights_keep(uint64_t kept);

#endif
