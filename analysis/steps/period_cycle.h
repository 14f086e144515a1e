/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An adopted cycle: its tokens, and how to find the place in it from the last tokens seen.
 * Part of period.h, for its use alone.
 */
#ifndef SLOWRANK_ANALYSIS_STEPS_PERIOD_CYCLE_H
#define SLOWRANK_ANALYSIS_STEPS_PERIOD_CYCLE_H

#include "analysis/steps/period_stream.h"

struct period_rotation {
	uint64_t hash; /* of a loop's tokens, starting at phase */
	uint32_t phase;
	uint32_t used;
};

struct period_cycle {
	uint64_t period;	    /* 0 = none */
	uint64_t loop;		    /* the tokens repeat within the period already, with this one */
	bool by_full;		    /* followed by full tokens: structure alone repeats sooner */
	uint64_t shift;		    /* what was phase `shift` at adoption is phase 0 now */
	uint32_t *structure, *full; /* period tokens each, from the phase 0 of adoption */
	uint64_t rotation_mask;
	struct period_rotation *rotations; /* open addressing */
};

int period_cycle_init(struct period_cycle *cycle, size_t period_max)
	__attribute__((warn_unused_result));
void period_cycle_fini(struct period_cycle *cycle);

/*
 * Takes the cycle from the last two periods of the streams, which must repeat, also with the loop.
 * origin: any position of phase 0.
 */
void period_cycle_adopt(struct period_cycle *cycle, const struct period_stream *structure,
	const struct period_stream *full, uint64_t origin, uint64_t period, uint64_t loop,
	bool by_full);

/*
 * Looks whether the `loop` tokens before end are a place of the cycle. Returns true and the phase
 * of the first of them: of those that look alike, the one nearest to what *phase was.
 */
bool period_cycle_find(const struct period_cycle *cycle, const struct period_stream *stream,
	uint64_t end, uint64_t *phase);

/* Makes `phase` the new phase 0. */
void period_cycle_rotate(struct period_cycle *cycle, uint64_t phase);

static inline uint32_t period_cycle_token(
	const struct period_cycle *cycle, uint64_t phase, bool full)
{
	uint64_t index = phase + cycle->shift;

	if (index >= cycle->period)
		index -= cycle->period;
	return full ? cycle->full[index] : cycle->structure[index];
}

#endif
