/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bpf/told_mpi.h"

#include <stddef.h>
#include <time.h>

#define EXPORTED __attribute__((visibility("default"), noinline))

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static __attribute__((noinline)) void obey(MPI_Comm communicator)
{
	if (communicator->sleep_ns) {
		struct timespec wait = {
			communicator->sleep_ns / 1000000000, communicator->sleep_ns % 1000000000};

		nanosleep(&wait, NULL);
	}
	if (communicator->spin_ns) {
		int64_t end = now_ns() + communicator->spin_ns;

		while (now_ns() < end)
			;
	}
	switch (communicator->nested) {
	case TOLD_NESTED_BARRIER:
		communicator->nested = TOLD_NESTED_NONE;
		MPI_Barrier(communicator);
		communicator->nested = TOLD_NESTED_BARRIER;
		break;
	case TOLD_NESTED_SPLIT:
		communicator->nested = TOLD_NESTED_NONE;
		MPI_Comm_split(communicator, 9, 8, &communicator->made);
		break;
	case TOLD_NESTED_FREE:
		communicator->nested = TOLD_NESTED_NONE;
		MPI_Comm_free(&communicator->made);
		break;
	default:
		break;
	}
}

EXPORTED int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype datatype,
	MPI_Op op, MPI_Comm communicator)
{
	(void)send, (void)receive, (void)count, (void)datatype, (void)op;
	obey(communicator);
	return 0;
}

EXPORTED int MPI_Iallreduce(const void *send, void *receive, int count, MPI_Datatype datatype,
	MPI_Op op, MPI_Comm communicator, MPI_Request *request)
{
	(void)send, (void)receive, (void)count, (void)datatype, (void)op;
	*request = NULL;
	obey(communicator);
	return 0;
}

EXPORTED int MPI_Barrier(MPI_Comm communicator)
{
	obey(communicator);
	return 0;
}

EXPORTED int MPI_Bcast(
	void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm communicator)
{
	(void)buffer, (void)count, (void)datatype, (void)root;
	obey(communicator);
	return 0;
}

EXPORTED int MPI_Reduce(const void *send, void *receive, int count, MPI_Datatype datatype,
	MPI_Op op, int root, MPI_Comm communicator)
{
	(void)send, (void)receive, (void)count, (void)datatype, (void)op, (void)root;
	obey(communicator);
	return 0;
}

EXPORTED int MPI_Recv(void *buffer, int count, MPI_Datatype datatype, int source, int tag,
	MPI_Comm communicator, MPI_Status *status)
{
	(void)buffer, (void)count, (void)datatype, (void)source, (void)tag, (void)status;
	obey(communicator);
	return 0;
}

EXPORTED int MPI_Comm_split(MPI_Comm communicator, int color, int key, MPI_Comm *made)
{
	(void)key;
	obey(communicator);
	*made = color < 0 ? NULL : communicator->next; /* MPI_UNDEFINED is negative */
	return 0;
}

EXPORTED int MPI_Comm_free(MPI_Comm *communicator)
{
	obey(*communicator);
	*communicator = NULL;
	return 0;
}

/* Groups are numbers: what is made from one is the next. */
static void *next_group(const void *group)
{
	return (void *)((uintptr_t)group + 1);
}

EXPORTED int MPI_Comm_group(MPI_Comm communicator, MPI_Group *group)
{
	obey(communicator);
	*group = (void *)(uintptr_t)0x700;
	return 0;
}

EXPORTED int MPI_Comm_create(MPI_Comm communicator, MPI_Group group, MPI_Comm *made)
{
	(void)group;
	obey(communicator);
	*made = communicator->next;
	return 0;
}

EXPORTED int MPI_Comm_create_group(MPI_Comm communicator, MPI_Group group, int tag, MPI_Comm *made)
{
	(void)group, (void)tag;
	obey(communicator);
	*made = communicator->next;
	return 0;
}

EXPORTED int MPI_Group_incl(MPI_Group group, int count, const int ranks[], MPI_Group *made)
{
	(void)count, (void)ranks;
	*made = next_group(group);
	return 0;
}

EXPORTED int MPI_Group_range_excl(MPI_Group group, int count, int ranges[][3], MPI_Group *made)
{
	(void)count, (void)ranges;
	*made = next_group(group);
	return 0;
}

EXPORTED int MPI_Group_union(MPI_Group group, MPI_Group other, MPI_Group *made)
{
	(void)other;
	*made = next_group(group);
	return 0;
}

EXPORTED int MPI_Group_free(MPI_Group *group)
{
	*group = NULL;
	return 0;
}

EXPORTED int MPI_Cart_create(MPI_Comm communicator, int count, const int lengths[],
	const int periods[], int reorder, MPI_Comm *made)
{
	(void)count, (void)lengths, (void)periods, (void)reorder;
	obey(communicator);
	*made = communicator->next;
	return 0;
}

EXPORTED int MPI_Cart_sub(MPI_Comm communicator, const int keep[], MPI_Comm *made)
{
	(void)keep;
	obey(communicator);
	*made = communicator->next;
	return 0;
}

EXPORTED int MPI_Comm_rank(MPI_Comm communicator, int *rank)
{
	obey(communicator);
	*rank = communicator->rank;
	return 0;
}

EXPORTED int MPI_Comm_size(MPI_Comm communicator, int *size)
{
	obey(communicator);
	*size = communicator->rank + 5;
	return 0;
}
