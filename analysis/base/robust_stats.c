/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/base/robust_stats.h"

#include <assert.h>
#include <stdbool.h>

#include "analysis/base/vectorised.h"

enum { SORTED_AT_ONCE = 12 };

/*
 * One quickselect for two element types: the types differ, the algorithm must not. Partitions without
 * branches: which side a value goes to cannot be foreseen.
 */
#define DEFINE_SELECT(name, type)                                                                  \
	static type name##_pivot(const type *values, size_t first, size_t last)                    \
	{                                                                                          \
		type a = values[first], b = values[first + (last - first) / 2], c = values[last];  \
                                                                                                   \
		if (a > b) {                                                                       \
			type swap = a;                                                             \
			a = b;                                                                     \
			b = swap;                                                                  \
		}                                                                                  \
		return c < a ? a : c > b ? b : c;                                                  \
	}                                                                                          \
                                                                                                   \
	static void name##_sort(type *values, size_t first, size_t end)                            \
	{                                                                                          \
		for (size_t i = first + 1; i < end; i++) {                                         \
			type value = values[i];                                                    \
			size_t at = i;                                                             \
                                                                                                   \
			for (; at > first && values[at - 1] > value; at--)                         \
				values[at] = values[at - 1];                                       \
			values[at] = value;                                                        \
		}                                                                                  \
	}                                                                                          \
                                                                                                   \
	type name(type *values, size_t count, size_t k)                                            \
	{                                                                                          \
		size_t first = 0, end = count;                                                     \
                                                                                                   \
		assert(k < count);                                                                 \
		while (end - first > SORTED_AT_ONCE) {                                             \
			type pivot = name##_pivot(values, first, end - 1);                         \
			size_t low = first;                                                        \
                                                                                                   \
			for (size_t i = first; i < end; i++) {                                     \
				type value = values[i];                                            \
                                                                                                   \
				values[i] = values[low];                                           \
				values[low] = value;                                               \
				low += value < pivot;                                              \
			}                                                                          \
			if (k < low) {                                                             \
				end = low;                                                         \
				continue;                                                          \
			}                                                                          \
			if (low > first) {                                                         \
				first = low;                                                       \
				continue;                                                          \
			}                                                                          \
			for (size_t i = first; i < end; i++) { /* none is less than the pivot */   \
				type value = values[i];                                            \
                                                                                                   \
				values[i] = values[low];                                           \
				values[low] = value;                                               \
				low += !(value > pivot); /* of doubles, not a number too */        \
			}                                                                          \
			if (k < low)                                                               \
				return pivot;                                                      \
			first = low;                                                               \
		}                                                                                  \
		name##_sort(values, first, end);                                                   \
		return values[k];                                                                  \
	}

DEFINE_SELECT(select_int64, int64_t)
DEFINE_SELECT(select_double, double)

int64_t lower_median_int64(int64_t *values, size_t count)
{
	return count ? select_int64(values, count, (count - 1) / 2) : 0;
}

/*
 * Buckets of equal width lie around the middle of a sample; more lanes than one, since counting in the same
 * place twice in a row waits for the first.
 */
enum { BUCKETED_MIN = 256, SAMPLE_COUNT = 16, SAMPLE_ENDS = 2 };
enum { BUCKET_COUNT = 256, LANE_COUNT = 4, BUCKETED_AT_ONCE = 256, KEPT_AT_ONCE = 32 };

/* Each value's bucket, BUCKET_COUNT where it lies in none. Returns how many values are less than low. */
VECTORISED
static size_t find_buckets(const int64_t *restrict values, size_t count, int64_t low, int shift,
	uint32_t *restrict buckets)
{
	int64_t less = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t bucket = ((uint64_t)values[i] - (uint64_t)low) >> shift;

		less += values[i] < low;
		buckets[i] = (uint32_t)(bucket < BUCKET_COUNT ? bucket : BUCKET_COUNT);
	}
	return (size_t)less;
}

