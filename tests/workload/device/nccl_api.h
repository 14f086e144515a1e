/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own declarations of the part of NCCL's interface that a training loop needs, with the names,
 * arguments and numbers of the public nccl.h (2.28). As there: one thread per communicator.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_DEVICE_NCCL_API_H
#define SLOWRANK_TESTS_WORKLOAD_DEVICE_NCCL_API_H

#include "tests/workload/device/cuda_api.h"

typedef struct ncclComm *ncclComm_t;

enum { NCCL_UNIQUE_ID_BYTES = 128, NCCL_SPLIT_NOCOLOR = -1 };
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
_Static_assert(sizeof(ncclUniqueId) == 128, "ncclUniqueId of nccl.h");

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
} ncclDataType_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;

/* Passed through only: the stand-in heeds none of its fields. */
typedef struct ncclConfig_v22800 ncclConfig_t;

DEVICE_EXPORT ncclResult_t ncclGetVersion(int *version);
DEVICE_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *unique_id);
DEVICE_EXPORT ncclResult_t ncclCommInitRank(
	ncclComm_t *communicator, int rank_count, ncclUniqueId unique_id, int rank);
DEVICE_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int rank_count,
	ncclUniqueId unique_id, int rank, ncclConfig_t *config);
DEVICE_EXPORT ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int key,
	ncclComm_t *new_communicator, ncclConfig_t *config);
DEVICE_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t communicator);
DEVICE_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t communicator);
DEVICE_EXPORT ncclResult_t ncclCommAbort(ncclComm_t communicator);
DEVICE_EXPORT ncclResult_t ncclCommCount(ncclComm_t communicator, int *count);
DEVICE_EXPORT ncclResult_t ncclCommUserRank(ncclComm_t communicator, int *rank);
DEVICE_EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t communicator, int *device);
DEVICE_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *error);
DEVICE_EXPORT const char *ncclGetErrorString(ncclResult_t result);
DEVICE_EXPORT const char *ncclGetLastError(ncclComm_t communicator);
DEVICE_EXPORT ncclResult_t ncclGroupStart(void);
DEVICE_EXPORT ncclResult_t ncclGroupEnd(void);
DEVICE_EXPORT ncclResult_t ncclAllReduce(const void *input, void *output, size_t count,
	ncclDataType_t type, ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream);
DEVICE_EXPORT ncclResult_t ncclReduce(const void *input, void *output, size_t count,
	ncclDataType_t type, ncclRedOp_t operation, int root, ncclComm_t communicator,
	cudaStream_t stream);
DEVICE_EXPORT ncclResult_t ncclBroadcast(const void *input, void *output, size_t count,
	ncclDataType_t type, int root, ncclComm_t communicator, cudaStream_t stream);
DEVICE_EXPORT ncclResult_t ncclAllGather(const void *input, void *output, size_t count,
	ncclDataType_t type, ncclComm_t communicator, cudaStream_t stream);
DEVICE_EXPORT ncclResult_t ncclReduceScatter(const void *input, void *output, size_t count,
	ncclDataType_t type, ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream);
DEVICE_EXPORT ncclResult_t ncclSend(const void *input, size_t count, ncclDataType_t type, int peer,
	ncclComm_t communicator, cudaStream_t stream);
DEVICE_EXPORT ncclResult_t ncclRecv(void *output, size_t count, ncclDataType_t type, int peer,
	ncclComm_t communicator, cudaStream_t stream);

#endif
