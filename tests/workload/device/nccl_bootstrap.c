/* SPDX-License-Identifier: Apache-2.0 */
/* Making communicators: rank 0 of the new one gathers who the members are, and tells them. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/workload/device/nccl_carrier.h"

enum {
	ID_MAGIC = 0x51075107,
	NUMBERS_PER_RANK = 2048, /* communicators that one process can make */
	TAG_FIRST = 1 << 16,	 /* above what programs use themselves */
	TAG_BOOTSTRAP = 1 << 15,
};

struct id_content {
	int magic;
	int creator; /* world rank */
	int number;
};

struct split_request {
	int color;
	int key;
	int rank; /* in the parent */
};

static atomic_int next_number;

static ncclResult_t wait_one(MPI_Request *request)
{
	const struct timespec pause = {.tv_nsec = 50000};
	int done = 0;

	while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
		if (done)
			return ncclSuccess;
		nanosleep(&pause, NULL);
	}
	return ncclRemoteError;
}

static ncclResult_t send_ints(int world_rank, int tag, const int *numbers, int count)
{
	MPI_Request request;

	MPI_Isend(numbers, count, MPI_INT, world_rank, tag, MPI_COMM_WORLD, &request);
	return wait_one(&request);
}

static ncclResult_t receive_ints(int world_rank, int tag, int *numbers, int count)
{
	MPI_Request request;

	MPI_Irecv(numbers, count, MPI_INT, world_rank, tag, MPI_COMM_WORLD, &request);
	return wait_one(&request);
}

static int own_world_rank(void)
{
	int rank = 0;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	return rank;
}

/* The first tag of a communicator that this process numbers. */
static int tag_of(int creator, int number)
{
	return TAG_FIRST + (creator * NUMBERS_PER_RANK + number) * CHANNEL_NR;
}

ncclResult_t carrier_make_id(ncclUniqueId *unique_id)
{
	struct id_content content = {.magic = ID_MAGIC};
	int level = 0;
	int is_initialised = 0;

	MPI_Initialized(&is_initialised);
	if (!is_initialised || MPI_Query_thread(&level) != MPI_SUCCESS ||
		level != MPI_THREAD_MULTIPLE)
		return ncclSystemError;
	content.creator = own_world_rank();
	content.number = atomic_fetch_add(&next_number, 1);
	if (content.number >= NUMBERS_PER_RANK)
		return ncclSystemError;
	memset(unique_id, 0, sizeof(*unique_id));
	memcpy(unique_id->internal, &content, sizeof(content));
	return ncclSuccess;
}

static ncclComm_t allocate(int rank_count, int rank, int tag)
{
	ncclComm_t made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	made->rank_count = rank_count;
	made->rank = rank;
	made->tag = tag;
	made->world_ranks = calloc((size_t)rank_count, sizeof(int));
	if (made->world_ranks)
		return made;
	free(made);
	return NULL;
}

void carrier_destroy(ncclComm_t communicator)
{
	if (!communicator)
		return;
	free(communicator->world_ranks);
	free(communicator);
}

/* Rank 0 hears from every other rank which process it is, then tells all. */
static ncclResult_t gather_world_ranks(ncclComm_t communicator, int number)
{
	int tag = TAG_BOOTSTRAP + number;
	ncclResult_t result = ncclSuccess;

	communicator->world_ranks[0] = own_world_rank();
	for (int i = 1; i < communicator->rank_count && !result; i++) {
		int pair[2] = {-1, -1};

		result = receive_ints(MPI_ANY_SOURCE, tag, pair, 2);
		if (!result && (pair[0] < 1 || pair[0] >= communicator->rank_count))
			result = ncclInvalidUsage;
		if (!result)
			communicator->world_ranks[pair[0]] = pair[1];
	}
	for (int i = 1; i < communicator->rank_count && !result; i++)
		result = send_ints(communicator->world_ranks[i], tag, communicator->world_ranks,
			communicator->rank_count);
	return result;
}

