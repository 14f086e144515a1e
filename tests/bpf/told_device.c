/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bpf/told_device.h"

#include <time.h>

#define EXPORTED __attribute__((visibility("default"), noinline))

static __attribute__((noinline)) int wait_ms(int64_t length_ms)
{
	struct timespec wait = {length_ms / 1000, length_ms % 1000 * 1000000};

	return length_ms ? nanosleep(&wait, NULL) : 0;
}

EXPORTED int cuLaunchKernel(void *function)
{
	(void)function;
	return wait_ms(0);
}

EXPORTED int cuGraphLaunch(void *graph, void *stream)
{
	(void)graph, (void)stream;
	return wait_ms(0);
}

EXPORTED int cuStreamSynchronize(int64_t stream)
{
	return wait_ms(stream);
}

EXPORTED int cuStreamWaitEvent(int64_t stream, void *event, unsigned flags)
{
	(void)stream, (void)event, (void)flags;
	return wait_ms(0);
}

EXPORTED int cuCtxSynchronize(void)
{
	return wait_ms(10);
}

EXPORTED int cuEventSynchronize(int64_t event)
{
	return wait_ms(event);
}

EXPORTED int ncclAllReduce(const void *send, void *receive, size_t count, int datatype, int op,
	void *communicator, void *stream)
{
	(void)send, (void)receive, (void)count, (void)datatype, (void)op;
	(void)communicator, (void)stream;
	return wait_ms(0);
}

EXPORTED int ncclSend(
	const void *input, size_t count, int datatype, int peer, void *communicator, void *stream)
{
	(void)input, (void)count, (void)datatype, (void)peer, (void)communicator, (void)stream;
	return wait_ms(0);
}

EXPORTED int ncclRecv(
	void *output, size_t count, int datatype, int peer, void *communicator, void *stream)
{
	(void)output, (void)count, (void)datatype, (void)peer, (void)communicator, (void)stream;
	return wait_ms(0);
}

EXPORTED int ncclGroupEnd(int64_t length)
{
	return wait_ms(length);
}
