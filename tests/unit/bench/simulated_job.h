/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated jobs for the tests of this folder. */
#ifndef SLOWRANK_TESTS_UNIT_BENCH_SIMULATED_JOB_H
#define SLOWRANK_TESTS_UNIT_BENCH_SIMULATED_JOB_H

#include "bench/simulator/feed.h"
#include "coordinator/pipeline.h"

/*
 * Simulates a job to its end, through a pipeline, which is finished and the caller's. feed_seed: of batch
 * boundaries and the order of hosts. truth may be NULL. Fails the test on any error.
 */
struct pipeline *simulated_pipeline(
	const struct sim_options *options, uint64_t feed_seed, struct sim_truth *truth);

#endif
