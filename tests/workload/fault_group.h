/* SPDX-License-Identifier: Apache-2.0 */
/* A cgroup of the rank's own, v1 or v2, below the root of a controller. One thread. */
#ifndef SLOWRANK_TESTS_WORKLOAD_FAULT_GROUP_H
#define SLOWRANK_TESTS_WORKLOAD_FAULT_GROUP_H

#include <stdbool.h>
#include <stddef.h>

enum { FAULT_GROUP_PATH_BYTES = 512 };

struct fault_group {
	bool unified; /* cgroup v2 */
	char root[FAULT_GROUP_PATH_BYTES];
	char path[FAULT_GROUP_PATH_BYTES + 128]; /* ROOT/slowrank-fault-PID */
};

/* Makes the group and moves this process into it. controller: "cpu", ... Returns 0 or a negative errno. */
int fault_group_enter(struct fault_group *group, const char *controller)
	__attribute__((warn_unused_result));
/* Back to the root; the group is removed. */
void fault_group_leave(const struct fault_group *group);

/* A file of the group. Return 0 or a negative errno; of read, text is ended by a NUL. */
int fault_group_write(const struct fault_group *group, const char *name, const char *text)
	__attribute__((warn_unused_result));
int fault_group_read(const struct fault_group *group, const char *name, char *text, size_t size)
	__attribute__((warn_unused_result));

#endif
