/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same training loop, calling libnccl.so.2, libcudart.so.13 and (through them)
 * libcuda.so.1. The host only launches: kernels on a compute stream, collectives on a stream of
 * their own that waits for them, and one wait for the device at the end of a pass.
 */
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/workload/device/nccl_api.h"
#include "tests/workload/device/stream.h"
#include "tests/workload/loop.h"
#include "tests/workload/work.h"

enum { KERNELS_PER_SEGMENT = 4 };

struct nccl_transport {
	ncclComm_t world;
	ncclComm_t group; /* NULL without --split */
	cudaStream_t compute;
	cudaStream_t communication;
	cudaEvent_t gradients_ready;
	cudaEvent_t reduced;
	bool read_loss;
	bool all_to_all;
	bool pipeline;
	bool backward; /* of the next messages */
	int rank, size;
	ncclResult_t (*all_reduce)(const void *input, void *output, size_t count,
		ncclDataType_t type, ncclRedOp_t operation, ncclComm_t communicator,
		cudaStream_t stream); /* NULL: by its name */
	uint32_t launches;
	float *input;
	float *output;
};

static void sleep_kernel_code(void *const *arguments)
{
	device_pass_time(*(const int64_t *)arguments[0]);
}

static const struct device_function sleep_kernel = {
	"forward_backward_kernel", sleep_kernel_code, 1, {sizeof(int64_t)}};
static const struct device_function extra_kernel = {
	"evaluation_kernel", sleep_kernel_code, 1, {sizeof(int64_t)}};

static int launch_sleep(const struct nccl_transport *nccl, const struct device_function *function,
	int64_t length_ns)
{
	void *arguments[] = {&length_ns};
	cudaError_t error = cudaLaunchKernel(
		function, (dim3){80, 1, 1}, (dim3){256, 1, 1}, arguments, 0, nccl->compute);

	if (error != cudaSuccess)
		fprintf(stderr, "workload_nccl: %s\n", cudaGetErrorString(error));
	return error == cudaSuccess ? 0 : -EIO;
}

static int nccl_work(void *context, int64_t device_ns, int64_t cpu_ns, struct fault_extra extra)
{
	struct nccl_transport *nccl = context;
	int result = 0;

	for (int i = 0; i < KERNELS_PER_SEGMENT && !result; i++) {
		work_spin(cpu_ns / KERNELS_PER_SEGMENT);
		result = launch_sleep(
			nccl, &sleep_kernel, (device_ns + extra.longer_ns) / KERNELS_PER_SEGMENT);
	}
	if (!result && extra.more_ns > 0)
		result = launch_sleep(nccl, &extra_kernel, extra.more_ns);
	return result;
}

static ncclResult_t enqueue_collective(const struct nccl_transport *nccl,
	const struct schedule_item *item, ncclComm_t communicator)
{
	size_t count = item->element_count ? item->element_count : 1;
	cudaStream_t stream = nccl->communication;

	switch (item->collective) {
	case COLLECTIVE_ALL_GATHER:
		return ncclAllGather(
			nccl->input, nccl->output, count, ncclFloat32, communicator, stream);
	case COLLECTIVE_REDUCE_SCATTER:
		return ncclReduceScatter(nccl->input, nccl->output, count, ncclFloat32, ncclSum,
			communicator, stream);
	case COLLECTIVE_BROADCAST:
		return ncclBroadcast(
			nccl->output, nccl->output, count, ncclFloat32, 0, communicator, stream);
	case COLLECTIVE_REDUCE:
		return ncclReduce(nccl->input, nccl->output, count, ncclFloat32, ncclSum, 0,
			communicator, stream);
	default: /* NCCL has no barrier: PyTorch's is an all-reduce of one element too */
		if (nccl->all_reduce)
			return nccl->all_reduce(nccl->input, nccl->output, count, ncclFloat32,
				ncclSum, communicator, stream);
		return ncclAllReduce(nccl->input, nccl->output, count, ncclFloat32, ncclSum,
			communicator, stream);
	}
}

/* As PyTorch's all_to_all_single: with oneself, too. */
static ncclResult_t exchange_with_all(const struct nccl_transport *nccl)
{
	ncclResult_t result = ncclGroupStart();
	int size = 0;

	if (!result)
		result = ncclCommCount(nccl->world, &size);
	for (int peer = 0; peer < size && !result; peer++) {
		result = ncclSend(
			nccl->input + peer, 1, ncclFloat32, peer, nccl->world, nccl->communication);
		if (!result)
			result = ncclRecv(nccl->output + peer, 1, ncclFloat32, peer, nccl->world,
				nccl->communication);
	}
	return result ? result : ncclGroupEnd();
}

