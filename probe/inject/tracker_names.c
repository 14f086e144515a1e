/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/tracker_names.h"

#include <stddef.h>
#include <string.h>

#include "probe/ring/ring_layout.h"

/* ncclFuncToString() of NCCL's src/enqueue.cc and src/misc/utils.cc. */
static const char *const functions[RING_FUNCTION_NR] = {
	[RING_FUNCTION_ALL_REDUCE] = "AllReduce",
	[RING_FUNCTION_ALL_GATHER] = "AllGather",
	[RING_FUNCTION_REDUCE_SCATTER] = "ReduceScatter",
	[RING_FUNCTION_BROADCAST] = "Broadcast",
	[RING_FUNCTION_REDUCE] = "Reduce",
	[RING_FUNCTION_SEND] = "Send",
	[RING_FUNCTION_RECEIVE] = "Recv",
	[RING_FUNCTION_ALL_TO_ALL] = "AlltoAll",
	[RING_FUNCTION_GATHER] = "Gather",
	[RING_FUNCTION_SCATTER] = "Scatter",
};

static const struct {
	const char *name;
	uint8_t bytes;
} datatypes[] = {{"ncclInt8", 1}, {"ncclUint8", 1}, {"ncclInt32", 4}, {"ncclUint32", 4},
	{"ncclInt64", 8}, {"ncclUint64", 8}, {"ncclFloat16", 2}, {"ncclFloat32", 4},
	{"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};

enum { DATATYPE_NR = sizeof(datatypes) / sizeof(datatypes[0]) };

uint8_t tracker_function(const char *name)
{
	for (uint8_t i = 1; name && i < RING_FUNCTION_NR; i++) {
		if (strcmp(name, functions[i]) == 0)
			return i;
	}
	return RING_FUNCTION_UNKNOWN;
}

uint8_t tracker_datatype(const char *name)
{
	for (uint8_t i = 0; name && i < DATATYPE_NR; i++) {
		if (strcmp(name, datatypes[i].name) == 0)
			return i;
	}
	return TRACKER_DATATYPE_UNKNOWN;
}

uint64_t tracker_datatype_bytes(uint8_t datatype)
{
	return datatype < DATATYPE_NR ? datatypes[datatype].bytes : 1;
}
