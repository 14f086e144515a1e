/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread did over a look, by the counters of /proc: time on a CPU, blocked on storage, major faults. One thread. */
#ifndef SLOWRANK_PROBE_LOOKS_THREAD_COUNTERS_H
#define SLOWRANK_PROBE_LOOKS_THREAD_COUNTERS_H

#include "analysis/explain/stack_profile.h"

/* Puts the counters of now into a thread whose pid and tid are set; -1 where the kernel does not tell. */
void thread_counters_begin(struct stack_thread_info *thread);
/* Puts in their place what came since; -1 where it is not known, or the thread has ended. */
void thread_counters_end(struct stack_thread_info *thread);

#endif
