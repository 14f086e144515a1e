/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/changepoint.h"

#include <math.h>

#include "analysis/robust_stats.h"

static const double unit_max = 2.5;
static const double unit_min = -1.5;

struct change_noise change_noise_of(double *values, size_t count, double least)
{
	double high = quantile_double(values, count, 0.8);
	double higher = quantile_double(values, count, 0.95);
	struct change_noise noise;

	noise.reference = fmax(least, high);
	noise.scale = fmax(fmax(0.5 * least, 0.5 * high), higher - high);
	return noise;
}

bool change_point_push(
	struct change_point *change, const struct change_noise *noise, double value, double weight)
{
	double units = (value - noise->reference) / noise->scale;

	units = fmin(fmax(units, unit_min), unit_max);
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

double hit_surprise(uint64_t hits, uint64_t tries, double p)
{
	double share, surprise;

	if (tries == 0)
		return 0;
	share = (double)hits / (double)tries;
	if (share <= p)
		return 0;
	/* tries times the Kullback-Leibler divergence (Chernoff, 1952; Hoeffding, 1963) */
	surprise = share * log(share / p);
	if (share < 1)
		surprise += (1 - share) * log((1 - share) / (1 - p));
	return (double)tries * surprise;
}

size_t change_onset(const double *values, const double *lengths, size_t count, double usual_length,
	double level)
{
	double sum = 0, least = 0;
	size_t onset = 0;

	for (size_t i = 0; i < count; i++) {
		/* A wild value before the change must not pass for its beginning. */
		sum += fmin(values[i], 3 * level * usual_length) -
		       0.4 * level * fmin(lengths[i], usual_length);
		if (sum < least) {
			least = sum;
			onset = i + 1;
		}
	}
	return onset < count ? onset : count ? count - 1 : 0;
}
