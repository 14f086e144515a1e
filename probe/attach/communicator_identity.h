/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicator identities: 64-bit numbers that every member computes alike, from what it can see
 * at the library's interface. Never 0. communicator_world_handles() reads the process; the rest
 * is pure.
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

/* The creation_number-th communicator made from parent, the members that gave this colour. */
uint64_t communicator_id_from_parent(uint64_t parent_id, uint64_t creation_number, int32_t color);

/*
 * The values that MPI_COMM_WORLD and MPI_COMM_SELF have in a process: addresses of Open MPI's
 * objects (the executable's copies where it has them), or MPICH's constants. Returns 0, or
 * -ENOENT when the process maps no MPI library that is known.
 */
int communicator_world_handles(pid_t pid, uint64_t *world, uint64_t *self)
	__attribute__((warn_unused_result));

#endif
