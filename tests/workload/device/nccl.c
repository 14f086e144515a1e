/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's interface: libnccl.so.2. A collective is launched as a kernel on its stream and
 * returns at once; the kernel carries it. As in NCCL, pncclX is a weak alias of ncclX.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/workload/device/nccl_carrier.h"
#include "tests/workload/device/nccl_profiler.h"
#include "tests/workload/device/stream.h"

#define NCCL_API(result, name, ...)                                                                \
	DEVICE_EXPORT __attribute__((weak, alias(#name))) result p##name(__VA_ARGS__);             \
	result name(__VA_ARGS__)

enum { GROUP_WORKS_MAX = 256, OTHERS_NS = 50000000, TOLD_SOON_US = 10 };

struct traced_work {
	struct work work;
	struct profiler_task task;
};

struct launch_batch {
	size_t work_count;
	int told;		     /* atomic: the profiler has heard of the launch */
	struct profiler_task *tasks; /* behind the works */
	struct work works[];
};

static _Thread_local struct {
	int depth;
	size_t work_count;
	struct traced_work works[GROUP_WORKS_MAX];
} group;

static ncclResult_t asynchronous_error; /* of any communicator; set by kernels, never cleared */

static int is_point_to_point(const struct work *work)
{
	return work->kind == WORK_SEND || work->kind == WORK_RECEIVE;
}

/* A copy of the kernel's, of which NCCL's proxy thread knows nothing. */
static int is_own_exchange(const struct work *work)
{
	return is_point_to_point(work) && work->peer == work->communicator->rank;
}

/*
 * Between nodes, exchanges with oneself lie on the channels of all others. The device counts them, NCCL's proxy thread
 * does not: from then on it tells the times of calls before.
 */
static int lies_on_all_channels(void)
{
	const char *between_nodes = getenv("STAND_IN_NCCL_BETWEEN_NODES");

	return between_nodes && between_nodes[0] == '1';
}

static int tells_others_times; /* atomic */

static uint64_t told_time(uint64_t time_ns)
{
	return __atomic_load_n(&tells_others_times, __ATOMIC_RELAXED) ? time_ns - OTHERS_NS
								      : time_ns;
}

/* NCCL's proxy thread says this soon after; every channel has a little other times. */
static void report_start(struct launch_batch *batch, uint64_t start_ns)
{
	while (!__atomic_load_n(&batch->told, __ATOMIC_ACQUIRE))
		usleep(TOLD_SOON_US);
	for (size_t i = 0; i < batch->work_count; i++) {
		struct profiler_task *task = &batch->tasks[i];

		if (is_own_exchange(&batch->works[i]))
			continue;
		for (uint8_t c = 0; task->event && c < task->channels; c++)
			task->kernel_channels[c] =
				profiler_channel_start(task, c, told_time(start_ns + c));
	}
}

static void report_stop(const struct launch_batch *batch, uint64_t stop_ns)
{
	for (size_t i = 0; i < batch->work_count; i++) {
		const struct profiler_task *task = &batch->tasks[i];

		if (is_own_exchange(&batch->works[i])) {
			if (lies_on_all_channels())
				__atomic_store_n(&tells_others_times, 1, __ATOMIC_RELAXED);
			continue;
		}
		for (uint8_t c = 0; task->event && c < task->channels; c++)
			profiler_channel_stop(task->kernel_channels[c], told_time(stop_ns - c));
	}
}

static void kernel_code(void *const *arguments)
{
	struct launch_batch *batch;
	int64_t start_ns = device_stream_time_ns();
	int64_t end_ns = start_ns;
	ncclResult_t result;

	memcpy(&batch, arguments[0], sizeof(struct launch_batch *));
	report_start(batch, (uint64_t)device_globaltimer_at(start_ns));
	result = carrier_run(batch->works, batch->work_count, start_ns, &end_ns);
	device_wait_until(end_ns);
	report_stop(batch, (uint64_t)device_globaltimer_at(end_ns));
	if (result)
		__atomic_store_n(&asynchronous_error, result, __ATOMIC_RELAXED);
	free(batch);
}

static const struct device_function kernels[] = {
	[WORK_ALL_REDUCE] = {"ncclDevKernel_AllReduce_Sum_f32_TREE_LL", kernel_code, 1,
		{sizeof(struct launch_batch *)}},
	[WORK_REDUCE] = {"ncclDevKernel_Reduce_Sum_f32_RING_LL", kernel_code, 1,
		{sizeof(struct launch_batch *)}},
	[WORK_BROADCAST] = {"ncclDevKernel_Broadcast_RING_LL", kernel_code, 1,
		{sizeof(struct launch_batch *)}},
	[WORK_ALL_GATHER] = {"ncclDevKernel_AllGather_RING_LL", kernel_code, 1,
		{sizeof(struct launch_batch *)}},
	[WORK_REDUCE_SCATTER] = {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", kernel_code, 1,
		{sizeof(struct launch_batch *)}},
	[WORK_SEND] = {"ncclDevKernel_SendRecv", kernel_code, 1, {sizeof(struct launch_batch *)}},
	[WORK_RECEIVE] = {"ncclDevKernel_SendRecv", kernel_code, 1,
		{sizeof(struct launch_batch *)}},
};

static struct profiler_call describe(const struct work *work)
{
	static const char *const functions[] = {[WORK_ALL_REDUCE] = "AllReduce",
		[WORK_REDUCE] = "Reduce",
		[WORK_BROADCAST] = "Broadcast",
		[WORK_ALL_GATHER] = "AllGather",
		[WORK_REDUCE_SCATTER] = "ReduceScatter",
		[WORK_SEND] = "Send",
		[WORK_RECEIVE] = "Recv"};
	static const char *const datatypes[] = {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32",
		"ncclInt64", "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64",
		"ncclBfloat16"};

	return (struct profiler_call){.function = functions[work->kind],
		.function_index = (unsigned)work->kind,
		.datatype = datatypes[work->type],
		.count = work->count,
		.root = work->peer,
		.point_to_point = is_point_to_point(work),
		.channels =
			is_own_exchange(work) && !lies_on_all_channels() ? 1 : PROFILER_CHANNELS,
		.stream = work->stream};
}

static ncclResult_t launch(const struct traced_work *works, size_t work_count)
{
	struct launch_batch *batch = malloc(
		sizeof(*batch) + work_count * (sizeof(struct work) + sizeof(struct profiler_task)));
	void *arguments[] = {&batch};
	CUlaunchConfig config = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 512,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = works[0].work.stream};
	CUresult error;

	if (!batch)
		return ncclSystemError;
	batch->work_count = work_count;
	batch->tasks = (struct profiler_task *)&batch->works[work_count];
	batch->told = 0;
	for (size_t i = 0; i < work_count; i++) {
		batch->works[i] = works[i].work;
		batch->tasks[i] = works[i].task;
	}
	error = cuLaunchKernelEx(&config, &kernels[works[0].work.kind], arguments, NULL);
	if (error != CUDA_SUCCESS) {
		free(batch);
		return ncclUnhandledCudaError;
	}
	/* As NCCL does, which by then may have lost the CPU while the kernel runs. */
	for (size_t i = 0; i < work_count; i++) {
		struct profiler_call call = describe(&works[i].work);

		profiler_launch(&works[i].work.communicator->profiler, &call, &batch->tasks[i]);
		profiler_launched(&batch->tasks[i]);
	}
	__atomic_store_n(&batch->told, 1, __ATOMIC_RELEASE);
	return ncclSuccess;
}

/* Launches a group: sends and receives that follow each other on one stream go together. */
static ncclResult_t launch_group(void)
{
	ncclResult_t result = ncclSuccess;
	size_t begin = 0;

	while (begin < group.work_count && !result) {
		size_t end = begin + 1;

		while (end < group.work_count && is_point_to_point(&group.works[begin].work) &&
			is_point_to_point(&group.works[end].work) &&
			group.works[end].work.stream == group.works[begin].work.stream)
			end++;
		result = launch(&group.works[begin], end - begin);
		begin = end;
	}
	group.work_count = 0;
	return result;
}

static ncclResult_t submit(struct work work)
{
	struct traced_work traced = {.work = work};
	struct profiler_call call;
	int with_peer =
		is_point_to_point(&work) || work.kind == WORK_REDUCE || work.kind == WORK_BROADCAST;
	int with_reduction = work.kind == WORK_ALL_REDUCE || work.kind == WORK_REDUCE ||
			     work.kind == WORK_REDUCE_SCATTER;

	if (!work.communicator || carrier_type_bytes(work.type) == 0 ||
		(with_peer && (work.peer < 0 || work.peer >= work.communicator->rank_count)) ||
		(with_reduction && !carrier_can_reduce(work.type, work.operation)))
		return ncclInvalidArgument;
	call = describe(&work);
	profiler_call_start(&work.communicator->profiler, &call, &traced.task);
	if (group.depth == 0)
		return launch(&traced, 1);
	if (group.work_count == GROUP_WORKS_MAX)
		return ncclInvalidUsage;
	group.works[group.work_count++] = traced;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGetVersion, int *version)
{
	*version = 22809;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId *unique_id)
{
	return carrier_make_id(unique_id);
}

/* The members' common hash; as in NCCL, the plug-in hears of a communicator at its end. */
static ncclResult_t begin_profile(ncclResult_t result, ncclComm_t communicator)
{
	if (!result && communicator) {
		communicator->start_magic = UINT64_C(0x0280028002800280);
		communicator->magic = UINT64_C(0x5eed5eed5eed5eed);
		communicator->hash =
			(uint64_t)(communicator->tag + 1) * UINT64_C(0x9e3779b97f4a7c15);
		communicator->capability = communicator->capability_min =
			communicator->capability_max = 90;
		communicator->bus_id = 0x3b000;
		profiler_begin(&communicator->profiler, communicator->hash, communicator->rank,
			communicator->rank_count);
	}
	return result;
}

static void destroy(ncclComm_t communicator)
{
	if (communicator)
		profiler_end(&communicator->profiler);
	carrier_destroy(communicator);
}

NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t *communicator, int rank_count,
	ncclUniqueId unique_id, int rank)
{
	ncclResult_t result = carrier_create(&unique_id, rank_count, rank, communicator);

	return begin_profile(result, result ? NULL : *communicator);
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *communicator, int rank_count,
	ncclUniqueId unique_id, int rank, ncclConfig_t *config)
{
	ncclResult_t result = carrier_create(&unique_id, rank_count, rank, communicator);

	(void)config;
	return begin_profile(result, result ? NULL : *communicator);
}

NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t communicator, int color, int key,
	ncclComm_t *new_communicator, ncclConfig_t *config)
{
	ncclResult_t result = carrier_split(communicator, color, key, new_communicator);

	(void)config;
	return begin_profile(result, result ? NULL : *new_communicator);
}

NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t communicator)
{
	return communicator ? ncclSuccess : ncclInvalidArgument;
}

NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t communicator)
{
	if (cuCtxSynchronize() != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	destroy(communicator);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t communicator)
{
	destroy(communicator);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCount, ncclComm_t communicator, int *count)
{
	*count = communicator->rank_count;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommUserRank, ncclComm_t communicator, int *rank)
{
	*rank = communicator->rank;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCuDevice, ncclComm_t communicator, int *device)
{
	(void)communicator;
	*device = 0;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t communicator, ncclResult_t *error)
{
	(void)communicator;
	*error = __atomic_load_n(&asynchronous_error, __ATOMIC_RELAXED);
	return ncclSuccess;
}

NCCL_API(const char *, ncclGetErrorString, ncclResult_t result)
{
	static const char *const texts[] = {"no error", "unhandled cuda error",
		"unhandled system error", "internal error", "invalid argument", "invalid usage",
		"remote process exited or there was a network error", "NCCL operation in progress"};

	return (unsigned int)result < sizeof(texts) / sizeof(texts[0]) ? texts[result]
								       : "unknown result code";
}

NCCL_API(const char *, ncclGetLastError, ncclComm_t communicator)
{
	(void)communicator;
	return "";
}

NCCL_API(ncclResult_t, ncclGroupStart, void)
{
	group.depth++;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGroupEnd, void)
{
	if (group.depth == 0)
		return ncclInvalidUsage;
	return --group.depth == 0 ? launch_group() : ncclSuccess;
}

NCCL_API(ncclResult_t, ncclAllReduce, const void *input, void *output, size_t count,
	ncclDataType_t type, ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream)
{
	return submit((struct work){
		WORK_ALL_REDUCE, input, output, count, type, operation, 0, communicator, stream});
}

NCCL_API(ncclResult_t, ncclReduce, const void *input, void *output, size_t count,
	ncclDataType_t type, ncclRedOp_t operation, int root, ncclComm_t communicator,
	cudaStream_t stream)
{
	return submit((struct work){
		WORK_REDUCE, input, output, count, type, operation, root, communicator, stream});
}

NCCL_API(ncclResult_t, ncclBroadcast, const void *input, void *output, size_t count,
	ncclDataType_t type, int root, ncclComm_t communicator, cudaStream_t stream)
{
	return submit((struct work){
		WORK_BROADCAST, input, output, count, type, ncclSum, root, communicator, stream});
}

NCCL_API(ncclResult_t, ncclAllGather, const void *input, void *output, size_t count,
	ncclDataType_t type, ncclComm_t communicator, cudaStream_t stream)
{
	return submit((struct work){
		WORK_ALL_GATHER, input, output, count, type, ncclSum, 0, communicator, stream});
}

NCCL_API(ncclResult_t, ncclReduceScatter, const void *input, void *output, size_t count,
	ncclDataType_t type, ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream)
{
	return submit((struct work){WORK_REDUCE_SCATTER, input, output, count, type, operation, 0,
		communicator, stream});
}

NCCL_API(ncclResult_t, ncclSend, const void *input, size_t count, ncclDataType_t type, int peer,
	ncclComm_t communicator, cudaStream_t stream)
{
	return submit((struct work){
		WORK_SEND, input, NULL, count, type, ncclSum, peer, communicator, stream});
}

NCCL_API(ncclResult_t, ncclRecv, void *output, size_t count, ncclDataType_t type, int peer,
	ncclComm_t communicator, cudaStream_t stream)
{
	return submit((struct work){
		WORK_RECEIVE, NULL, output, count, type, ncclSum, peer, communicator, stream});
}
