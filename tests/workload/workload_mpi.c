/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop, calling MPI directly; the device is the rank itself, asleep. */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "tests/workload/loop.h"
#include "tests/workload/work.h"

enum { TURNS_MAX = 256 }; /* in one segment */

struct mpi_transport {
	int64_t turn_ns;
	MPI_Comm world;
	MPI_Comm group; /* half of the ranks; MPI_COMM_NULL without --split */
	float *input;
	float *output;
};

static int mpi_work(void *context, int64_t device_ns, int64_t cpu_ns, struct fault_extra extra)
{
	const struct mpi_transport *mpi = context;
	int64_t turns = device_ns / mpi->turn_ns;

	/* Host and device take turns, layer by layer: the host wakes, computes a little, waits. */
	turns = turns < 1 ? 1 : turns > TURNS_MAX ? TURNS_MAX : turns;
	for (int64_t i = 0; i < turns; i++) {
		work_sleep(device_ns / turns);
		work_spin((cpu_ns + extra.longer_ns + extra.more_ns) / turns);
	}
	return 0;
}

static int mpi_collective(void *context, const struct schedule_item *item)
{
	struct mpi_transport *mpi = context;
	MPI_Comm communicator =
		item->group && mpi->group != MPI_COMM_NULL ? mpi->group : mpi->world;
	int count = (int)item->element_count;
	int result = MPI_ERR_OP;

	switch (item->collective) {
	case COLLECTIVE_ALL_REDUCE:
		result = MPI_Allreduce(
			mpi->input, mpi->output, count, MPI_FLOAT, MPI_SUM, communicator);
		break;
	case COLLECTIVE_ALL_GATHER:
		result = MPI_Allgather(
			mpi->input, count, MPI_FLOAT, mpi->output, count, MPI_FLOAT, communicator);
		break;
	case COLLECTIVE_REDUCE_SCATTER:
		result = MPI_Reduce_scatter_block(
			mpi->input, mpi->output, count, MPI_FLOAT, MPI_SUM, communicator);
		break;
	case COLLECTIVE_BROADCAST:
		result = MPI_Bcast(mpi->output, count, MPI_FLOAT, 0, communicator);
		break;
	case COLLECTIVE_REDUCE:
		result = MPI_Reduce(
			mpi->input, mpi->output, count, MPI_FLOAT, MPI_SUM, 0, communicator);
		break;
	case COLLECTIVE_BARRIER:
		result = MPI_Barrier(communicator);
		break;
	}
	return result == MPI_SUCCESS ? 0 : -EIO;
}

static int mpi_finish_pass(void *context)
{
	(void)context; /* every collective was blocking */
	return 0;
}

static int run(const struct workload_options *options)
{
	struct mpi_transport mpi = {.turn_ns = (int64_t)(options->turn_ms * 1e6),
		.world = MPI_COMM_WORLD,
		.group = MPI_COMM_NULL};
	struct loop_transport transport = {.name = "mpi",
		.context = &mpi,
		.work = mpi_work,
		.collective = mpi_collective,
		.finish_pass = mpi_finish_pass};
	size_t bytes;
	int rank;
	int size;
	int result = -ENOMEM;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	transport.rank = (uint32_t)rank;
	transport.world_size = (uint32_t)size;
	bytes = schedule_buffer_bytes(&options->schedule, transport.world_size);
	mpi.input = calloc(1, bytes);
	mpi.output = calloc(1, bytes);
	if (!mpi.input || !mpi.output)
		goto free_buffers;
	if (options->duplicate)
		MPI_Comm_dup(MPI_COMM_WORLD, &mpi.world);
	if (options->schedule.split)
		MPI_Comm_split(MPI_COMM_WORLD, rank < (size + 1) / 2 ? 0 : 1, rank, &mpi.group);
	result = loop_run(options, &transport);
	if (mpi.group != MPI_COMM_NULL)
		MPI_Comm_free(&mpi.group);
	if (options->duplicate)
		MPI_Comm_free(&mpi.world);

free_buffers:
	free(mpi.input);
	free(mpi.output);
	return result;
}

int main(int argc, char **argv)
{
	struct workload_options options;
	int result = workload_options_parse(argc, argv, &options);

	if (result)
		return result < 0 ? 2 : 0;
	/* The default slack of 50 us would make every short sleep twice as long. */
	(void)prctl(PR_SET_TIMERSLACK, 5000UL);
	if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
		return 3;
	result = run(&options);
	if (result) {
		fprintf(stderr, "workload_mpi: the loop ended early: %d\n", result);
		MPI_Abort(MPI_COMM_WORLD, 4);
	}
	MPI_Finalize();
	return options.exit_status;
}
