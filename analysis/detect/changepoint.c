/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/detect/changepoint.h"

#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/policy.h"

struct change_noise change_noise_of(double *values, size_t count, double least)
{
	double high = quantile_double(values, count, CHANGE_REFERENCE_QUANTILE);
	double higher = quantile_double(values, count, CHANGE_SCALE_QUANTILE);
	struct change_noise noise = {0};

	noise.reference = fmax(least, high);
	noise.scale = fmax(fmax(0.5 * least, 0.5 * high), higher - high);
	return noise;
}

bool change_point_push(
	struct change_point *change, const struct change_noise *noise, double value, double weight)
{
	double units = (value - noise->reference) / noise->scale;

	units = fmin(
		fmax(units, -(noise->forget > 0 ? noise->forget : CHANGE_FORGET)), CHANGE_UNIT_MAX);
	if (units > 0)
		units *= weight;
	if (change->sum + units <= 0) {
		*change = (struct change_point){0};
		return false;
	}
	change->sum += units;
	change->evidence += units;
	change->run++;
	/* An old, long run must not take as long to forget. */
	change->sum = fmin(change->sum, 2 * CHANGE_THRESHOLD);
	return change->sum >= CHANGE_THRESHOLD;
}

/* The Kullback-Leibler divergence of two coins; p is 0 or 1 only where share is. */
static double divergence(double share, double p)
{
	double sum = 0;

	if (share > 0)
		sum += share * log(share / p);
	if (share < 1)
		sum += (1 - share) * log((1 - share) / (1 - p));
	return sum;
}

double hit_surprise(uint64_t hits, uint64_t tries, uint64_t peer_hits, uint64_t peer_tries)
{
	double own = (double)hits, own_tries = (double)tries;
	double others = (double)peer_hits, other_tries = (double)peer_tries, together;

	if (tries == 0 || peer_tries == 0 || own * other_tries <= others * own_tries)
		return 0;
	together = (own + others) / (own_tries + other_tries);
	return own_tries * divergence(own / own_tries, together) +
	       other_tries * divergence(others / other_tries, together);
}

size_t change_onset(const double *values, const double *lengths, size_t count, double usual_length,
	double level)
{
	double sum = 0, least = 0;
	size_t onset = 0;

	for (size_t i = 0; i < count; i++) {
		/* A wild value before the change must not pass for its beginning. */
		sum += fmin(values[i], ONSET_VALUE_MAX * level * usual_length) -
		       ONSET_LEVEL * level * fmin(lengths[i], usual_length);
		if (sum < least) {
			least = sum;
			onset = i + 1;
		}
	}
	return onset < count ? onset : count ? count - 1 : 0;
}
