/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/device/nccl_carrier.h"
#include "tests/workload/device/stream.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GROUP_MAX = 256, SHORTEST_TRANSFER_NS = 20000, TELLING_NS = 250000 };

static void pause_briefly(void)
{
	const struct timespec pause = {.tv_nsec = 50000};

	nanosleep(&pause, NULL);
}

static ncclResult_t wait_all(MPI_Request *requests, int count)
{
	int done = 0;

	for (;;) {
		if (MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
			return ncclRemoteError;
		if (done)
			return ncclSuccess;
		pause_briefly();
	}
}

static ncclResult_t send_to(ncclComm_t communicator, int peer, enum carrier_channel channel,
	const void *bytes, size_t length)
{
	MPI_Request request;

	if (MPI_Isend(bytes, (int)length, MPI_BYTE, communicator->world_ranks[peer],
		    communicator->tag + (int)channel, MPI_COMM_WORLD, &request) != MPI_SUCCESS)
		return ncclSystemError;
	return wait_all(&request, 1);
}

static ncclResult_t receive_from(
	ncclComm_t communicator, int peer, enum carrier_channel channel, void *bytes, size_t length)
{
	MPI_Request request;

	if (MPI_Irecv(bytes, (int)length, MPI_BYTE, communicator->world_ranks[peer],
		    communicator->tag + (int)channel, MPI_COMM_WORLD, &request) != MPI_SUCCESS)
		return ncclSystemError;
	return wait_all(&request, 1);
}

size_t carrier_type_bytes(ncclDataType_t type)
{
	static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

	return (unsigned int)type < sizeof(bytes) / sizeof(bytes[0]) ? bytes[type] : 0;
}

int carrier_can_reduce(ncclDataType_t type, ncclRedOp_t operation)
{
	return (type == ncclFloat32 || type == ncclFloat64 || type == ncclInt32 ||
		       type == ncclInt64) &&
	       (operation == ncclSum || operation == ncclMax || operation == ncclMin);
}

#define REDUCE_LOOP(ctype)                                                                         \
	do {                                                                                       \
		ctype *to = into;                                                                  \
		const ctype *of = from;                                                            \
		for (size_t i = 0; i < count; i++) {                                               \
			if (operation == ncclSum)                                                  \
				to[i] += of[i];                                                    \
			else if ((operation == ncclMax) == (of[i] > to[i]))                        \
				to[i] = of[i];                                                     \
		}                                                                                  \
	} while (0)

static void reduce_into(
	void *into, const void *from, size_t count, ncclDataType_t type, ncclRedOp_t operation)
{
	if (type == ncclFloat32)
		REDUCE_LOOP(float);
	else if (type == ncclFloat64)
		REDUCE_LOOP(double);
	else if (type == ncclInt32)
		REDUCE_LOOP(int32_t);
	else
		REDUCE_LOOP(int64_t);
}

/* Reduces everybody's buffer into the root's, along a binomial tree. */
static ncclResult_t reduce_tree(const struct work *work, void *buffer, size_t count, int root)
{
	ncclComm_t communicator = work->communicator;
	size_t bytes = count * carrier_type_bytes(work->type);
	int size = communicator->rank_count;
	int shifted = (communicator->rank - root + size) % size;
	void *partial = malloc(bytes ? bytes : 1);
	ncclResult_t result = partial ? ncclSuccess : ncclSystemError;

	for (int distance = 1; distance < size && !result; distance *= 2) {
		if (shifted & distance) {
			result = send_to(communicator, (shifted - distance + root) % size,
				CHANNEL_COLLECTIVE, buffer, bytes);
			break;
		}
		if (shifted + distance >= size)
			continue;
		result = receive_from(communicator, (shifted + distance + root) % size,
			CHANNEL_COLLECTIVE, partial, bytes);
		if (!result)
			reduce_into(buffer, partial, count, work->type, work->operation);
	}
	free(partial);
	return result;
}

static ncclResult_t broadcast_tree(ncclComm_t communicator, void *buffer, size_t bytes, int root)
{
	int size = communicator->rank_count;
	int shifted = (communicator->rank - root + size) % size;
	ncclResult_t result = ncclSuccess;
	int distance = 1;

	while (distance < size && !(shifted & distance))
		distance *= 2;
	if (shifted != 0)
		result = receive_from(communicator, (shifted - distance + root) % size,
			CHANNEL_COLLECTIVE, buffer, bytes);
	for (distance /= 2; distance > 0 && !result; distance /= 2) {
		if (shifted + distance < size)
			result = send_to(communicator, (shifted + distance + root) % size,
				CHANNEL_COLLECTIVE, buffer, bytes);
	}
	return result;
}

static void copy_unless_same(void *to, const void *from, size_t bytes)
{
	if (to != from && bytes)
		memcpy(to, from, bytes);
}

static ncclResult_t run_all_reduce(const struct work *work, int root, int everywhere)
{
	ncclComm_t communicator = work->communicator;
	size_t bytes = work->count * carrier_type_bytes(work->type);
	void *buffer = malloc(bytes ? bytes : 1);
	ncclResult_t result;

	if (!buffer)
		return ncclSystemError;
	memcpy(buffer, work->input, bytes);
	result = reduce_tree(work, buffer, work->count, root);
	if (!result && everywhere)
		result = broadcast_tree(communicator, buffer, bytes, root);
	if (!result && (everywhere || communicator->rank == root))
		memcpy(work->output, buffer, bytes);
	free(buffer);
	return result;
}

/* Around the ring, one block further each time. */
static ncclResult_t run_all_gather(const struct work *work)
{
	ncclComm_t communicator = work->communicator;
	size_t bytes = work->count * carrier_type_bytes(work->type);
	int size = communicator->rank_count;
	int next = (communicator->rank + 1) % size;
	int previous = (communicator->rank + size - 1) % size;
	unsigned char *blocks = work->output;
	ncclResult_t result = ncclSuccess;

	copy_unless_same(blocks + (size_t)communicator->rank * bytes, work->input, bytes);
	for (int step = 0; step < size - 1 && !result; step++) {
		size_t out = (size_t)((communicator->rank - step + size) % size);
		size_t in = (size_t)((communicator->rank - step - 1 + size) % size);
		MPI_Request requests[2];

		MPI_Isend(blocks + out * bytes, (int)bytes, MPI_BYTE,
			communicator->world_ranks[next], communicator->tag, MPI_COMM_WORLD,
			&requests[0]);
		MPI_Irecv(blocks + in * bytes, (int)bytes, MPI_BYTE,
			communicator->world_ranks[previous], communicator->tag, MPI_COMM_WORLD,
			&requests[1]);
		result = wait_all(requests, 2);
	}
	return result;
}

static ncclResult_t run_reduce_scatter(const struct work *work)
{
	ncclComm_t communicator = work->communicator;
	size_t bytes = work->count * carrier_type_bytes(work->type);
	size_t total = work->count * (size_t)communicator->rank_count;
	unsigned char *buffer = malloc(total ? total * carrier_type_bytes(work->type) : 1);
	ncclResult_t result;

	if (!buffer)
		return ncclSystemError;
	memcpy(buffer, work->input, total * carrier_type_bytes(work->type));
	result = reduce_tree(work, buffer, total, 0);
	if (!result && communicator->rank != 0)
		result = receive_from(communicator, 0, CHANNEL_COLLECTIVE, work->output, bytes);
	for (int peer = 1; communicator->rank == 0 && peer < communicator->rank_count && !result;
		peer++)
		result = send_to(communicator, peer, CHANNEL_COLLECTIVE,
			buffer + (size_t)peer * bytes, bytes);
	if (!result && communicator->rank == 0)
		memcpy(work->output, buffer, bytes);
	free(buffer);
	return result;
}

struct stay {
	int64_t start_ns, end_ns; /* by the stream's clock; by the real one */
};

static int64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare_ends(const void *left, const void *right)
{
	int64_t a = ((const struct stay *)left)->end_ns, b = ((const struct stay *)right)->end_ns;

	return (a > b) - (a < b);
}

/*
 * When these end: one whose thread had to wait for a CPU makes nobody late. All have heard of it
 * by then, as a rule, and go on at once: nobody is always the first one.
 */
static int64_t common_end_ns(struct stay *stays, int count)
{
	int64_t end_ns;

	qsort(stays, (size_t)count, sizeof(*stays), compare_ends);
	end_ns = stays[(count - 1) / 2].end_ns + TELLING_NS;
	for (int i = 0; i < count; i++) {
		int64_t least_ns = stays[i].start_ns + SHORTEST_TRANSFER_NS;

		end_ns = least_ns > end_ns ? least_ns : end_ns;
	}
	return end_ns;
}

static ncclResult_t hear_and_tell(ncclComm_t communicator, struct stay *stays, int64_t *common_ns)
{
	int count = communicator->rank_count - 1, tag = communicator->tag + CHANNEL_TIME;
	MPI_Request requests[CARRIER_RANKS_MAX];
	ncclResult_t result;

	for (int i = 0; i < count; i++) {
		if (MPI_Irecv(&stays[i + 1], sizeof(stays[0]), MPI_BYTE,
			    communicator->world_ranks[i + 1], tag, MPI_COMM_WORLD,
			    &requests[i]) != MPI_SUCCESS)
			return ncclSystemError;
	}
	result = wait_all(requests, count);
	if (result)
		return result;
	*common_ns = common_end_ns(stays, count + 1);
	for (int i = 0; i < count; i++) {
		if (MPI_Isend(common_ns, sizeof(*common_ns), MPI_BYTE,
			    communicator->world_ranks[i + 1], tag, MPI_COMM_WORLD,
			    &requests[i]) != MPI_SUCCESS)
			return ncclSystemError;
	}
	return wait_all(requests, count);
}

/* Member 0 hears of all, and tells all. */
static ncclResult_t agree_on_end(ncclComm_t communicator, int64_t start_ns, int64_t *end_ns)
{
	struct stay stays[CARRIER_RANKS_MAX] = {{start_ns, monotonic_ns()}};
	int64_t common_ns = 0;
	ncclResult_t result;

	if (communicator->rank == 0) {
		result = hear_and_tell(communicator, stays, &common_ns);
	} else {
		result = send_to(communicator, 0, CHANNEL_TIME, &stays[0], sizeof(stays[0]));
		if (!result)
			result = receive_from(
				communicator, 0, CHANNEL_TIME, &common_ns, sizeof(common_ns));
	}
	if (!result)
		*end_ns = common_ns;
	return result;
}

/* The two ends of each message agree; what is posted together ends together. */
static ncclResult_t agree_with_partners(
	const struct work *works, size_t work_count, int64_t start_ns, int64_t *end_ns)
{
	struct stay own = {start_ns, monotonic_ns()}, theirs[GROUP_MAX];
	MPI_Request requests[2 * GROUP_MAX];
	int64_t latest_ns = start_ns;
	ncclResult_t result;

	for (size_t i = 0; i < work_count; i++) {
		int peer = works[i].communicator->world_ranks[works[i].peer];
		int tag = works[i].communicator->tag + CHANNEL_TIME;

		if (MPI_Isend(&own, sizeof(own), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
			    &requests[2 * i]) != MPI_SUCCESS ||
			MPI_Irecv(&theirs[i], sizeof(theirs[i]), MPI_BYTE, peer, tag,
				MPI_COMM_WORLD, &requests[2 * i + 1]) != MPI_SUCCESS)
			return ncclSystemError;
	}
	result = wait_all(requests, 2 * (int)work_count);
	for (size_t i = 0; i < work_count && !result; i++) {
		struct stay both[] = {own, theirs[i]};
		int64_t common_ns = common_end_ns(both, 2);

		latest_ns = common_ns > latest_ns ? common_ns : latest_ns;
	}
	if (!result)
		*end_ns = latest_ns;
	return result;
}

static ncclResult_t run_point_to_point(const struct work *works, size_t work_count)
{
	MPI_Request requests[GROUP_MAX];
	int started = 0;
	ncclResult_t result = work_count <= GROUP_MAX ? ncclSuccess : ncclInvalidUsage;

	for (size_t i = 0; i < work_count && !result; i++) {
		const struct work *work = &works[i];
		int peer = work->communicator->world_ranks[work->peer];
		int bytes = (int)(work->count * carrier_type_bytes(work->type));
		int tag = work->communicator->tag + CHANNEL_POINT_TO_POINT;
		int status = work->kind == WORK_SEND
				     ? MPI_Isend(work->input, bytes, MPI_BYTE, peer, tag,
					       MPI_COMM_WORLD, &requests[started])
				     : MPI_Irecv(work->output, bytes, MPI_BYTE, peer, tag,
					       MPI_COMM_WORLD, &requests[started]);

		if (status != MPI_SUCCESS)
			return ncclSystemError;
		started++;
	}
	return result ? result : wait_all(requests, started);
}

static ncclResult_t run_collective(const struct work *work)
{
	size_t bytes = work->count * carrier_type_bytes(work->type);

	switch (work->kind) {
	case WORK_ALL_REDUCE:
		return run_all_reduce(work, 0, 1);
	case WORK_REDUCE:
		return run_all_reduce(work, work->peer, 0);
	case WORK_BROADCAST:
		if (work->communicator->rank == work->peer)
			copy_unless_same(work->output, work->input, bytes);
		return broadcast_tree(work->communicator, work->output, bytes, work->peer);
	case WORK_ALL_GATHER:
		return run_all_gather(work);
	default:
		return run_reduce_scatter(work);
	}
}

ncclResult_t carrier_run(
	const struct work *works, size_t work_count, int64_t start_ns, int64_t *end_ns)
{
	ncclResult_t result;

	if (works[0].kind == WORK_SEND || works[0].kind == WORK_RECEIVE) {
		result = run_point_to_point(works, work_count);
		return result ? result : agree_with_partners(works, work_count, start_ns, end_ns);
	}
	result = run_collective(&works[0]);
	return result ? result : agree_on_end(works[0].communicator, start_ns, end_ns);
}
