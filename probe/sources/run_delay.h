/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the threads that make a process's collectives waited for a CPU, by /proc/PID/task/TID/schedstat,
 * which its own user may read. Files stay open: a look costs a read a thread. One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_RUN_DELAY_H
#define SLOWRANK_PROBE_SOURCES_RUN_DELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUN_DELAY_THREADS_MAX = 8 }; /* later ones are not read */

struct run_delay;

/* Returns NULL without memory. */
struct run_delay *run_delay_create(pid_t pid);
void run_delay_destroy(struct run_delay *delay); /* NULL is fine */

/* A thread that made a collective, as the process numbers it. */
void run_delay_thread(struct run_delay *delay, pid_t thread);

/* What came to it since the last look, all threads together, in ns. */
int64_t run_delay_look(struct run_delay *delay);

/* False: no thread's file could be read. */
bool run_delay_is_known(const struct run_delay *delay);

#endif
