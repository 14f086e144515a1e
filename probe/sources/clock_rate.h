/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cycles of one thread, estimated where nothing counts them: its CPU time, times the clock rate that
 * cpufreq tells of the CPU that it runs on at each look. For one thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_CLOCK_RATE_H
#define SLOWRANK_PROBE_SOURCES_CLOCK_RATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Zero-initialised is empty; thread 0: none is followed. */
struct clock_rate {
	pid_t thread;
	int64_t run_ns; /* of the thread, at the look before */
	bool looked;
	int64_t cycles, counted_ns; /* sums of all threads that were followed */
};

/* Whether cpufreq tells the rate of any CPU here. */
bool clock_rate_is_told(void);

/* From now on this thread. */
void clock_rate_follow(struct clock_rate *rate, pid_t thread);

/* Looks at it. Nothing is added where it was not running just now: what its CPU does then is of others. */
void clock_rate_look(struct clock_rate *rate, pid_t pid);

/* In /proc/PID/stat, proc(5): the state's letter, and the CPU (field 39). False where that is not there. */
bool clock_rate_parse_stat(const char *text, char *state, unsigned *cpu);

#endif