/* A stage of a pipeline: its result goes to one neighbour, and the work that follows needs the other's. */
static ncclResult_t exchange_with_neighbours(struct nccl_transport *nccl)
{
	int towards = nccl->backward ? -1 : 1, to = nccl->rank + towards,
	    from = nccl->rank - towards;
	ncclResult_t result = ncclGroupStart();

	nccl->backward = !nccl->backward;
	if (!result && to >= 0 && to < nccl->size)
		result =
			ncclSend(nccl->input, 1, ncclFloat32, to, nccl->world, nccl->communication);
	if (!result && from >= 0 && from < nccl->size)
		result = ncclRecv(
			nccl->output, 1, ncclFloat32, from, nccl->world, nccl->communication);
	if (!result)
		result = ncclGroupEnd();
	if (!result && (cudaEventRecord(nccl->reduced, nccl->communication) != cudaSuccess ||
			       cudaStreamWaitEvent(nccl->compute, nccl->reduced, 0) != cudaSuccess))
		result = ncclUnhandledCudaError;
	return result;
}

static int nccl_collective(void *context, const struct schedule_item *item)
{
	struct nccl_transport *nccl = context;
	ncclResult_t result;

	if (nccl->read_loss && cudaStreamSynchronize(nccl->compute) != cudaSuccess)
		return -EIO;
	if (cudaEventRecord(nccl->gradients_ready, nccl->compute) != cudaSuccess ||
		cudaStreamWaitEvent(nccl->communication, nccl->gradients_ready, 0) != cudaSuccess)
		return -EIO;
	if (nccl->pipeline)
		result = exchange_with_neighbours(nccl);
	else
		result = enqueue_collective(
			nccl, item, item->group && nccl->group ? nccl->group : nccl->world);
	if (result == ncclSuccess && nccl->all_to_all)
		result = exchange_with_all(nccl);
	if (result == ncclSuccess)
		return 0;
	fprintf(stderr, "workload_nccl: %s\n", ncclGetErrorString(result));
	return -EIO;
}

/* Calls of a launch-bound program, without the work: an empty grid is refused. */
static void launch_nothing(const struct nccl_transport *nccl)
{
	int64_t length_ns = 0;
	void *arguments[] = {&length_ns};

	for (uint32_t i = 0; i < nccl->launches; i++)
		(void)cudaLaunchKernel(&sleep_kernel, (dim3){0, 0, 0}, (dim3){1, 1, 1}, arguments,
			0, nccl->compute);
	(void)cudaGetLastError();
}

/* The optimizer needs the reduced gradients; then the host reads the loss. */
static int nccl_finish_pass(void *context)
{
	struct nccl_transport *nccl = context;
	ncclResult_t error = ncclSuccess;

	launch_nothing(nccl);
	if (cudaEventRecord(nccl->reduced, nccl->communication) != cudaSuccess ||
		cudaStreamWaitEvent(nccl->compute, nccl->reduced, 0) != cudaSuccess ||
		cudaStreamSynchronize(nccl->compute) != cudaSuccess)
		return -EIO;
	return ncclCommGetAsyncError(nccl->world, &error) == ncclSuccess && error == ncclSuccess
		       ? 0
		       : -EIO;
}

/* The all-reduce is right: every rank gives its rank + 1. */
static int check_sum(struct nccl_transport *nccl, int rank, int size)
{
	float expected = (float)size * (float)(size + 1) / 2;

	nccl->input[0] = (float)(rank + 1);
	if (ncclAllReduce(nccl->input, nccl->output, 1, ncclFloat32, ncclSum, nccl->world,
		    nccl->communication) != ncclSuccess ||
		cudaStreamSynchronize(nccl->communication) != cudaSuccess)
		return -EIO;
	nccl->input[0] = 0;
	if (nccl->output[0] == expected)
		return 0;
	fprintf(stderr, "workload_nccl: the all-reduce gives %f instead of %f\n",
		(double)nccl->output[0], (double)expected);
	return -EIO;
}

/* What PyTorch's profiler does first: subscribe to CUPTI, and keep it. */
static int hold_cupti(void)
{
	void *library = dlopen("libcupti.so.13", RTLD_NOW), *symbol, *subscriber;
	int (*subscribe)(void **subscriber, void *callback, void *user);

	symbol = library ? dlsym(library, "cuptiSubscribe") : NULL;
	memcpy(&subscribe, &symbol, sizeof(symbol));
	return symbol && subscribe(&subscriber, NULL, NULL) == 0 ? 0 : -EIO;
}

