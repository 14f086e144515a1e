/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ring/ring_clock.h"

#include <stdlib.h>

/* So many bounds in a row must disagree before they are believed instead of the interval. */
enum { DISAGREEMENTS_MAX = 3 };

/* Offsets and times beyond this (73 years) are damage: no sum of two of them overflows, drifted as they may be. */
#define SANE_NS (INT64_MAX / 4)

/* The drift is known from upper bounds that span so much; faster than this no oscillator is. */
#define SPAN_LEAST_NS INT64_C(8000000000)
enum { HIGHS_LEAST = 6 };
#define DRIFT_MOST 200e-6

/* Within half a minute some end is seen so soon: what nothing else bounds from below is this much below the upper bounds. */
#define SEEN_WITHIN_NS INT64_C(50000)

/* Further than any drift takes a clock in three bounds. */
#define JUMP_NS INT64_C(1000000)

/* A time so far from the newest fact moves on with the drift no further. */
#define MOVED_MOST_NS INT64_C(10000000000)

static bool is_sane(int64_t value)
{
	return value > -SANE_NS && value < SANE_NS;
}

static int64_t moved_by(const struct ring_clock *clock, int64_t passed_ns)
{
	return (int64_t)(clock->drift * (double)passed_ns);
}

static void begin_anew(struct ring_clock *clock)
{
	clock->drift_known = false;
	clock->drift = 0;
	clock->high_count = clock->high_next = 0;
}

static void add_high(struct ring_clock *clock, int64_t time_ns, int64_t offset_ns)
{
	clock->highs[clock->high_next] =
		(struct ring_clock_high){.time_ns = time_ns, .offset_ns = offset_ns};
	clock->high_next = (clock->high_next + 1) % RING_CLOCK_HIGHS;
	if (clock->high_count < RING_CLOCK_HIGHS)
		clock->high_count++;
}

static int by_time(const void *a, const void *b)
{
	const struct ring_clock_high *first = a, *second = b;

	return (first->time_ns > second->time_ns) - (first->time_ns < second->time_ns);
}

/* Whether `middle` lies on or above the line from `first` to `last`. */
static bool is_above(const struct ring_clock_high *first, const struct ring_clock_high *middle,
	const struct ring_clock_high *last)
{
	double share = (double)(middle->time_ns - first->time_ns) /
		       (double)(last->time_ns - first->time_ns);

	return (double)(middle->offset_ns - first->offset_ns) >=
	       share * (double)(last->offset_ns - first->offset_ns);
}

/*
 * The drift is that of the line below all upper bounds that comes nearest to them: ends are seen late by chance, never early. It is the edge of
 * their lower hull at their mean time (Moon, Skelly, Towsley: Estimation and removal of clock skew from network delay measurements, 1999).
 */
static void find_drift(struct ring_clock *clock)
{
	struct ring_clock_high highs[RING_CLOCK_HIGHS], hull[RING_CLOCK_HIGHS];
	size_t count = clock->high_count, kept = 0, edge = 0;
	double mean_ns = 0, drift;

	for (size_t i = 0; i < count; i++)
		highs[i] = clock->highs[i];
	qsort(highs, count, sizeof(highs[0]), by_time);
	if (count < HIGHS_LEAST || highs[count - 1].time_ns - highs[0].time_ns < SPAN_LEAST_NS)
		return;
	for (size_t i = 0; i < count; i++) {
		mean_ns += (double)(highs[i].time_ns - highs[0].time_ns) / (double)count;
		if (kept > 0 && highs[i].time_ns == hull[kept - 1].time_ns) {
			if (highs[i].offset_ns >= hull[kept - 1].offset_ns)
				continue;
			kept--;
		}
		while (kept > 1 && is_above(&hull[kept - 2], &hull[kept - 1], &highs[i]))
			kept--;
		hull[kept++] = highs[i];
	}
	while (edge + 2 < kept && (double)(hull[edge + 1].time_ns - highs[0].time_ns) < mean_ns)
		edge++;
	drift = (double)(hull[edge + 1].offset_ns - hull[edge].offset_ns) /
		(double)(hull[edge + 1].time_ns - hull[edge].time_ns);
	if (drift < -DRIFT_MOST || drift > DRIFT_MOST)
		return;
	clock->drift = drift;
	clock->drift_known = true;
}

/* The least upper bound at a time, by the latest ones and the drift. */
static int64_t bounded_by_highs(const struct ring_clock *clock, int64_t time_ns)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < clock->high_count; i++) {
		const struct ring_clock_high *high = &clock->highs[i];
		int64_t now = high->offset_ns + moved_by(clock, time_ns - high->time_ns);

		if (now < least)
			least = now;
	}
	return least;
}

/* The interval as it is at another time, by the drift and what it may err. */
static void move_to(struct ring_clock *clock, int64_t time_ns)
{
	int64_t passed = time_ns - clock->time_ns, wider;

	if (passed <= 0)
		return;
	wider = passed / (1000000000 / (clock->drift_known ? RING_CLOCK_RESIDUAL_PPB
							   : RING_CLOCK_DRIFT_PPB));
	clock->low_ns += moved_by(clock, passed) - wider;
	clock->high_ns += moved_by(clock, passed) + wider;
	clock->time_ns = time_ns;
}

