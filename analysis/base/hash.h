/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes that take one number, or one byte, after the other. Pure; any thread. */
#ifndef SLOWRANK_ANALYSIS_BASE_HASH_H
#define SLOWRANK_ANALYSIS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t hash_mix(uint64_t hash, uint64_t value) /* splitmix64's finaliser */
{
	hash += value * UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
	return hash ^ (hash >> 31);
}

/* FNV-1a, 64 bits: its begin, and what bytes make of a hash so far. */
static inline uint64_t hash_bytes_begin(void)
{
	return UINT64_C(14695981039346656037);
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(1099511628211);
	return hash;
}

#endif
