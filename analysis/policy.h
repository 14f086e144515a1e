/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every number that decides: what it is, its unit, and why it has this value. A section for each part of the
 * analysis.
 */
#ifndef SLOWRANK_ANALYSIS_POLICY_H
#define SLOWRANK_ANALYSIS_POLICY_H

#include <stdint.h>

/*
 * progress: how fast the job is. Units: slots (blocks of the judge, 200 ms or a step), shares 0..1. Measured on the 112 windows
 * of the corpus that are no hangs, by how far the loss is from the growth of the steps.
 */
#define PROGRESS_SAMPLES 16 /* slots with a kind of call: their median is what one usually takes */
#define PROGRESS_SAMPLES_MIN 5	  /* fewer are the program's start: it does not count yet */
#define PROGRESS_MEASURED_MIN 0.5 /* of a slot's time must be of calls that count */
#define PROGRESS_ROWS_MAX 64	  /* ranks that are looked at: all wait for each other */
/* What is usual before a fault: jobs wander, so not too many (6 to 64 are about as good). */
#define PROGRESS_BEFORE_SLOTS 24
#define PROGRESS_USUAL_SLOTS_MIN 4
/* After it, by as many on both sides of it: right in 105 windows, against 92 by those before alone. */
#define PROGRESS_AROUND_SLOTS 6
#define PROGRESS_AFTER_SLOTS_MIN 3
#define PROGRESS_SETTLES_NS INT64_C(500000000) /* what was queued is done */
#define PROGRESS_EARLIER_SLOTS 8	       /* an onset is found as much too late, at most */
/* Of the usual rate: a slower slot holds a stall, which is not usual. */
#define PROGRESS_STALLED_SHARE 0.25
/* The job is as fast as before: of what it lost, less than this is left, and slots do not differ by as much. */
#define PROGRESS_BACK_SHARE 0.3
#define PROGRESS_BACK_ERRORS 2 /* standard deviations */
#define PROGRESS_BACK_SLOTS 4  /* of a loss that does not show in one */
/*
 * Standard errors that a loss must be above to prove by itself that a rank costs time; and those by which it may fall short of
 * that where a replay says so: it is refuted at 3 to 1 (corpus: 0.5 to 0.8 stop the same false verdicts).
 */
#define PROGRESS_LOST_ERRORS 1.5
#define PROGRESS_REFUTED_ERRORS 0.67

#endif
