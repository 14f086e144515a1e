/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an MPI library keeps what programs pass to it: the world, and Open MPI's predefined datatypes,
 * which are objects. Reads the process and its files, keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_MPI_OBJECTS_H
#define SLOWRANK_PROBE_ATTACH_MPI_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MPI_OBJECTS_DATATYPES_MAX = 96 };

struct mpi_datatype {
	uint64_t address;
	uint64_t length_bytes;
};

struct mpi_objects {
	/* What MPI_COMM_WORLD, MPI_COMM_SELF and MPI_COMM_NULL are: addresses of Open MPI's objects (the executable's
	 * copies where it has them), or MPICH's constants. */
	uint64_t world, self;
	uint64_t null;	     /* what callers get that are no members of what is made */
	int32_t type_shared; /* and MPI_COMM_TYPE_SHARED */
	size_t datatype_count;
	struct mpi_datatype datatypes[MPI_OBJECTS_DATATYPES_MAX]; /* by address */
};

/*
 * Returns 0; -ENOENT when the process maps no MPI library that is known. Lengths of datatypes are read
 * from the objects, where those whose length the language fixes have that length; otherwise there are
 * no datatypes.
 */
int mpi_objects_read(pid_t pid, struct mpi_objects *objects) __attribute__((warn_unused_result));

/* Bytes of one element; 0 = not known (derived types). */
size_t mpi_objects_datatype_bytes(const struct mpi_objects *objects, uint64_t datatype);

#endif
