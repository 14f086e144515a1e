/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/calls.h"

void (*during_call)(void);
long ompi_mpi_comm_world;
test_communicator next_communicator;
int next_rank;

static int perform(void)
{
	void (*work)(void) = during_call;

	during_call = NULL;
	if (work)
		work();
	return 0;
}

int MPI_Allreduce(const void *input, void *output, int count, void *datatype, void *operation,
	test_communicator communicator)
{
	(void)input, (void)output, (void)count, (void)datatype, (void)operation;
	(void)communicator;
	return perform();
}

int MPI_Bcast(void *buffer, int count, void *datatype, int root, test_communicator communicator)
{
	(void)buffer, (void)count, (void)datatype, (void)root, (void)communicator;
	return perform();
}

int MPI_Reduce(const void *input, void *output, int count, void *datatype, void *operation,
	int root, test_communicator communicator)
{
	(void)input, (void)output, (void)count, (void)datatype, (void)operation, (void)root;
	(void)communicator;
	return perform();
}

int MPI_Barrier(test_communicator communicator)
{
	(void)communicator;
	return perform();
}

int MPI_Ibarrier(test_communicator communicator, void **request)
{
	(void)communicator, (void)request;
	return perform();
}

int MPI_Recv(void *buffer, int count, void *datatype, int source, int tag,
	test_communicator communicator, void *status)
{
	(void)buffer, (void)count, (void)datatype, (void)source, (void)tag, (void)communicator;
	(void)status;
	return perform();
}

int MPI_Comm_split(test_communicator communicator, int color, int key, test_communicator *result)
{
	(void)communicator, (void)color, (void)key;
	perform();
	*result = next_communicator;
	return 0;
}

int MPI_Comm_free(test_communicator *communicator)
{
	perform();
	*communicator = NULL;
	return 0;
}

int MPI_Comm_rank(test_communicator communicator, int *rank)
{
	(void)communicator;
	perform();
	*rank = next_rank;
	return 0;
}

int MPI_Comm_size(test_communicator communicator, int *size)
{
	(void)communicator;
	perform();
	*size = next_rank + 1;
	return 0;
}

int ncclCommInitRank(test_communicator *result, int rank_count, ncclUniqueId unique_id, int rank)
{
	(void)rank_count, (void)unique_id, (void)rank;
	perform();
	*result = next_communicator;
	return 0;
}

int ncclCommInitRankScalable(test_communicator *result, int rank_count, int rank, int id_count,
	ncclUniqueId *unique_ids, void *configuration)
{
	(void)rank_count, (void)rank, (void)id_count, (void)unique_ids, (void)configuration;
	perform();
	*result = next_communicator;
	return 0;
}

int ncclAllReduce(const void *input, void *output, size_t count, int datatype, int operation,
	test_communicator communicator, void *stream)
{
	(void)input, (void)output, (void)count, (void)datatype, (void)operation;
	(void)communicator, (void)stream;
	return perform();
}

void slowrank_step_begin(uint64_t step)
{
	(void)step;
	perform();
}

void slowrank_step_end(uint64_t step)
{
	(void)step;
	perform();
}

int nvtxRangePushA(const char *name)
{
	(void)name;
	return perform();
}

int nvtxRangePop(void)
{
	return perform();
}
