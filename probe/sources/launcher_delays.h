/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the threads that make a process's collectives waited for a CPU (/proc/PID/task/TID/schedstat) and for
 * storage (/proc/PID/task/TID/stat), which its own user may read. Files stay open: a look costs one or two reads a
 * thread. One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_LAUNCHER_DELAYS_H
#define SLOWRANK_PROBE_SOURCES_LAUNCHER_DELAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LAUNCHER_DELAYS_THREADS_MAX = 8 }; /* later ones are not read */

struct launcher_delays;

struct launcher_delay {
	int64_t cpu_ns;	   /* on a CPU */
	int64_t queued_ns; /* waited for one */
	int64_t block_io_ns; /* for storage, by ticks of 10 ms; without reads that a major fault was for */
};

/* The kernel counts waits for storage: as a rule until Linux 5.13, later where kernel.task_delayacct is 1. */
bool launcher_delays_have_block_io(void);

/* Returns NULL without memory. */
struct launcher_delays *launcher_delays_create(pid_t pid);
void launcher_delays_destroy(struct launcher_delays *delays); /* NULL is fine */

/* A thread that made a collective, as the process numbers it. */
void launcher_delays_thread(struct launcher_delays *delays, pid_t thread);

/* What came to them since the last look, all threads together. */
struct launcher_delay launcher_delays_look(struct launcher_delays *delays);

/* The same as counters, as of the last look. */
struct launcher_delay launcher_delays_sum(const struct launcher_delays *delays);

/* False: of no thread is it known how long it waited for a CPU. */
bool launcher_delays_are_known(const struct launcher_delays *delays);

#endif
