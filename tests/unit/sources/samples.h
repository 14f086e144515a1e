/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers to read what a sampler gives. */
#ifndef TESTS_UNIT_SOURCES_SAMPLES_H
#define TESTS_UNIT_SOURCES_SAMPLES_H

#include <stdio.h>
#include <time.h>

#include "probe/sources/sampler.h"

enum { TEST_RANK = 7 };

/* Samplers are told what time it is: this much later than it is. */
static int64_t clock_ahead_ns;

static inline struct host_ns clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct host_ns){(int64_t)now.tv_sec * 1000000000 + now.tv_nsec + clock_ahead_ns};
}

/* One sample's value of a metric, or -1 when it was not given. */
static inline int64_t sample_of(struct sampler *sampler, enum metric metric)
{
	struct metric_sample samples[SAMPLER_SAMPLES_MAX];
	struct host_ns now = clock_now();
	size_t count = sampler_sample(sampler, now, samples, SAMPLER_SAMPLES_MAX);
	int64_t value = -1;

	for (size_t i = 0; i < count; i++) {
		if (samples[i].rank != TEST_RANK || samples[i].time.value != now.value)
			return -2;
		if (samples[i].metric == metric)
			value = samples[i].value;
	}
	return value;
}

/* Mean cost of a sample a second, printed: it is a measurement, not a check. */
static inline void print_cost(struct sampler *sampler, const char *what)
{
	struct metric_sample samples[SAMPLER_SAMPLES_MAX];
	struct timespec start, end;
	enum { TIMES = 200 };

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
	for (int i = 0; i < TIMES; i++) {
		clock_ahead_ns += 1000000000;
		(void)sampler_sample(sampler, clock_now(), samples, SAMPLER_SAMPLES_MAX);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	printf("cost of a sample, %s: %.1f us of CPU\n", what,
		((double)(end.tv_sec - start.tv_sec) * 1e6 +
			(double)(end.tv_nsec - start.tv_nsec) / 1e3) /
			TIMES);
}

#endif
