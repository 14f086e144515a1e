/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is in a communicator that was made before an attach, by what Open MPI (4.0, 4.1) keeps of it and of its group in
 * the process. Where its objects lie otherwise, nothing is known: the world's own, whose members are known, are the
 * measure. Reads the process, keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_MPI_MEMBERS_H
#define SLOWRANK_PROBE_ATTACH_MPI_MEMBERS_H

#include <sys/types.h>

#include "analysis/base/step.h"
#include "probe/attach/mpi_objects.h"

/* The process's place in the world, and the world's identity. */
struct mpi_world {
	uint64_t id;
	uint32_t size, rank;
};

/*
 * The identity is the same on every member, and no other living communicator's: of the world, of the members' ranks there in order,
 * and of the number by which the library tells the process's communicators apart. Returns 0; -ENOENT when it is not
 * known (another library, an intercommunicator, a process that is not of the world), or -ENOMEM.
 */
int mpi_members_read(pid_t pid, const struct mpi_objects *objects, const struct mpi_world *world,
	uint64_t handle, struct communicator *out) __attribute__((warn_unused_result));

#endif
