/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnccl.so.2 for test_timed_calls: a communicator is how long its kernels take, and calls of a group are
 * launched at its end.
 */
#include <stddef.h>
#include <stdint.h>

#include "tests/workload/device/cuda_api.h"
#include "tests/workload/device/stream.h"

enum { CALLS_MAX = 256 };

static _Thread_local struct {
	int depth;
	size_t count;
	struct {
		int64_t length_ns;
		CUstream stream;
	} calls[CALLS_MAX];
} group;

DEVICE_EXPORT int ncclAllReduce(const void *input, void *output, size_t count, int type,
	int operation, void *communicator, CUstream stream);
DEVICE_EXPORT int ncclBcast(
	void *buffer, size_t count, int type, int root, void *communicator, CUstream stream);
DEVICE_EXPORT int ncclSend(
	const void *input, size_t count, int type, int peer, void *communicator, CUstream stream);
DEVICE_EXPORT int ncclRecv(
	void *output, size_t count, int type, int peer, void *communicator, CUstream stream);
DEVICE_EXPORT int ncclGroupStart(void);
DEVICE_EXPORT int ncclGroupEnd(void);

static void pass_time(void *const *arguments)
{
	device_pass_time(*(const int64_t *)arguments[0]);
}

static int launch(int64_t length_ns, CUstream stream)
{
	static const struct device_function kernel = {
		"ncclDevKernel_AllReduce", pass_time, 1, {sizeof(int64_t)}};
	void *arguments[] = {&length_ns};

	return cuLaunchKernel(&kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL) ? 1 : 0;
}

static int call(void *communicator, CUstream stream)
{
	int64_t length_ns = (int64_t)(intptr_t)communicator;
	int capturing = 0;

	if (cuStreamIsCapturing(stream, &capturing) || capturing)
		return 0;
	if (group.depth == 0)
		return launch(length_ns, stream);
	if (group.count == CALLS_MAX)
		return 5;
	group.calls[group.count].length_ns = length_ns;
	group.calls[group.count++].stream = stream;
	return 0;
}

int ncclAllReduce(const void *input, void *output, size_t count, int type, int operation,
	void *communicator, CUstream stream)
{
	(void)input, (void)output, (void)count, (void)type, (void)operation;
	return call(communicator, stream);
}

int ncclBcast(void *buffer, size_t count, int type, int root, void *communicator, CUstream stream)
{
	(void)buffer, (void)count, (void)type, (void)root;
	return call(communicator, stream);
}

int ncclSend(
	const void *input, size_t count, int type, int peer, void *communicator, CUstream stream)
{
	(void)input, (void)count, (void)type, (void)peer;
	return call(communicator, stream);
}

int ncclRecv(void *output, size_t count, int type, int peer, void *communicator, CUstream stream)
{
	(void)output, (void)count, (void)type, (void)peer;
	return call(communicator, stream);
}

int ncclGroupStart(void)
{
	group.depth++;
	return 0;
}

int ncclGroupEnd(void)
{
	int result = 0;

	if (--group.depth > 0)
		return 0;
	for (size_t i = 0; i < group.count && !result; i++)
		result = launch(group.calls[i].length_ns, group.calls[i].stream);
	group.count = 0;
	return result;
}
