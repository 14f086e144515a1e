/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that run already, and all that they started; and whether they still do. Any thread. */
#ifndef SLOWRANK_PROBE_PROCESS_TREE_H
#define SLOWRANK_PROBE_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct attach_process {
	pid_t pid, parent;
};

/*
 * Finds the roots and all their descendants; returns the count. The caller frees *tree, which is
 * NULL without memory.
 */
size_t process_tree_find(const pid_t *roots, size_t root_count, struct attach_process **tree);

/* It is gone, or all of its threads are and its parent has not asked for its status yet. */
bool process_has_ended(pid_t pid);

#endif
