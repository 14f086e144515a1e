/* SPDX-License-Identifier: Apache-2.0 */
/* A driver and an NCCL that do nothing, but for as long as they are told. TOLD_HIP: ROCm's names. */
#ifndef TESTS_BPF_TOLD_DEVICE_H
#define TESTS_BPF_TOLD_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef TOLD_HIP
#define cuLaunchKernel hipLaunchKernel
#define cuGraphLaunch hipGraphLaunch
#define cuStreamSynchronize hipStreamSynchronize
#define cuStreamWaitEvent hipStreamWaitEvent
#define cuCtxSynchronize hipDeviceSynchronize
#define cuEventSynchronize hipEventSynchronize
#endif

int cuLaunchKernel(void *function);
int cuGraphLaunch(void *graph, void *stream);
/* The stream and the event are how long the wait lasts, in ms. */
int cuStreamSynchronize(int64_t stream);
int cuStreamWaitEvent(int64_t stream, void *event, unsigned flags);
int cuCtxSynchronize(void);
int cuEventSynchronize(int64_t event);
int ncclAllReduce(const void *send, void *receive, size_t count, int datatype, int op,
	void *communicator, void *stream);
int ncclSend(
	const void *input, size_t count, int datatype, int peer, void *communicator, void *stream);
int ncclRecv(void *output, size_t count, int datatype, int peer, void *communicator, void *stream);
int ncclGroupEnd(int64_t length); /* takes so long, in ms */

#endif
