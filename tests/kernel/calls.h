/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions with the names and arguments that the table of collectives knows, in a library of
 * their own. They do what `during_call` does, and return.
 */
#ifndef SLOWRANK_TESTS_KERNEL_CALLS_H
#define SLOWRANK_TESTS_KERNEL_CALLS_H

#include <stddef.h>
#include <stdint.h>

#define CALLS_EXPORT __attribute__((visibility("default")))

CALLS_EXPORT extern void (*during_call)(void);

typedef struct communicator_object *test_communicator;
CALLS_EXPORT extern long ompi_mpi_comm_world; /* marks a library with handles that are addresses */

CALLS_EXPORT int MPI_Allreduce(const void *input, void *output, int count, void *datatype,
	void *operation, test_communicator communicator);
CALLS_EXPORT int MPI_Bcast(
	void *buffer, int count, void *datatype, int root, test_communicator communicator);
CALLS_EXPORT int MPI_Reduce(const void *input, void *output, int count, void *datatype,
	void *operation, int root, test_communicator communicator);
CALLS_EXPORT int MPI_Barrier(test_communicator communicator);
CALLS_EXPORT int MPI_Ibarrier(test_communicator communicator, void **request);
CALLS_EXPORT int MPI_Recv(void *buffer, int count, void *datatype, int source, int tag,
	test_communicator communicator, void *status);
CALLS_EXPORT int MPI_Comm_split(
	test_communicator communicator, int color, int key, test_communicator *result);
CALLS_EXPORT int MPI_Comm_free(test_communicator *communicator);
CALLS_EXPORT int MPI_Comm_rank(test_communicator communicator, int *rank);
CALLS_EXPORT int MPI_Comm_size(test_communicator communicator, int *size);

/* What MPI_Comm_split, MPI_Comm_rank and MPI_Comm_size answer. */
CALLS_EXPORT extern test_communicator next_communicator;
CALLS_EXPORT extern int next_rank;

typedef struct {
	char internal[128];
} ncclUniqueId;
CALLS_EXPORT int ncclCommInitRank(
	test_communicator *result, int rank_count, ncclUniqueId unique_id, int rank);
CALLS_EXPORT int ncclCommInitRankScalable(test_communicator *result, int rank_count, int rank,
	int id_count, ncclUniqueId *unique_ids, void *configuration);
CALLS_EXPORT int ncclAllReduce(const void *input, void *output, size_t count, int datatype,
	int operation, test_communicator communicator, void *stream);

CALLS_EXPORT void slowrank_step_begin(uint64_t step);
CALLS_EXPORT void slowrank_step_end(uint64_t step);
CALLS_EXPORT int nvtxRangePushA(const char *name);
CALLS_EXPORT int nvtxRangePop(void);

#endif
