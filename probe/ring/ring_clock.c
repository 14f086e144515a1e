/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ring/ring_clock.h"

/* So many bounds in a row must disagree before they are believed instead of the interval. */
enum { DISAGREEMENTS_MAX = 3 };

/* Offsets and times beyond this (146 years) are damage: no sum of two of them overflows. */
#define SANE_NS (INT64_MAX / 2)

static bool is_sane(int64_t value)
{
	return value > -SANE_NS && value < SANE_NS;
}

static void restart(struct ring_clock *clock, int64_t time_ns, int64_t low_ns, int64_t high_ns)
{
	if (clock->valid)
		clock->restarts++;
	clock->valid = true;
	clock->time_ns = time_ns;
	clock->low_ns = low_ns;
	clock->high_ns = high_ns;
	clock->disagreements = 0;
}

/*
 * The clocks part faster than allowed for. The bound that shows it is as near to the truth as
 * anything known, and the other side of it may be far off (a busy device starts nothing at once, so
 * bounds are milliseconds apart): the interval keeps its width and moves to contain the bound.
 */
static void shift(
	struct ring_clock *clock, int64_t time_ns, int64_t low, int64_t high, int64_t bound)
{
	int64_t moved = bound > high ? bound - high : bound - low;

	clock->shifts++;
	clock->time_ns = time_ns;
	clock->low_ns = low + moved;
	clock->high_ns = high + moved;
}

static int64_t drift_until(const struct ring_clock *clock, int64_t time_ns)
{
	int64_t passed = time_ns > clock->time_ns ? time_ns - clock->time_ns : 0;

	return passed / (1000000000 / RING_CLOCK_DRIFT_PPB);
}

void ring_clock_pair(
	struct ring_clock *clock, struct host_ns host, struct gpu_ns gpu, int64_t error_ns)
{
	int64_t offset;

	if (!is_sane(host.value) || !is_sane(gpu.value) || host.value <= 0 || gpu.value <= 0 ||
		error_ns < 0 || error_ns >= CLOCK_ERROR_UNKNOWN_NS)
		return;
	offset = host.value - gpu.value;
	/* A measurement is worth more than what drift left of an older one, if it is narrower. */
	if (!clock->valid ||
		error_ns <= ring_clock_error_ns(clock) + drift_until(clock, host.value))
		restart(clock, host.value, offset - error_ns, offset + error_ns);
	else
		ring_clock_bound(clock, host, offset - error_ns, offset + error_ns);
}

void ring_clock_bound(
	struct ring_clock *clock, struct host_ns host, int64_t low_ns, int64_t high_ns)
{
	bool has_low = low_ns != INT64_MIN, has_high = high_ns != INT64_MAX;
	int64_t drift, low, high;

	if (!is_sane(host.value) || host.value <= 0 || (has_low && !is_sane(low_ns)) ||
		(has_high && !is_sane(high_ns)) || (has_low && has_high && low_ns > high_ns))
		return;
	if (!clock->valid) {
		if (has_low && has_high && high_ns - low_ns < 2 * CLOCK_ERROR_UNKNOWN_NS)
			restart(clock, host.value, low_ns, high_ns);
		return;
	}
	drift = drift_until(clock, host.value);
	low = clock->low_ns - drift;
	high = clock->high_ns + drift;
	if ((has_low && low_ns > high) || (has_high && high_ns < low)) {
		if (++clock->disagreements < DISAGREEMENTS_MAX)
			return; /* a single one may be wrong */
		shift(clock, host.value, low, high, has_low && low_ns > high ? low_ns : high_ns);
		return;
	}
	clock->low_ns = has_low && low_ns > low ? low_ns : low;
	clock->high_ns = has_high && high_ns < high ? high_ns : high;
	clock->disagreements = 0;
	if (host.value > clock->time_ns)
		clock->time_ns = host.value;
}

struct host_ns ring_clock_to_host(const struct ring_clock *clock, struct gpu_ns gpu)
{
	if (!clock->valid || gpu.value <= 0 || !is_sane(gpu.value))
		return (struct host_ns){0};
	return (struct host_ns){gpu.value + clock->low_ns + (clock->high_ns - clock->low_ns) / 2};
}

int64_t ring_clock_error_ns(const struct ring_clock *clock)
{
	return clock->valid ? (clock->high_ns - clock->low_ns + 1) / 2 : CLOCK_ERROR_UNKNOWN_NS;
}
