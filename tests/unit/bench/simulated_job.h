/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated jobs for the tests of this folder. */
#ifndef SLOWRANK_TESTS_UNIT_BENCH_SIMULATED_JOB_H
#define SLOWRANK_TESTS_UNIT_BENCH_SIMULATED_JOB_H

#include "bench/simulator/feed.h"
#include "coordinator/pipeline.h"

/*
 * Simulates a job into the pipeline, to its end, and finishes the pipeline. feed_seed: of batch
 * boundaries and the order of hosts. truth may be NULL. Fails the test on any error.
 */
void simulate_into(struct pipeline *pipeline, const struct sim_options *options, uint64_t feed_seed,
	struct sim_truth *truth);

#endif
