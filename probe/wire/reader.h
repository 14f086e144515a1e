/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads msgpack items one after the other out of bytes that nobody vouches for. msgpack-c's own
 * unpacker builds a tree first and takes memory by what a header claims; this one takes none,
 * and a claimed count is never larger than the bytes that are left. The first problem sticks:
 * later reads return 0 or nothing, so that callers check once per item list. One thread.
 */
#ifndef SLOWRANK_PROBE_WIRE_READER_H
#define SLOWRANK_PROBE_WIRE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/base/step.h"

/* What a later version may add to a message. Nobody reads it here, and yet it is recorded as it came. */
enum { WIRE_SKIPPED_BYTES_MAX = 64 * 1024 };

struct wire_reader {
	const uint8_t *next;
	const uint8_t *end;
	const char *problem; /* a constant; NULL = none so far */
	const uint8_t *problem_at;
	size_t skipped_bytes; /* by wire_skip() */
	uint32_t rank_end;    /* the highest rank that was read + 1 */
};

void wire_reader_init(struct wire_reader *reader, const void *bytes, size_t length);
/* Notes a problem found by the caller; the first one stays. */
void wire_reader_fail(struct wire_reader *reader, const char *problem);

uint64_t wire_read_unsigned_slow(struct wire_reader *reader, uint64_t max);

/*
 * The number that comes next, where it has at most 32 bits and no sign, as nearly all have; its
 * length in bytes, or 0 where it is another or the end is near.
 */
static inline size_t wire_peek(const struct wire_reader *reader, uint64_t *number)
{
	const uint8_t *at = reader->next;

	if (reader->end - at < 5)
		return 0;
	*number = at[0];
	if (at[0] < 0x80)
		return 1;
	*number = (uint64_t)at[1];
	if (at[0] == 0xcc)
		return 2;
	*number = *number << 8 | at[2];
	if (at[0] == 0xcd)
		return 3;
	*number = *number << 16 | (uint64_t)at[3] << 8 | at[4];
	return at[0] == 0xce ? 5 : 0;
}

/* A number from 0 to max; 0 after a problem. */
static inline uint64_t wire_read_unsigned(struct wire_reader *reader, uint64_t max)
{
	uint64_t number;
	size_t length = wire_peek(reader, &number);

	if (length == 0 || number > max)
		return wire_read_unsigned_slow(reader, max);
	reader->next += length;
	return number;
}

/* A rank, below STEP_RANK_COUNT_MAX. */
static inline uint32_t wire_read_rank(struct wire_reader *reader)
{
	uint32_t rank = (uint32_t)wire_read_unsigned(reader, STEP_RANK_COUNT_MAX - 1);

	if (rank >= reader->rank_end)
		reader->rank_end = rank + 1;
	return rank;
}

int64_t wire_read_signed_slow(struct wire_reader *reader, int64_t min, int64_t max);

/* A number from min to max; min <= 0 <= max; 0 after a problem. */
static inline int64_t wire_read_signed(struct wire_reader *reader, int64_t min, int64_t max)
{
	uint64_t number;
	size_t length = wire_peek(reader, &number);

	if (length == 0 || number > (uint64_t)max)
		return wire_read_signed_slow(reader, min, max);
	reader->next += length;
	return (int64_t)number;
}

size_t wire_read_array_slow(struct wire_reader *reader, size_t max);

/* An array's header: its count, at most max; 0 after a problem. The items follow. */
static inline size_t wire_read_array(struct wire_reader *reader, size_t max)
{
	size_t left = (size_t)(reader->end - reader->next);
	size_t count = left ? *reader->next ^ 0x90u : SIZE_MAX; /* of fewer than 16 */

	if (count > 0x0f || count > max || count >= left)
		return wire_read_array_slow(reader, max);
	reader->next++;
	return count;
}

/*
 * The header of an array that stands for a struct: at least known fields. Returns how many
 * fields follow the known ones; skip them with wire_skip() after reading the known ones.
 */
size_t wire_read_record(struct wire_reader *reader, size_t known);

/* A string of valid text into out, with a NUL; at most capacity - 1 bytes. "" after a problem. */
void wire_read_string(struct wire_reader *reader, char *out, size_t capacity);

/* Skips count items of any kind; of one message, at most WIRE_SKIPPED_BYTES_MAX. */
void wire_skip(struct wire_reader *reader, size_t count);

#endif