static void set_interval(struct ring_clock *clock, int64_t time_ns, int64_t low, int64_t high)
{
	clock->valid = true;
	clock->time_ns = time_ns;
	clock->low_ns = low;
	clock->high_ns = high;
	clock->disagreements = 0;
}

/*
 * The interval moves to where a bound is its end, which is as near to the truth as anything known. The other side's may be far off (a
 * busy device starts nothing at once, so bounds are milliseconds apart): the interval keeps its width. What no drift explains is another clock.
 */
static void shift(struct ring_clock *clock, int64_t by_ns)
{
	clock->shifts++;
	if (llabs(by_ns) > JUMP_NS)
		begin_anew(clock);
	clock->low_ns += by_ns;
	clock->high_ns += by_ns;
}

/* The drift as the newest bounds show it, and the interval where these put it. */
static void follow_highs(struct ring_clock *clock)
{
	int64_t high;

	find_drift(clock);
	if (!clock->drift_known)
		return;
	high = bounded_by_highs(clock, clock->time_ns);
	if (clock->low_ns < high - SEEN_WITHIN_NS)
		clock->low_ns = high - SEEN_WITHIN_NS;
	if (clock->low_ns > high)
		clock->low_ns = high;
	clock->high_ns = high;
}

void ring_clock_pair(
	struct ring_clock *clock, struct host_ns host, struct gpu_ns gpu, int64_t error_ns)
{
	int64_t low, high;

	if (!is_sane(host.value) || !is_sane(gpu.value) || host.value <= 0 || gpu.value <= 0 ||
		error_ns < 0 || error_ns >= CLOCK_ERROR_UNKNOWN_NS)
		return;
	low = host.value - gpu.value - error_ns;
	high = host.value - gpu.value + error_ns;
	if (clock->valid) {
		move_to(clock, host.value);
		/* A measurement is worth more than what drift left of an older one, if it is narrower. */
		if (error_ns > ring_clock_error_ns(clock)) {
			ring_clock_bound(clock, host, low, high);
			return;
		}
		if (low > clock->high_ns || high < clock->low_ns) {
			clock->restarts++;
			begin_anew(clock);
		}
	}
	set_interval(clock, host.value, low, high);
	add_high(clock, host.value, high);
	find_drift(clock);
}

void ring_clock_bound(
	struct ring_clock *clock, struct host_ns host, int64_t low_ns, int64_t high_ns)
{
	bool has_low = low_ns != INT64_MIN, has_high = high_ns != INT64_MAX;

	if (!is_sane(host.value) || host.value <= 0 || (has_low && !is_sane(low_ns)) ||
		(has_high && !is_sane(high_ns)))
		return;
	if (has_low && has_high && low_ns > high_ns)
		has_low = false;
	if (!clock->valid) {
		if (has_low && has_high && high_ns - low_ns < 2 * CLOCK_ERROR_UNKNOWN_NS) {
			set_interval(clock, host.value, low_ns, high_ns);
			add_high(clock, host.value, high_ns);
		}
		return;
	}
	move_to(clock, host.value);
	if (has_high && high_ns > clock->low_ns - JUMP_NS)
		add_high(clock, host.value, high_ns);
	if ((has_low && low_ns > clock->high_ns) || (has_high && high_ns < clock->low_ns)) {
		if (++clock->disagreements < DISAGREEMENTS_MAX)
			return; /* a single one may be wrong */
		shift(clock, has_low && low_ns > clock->high_ns ? low_ns - clock->low_ns
								: high_ns - clock->high_ns);
	}
	if (has_low && low_ns > clock->low_ns)
		clock->low_ns = low_ns;
	if (has_high && high_ns < clock->high_ns)
		clock->high_ns = high_ns;
	clock->disagreements = 0;
	follow_highs(clock);
}

struct host_ns ring_clock_to_host(const struct ring_clock *clock, struct gpu_ns gpu)
{
	int64_t host_ns, passed_ns;

	if (!clock->valid || gpu.value <= 0 || !is_sane(gpu.value))
		return (struct host_ns){0};
	host_ns = gpu.value + clock->low_ns + (clock->high_ns - clock->low_ns) / 2;
	passed_ns = host_ns - clock->time_ns;
	if (passed_ns > MOVED_MOST_NS)
		passed_ns = MOVED_MOST_NS;
	if (passed_ns < -MOVED_MOST_NS)
		passed_ns = -MOVED_MOST_NS;
	return (struct host_ns){host_ns + moved_by(clock, passed_ns)};
}

int64_t ring_clock_error_ns(const struct ring_clock *clock)
{
	return clock->valid ? (clock->high_ns - clock->low_ns + 1) / 2 : CLOCK_ERROR_UNKNOWN_NS;
}
