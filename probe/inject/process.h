/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library keeps once per process: its ring, whether it is quiet, its helper thread. The
 * plug-in's ABI has calls without a context, so this is file-static state. Any thread.
 *
 * Nothing here prints, exits, aborts or changes errno. After a fork the child is quiet for good.
 */
#ifndef SLOWRANK_PROBE_INJECT_PROCESS_H
#define SLOWRANK_PROBE_INJECT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/ring/ring_layout.h"

/*
 * Makes the ring and the helper thread, once; says hello for each profiler version (0: injected).
 * False: there is no ring, or this is a forked child; everything else then does nothing.
 */
bool process_start(int profiler_version);

/* False: quiet, paused or full. */
bool process_write(enum ring_record_kind kind, const void *payload, size_t payload_bytes);

/* False in a forked child, without a ring, at the process's end. One relaxed load. */
bool process_is_live(void);

/* The probe's wishes; valid while the process is live. */
const struct ring_control *process_control(void);

int64_t process_now_ns(void);	  /* host_clock_now_ns(); no system call but the first time */
uint32_t process_thread_id(void); /* a system call at a thread's first use only */

/*
 * What the threads that called this have had of CPUs since each did first, in ns. 0: the probe does not want it, or
 * saw it a moment ago, it cannot be told of so many threads, or their waits for the device may sleep. A system call a
 * thread.
 */
uint64_t process_launchers_cpu_ns(void);

/* Tied to this process: part of every event handle, so that another's is told apart. */
uint32_t process_key(void);

enum process_drop {
	PROCESS_DROP_EVENT,
	PROCESS_DROP_COMMUNICATOR,
	PROCESS_DROP_LATE,
	PROCESS_DROP_NR
};
void process_count_drop(enum process_drop drop);

#endif
