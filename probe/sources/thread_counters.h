/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts perf events of some threads of one process while they run, each thread's own, by perf_event_open(2) in
 * counting mode: nothing interrupts a thread, the kernel only exchanges the counters when it switches threads. What
 * was counted of a thread stays in the sums when it is no longer followed. For one thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_THREAD_COUNTERS_H
#define SLOWRANK_PROBE_SOURCES_THREAD_COUNTERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { COUNTED_EVENTS_MAX = 2, COUNTED_THREADS_MAX = 4 };

struct counted_event {
	uint32_t type; /* as in struct perf_event_attr */
	uint64_t config;
};

struct thread_counts {
	int64_t counted_ns; /* on a CPU, with the events on the counters */
	int64_t values[COUNTED_EVENTS_MAX];
};

struct thread_counters;

/* events: 1 to COUNTED_EVENTS_MAX, counted together. Returns 0 or -ENOMEM. */
int thread_counters_create(const struct counted_event *events, size_t event_count,
	struct thread_counters **counters) __attribute__((warn_unused_result));
void thread_counters_destroy(struct thread_counters *counters); /* NULL is fine */

/*
 * From now on these threads, at most COUNTED_THREADS_MAX. Returns how many of them are counted; when that is none,
 * a negative errno that says why: -EACCES or -EPERM not allowed, -ENOENT, -EOPNOTSUPP or -EINVAL no such
 * event here, -ESRCH the thread is gone.
 */
int thread_counters_follow(struct thread_counters *counters, const pid_t *threads, size_t count)
	__attribute__((warn_unused_result));

/* Reads all counters; the sums since the creation, of all threads followed meanwhile. */
struct thread_counts thread_counters_read(struct thread_counters *counters);

#endif
