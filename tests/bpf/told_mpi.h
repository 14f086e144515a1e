/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An MPI library that does as it is told: its communicators say how long calls on them sleep or
 * spin, and whether they call another MPI function inside. The C signatures are those of MPI 3.1.
 */
#ifndef TESTS_BPF_TOLD_MPI_H
#define TESTS_BPF_TOLD_MPI_H

#include <stdint.h>

enum told_nested {
	TOLD_NESTED_NONE = 0,
	TOLD_NESTED_BARRIER = 1,
	TOLD_NESTED_SPLIT = 2, /* makes a communicator, leaves it in `made` */
	TOLD_NESTED_FREE = 3,  /* frees the communicator in `made` */
};

struct told_communicator {
	int64_t sleep_ns, spin_ns;
	int32_t nested; /* enum told_nested */
	int32_t rank;
	struct told_communicator *next; /* what a split of this one gives */
	struct told_communicator *made;
};

typedef struct told_communicator *MPI_Comm;
typedef void *MPI_Datatype;
typedef void *MPI_Op;
typedef void *MPI_Request;
typedef void *MPI_Group;
typedef void *MPI_Status;

int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype datatype, MPI_Op op,
	MPI_Comm communicator);
int MPI_Iallreduce(const void *send, void *receive, int count, MPI_Datatype datatype, MPI_Op op,
	MPI_Comm communicator, MPI_Request *request);
int MPI_Barrier(MPI_Comm communicator);
int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm communicator);
int MPI_Reduce(const void *send, void *receive, int count, MPI_Datatype datatype, MPI_Op op,
	int root, MPI_Comm communicator);
int MPI_Recv(void *buffer, int count, MPI_Datatype datatype, int source, int tag,
	MPI_Comm communicator, MPI_Status *status);
int MPI_Comm_split(MPI_Comm communicator, int color, int key, MPI_Comm *made);
int MPI_Comm_free(MPI_Comm *communicator);
int MPI_Comm_group(MPI_Comm communicator, MPI_Group *group);
int MPI_Comm_create(MPI_Comm communicator, MPI_Group group, MPI_Comm *made);
int MPI_Comm_create_group(MPI_Comm communicator, MPI_Group group, int tag, MPI_Comm *made);
int MPI_Group_incl(MPI_Group group, int count, const int ranks[], MPI_Group *made);
int MPI_Group_range_excl(MPI_Group group, int count, int ranges[][3], MPI_Group *made);
int MPI_Group_union(MPI_Group group, MPI_Group other, MPI_Group *made);
int MPI_Group_free(MPI_Group *group);
int MPI_Cart_create(MPI_Comm communicator, int count, const int lengths[], const int periods[],
	int reorder, MPI_Comm *made);
int MPI_Cart_sub(MPI_Comm communicator, const int keep[], MPI_Comm *made);
int MPI_Comm_rank(MPI_Comm communicator, int *rank);
int MPI_Comm_size(MPI_Comm communicator, int *size);

#endif
