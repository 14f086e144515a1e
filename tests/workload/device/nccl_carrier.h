/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries the stand-in's collectives between ranks, by MPI point-to-point messages on
 * MPI_COMM_WORLD. Not by MPI's collectives: the job would then show each collective twice.
 * Functions wait asleep, and may run on several threads for different communicators
 * (MPI_THREAD_MULTIPLE).
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_DEVICE_NCCL_CARRIER_H
#define SLOWRANK_TESTS_WORKLOAD_DEVICE_NCCL_CARRIER_H

#include "tests/workload/device/nccl_api.h"
#include "tests/workload/device/nccl_profiler.h"

enum { CARRIER_RANKS_MAX = 1024 };

/* Messages of one communicator are told apart by tag; its tags follow one another. */
enum carrier_channel {
	CHANNEL_COLLECTIVE = 0,
	CHANNEL_POINT_TO_POINT = 1,
	CHANNEL_CONTROL = 2,
	CHANNEL_TIME = 3,
	CHANNEL_NR
};

/* Begins, and tells who it is, as NCCL's does (src/include/comm.h). */
struct ncclComm {
	uint64_t start_magic;
	void *channels[64];
	int graphs[7][64 * 576]; /* as far apart as there; never touched */
	uint64_t magic, hash;
	int rank;
	int rank_count;
	int cuda_device, nvml_device;
	int capability, capability_min, capability_max;
	int64_t bus_id;
	int tag;	   /* of the first channel */
	int *world_ranks;  /* rank_count of them */
	int split_counter; /* communicators made from this one */
	struct profiler_communicator profiler;
};

enum work_kind {
	WORK_ALL_REDUCE = 1,
	WORK_REDUCE = 2,
	WORK_BROADCAST = 3,
	WORK_ALL_GATHER = 4,
	WORK_REDUCE_SCATTER = 5,
	WORK_SEND = 6,
	WORK_RECEIVE = 7,
};

struct work {
	enum work_kind kind;
	const void *input;
	void *output;
	size_t count; /* elements, as in nccl.h: per rank for gathers and scatters */
	ncclDataType_t type;
	ncclRedOp_t operation;
	int peer; /* or root */
	ncclComm_t communicator;
	cudaStream_t stream;
};

size_t carrier_type_bytes(ncclDataType_t type); /* 0 = unknown */
int carrier_can_reduce(ncclDataType_t type, ncclRedOp_t operation);

/* Fills a unique id that only this process can make: its world rank and a number. */
ncclResult_t carrier_make_id(ncclUniqueId *unique_id);

/* All ranks of the new communicator call these together; the caller owns the result. */
ncclResult_t carrier_create(
	const ncclUniqueId *unique_id, int rank_count, int rank, ncclComm_t *communicator);
/* *new_communicator is NULL for a rank without a colour. */
ncclResult_t carrier_split(
	ncclComm_t communicator, int color, int key, ncclComm_t *new_communicator);
void carrier_destroy(ncclComm_t communicator); /* NULL is fine */

/*
 * Runs one collective, or several sends and receives at once, to their end. start_ns is by the
 * stream's clock (stream.h), and so is *end_ns, unchanged by an error: for all members the same,
 * a little after the usual one of them had its data and the last one had begun.
 */
ncclResult_t carrier_run(
	const struct work *works, size_t work_count, int64_t start_ns, int64_t *end_ns);

#endif
