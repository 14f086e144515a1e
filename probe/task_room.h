/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and threads may be limited: of a cgroup (pids.max), of a user (RLIMIT_NPROC). What slowrank starts
 * counts there as the job's does, and a job that cannot start a thread ends. For a process without threads.
 */
#ifndef SLOWRANK_PROBE_TASK_ROOM_H
#define SLOWRANK_PROBE_TASK_ROOM_H

#include <stdbool.h>
#include <stdint.h>

enum { TASK_ROOM_WHY_LENGTH = 256 };

/*
 * Whether there is room for a probe and its coordinator, and enough beside them for a job. probes: how many start here
 * at once, of which each asks. Where not, *why says it in one line. What cannot be read limits nothing.
 */
bool task_room_suffices(uint32_t probes, char why[TASK_ROOM_WHY_LENGTH])
	__attribute__((warn_unused_result));

#endif
