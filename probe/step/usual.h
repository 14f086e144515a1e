/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a rank's step is longer than its steps usually are: what begins now is to be sent at once. The mean and mean
 * deviation of the latest steps, so what lasts becomes usual; without the longest two, so that one stall or a slow start
 * does not hide what comes after it. Zero-initialised is empty. No I/O, no clock.
 */
#ifndef SLOWRANK_PROBE_STEP_USUAL_H
#define SLOWRANK_PROBE_STEP_USUAL_H

#include <stdbool.h>
#include <stdint.h>

enum { STEP_USUAL_STEPS = 32 };

struct step_usual {
	int64_t lengths_ns[STEP_USUAL_STEPS]; /* of the latest steps, a ring */
	uint32_t count, next;
	uint32_t long_run; /* how many of the latest steps were long, in a row */
};

/* Takes the next step's length. False while little is known. */
bool step_usual_is_long(struct step_usual *usual, int64_t length_ns);

#endif
