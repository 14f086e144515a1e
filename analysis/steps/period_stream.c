/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/steps/period_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/policy.h"

#define HASH_MODULUS ((UINT64_C(1) << 61) - 1)
/* Any number with many digits will do: tokens are hashes already, nobody attacks from inside. */
#define HASH_BASE UINT64_C(0x0e3779b97f4a7c15)

static const uint32_t scale_lengths[PERIOD_SCALE_NR] = {PERIOD_SCALE_LENGTHS};

__extension__ typedef unsigned __int128 wide_product;

static uint64_t hash_reduce(uint64_t value)
{
	value = (value & HASH_MODULUS) + (value >> 61);
	return value >= HASH_MODULUS ? value - HASH_MODULUS : value;
}

static inline uint64_t hash_multiply(uint64_t a, uint64_t b)
{
	wide_product product = (wide_product)a * b;

	return hash_reduce((uint64_t)(product & HASH_MODULUS) + (uint64_t)(product >> 61));
}

static uint64_t hash_subtract(uint64_t a, uint64_t b)
{
	return a >= b ? a - b : a + HASH_MODULUS - b;
}

static uint64_t power_of(const struct period_powers *powers, uint64_t exponent)
{
	return hash_multiply(
		powers->low[exponent % PERIOD_POWER_NR], powers->high[exponent / PERIOD_POWER_NR]);
}

void period_powers_init(struct period_powers *powers)
{
	uint64_t step;

	powers->low[0] = powers->high[0] = 1;
	for (size_t i = 1; i < PERIOD_POWER_NR; i++)
		powers->low[i] = hash_multiply(powers->low[i - 1], HASH_BASE);
	step = hash_multiply(powers->low[PERIOD_POWER_NR - 1], HASH_BASE);
	for (size_t i = 1; i < PERIOD_POWER_NR; i++)
		powers->high[i] = hash_multiply(powers->high[i - 1], step);
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++)
		powers->scale[i] = power_of(powers, scale_lengths[i]);
}

int period_stream_init(struct period_stream *stream, const struct period_powers *powers,
	size_t ring_count, size_t period_max)
{
	size_t gram_count = ring_count / 2;

	*stream = (struct period_stream){
		.ring_mask = ring_count - 1,
		.gram_mask = gram_count - 1,
		.period_max = period_max,
		.powers = powers,
	};
	stream->prefixes = calloc(ring_count, sizeof(*stream->prefixes));
	stream->tokens = calloc(ring_count, sizeof(*stream->tokens));
	stream->grams = calloc(PERIOD_SCALE_NR * gram_count, sizeof(*stream->grams));
	if (stream->prefixes && stream->tokens && stream->grams)
		return 0;
	period_stream_fini(stream);
	return -ENOMEM;
}

void period_stream_fini(struct period_stream *stream)
{
	free(stream->grams);
	free(stream->tokens);
	free(stream->prefixes);
	*stream = (struct period_stream){0};
}

uint64_t period_stream_oldest(const struct period_stream *stream)
{
	return stream->count > stream->ring_mask ? stream->count - stream->ring_mask : 0;
}

/* Hash of the tokens [from, to); power: that of to - from. */
static inline uint64_t hash_by(
	const struct period_stream *stream, uint64_t from, uint64_t to, uint64_t power)
{
	return hash_subtract(stream->prefixes[to & stream->ring_mask],
		hash_multiply(stream->prefixes[from & stream->ring_mask], power));
}

uint64_t period_stream_hash(const struct period_stream *stream, uint64_t from, uint64_t to)
{
	return hash_by(stream, from, to, power_of(stream->powers, to - from));
}

bool period_stream_repeats(
	const struct period_stream *stream, uint64_t from, uint64_t to, uint64_t period)
{
	uint64_t power;

	if (to - from <= period)
		return true;
	power = power_of(stream->powers, to - from - period);
	return hash_by(stream, from, to - period, power) ==
	       hash_by(stream, from + period, to, power);
}

uint64_t period_stream_smallest(
	const struct period_stream *stream, uint64_t from, uint64_t to, uint64_t period)
{
	uint64_t rest = period;

	for (uint64_t factor = 2; rest > 1; factor++) {
		if (factor * factor > rest)
			factor = rest;
		while (rest % factor == 0) {
			rest /= factor;
			if (period_stream_repeats(stream, from, to, period / factor))
				period /= factor;
		}
	}
	return period;
}

