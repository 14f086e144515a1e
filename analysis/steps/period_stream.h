/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream of tokens with its candidate periods: part of period.h, for its use alone.
 *
 * Prefix hashes answer "are these two stretches equal" in constant time (Rabin and Karp 1987,
 * modulo 2^61 - 1). Candidates are distances between two occurrences of the same last K
 * tokens, for K of several scales: small K finds a cycle soon, large K sees past loops inside
 * it. A candidate lives as long as every token equals the one a period earlier.
 */
#ifndef SLOWRANK_ANALYSIS_STEPS_PERIOD_STREAM_H
#define SLOWRANK_ANALYSIS_STEPS_PERIOD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PERIOD_SCALE_NR = 6 };

struct period_candidate {
	uint64_t period; /* 0 = none */
	uint64_t start;	 /* tokens[t] == tokens[t + period] for all t from here on */
	uint64_t due;	 /* look at it again when that many tokens are there */
};

struct period_gram {
	uint32_t position; /* after the last token of the K, modulo 2^32 */
	uint32_t check;	   /* 0 = free */
};

struct period_stream {
	uint64_t count; /* tokens so far */
	uint64_t ring_mask;
	uint64_t gram_mask;
	uint64_t period_max;
	const uint64_t *powers; /* of the base, shared */
	uint64_t *prefixes;	/* ring: hash of all tokens before a position */
	uint32_t *tokens;	/* ring: 32 bits of each token */
	struct period_gram *grams[PERIOD_SCALE_NR];
	struct period_candidate candidates[PERIOD_SCALE_NR];
};

/* Fills count powers of the base of the hash. */
void period_powers_fill(uint64_t *powers, size_t count);

/* powers: of ring_count entries (a power of two), outlives the stream. Returns 0 or -ENOMEM. */
int period_stream_init(struct period_stream *stream, const uint64_t *powers, size_t ring_count,
	size_t period_max) __attribute__((warn_unused_result));
void period_stream_fini(struct period_stream *stream);

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
