/* SPDX-License-Identifier: Apache-2.0 */
/* The smaller and the larger of two times, and a time between two bounds. Pure; any thread. */
#ifndef SLOWRANK_ANALYSIS_BASE_CLAMP_H
#define SLOWRANK_ANALYSIS_BASE_CLAMP_H

#include <stdint.h>

static inline int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Where the bounds cross, the lower one holds. */
static inline int64_t clamp(int64_t value, int64_t low, int64_t high)
{
	return larger(low, smaller(value, high));
}

#endif
