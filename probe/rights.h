/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capabilities that a probe goes on with once it has started, whoever started it. They are a thread's: to be
 * called before there are others.
 */
#ifndef SLOWRANK_PROBE_RIGHTS_H
#define SLOWRANK_PROBE_RIGHTS_H

#include <stdint.h>

/*
 * By their numbers: uprobes and maps (BPF, PERFMON), other users' processes and the descriptors of their rings (SYS_PTRACE),
 * their libraries (DAC_READ_SEARCH).
 */
uint64_t rights_kept(void);

/* Gives up all others, for good. Before Linux 5.8, where BPF needs SYS_ADMIN: nothing. */
void rights_keep(void);

#endif
