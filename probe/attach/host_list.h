/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of hosts: Slurm's "n[01-03,7],m1" and Open MPI 4's "m1,n[2:1-3,7].site@0(5)". Pure; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_HOST_LIST_H
#define SLOWRANK_PROBE_ATTACH_HOST_LIST_H

#include <stddef.h>

/* The name of the first host of the list, cut at the capacity; "" when there is none. */
void host_list_first(const char *list, char *name, size_t capacity_bytes);

/* The index-th name of Open MPI's list, likewise; "2:" is how many digits the numbers have. */
void host_list_open_mpi(const char *list, unsigned long index, char *name, size_t capacity_bytes);

#endif