ncclResult_t carrier_create(
	const ncclUniqueId *unique_id, int rank_count, int rank, ncclComm_t *communicator)
{
	struct id_content content;
	ncclComm_t made;
	ncclResult_t result;

	memcpy(&content, unique_id->internal, sizeof(content));
	if (content.magic != ID_MAGIC || rank_count < 1 || rank_count > CARRIER_RANKS_MAX ||
		rank < 0 || rank >= rank_count)
		return ncclInvalidArgument;
	/* Unlike NCCL, whose id names a listening thread: the id must be made by rank 0. */
	if ((rank == 0) != (content.creator == own_world_rank()))
		return ncclInvalidUsage;
	made = allocate(rank_count, rank, tag_of(content.creator, content.number));
	if (!made)
		return ncclSystemError;
	if (rank == 0) {
		result = gather_world_ranks(made, content.number);
	} else {
		int pair[2] = {rank, own_world_rank()};
		int tag = TAG_BOOTSTRAP + content.number;

		result = send_ints(content.creator, tag, pair, 2);
		if (!result)
			result = receive_ints(content.creator, tag, made->world_ranks, rank_count);
	}
	if (result)
		carrier_destroy(made);
	else
		*communicator = made;
	return result;
}

static int compare_requests(const void *left, const void *right)
{
	const struct split_request *a = left;
	const struct split_request *b = right;

	if (a->color != b->color)
		return a->color < b->color ? -1 : 1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->rank - b->rank;
}

/* What rank 0 of the parent answers: tag, own rank, size, then the world ranks. */
enum { ANSWER_TAG, ANSWER_RANK, ANSWER_SIZE, ANSWER_WORLD_RANKS };

static ncclResult_t answer_group(
	ncclComm_t parent, const struct split_request *group, int size, int *own_answer)
{
	int answer[ANSWER_WORLD_RANKS + CARRIER_RANKS_MAX];
	int number = atomic_fetch_add(&next_number, 1);
	ncclResult_t result = number < NUMBERS_PER_RANK ? ncclSuccess : ncclSystemError;

	answer[ANSWER_TAG] = tag_of(own_world_rank(), number);
	answer[ANSWER_SIZE] = group->color < 0 ? 0 : size;
	for (int i = 0; i < size; i++)
		answer[ANSWER_WORLD_RANKS + i] = parent->world_ranks[group[i].rank];
	for (int i = 0; i < size && !result; i++) {
		answer[ANSWER_RANK] = i;
		if (group[i].rank == 0)
			memcpy(own_answer, answer, sizeof(answer));
		else
			result = send_ints(parent->world_ranks[group[i].rank],
				parent->tag + CHANNEL_CONTROL, answer, ANSWER_WORLD_RANKS + size);
	}
	return result;
}

/* Rank 0 of the parent: hears all wishes, forms the groups, answers each member. */
static ncclResult_t serve_split(ncclComm_t parent, const struct split_request *own, int *own_answer)
{
	struct split_request requests[CARRIER_RANKS_MAX];
	ncclResult_t result = ncclSuccess;
	int begin = 0;

	requests[0] = *own;
	for (int i = 1; i < parent->rank_count && !result; i++)
		result = receive_ints(parent->world_ranks[i], parent->tag + CHANNEL_CONTROL,
			(int *)&requests[i], 3);
	qsort(requests, (size_t)parent->rank_count, sizeof(requests[0]), compare_requests);
	while (begin < parent->rank_count && !result) {
		int end = begin + 1;

		while (end < parent->rank_count && requests[end].color == requests[begin].color)
			end++;
		result = answer_group(parent, &requests[begin], end - begin, own_answer);
		begin = end;
	}
	return result;
}

ncclResult_t carrier_split(
	ncclComm_t communicator, int color, int key, ncclComm_t *new_communicator)
{
	struct split_request own = {.color = color, .key = key, .rank = communicator->rank};
	int answer[ANSWER_WORLD_RANKS + CARRIER_RANKS_MAX];
	int tag = communicator->tag + CHANNEL_CONTROL;
	ncclResult_t result;
	ncclComm_t made;

	if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
		return ncclInvalidArgument;
	if (communicator->rank == 0) {
		result = serve_split(communicator, &own, answer);
	} else {
		result = send_ints(communicator->world_ranks[0], tag, (const int *)&own, 3);
		if (!result)
			result = receive_ints(communicator->world_ranks[0], tag, answer,
				ANSWER_WORLD_RANKS + communicator->rank_count);
	}
	if (result)
		return result;
	*new_communicator = NULL;
	if (answer[ANSWER_SIZE] == 0)
		return ncclSuccess;
	made = allocate(answer[ANSWER_SIZE], answer[ANSWER_RANK], answer[ANSWER_TAG]);
	if (!made)
		return ncclSystemError;
	memcpy(made->world_ranks, &answer[ANSWER_WORLD_RANKS],
		(size_t)made->rank_count * sizeof(int));
	*new_communicator = made;
	return ncclSuccess;
}
