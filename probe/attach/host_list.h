/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm's lists of hosts: "n[01-03,7],m1". Pure; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_HOST_LIST_H
#define SLOWRANK_PROBE_ATTACH_HOST_LIST_H

#include <stddef.h>

/* The name of the first host of the list, cut at the capacity; "" when there is none. */
void host_list_first(const char *list, char *name, size_t capacity_bytes);

#endif
