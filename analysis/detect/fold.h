/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does something come back every so many steps? A series is folded over all periods; the one under
 * which its largest values fall into one residue class, beyond chance, is told. Only their order
 * counts, so neither how large they are nor what else the series does can pretend it. Pure; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_DETECT_FOLD_H
#define SLOWRANK_ANALYSIS_DETECT_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/policy.h"

enum { FOLD_VALUES_MAX = STEP_HISTORY };

struct fold_finding {
	uint32_t period_steps;
	size_t phase; /* of the class: index mod period_steps; index of values */
	size_t from;  /* the values from this one on say so best */
	/*
	 * Less than e^-surprise is the chance to find as much in a series without period, over all periods,
	 * classes and stretches that are looked at (Bonferroni).
	 */
	double surprise;
	double height; /* median of the class, less the */
	double base;   /* median of the others; from there on */
	double share;  /* of what is above the base in all, so much is in the class */
};

/*
 * values: at most FOLD_VALUES_MAX, one a step, the oldest first. With the k-th part of the values in each
 * class, of the n / k largest, h are in one class: surprise is hit_surprise() of h of the class's
 * values against the rest of these of all others. False when nothing stands out at all.
 */
bool fold_find(const double *values, size_t count, struct fold_finding *finding);

#endif
