/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a rank's step is longer than its steps usually are: what begins now is to be sent at once. A running
 * mean and mean deviation, so what lasts becomes usual. Zero-initialised is empty. No I/O, no clock.
 */
#ifndef SLOWRANK_PROBE_STEP_USUAL_H
#define SLOWRANK_PROBE_STEP_USUAL_H

#include <stdbool.h>
#include <stdint.h>

struct step_usual {
	double mean_ns, deviation_ns;
	uint32_t count;	   /* of steps, up to where the mean has its full length */
	uint32_t long_run; /* how many of the latest steps were long, in a row */
};

/* Takes the next step's length. False while little is known. */
bool step_usual_is_long(struct step_usual *usual, int64_t length_ns);

#endif
