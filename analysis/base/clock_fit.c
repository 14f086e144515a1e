/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/base/clock_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/robust_stats.h"

void clock_fit_init(struct clock_fit *fit)
{
	memset(fit, 0, sizeof(*fit));
	fit->error_ns = CLOCK_ERROR_UNKNOWN_NS;
}

void clock_fit_fix(struct clock_fit *fit, int64_t offset_ns, int64_t error_ns)
{
	clock_fit_init(fit);
	fit->fixed = true;
	fit->offset_ns = offset_ns;
	fit->error_ns = error_ns;
}

/* Only the stamps are known: the middle of their bounds, or the one bound there is. */
static void use_outer_bounds(struct clock_fit *fit)
{
	if (fit->fixed || fit->bound_count)
		return;
	fit->drift = 0;
	if (fit->has_low && fit->has_high) {
		fit->offset_ns = fit->low_ns + (fit->high_ns - fit->low_ns) / 2;
		fit->error_ns = llabs(fit->high_ns - fit->low_ns) / 2;
	} else if (fit->has_high || fit->has_low) {
		fit->offset_ns = fit->has_high ? fit->high_ns : fit->low_ns;
	}
}

/* An old bound loosens as clocks drift; a new one wins when it is tighter by then. */
static int64_t aged(int64_t time_ns, int64_t now_ns)
{
	return (int64_t)(CLOCK_DRIFT_MAX * fabs((double)(now_ns - time_ns)));
}

void clock_fit_request(struct clock_fit *fit, struct host_ns sent, struct job_ns received)
{
	int64_t high_ns = received.value - sent.value;

	if (!fit->has_high || high_ns < fit->high_ns + aged(fit->high_time_ns, sent.value)) {
		fit->has_high = true;
		fit->high_ns = high_ns;
		fit->high_time_ns = sent.value;
	}
	use_outer_bounds(fit);
}

void clock_fit_reply(struct clock_fit *fit, struct job_ns reply_sent, struct host_ns reply_received)
{
	int64_t low_ns = reply_sent.value - reply_received.value;

	if (!fit->has_low || low_ns > fit->low_ns - aged(fit->low_time_ns, reply_received.value)) {
		fit->has_low = true;
		fit->low_ns = low_ns;
		fit->low_time_ns = reply_received.value;
	}
	use_outer_bounds(fit);
}

/* Where all leave together, within the bounds. Bounds that cross meet in the middle. */
static double bucket_middle(const struct clock_bucket *bucket)
{
	if (bucket->low_ns <= bucket->best_ns && bucket->best_ns <= bucket->high_ns)
		return (double)bucket->best_ns;
	if (bucket->low_ns > bucket->high_ns)
		return (double)bucket->low_ns + (double)(bucket->high_ns - bucket->low_ns) / 2;
	return (double)(bucket->best_ns < bucket->low_ns ? bucket->low_ns : bucket->high_ns);
}

static double bucket_half_width(const struct clock_bucket *bucket)
{
	return fabs((double)(bucket->high_ns - bucket->low_ns)) / 2;
}

/* Weighted least squares through the middles; weight 1 / (half width^2 + 1 us^2). */
static void fit_line(struct clock_fit *fit)
{
	const struct clock_bucket *base =
		&fit->buckets[(fit->bucket_next + CLOCK_FIT_BUCKETS - 1) % CLOCK_FIT_BUCKETS];
	double sum = 0, sum_t = 0, sum_y = 0, sum_tt = 0, sum_ty = 0, first = 0;
	double rest[CLOCK_FIT_BUCKETS], width[CLOCK_FIT_BUCKETS];

	for (unsigned i = 0; i < fit->bucket_count; i++) {
		const struct clock_bucket *bucket = &fit->buckets[i];
		double t = (double)(bucket->time_ns - base->time_ns);
		double y = bucket_middle(bucket) - (double)base->low_ns;
		double half = bucket_half_width(bucket);
		double weight = 1 / (half * half + 1e6);

		first = t < first ? t : first;
		sum += weight;
		sum_t += weight * t;
		sum_y += weight * y;
		sum_tt += weight * t * t;
		sum_ty += weight * t * y;
	}
	double spread = sum * sum_tt - sum_t * sum_t;
	double drift = 0;

	if (-first >= (double)CLOCK_DRIFT_SPAN_NS && spread > 0)
		drift = (sum * sum_ty - sum_t * sum_y) / spread;
	drift = fmin(fmax(drift, -CLOCK_DRIFT_MAX), CLOCK_DRIFT_MAX);
	double offset = (sum_y - drift * sum_t) / sum;

	for (unsigned i = 0; i < fit->bucket_count; i++) {
		const struct clock_bucket *bucket = &fit->buckets[i];
		double t = (double)(bucket->time_ns - base->time_ns);

		rest[i] = fabs(bucket_middle(bucket) - (double)base->low_ns - offset - drift * t);
		width[i] = bucket_half_width(bucket);
	}
	fit->time_ns = base->time_ns;
	fit->offset_ns = base->low_ns + (int64_t)llround(offset);
	fit->drift = drift;
	/* 1.4826 x the median distance is a normal one's deviation (Rousseeuw and Croux, 1993). */
	fit->error_ns = (int64_t)(median_double(width, fit->bucket_count) +
				  1.4826 * median_double(rest, fit->bucket_count)) +
			1;
}

static void close_bucket(struct clock_fit *fit)
{
	fit->buckets[fit->bucket_next] = fit->open;
	fit->bucket_next = (fit->bucket_next + 1) % CLOCK_FIT_BUCKETS;
	if (fit->bucket_count < CLOCK_FIT_BUCKETS)
		fit->bucket_count++;
	fit->open_valid = false;
	fit_line(fit);
}

void clock_fit_meet(struct clock_fit *fit, struct host_ns time, int64_t low_ns, int64_t high_ns,
	int64_t together_ns)
{
	if (fit->fixed || low_ns > high_ns)
		return;
	fit->bound_count++;
	if (fit->open_valid && time.value - fit->open.time_ns >= CLOCK_BUCKET_NS &&
		fit->open_count >= CLOCK_BUCKET_BOUNDS_MIN)
		close_bucket(fit);
	if (!fit->open_valid) {
		fit->open = (struct clock_bucket){
			time.value, low_ns, high_ns, together_ns, high_ns - low_ns};
		fit->open_valid = true;
		fit->open_count = 1;
	} else {
		int64_t moved = (int64_t)(fit->drift * (double)(time.value - fit->open.time_ns));

		if (low_ns - moved > fit->open.low_ns)
			fit->open.low_ns = low_ns - moved;
		if (high_ns - moved < fit->open.high_ns)
			fit->open.high_ns = high_ns - moved;
		if (high_ns - low_ns < fit->open.best_width_ns) {
			fit->open.best_ns = together_ns - moved;
			fit->open.best_width_ns = high_ns - low_ns;
		}
		fit->open_count++;
	}
	if (fit->bucket_count == 0) { /* the first second: take what there is */
		fit->time_ns = fit->open.time_ns;
		fit->offset_ns = (int64_t)bucket_middle(&fit->open);
		fit->error_ns = (int64_t)bucket_half_width(&fit->open) + 1;
	}
}

int64_t clock_fit_error_ns(const struct clock_fit *fit)
{
	return fit->error_ns;
}
