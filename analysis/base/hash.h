/* SPDX-License-Identifier: Apache-2.0 */
/* A hash that takes one number after the other. Pure; any thread. */
#ifndef SLOWRANK_ANALYSIS_BASE_HASH_H
#define SLOWRANK_ANALYSIS_BASE_HASH_H

#include <stdint.h>

static inline uint64_t hash_mix(uint64_t hash, uint64_t value) /* splitmix64's finaliser */
{
	hash += value * UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
	return hash ^ (hash >> 31);
}

#endif
