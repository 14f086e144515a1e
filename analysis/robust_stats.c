/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/robust_stats.h"

#include <assert.h>

#include "analysis/vectorised.h"

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

enum { SAMPLE_MAX = 1024, SAMPLED_MIN = 512 };

/*
 * The kth of values lies from *low to *high, most likely: 2.5 standard deviations of where it falls
 * among a sample of so many.
 */
static void bracket(const int64_t *values, size_t count, size_t k, int64_t *low, int64_t *high)
{
	int64_t sample[SAMPLE_MAX];
	size_t size = count < 8 * SAMPLED_MIN ? 64 : count < 32 * SAMPLED_MIN ? 256 : SAMPLE_MAX;
	size_t deviations = size == 64 ? 10 : size == 256 ? 20 : 40;
	size_t middle = k * size / count;

	for (size_t i = 0; i < size; i++)
		sample[i] = values[i * count / size];
	*low = select_int64(sample, size, middle - deviations);
	/* What comes before it is not larger. */
	*high = select_int64(
		&sample[middle - deviations], size - (middle - deviations), 2 * deviations);
}

int64_t lower_median_of_int64(const int64_t *values, size_t count, int64_t *scratch)
{
	size_t k = count ? (count - 1) / 2 : 0, below = 0, kept = 0;
	int64_t low, high;

	if (count >= SAMPLED_MIN) {
		bracket(values, count, k, &low, &high);
		for (size_t i = 0; i < count; i++) {
			scratch[kept] = values[i];
			kept += (values[i] >= low) & (values[i] <= high);
			below += values[i] < low;
		}
		if (below <= k && k < below + kept)
			return select_int64(scratch, kept, k - below);
	}
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
