/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back every so many steps in a signal: too small or too rare for sums over blocks, but the steps that it
 * hits are the same ones of each round. A signal's other steps are what it is held against, so neither its peers' noise
 * nor its own usual loss matters. docs/analysis.md. Plain values; one thread.
 */
#ifndef SLOWRANK_ANALYSIS_DETECT_PERIODIC_H
#define SLOWRANK_ANALYSIS_DETECT_PERIODIC_H

#include "analysis/detect/fold.h"
#include "analysis/detect/signal.h"

struct periodic {
	uint32_t every; /* 0: none */
	uint32_t phase; /* step number mod every */
	uint64_t first_step;
	bool always;			      /* as long as is known: when it began is not */
	double surprise, height, base, share; /* as of a fold_finding */
	struct excess_sums sums;  /* of these steps, since they were noticed; and of those of the */
	struct excess_sums block; /* open block, not in sums yet */
};

static inline bool periodic_has(const struct periodic *periodic, uint64_t step)
{
	return step % periodic->every == periodic->phase;
}

/*
 * Looks at the steps that are kept. told: a verdict holds of it; of one that has ended, what was told counts no
 * more. False: nothing comes back.
 */
bool periodic_find(const struct signal *signal, const struct step_times *times, bool told,
	struct fold_finding *finding);
/* Finds, and takes it over: what was gathered of the same steps stays. */
bool periodic_look(const struct signal *signal, const struct step_times *times, bool told,
	struct periodic *periodic);

/* It is no chance among so many signals, it costs enough of the time on average, and the steps are longer for it. */
bool periodic_is_proven(const struct periodic *periodic, const struct step_times *times,
	size_t signals, struct gate_sheet *sheet);
/*
 * Of a block's steps of a class: what was lost, as a share of their length. share_of_block: they are so much of its
 * time; 0: it has none.
 */
double periodic_level(const struct signal *signal, const struct step_times *times,
	const struct block *block, uint32_t every, uint64_t phase, double *share_of_block);
bool periodic_is_loud(const struct periodic *periodic, const struct signal *signal,
	const struct step_times *times, const struct block *block, struct gate_sheet *sheet);
/* False: of late, as many steps were slow as before, but others, or most were. */
bool periodic_holds(const struct periodic *periodic, const struct signal *signal,
	const struct step_times *times);
/* Most of what is lost comes back so, for certain. */
bool periodic_explains(const struct periodic *periodic, const struct signal *signal,
	const struct step_times *times, size_t signals);
/* As a run of these steps, since they began or as long as is known. */
struct run periodic_run(const struct periodic *periodic, const struct signal *signal,
	const struct step_times *times);

#endif
