/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated job as a record, which `slowrank report` reads. One thread. */
#ifndef SLOWRANK_BENCH_SIMULATOR_WRITE_H
#define SLOWRANK_BENCH_SIMULATOR_WRITE_H

#include "bench/simulator/feed.h"

/* Simulates to the end. Returns 0 or a negative errno; where the file is at fault, stderr says why. */
int sim_write_record(struct simulator *simulator, const struct sim_feed_options *options,
	const char *path) __attribute__((warn_unused_result));

#endif
