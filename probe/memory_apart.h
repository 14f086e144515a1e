/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the probe takes of memory is not to be the job's loss. Where the job's memory is limited and this process
 * is in the same cgroup, it leaves for one beside it; and wherever it is, the kernel takes it first when memory is
 * short, and it has a limit of its own. Children inherit all of this. For a process without threads.
 */
#ifndef SLOWRANK_PROBE_MEMORY_APART_H
#define SLOWRANK_PROBE_MEMORY_APART_H

#include "probe/sources/cgroup_place.h"

enum {
	MEMORY_APART_MIB = 1024, /* of a probe: 20 times what it takes beside 8 ranks */
	MEMORY_APART_COORDINATOR_MIB =
		4 * 1024, /* twice what 131,072 ranks take (docs/results.md) */
};
#define MEMORY_APART_GROUP "slowrank"

/* job: a process of the job, or 0 for one that this process is of. What cannot be had is left out. */
void memory_apart(pid_t job);

/*
 * The group above the highest one on the way to the top that has a limit: directory's length in it, or 0 where
 * none has one or nothing above it is seen. limited: whether the group that the first bytes of a directory
 * name has one.
 */
size_t memory_apart_place(const struct cgroup_place *place,
	bool (*limited)(const struct cgroup_place *place, size_t length));

#endif
