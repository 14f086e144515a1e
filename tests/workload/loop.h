/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training loop, over a transport that does the device work and the collectives: MPI
 * itself, or the stand-ins of the CUDA libraries. One thread.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_LOOP_H
#define SLOWRANK_TESTS_WORKLOAD_LOOP_H

#include "tests/workload/fault.h"
#include "tests/workload/options.h"

struct loop_transport {
	const char *name; /* "mpi" or "nccl" */
	uint32_t rank;
	uint32_t world_size;
	void *context;
	/* Device work of that length, and CPU work of that CPU time. extra: of faults. */
	int (*work)(void *context, int64_t device_ns, int64_t cpu_ns, struct fault_extra extra);
	int (*collective)(void *context, const struct schedule_item *item);
	/* The end of a pass: waits for what is still running. */
	int (*finish_pass)(void *context);
};

/* Runs all passes. Returns 0 or a negative errno, after a line on stderr. */
int loop_run(const struct workload_options *options, const struct loop_transport *transport)
	__attribute__((warn_unused_result));

#endif
