/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a series moved up, and since when? A one-sided CUSUM whose steps are clipped, so that no
 * single value can raise it: three bad blocks in a row are needed, however bad one is. Pure;
 * any thread. Why, and where the constants come from: docs/analysis.md.
 */
#ifndef SLOWRANK_ANALYSIS_DETECT_CHANGEPOINT_H
#define SLOWRANK_ANALYSIS_DETECT_CHANGEPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the series does when nothing is wrong. */
struct change_noise {
	double reference; /* values above it speak for a change */
	double scale;	  /* how far above counts as one unit */
	double forget;	  /* units that a quiet value takes back at most; 0: CHANGE_FORGET */
};

struct change_point {
	double sum;	 /* the clipped sum, not below 0 */
	double evidence; /* the same without its upper bound per run, for confidence */
	uint64_t run;	 /* values since the sum left 0 */
};

/*
 * The noise of a quiet series: values is overwritten. least: what is never an alarm, as a
 * fraction; the reference is the larger of it and the 80 % quantile, the scale half of it and
 * the distance from the 80 % to the 95 % quantile.
 */
struct change_noise change_noise_of(double *values, size_t count, double least);

/* Takes the next value; weight below 1 for values that say less. Returns true at an alarm. */
bool change_point_push(
	struct change_point *change, const struct change_noise *noise, double value, double weight);

/*
 * How surprising it is that something happened in so many more of a rank's tries than of its peers', if it
 * is equally likely for all: the logarithm of the generalised likelihood ratio (Wilks, 1938). With many
 * peers that is the Chernoff bound on the binomial tail, as -ln P. 0 when the rank has no greater share.
 */
double hit_surprise(uint64_t hits, uint64_t tries, uint64_t peer_hits, uint64_t peer_tries);

/*
 * Where a change to a level (a share of a step's length) began: the index after which the sum of
 * values[i] less 0.4 of the level is smallest; about the maximum likelihood for a step of known
 * size. Values above 3 times the level are cut, so that a quota's bursts, in every sixth step,
 * still count and a single stall does not.
 */
size_t change_onset(const double *values, const double *lengths, size_t count, double usual_length,
	double level);

#endif
