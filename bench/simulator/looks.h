/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the probe of a simulated host looks at the sockets of its ranks: once a second, and for a while ten
 * times a second where their steps became longer than usual (docs/architecture.md). It runs in turns of
 * 50 ms, each host by its own clock. One thread.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_LOOKS_H
#define SLOWRANK_BENCH_SIMULATOR_LOOKS_H

#include "probe/step/pace.h"

struct sim_looks {
	double phase_ns; /* of its turns */
	double regular, regular_ns, hurried, hurried_until, rested_until;
	double after; /* 0: no long step ended */
	uint32_t rank_count;
	struct step_pace *paces; /* by rank of the host */
};

/* Returns 0 or -ENOMEM. random: of [0, 1). */
int sim_looks_init(struct sim_looks *looks, uint32_t rank_count, double random)
	__attribute__((warn_unused_result));
void sim_looks_fini(struct sim_looks *looks);

/* The next look until a time; false: there is none. */
bool sim_looks_next(struct sim_looks *looks, double until, double *time);

/* A step of one of its ranks has ended. */
void sim_looks_step(struct sim_looks *looks, uint32_t index, double start, double end);
/* The look for which a step was long enough that ended since the last call. */
bool sim_looks_after(struct sim_looks *looks, double *time);

#endif
