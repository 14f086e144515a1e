/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probes of a simulated job: one on each host, which cut what their ranks did into batches,
 * and deliver them in some order. The same job may be fed in many ways; its truth is the same.
 * One thread.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_FEED_H
#define SLOWRANK_BENCH_SIMULATOR_FEED_H

#include "bench/simulator/simulator.h"
#include "probe/wire/message.h"

struct sim_feed_options {
	uint64_t seed;	      /* of batch boundaries and the order of hosts */
	uint32_t batch_steps; /* a batch has 1 to 2 * batch_steps - 1 steps; 1 = always one */
};

/*
 * Takes a batch, its receive time (true time) and owns the batch: it calls release(batch) when
 * it is done. A negative result ends the feeding.
 */
typedef int (*sim_take_batch)(void *context, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received);
/* Sees the entries, all of a step before those of the next. They only live for the call. May be NULL. */
typedef void (*sim_see_entry)(void *context, const struct step_entry *entry);

/* Simulates to the end and delivers everything. Returns 0 or the first error. */
int sim_feed(struct simulator *simulator, const struct sim_feed_options *options,
	sim_take_batch take, sim_see_entry see, void *context) __attribute__((warn_unused_result));

/* The coordinator's time for a true time. */
struct job_ns sim_job_time(double time);

#endif
