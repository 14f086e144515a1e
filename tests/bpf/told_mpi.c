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
