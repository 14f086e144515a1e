/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to spend time: on the CPU, asleep; and clocks. Thread-safe.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_WORK_H
#define SLOWRANK_TESTS_WORKLOAD_WORK_H

#include <stdint.h>

int64_t work_monotonic_ns(void);
int64_t work_realtime_ns(void);
int64_t work_thread_cpu_ns(void);
int64_t work_process_cpu_ns(void);

/* Computes until this thread has used that much CPU time: what is stolen from it comes on top. */
void work_spin(int64_t cpu_ns);
void work_sleep(int64_t length_ns);

#endif
