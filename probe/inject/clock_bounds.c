/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/clock_bounds.h"

#include "probe/inject/process.h"

/* Stored negated around 0 = nothing known would lose a value: INT64_MIN and INT64_MAX say it. */
static struct {
	int64_t low_ns, high_ns;
	int64_t last_low_ns, last_high_ns; /* as they were reported last */
	uint64_t count;
} bounds[CLOCK_BOUNDS_DEVICES] = {
	[0 ... CLOCK_BOUNDS_DEVICES - 1] = {INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX, 0}};

/* So much sooner is no error of the clock: what the probe allows for, too. */
#define CLOCK_CORRECTION_NS INT64_C(1000000)

void clock_bounds_started(uint8_t device, int64_t call_host_ns, int64_t device_start_ns)
{
	int64_t low = call_host_ns - device_start_ns, known;

	device %= CLOCK_BOUNDS_DEVICES;
	known = __atomic_load_n(&bounds[device].low_ns, __ATOMIC_RELAXED);
	while (low > known && !__atomic_compare_exchange_n(&bounds[device].low_ns, &known, low,
				      true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	__atomic_fetch_add(&bounds[device].count, 1, __ATOMIC_RELAXED);
}

/* An end still to come, by the latest starts and by the ends of the second before. */
static bool is_ahead(uint8_t device, int64_t high_ns)
{
	int64_t last_ns = __atomic_load_n(&bounds[device].last_high_ns, __ATOMIC_RELAXED);
	int64_t low_ns = __atomic_load_n(&bounds[device].low_ns, __ATOMIC_RELAXED);
	int64_t last_low_ns = __atomic_load_n(&bounds[device].last_low_ns, __ATOMIC_RELAXED);

	if (low_ns < last_low_ns)
		low_ns = last_low_ns;
	return last_ns != INT64_MAX && high_ns < last_ns - CLOCK_CORRECTION_NS &&
	       low_ns != INT64_MIN && high_ns < low_ns - CLOCK_CORRECTION_NS;
}

void clock_bounds_stopped(uint8_t device, int64_t observed_host_ns, int64_t device_stop_ns)
{
	int64_t high = observed_host_ns - device_stop_ns, known;

	device %= CLOCK_BOUNDS_DEVICES;
	__atomic_fetch_add(&bounds[device].count, 1, __ATOMIC_RELAXED);
	if (is_ahead(device, high))
		return;
	known = __atomic_load_n(&bounds[device].high_ns, __ATOMIC_RELAXED);
	while (high < known && !__atomic_compare_exchange_n(&bounds[device].high_ns, &known, high,
				       true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

bool clock_bounds_precede(uint8_t device, int64_t call_host_ns, int64_t device_start_ns)
{
	int64_t now_ns, last_ns;

	device %= CLOCK_BOUNDS_DEVICES;
	now_ns = __atomic_load_n(&bounds[device].high_ns, __ATOMIC_RELAXED);
	last_ns = __atomic_load_n(&bounds[device].last_high_ns, __ATOMIC_RELAXED);
	if (last_ns < now_ns)
		now_ns = last_ns;
	return now_ns != INT64_MAX && call_host_ns - device_start_ns > now_ns + CLOCK_CORRECTION_NS;
}

void clock_bounds_report(void)
{
	for (int32_t i = 0; i < CLOCK_BOUNDS_DEVICES; i++) {
		struct ring_clock_bound bound = {
			.host_ns = process_now_ns(), .domain = RING_CLOCK_GLOBALTIMER, .device = i};

		bound.event_count =
			(uint32_t)__atomic_exchange_n(&bounds[i].count, 0, __ATOMIC_RELAXED);
		if (!bound.event_count)
			continue;
		bound.low_ns = __atomic_exchange_n(&bounds[i].low_ns, INT64_MIN, __ATOMIC_RELAXED);
		bound.high_ns =
			__atomic_exchange_n(&bounds[i].high_ns, INT64_MAX, __ATOMIC_RELAXED);
		__atomic_store_n(&bounds[i].last_low_ns, bound.low_ns, __ATOMIC_RELAXED);
		__atomic_store_n(&bounds[i].last_high_ns, bound.high_ns, __ATOMIC_RELAXED);
		process_write(RING_RECORD_CLOCK_BOUND, &bound, sizeof(bound));
	}
}