/* It has all that its parent has, and calls nothing. */
static int start_helper(void)
{
	pid_t helper = fork();

	if (helper != 0)
		return helper > 0 ? 0 : -errno;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void find_all_reduce(struct nccl_transport *nccl)
{
	void *symbol = dlsym(RTLD_DEFAULT, "ncclAllReduce");

	memcpy(&nccl->all_reduce, &symbol, sizeof(symbol));
}

static int set_up(
	struct nccl_transport *nccl, const struct workload_options *options, int rank, int size)
{
	size_t bytes = schedule_buffer_bytes(&options->schedule, (uint32_t)size);
	ncclUniqueId unique_id = {{0}};

	nccl->read_loss = options->read_loss;
	nccl->all_to_all = options->all_to_all;
	nccl->pipeline = options->pipeline;
	nccl->rank = rank;
	nccl->size = size;
	nccl->launches = options->launches;
	if (options->by_pointer)
		find_all_reduce(nccl);
	if (options->profiler && hold_cupti())
		return -EIO;
	if (cudaSetDevice(0) != cudaSuccess ||
		cudaStreamCreateWithFlags(&nccl->compute, 1) != cudaSuccess ||
		cudaStreamCreateWithFlags(&nccl->communication, 1) != cudaSuccess ||
		cudaEventCreateWithFlags(&nccl->gradients_ready, 2) != cudaSuccess ||
		cudaEventCreateWithFlags(&nccl->reduced, 2) != cudaSuccess ||
		cudaMalloc((void **)&nccl->input, bytes) != cudaSuccess ||
		cudaMalloc((void **)&nccl->output, bytes) != cudaSuccess)
		return -EIO;
	if (rank == 0 && ncclGetUniqueId(&unique_id) != ncclSuccess)
		return -EIO;
	MPI_Bcast(&unique_id, sizeof(unique_id), MPI_BYTE, 0, MPI_COMM_WORLD);
	if (ncclCommInitRank(&nccl->world, size, unique_id, rank) != ncclSuccess)
		return -EIO;
	if (options->schedule.split && ncclCommSplit(nccl->world, rank < (size + 1) / 2 ? 0 : 1,
					       rank, &nccl->group, NULL) != ncclSuccess)
		return -EIO;
	if (options->helper && start_helper())
		return -EIO;
	return check_sum(nccl, rank, size);
}

static int tear_down(struct nccl_transport *nccl)
{
	int failed = 0;

	failed |= cudaDeviceSynchronize() != cudaSuccess;
	if (nccl->group)
		failed |= ncclCommDestroy(nccl->group) != ncclSuccess;
	failed |= ncclCommDestroy(nccl->world) != ncclSuccess;
	failed |= cudaEventDestroy(nccl->reduced) != cudaSuccess;
	failed |= cudaEventDestroy(nccl->gradients_ready) != cudaSuccess;
	failed |= cudaFree(nccl->output) != cudaSuccess;
	failed |= cudaFree(nccl->input) != cudaSuccess;
	failed |= cudaStreamDestroy(nccl->communication) != cudaSuccess;
	failed |= cudaStreamDestroy(nccl->compute) != cudaSuccess;
	return failed ? -EIO : 0;
}

static int run(const struct workload_options *options)
{
	struct nccl_transport nccl = {0};
	struct loop_transport transport = {.name = "nccl",
		.context = &nccl,
		.work = nccl_work,
		.collective = nccl_collective,
		.finish_pass = nccl_finish_pass};
	int rank;
	int size;
	int result;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	transport.rank = (uint32_t)rank;
	transport.world_size = (uint32_t)size;
	result = set_up(&nccl, options, rank, size);
	if (!result)
		result = loop_run(options, &transport);
	return result ? result : tear_down(&nccl);
}

int main(int argc, char **argv)
{
	struct workload_options options;
	int level = 0;
	int result = workload_options_parse(argc, argv, &options);

	if (result)
		return result < 0 ? 2 : 0;
	(void)prctl(PR_SET_TIMERSLACK, 5000UL);
	if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS ||
		level != MPI_THREAD_MULTIPLE) {
		fprintf(stderr, "workload_nccl: this MPI does not do MPI_THREAD_MULTIPLE\n");
		return 3;
	}
	result = run(&options);
	if (result) {
		fprintf(stderr, "workload_nccl: the loop ended early: %d\n", result);
		MPI_Abort(MPI_COMM_WORLD, 4);
	}
	MPI_Finalize();
	return options.exit_status;
}
