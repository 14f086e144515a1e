/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/steps/period_stream.h"

#include <errno.h>
#include <stdlib.h>

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

static uint64_t hash_multiply(uint64_t a, uint64_t b)
{
	wide_product product = (wide_product)a * b;

	return hash_reduce((uint64_t)(product & HASH_MODULUS) + (uint64_t)(product >> 61));
}

static uint64_t hash_subtract(uint64_t a, uint64_t b)
{
	return a >= b ? a - b : a + HASH_MODULUS - b;
}

void period_powers_fill(uint64_t *powers, size_t count)
{
	uint64_t power = 1;

	for (size_t i = 0; i < count; i++) {
		powers[i] = power;
		power = hash_multiply(power, HASH_BASE);
	}
}

static size_t power_of_two(size_t at_least)
{
	size_t value = 64;

	while (value < at_least)
		value *= 2;
	return value;
}

int period_stream_init(
	struct period_stream *stream, const uint64_t *powers, size_t ring_count, size_t period_max)
{
	size_t gram_count = power_of_two(2 * period_max);

	*stream = (struct period_stream){
		.ring_mask = ring_count - 1,
		.gram_mask = gram_count - 1,
		.period_max = period_max,
		.powers = powers,
	};
	stream->prefixes = calloc(ring_count, sizeof(*stream->prefixes));
	stream->tokens = calloc(ring_count, sizeof(*stream->tokens));
	if (!stream->prefixes || !stream->tokens)
		goto fail;
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
		stream->grams[i] = calloc(gram_count, sizeof(*stream->grams[i]));
		if (!stream->grams[i])
			goto fail;
	}
	return 0;
fail:
	period_stream_fini(stream);
	return -ENOMEM;
}

void period_stream_fini(struct period_stream *stream)
{
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++)
		free(stream->grams[i]);
	free(stream->tokens);
	free(stream->prefixes);
	*stream = (struct period_stream){0};
}

uint64_t period_stream_oldest(const struct period_stream *stream)
{
	return stream->count > stream->ring_mask ? stream->count - stream->ring_mask : 0;
}

uint64_t period_stream_hash(const struct period_stream *stream, uint64_t from, uint64_t to)
{
	return hash_subtract(stream->prefixes[to & stream->ring_mask],
		hash_multiply(
			stream->prefixes[from & stream->ring_mask], stream->powers[to - from]));
}

bool period_stream_repeats(
	const struct period_stream *stream, uint64_t from, uint64_t to, uint64_t period)
{
	if (to - from <= period)
		return true;
	return period_stream_hash(stream, from, to - period) ==
	       period_stream_hash(stream, from + period, to);
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

/* Remembers the last K tokens; returns the distance to where they occurred before, or 0. */
static uint64_t gram_exchange(struct period_stream *stream, size_t scale)
{
	uint64_t length = scale_lengths[scale];
	uint64_t hash, distance = 0;
	struct period_gram *gram;
	uint32_t check;

	if (stream->count < length)
		return 0;
	hash = period_stream_hash(stream, stream->count - length, stream->count);
	/* The prefix hash is linear in its last token: spread it before it becomes an index. */
	hash *= UINT64_C(0x9e3779b97f4a7c15);
	gram = &stream->grams[scale][(hash >> 40) & stream->gram_mask];
	check = (uint32_t)(hash >> 8) | 1;
	if (gram->check == check)
		distance = (uint32_t)((uint32_t)stream->count - gram->position);
	gram->check = check;
	gram->position = (uint32_t)stream->count;
	return distance <= stream->period_max ? distance : 0;
}

static void candidate_renew(struct period_stream *stream, size_t scale, uint64_t distance)
{
	struct period_candidate *candidate = &stream->candidates[scale];
	uint64_t matched;

	candidate->period = 0;
	if (distance == 0 ||
		distance + scale_lengths[scale] > stream->count - period_stream_oldest(stream))
		return;
	/* Small contexts meet often and hold seldom: take what another scale already follows. */
	for (size_t i = 0; i < PERIOD_SCALE_NR; i++) {
		if (i != scale && stream->candidates[i].period == distance)
			return;
	}
	matched = common_suffix(stream, distance, scale_lengths[scale]);
	*candidate = (struct period_candidate){
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
		uint64_t distance = gram_exchange(stream, i);

		if (!stream->candidates[i].period)
			candidate_renew(stream, i, distance);
	}
}
