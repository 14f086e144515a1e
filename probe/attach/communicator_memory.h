/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NCCL communicator a handle is, when it was made before we came (attach): read from the
 * process's memory, from outside, once. No function of NCCL tells a communicator's hash, and a call on a handle that is being destroyed could crash the job; a read
 * cannot.
 *
 * The structure (struct ncclComm, src/include/comm.h of NCCL 2.18 to 2.29) begins and ends with a
 * magic number; somewhere in it lie, one after another: the network magic, the hash, rank, number of
 * ranks, CUDA device, NVML device, three compute capabilities, the bus id. It is taken only when
 * exactly one place looks like that; a wrong one would give a hash that no other rank has, so that
 * nothing is joined. Any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_COMMUNICATOR_MEMORY_H
#define SLOWRANK_PROBE_ATTACH_COMMUNICATOR_MEMORY_H

#include <stdint.h>
#include <sys/types.h>

struct communicator_memory {
	uint64_t hash; /* the same on every member */
	uint32_t rank, rank_count;
};

/* Returns 0, -ENOENT when it is no such structure, or what the system said. */
int communicator_memory_read(pid_t pid, uint64_t handle, struct communicator_memory *out)
	__attribute__((warn_unused_result));

#endif