/* How many of the last tokens equal those a distance earlier. known: that many do. */
static uint64_t common_suffix(const struct period_stream *stream, uint64_t distance, uint64_t known)
{
	uint64_t count = stream->count;
	uint64_t limit = count - distance - period_stream_oldest(stream);
	uint64_t good = known, bad, reach = known;

	if (good >= limit)
		return limit;
	do {
		reach = reach * 2 < limit ? reach * 2 : limit;
		if (!period_stream_repeats(stream, count - reach - distance, count, distance))
			break;
		good = reach;
	} while (reach < limit);
	if (good == limit)
		return limit;
	bad = reach;
	while (bad - good > 1) {
		uint64_t middle = good + (bad - good) / 2;

		if (period_stream_repeats(stream, count - middle - distance, count, distance))
			good = middle;
		else
			bad = middle;
	}
	return good;
}

/* Remembers the last K tokens before end; returns the distance to where they may have occurred before, or 0. */
static inline uint64_t gram_exchange(struct period_stream *stream, size_t scale, uint64_t end)
{
	uint64_t length = scale_lengths[scale];
	uint32_t now, before, *gram;
	uint64_t hash, distance;

	if (end < length)
		return 0;
	hash = hash_by(stream, end - length, end, stream->powers->scale[scale]);
	/* The prefix hash is linear in its last token: spread it before it becomes an index. */
	hash *= UINT64_C(0x9e3779b97f4a7c15);
	gram = &stream->grams[scale * (stream->gram_mask + 1) + ((hash >> 40) & stream->gram_mask)];
	now = (uint32_t)(hash >> 8) << 16 | (uint16_t)end;
	before = *gram;
	*gram = now;
	if ((before ^ now) >> 16)
		return 0;
	distance = (uint16_t)(now - before);
	return distance <= stream->period_max ? distance : 0;
}

int period_stream_copy(
	const struct period_stream *stream, size_t ring_count, struct period_stream *copy)
{
	uint64_t oldest = period_stream_oldest(stream);
	int error = period_stream_init(copy, stream->powers, ring_count, stream->period_max);

	if (error < 0)
		return error;
	copy->count = stream->count;
	memcpy(copy->candidates, stream->candidates, sizeof(copy->candidates));
	for (uint64_t i = oldest; i <= stream->count; i++) {
		copy->prefixes[i & copy->ring_mask] = stream->prefixes[i & stream->ring_mask];
		copy->tokens[i & copy->ring_mask] = stream->tokens[i & stream->ring_mask];
	}
	for (size_t scale = 0; scale < PERIOD_SCALE_NR; scale++) {
		for (uint64_t end = oldest + scale_lengths[scale]; end <= copy->count; end++)
			(void)gram_exchange(copy, scale, end);
	}
	return 0;
}

static void candidate_renew(struct period_stream *stream, size_t scale, uint64_t distance)
{
	uint64_t known = distance + scale_lengths[scale], matched;

	if (distance == 0)
		return;
	if (known > stream->count - period_stream_oldest(stream)) {
		if (stream->beyond < known)
			stream->beyond = known;
		return;
	}
	/* Small contexts meet often and hold seldom: take what another scale already follows. */
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
		if (i != scale && stream->candidates[i].period == distance)
			return;
	}
	if (!period_stream_repeats(stream, stream->count - known, stream->count, distance))
		return;
	matched = common_suffix(stream, distance, scale_lengths[scale]);
	stream->candidates[scale] = (struct period_candidate){
		.period = distance,
		.start = stream->count - matched - distance,
		.due = stream->count,
	};
}

void period_stream_push(struct period_stream *stream, uint64_t token)
{
	uint64_t position = stream->count++;
	uint32_t mark = (uint32_t)(token ^ (token >> 32));
	uint64_t prefix = stream->prefixes[position & stream->ring_mask];

	stream->tokens[position & stream->ring_mask] = mark;
	stream->prefixes[stream->count & stream->ring_mask] =
		hash_reduce(hash_multiply(prefix, HASH_BASE) + mark + 1);
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
		struct period_candidate *candidate = &stream->candidates[i];

		if (candidate->period &&
			period_stream_token(stream, position - candidate->period) != mark)
			candidate->period = 0;
	}
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
		uint64_t distance = gram_exchange(stream, i, stream->count);

		if (!stream->candidates[i].period)
			candidate_renew(stream, i, distance);
	}
}
