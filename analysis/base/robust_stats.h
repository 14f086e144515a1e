/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics that a few wild values cannot move. Pure functions; those that take a non-const
 * array reorder it. Any thread.
 */
#ifndef SLOWRANK_ANALYSIS_BASE_ROBUST_STATS_H
#define SLOWRANK_ANALYSIS_BASE_ROBUST_STATS_H

#include <stddef.h>
#include <stdint.h>

/*
 * The k-th smallest of count values (k from 0, k < count), by quickselect with a median-of-three
 * pivot. Reorders values: those before index k are not larger, those after not smaller.
 */
int64_t select_int64(int64_t *values, size_t count, size_t k);
double select_double(double *values, size_t count, size_t k);

/* Lower median: the value at (count - 1) / 2; 0 when count is 0. Reorders values. */
int64_t lower_median_int64(int64_t *values, size_t count);
double lower_median_double(double *values, size_t count);
/*
 * The same, values left as they are, for many of them: values are counted in buckets around the middle of
 * a sample, and what lies in the median's own is looked at. scratch: count of them.
 */
int64_t lower_median_of_int64(const int64_t *values, size_t count, int64_t *scratch);

/* INT64_MIN when count is 0. */
int64_t largest_int64(const int64_t *values, size_t count);

/* Median, the mean of the middle two when count is even; 0 when count is 0. Reorders values. */
double median_double(double *values, size_t count);

/* Quantile with linear interpolation, q in 0..1; 0 when count is 0. Reorders values. */
double quantile_double(double *values, size_t count, double q);

#endif
