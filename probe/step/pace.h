/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a rank's steps have become longer, in the mean: what is looked at once a second is then worth
 * looking at more often for a while. Steps are taken together for 100 ms, so that small changes of
 * short steps show and single stalls do not. Zero-initialised is empty. No I/O, no clock.
 */
#ifndef SLOWRANK_PROBE_STEP_PACE_H
#define SLOWRANK_PROBE_STEP_PACE_H

#include "probe/step/usual.h"

struct step_pace {
	struct step_usual usual; /* of the stretches' mean steps */
	int64_t length_ns;	 /* of the stretch that has begun */
	uint32_t steps;
};

/* Takes the next step's length. True at the end of a stretch, when it and the one before were longer than usual. */
bool step_pace_is_slower(struct step_pace *pace, int64_t length_ns);

#endif
