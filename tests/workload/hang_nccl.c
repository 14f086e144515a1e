/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_nccl KIND RANK STEP: all-reduces over libnccl.so.2, each waited for by the host; at STEP
 * RANK does something else, for good: "loop" without an end, "read" what nobody writes, "other": another
 * collective, "killed", "exit"; "none": nothing, nor with "ahead", where the host waits for none but the
 * last. Who watches may stop a rank. For 20 s only: "checkpoint" writes, "evaluate" computes and waits for its
 * device now and then. Ends after 200 steps, with "ahead" after 800.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/workload/device/nccl_api.h"
#include "tests/workload/work.h"

enum { STEPS = 200, STEPS_AHEAD = 800, COUNT = 1000, STEP_NS = 20000000, PIECE_BYTES = 1 << 20 };
#define WORK_NS INT64_C(20000000000)

static ncclComm_t communicator;
static cudaStream_t stream;
static float *numbers;

static void set_up(int rank, int size)
{
	ncclUniqueId unique_id = {{0}};

	if (cudaSetDevice(0) != cudaSuccess ||
		cudaStreamCreateWithFlags(&stream, 1) != cudaSuccess ||
		cudaMalloc((void **)&numbers, COUNT * sizeof(*numbers)) != cudaSuccess ||
		(rank == 0 && ncclGetUniqueId(&unique_id) != ncclSuccess))
		exit(3);
	MPI_Bcast(&unique_id, sizeof(unique_id), MPI_BYTE, 0, MPI_COMM_WORLD);
	if (ncclCommInitRank(&communicator, size, unique_id, rank) != ncclSuccess)
		exit(3);
}

static void read_for_good(void)
{
	int ends[2];
	char byte;

	if (pipe(ends) == 0)
		(void)!read(ends[0], &byte, 1);
	pause();
}

/* A mebibyte every half second, to a file that has no name. */
static void write_for_long(void)
{
	static char piece[PIECE_BYTES];
	FILE *file = tmpfile();

	if (!file)
		exit(5);
	for (int64_t end = work_monotonic_ns() + WORK_NS; work_monotonic_ns() < end;
		work_sleep(500000000)) {
		if (fwrite(piece, sizeof(piece), 1, file) != 1 || fflush(file))
			exit(5);
		rewind(file);
	}
	fclose(file);
}

static void evaluate_for_long(void)
{
	for (int64_t end = work_monotonic_ns() + WORK_NS; work_monotonic_ns() < end;) {
		work_spin(900000000);
		if (cudaStreamSynchronize(stream) != cudaSuccess)
			exit(4);
	}
}

static void do_otherwise(const char *kind)
{
	volatile unsigned turns = 0;

	if (strcmp(kind, "loop") == 0)
		for (;;)
			turns++;
	if (strcmp(kind, "read") == 0)
		read_for_good();
	if (strcmp(kind, "checkpoint") == 0)
		write_for_long();
	if (strcmp(kind, "evaluate") == 0)
		evaluate_for_long();
	if (strcmp(kind, "killed") == 0)
		raise(SIGKILL);
	if (strcmp(kind, "exit") == 0)
		_exit(7);
}

static void step(bool other, bool wait)
{
	ncclResult_t result = other ? ncclReduce(numbers, numbers, COUNT, ncclFloat32, ncclSum, 0,
					      communicator, stream)
				    : ncclAllReduce(numbers, numbers, COUNT, ncclFloat32, ncclSum,
					      communicator, stream);

	if (result != ncclSuccess || (wait && cudaStreamSynchronize(stream) != cudaSuccess))
		exit(4);
}

int main(int argc, char **argv)
{
	int level, rank, size, steps;
	bool ahead;

	if (argc != 4)
		return 2;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	set_up(rank, size);
	ahead = strcmp(argv[1], "ahead") == 0;
	steps = ahead ? STEPS_AHEAD : STEPS;
	for (int i = 0; i < steps; i++) {
		bool odd = rank == atoi(argv[2]) && i == atoi(argv[3]);

		work_sleep(STEP_NS);
		if (odd)
			do_otherwise(argv[1]);
		step(odd && strcmp(argv[1], "other") == 0, !ahead || i == steps - 1);
	}
	ncclCommDestroy(communicator);
	MPI_Finalize();
	return 0;
}
