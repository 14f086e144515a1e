/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream of tokens with its candidate periods: part of period.h, for its use alone.
 *
 * Prefix hashes answer "are these two stretches equal" in constant time (Rabin and Karp 1987,
 * modulo 2^61 - 1). Candidates are distances between two occurrences of the same last K
 * tokens, for K of several scales: small K finds a cycle soon, large K sees past loops inside
 * it. A candidate lives as long as every token equals the one a period earlier.
 *
 * Of where K tokens occurred last, 16 bits are kept, and 16 of their hash: the prefix hashes of what lies
 * there tell whether it is them.
 *
 * Of the past it keeps a ring; who uses it says how long that must be.
 */
#ifndef SLOWRANK_ANALYSIS_STEPS_PERIOD_STREAM_H
#define SLOWRANK_ANALYSIS_STEPS_PERIOD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PERIOD_SCALE_NR = 6,
	PERIOD_RING_MIN = 1 << 13, /* tokens: more than twice the largest K, 4096, but one */
	PERIOD_RING_MAX = 1 << 16, /* 16 bits tell their positions apart */
	PERIOD_POWER_NR = 256,
};

/* Powers of the base of the hash, up to PERIOD_RING_MAX: power i is low[i % 256] times high[i / 256]. */
struct period_powers {
	uint64_t low[PERIOD_POWER_NR], high[PERIOD_POWER_NR];
	uint64_t scale[PERIOD_SCALE_NR]; /* of each scale's K */
};

struct period_candidate {
	uint64_t period; /* 0 = none */
	uint64_t start;	 /* tokens[t] == tokens[t + period] for all t from here on */
	uint64_t due;	 /* look at it again when that many tokens are there */
};

struct period_stream {
	uint64_t count; /* tokens so far */
	uint64_t ring_mask;
	uint64_t gram_mask;
	uint64_t period_max;
	uint64_t
		beyond; /* tokens that a candidate would need of the past, and that were not kept; 0: none */
	const struct period_powers *powers;
	uint64_t *prefixes; /* ring: hash of all tokens before a position */
	uint32_t *tokens;   /* ring: 32 bits of each token */
	uint32_t *grams;    /* of each scale, by hash: 16 bits of it, 16 of the position */
	struct period_candidate candidates[PERIOD_SCALE_NR];
};

void period_powers_init(struct period_powers *powers);

/*
 * powers outlives the stream. ring_count: a power of two, PERIOD_RING_MIN to PERIOD_RING_MAX. Returns 0 or -ENOMEM.
 */
int period_stream_init(struct period_stream *stream, const struct period_powers *powers,
	size_t ring_count, size_t period_max) __attribute__((warn_unused_result));
void period_stream_fini(struct period_stream *stream);

/* The same stream in a larger ring: for the caller to put in its place. Returns 0 or -ENOMEM. */
int period_stream_copy(const struct period_stream *stream, size_t ring_count,
	struct period_stream *copy) __attribute__((warn_unused_result));

void period_stream_push(struct period_stream *stream, uint64_t token);

/* The oldest position of which the token is still known. */
uint64_t period_stream_oldest(const struct period_stream *stream);

/* Hash of the tokens [from, to). */
uint64_t period_stream_hash(const struct period_stream *stream, uint64_t from, uint64_t to);

/* True when the tokens [from, to) repeat with that period. */
bool period_stream_repeats(
	const struct period_stream *stream, uint64_t from, uint64_t to, uint64_t period);

/* The smallest divisor of period with which the tokens [from, to) repeat as well. */
uint64_t period_stream_smallest(
	const struct period_stream *stream, uint64_t from, uint64_t to, uint64_t period);

static inline uint32_t period_stream_token(const struct period_stream *stream, uint64_t position)
{
	return stream->tokens[position & stream->ring_mask];
}

#endif
