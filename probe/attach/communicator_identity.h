/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicator identities: 64-bit numbers that every member computes alike, from what it can see
 * at the library's interface. Never 0. communicator_node() reads /proc; the rest is pure.
 */
#ifndef SLOWRANK_PROBE_ATTACH_COMMUNICATOR_IDENTITY_H
#define SLOWRANK_PROBE_ATTACH_COMMUNICATOR_IDENTITY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* MPI_COMM_WORLD of the job that the launcher calls job_id. */
uint64_t communicator_world_id(const char *job_id);

/* A communicator made from a unique id (ncclUniqueId): the same bytes on every member. */
uint64_t communicator_id_from_unique(const void *unique_id, size_t length_bytes);

/* Of something made in a way (a function's name) that these numbers describe. */
uint64_t communicator_identity(const char *way, const uint64_t *numbers, size_t number_count);

/*
 * What MPI_COMM_TYPE_SHARED splits by: the launcher's daemon that started the process, found by
 * the variable that told the rank. The same number in all ranks of a node, no other's. Returns 0,
 * -ENOENT when the daemon cannot be seen (a container's processes), -EACCES, -ENOMEM.
 */
int communicator_node(pid_t pid, const char *rank_variable, uint64_t *node)
	__attribute__((warn_unused_result));

#endif
