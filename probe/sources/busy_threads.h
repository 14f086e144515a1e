/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads of a process used the CPU most between two looks, from /proc/PID/task/TID/schedstat. For one thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_BUSY_THREADS_H
#define SLOWRANK_PROBE_SOURCES_BUSY_THREADS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "analysis/base/step.h"

enum { BUSY_THREADS_LOOKED_AT = 512 }; /* of a process at most; the others are not known */

struct busy_threads;

/* Returns 0 or -ENOMEM. */
int busy_threads_create(pid_t pid, struct busy_threads **threads)
	__attribute__((warn_unused_result));
void busy_threads_destroy(struct busy_threads *threads); /* NULL is fine */

/*
 * The busiest threads since the look before, the busiest first, at most capacity: those that ran a twentieth of
 * the time and more. Threads that are switched to more often than BUSY_THREADS_SWITCHES_MAX times a second are
 * left out, since what is exchanged at a switch costs them time. The first look returns the main thread. Returns
 * how many there are, or -ESRCH when the process is gone.
 */
enum { BUSY_THREADS_SWITCHES_MAX = 1000 };
int busy_threads_look(struct busy_threads *threads, struct host_ns now, pid_t *busiest,
	size_t capacity) __attribute__((warn_unused_result));

#endif