/* Those from low on, and less than low + width; kept: room for all values. */
VECTORISED
static void keep_between(
	const int64_t *values, size_t count, int64_t low, uint64_t width, int64_t *kept)
{
	size_t at = 0;

	for (; at + KEPT_AT_ONCE <= count; at += KEPT_AT_ONCE) { /* most have none */
		int64_t any = 0;

		for (size_t i = 0; i < KEPT_AT_ONCE; i++)
			any |= (uint64_t)values[at + i] - (uint64_t)low < width;
		for (size_t i = 0; any && i < KEPT_AT_ONCE; i++) {
			*kept = values[at + i];
			kept += (uint64_t)values[at + i] - (uint64_t)low < width;
		}
	}
	for (; at < count; at++) {
		*kept = values[at];
		kept += (uint64_t)values[at] - (uint64_t)low < width;
	}
}

/* The median, where it is in a bucket. */
static bool median_of_buckets(
	const int64_t *values, size_t count, int64_t *scratch, int64_t *median)
{
	uint32_t counts[LANE_COUNT][BUCKET_COUNT + 1] = {0}, buckets[BUCKETED_AT_ONCE];
	int64_t sample[SAMPLE_COUNT];
	size_t k = (count - 1) / 2, below = 0;

	for (size_t i = 0; i < SAMPLE_COUNT; i++)
		sample[i] = values[i * count / SAMPLE_COUNT];
	select_int64_sort(sample, 0, SAMPLE_COUNT);
	int64_t low = sample[SAMPLE_ENDS];
	uint64_t range = (uint64_t)sample[SAMPLE_COUNT - 1 - SAMPLE_ENDS] - (uint64_t)low;
	int shift = range < BUCKET_COUNT ? 0 : 56 - __builtin_clzll(range);

	for (size_t at = 0; at < count; at += BUCKETED_AT_ONCE) {
		size_t left = count - at, end = left < BUCKETED_AT_ONCE ? left : BUCKETED_AT_ONCE;

		below += find_buckets(&values[at], end, low, shift, buckets);
		for (size_t i = end; i < BUCKETED_AT_ONCE; i++)
			buckets[i] = BUCKET_COUNT;
		for (size_t i = 0; i < BUCKETED_AT_ONCE; i += LANE_COUNT) {
			counts[0][buckets[i]]++;
			counts[1][buckets[i + 1]]++;
			counts[2][buckets[i + 2]]++;
			counts[3][buckets[i + 3]]++;
		}
	}
	for (size_t b = 0; b < BUCKET_COUNT && below <= k; b++) {
		size_t within = (size_t)counts[0][b] + counts[1][b] + counts[2][b] + counts[3][b];

		if (k < below + within) {
			int64_t from = (int64_t)((uint64_t)low + ((uint64_t)b << shift));

			if (shift > 0)
				keep_between(values, count, from, UINT64_C(1) << shift, scratch);
			*median = shift > 0 ? select_int64(scratch, within, k - below) : from;
			return true;
		}
		below += within;
	}
	return false;
}

int64_t lower_median_of_int64(const int64_t *values, size_t count, int64_t *scratch)
{
	int64_t median;

	if (count >= BUCKETED_MIN && median_of_buckets(values, count, scratch, &median))
		return median;
	for (size_t i = 0; i < count; i++)
		scratch[i] = values[i];
	return lower_median_int64(scratch, count);
}

VECTORISED
int64_t largest_int64(const int64_t *values, size_t count)
{
	int64_t largest = INT64_MIN;

	for (size_t i = 0; i < count; i++)
		largest = values[i] > largest ? values[i] : largest;
	return largest;
}

double lower_median_double(double *values, size_t count)
{
	return count ? select_double(values, count, (count - 1) / 2) : 0;
}

double quantile_double(double *values, size_t count, double q)
{
	if (count == 0)
		return 0;
	double position = q * (double)(count - 1);
	size_t below = (size_t)position;
	double fraction = position - (double)below;
	double low = select_double(values, count, below);

	if (below + 1 >= count || fraction <= 0)
		return low;
	double high = values[below + 1]; /* all after index below are not smaller */
	for (size_t i = below + 2; i < count; i++)
		high = values[i] < high ? values[i] : high;
	return low + fraction * (high - low);
}

double median_double(double *values, size_t count)
{
	return quantile_double(values, count, 0.5);
}
