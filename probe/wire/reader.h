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

struct wire_reader {
	const uint8_t *next;
	const uint8_t *end;
	const char *problem; /* a constant; NULL = none so far */
	const uint8_t *problem_at;
};

void wire_reader_init(struct wire_reader *reader, const void *bytes, size_t length);
/* Notes a problem found by the caller; the first one stays. */
void wire_reader_fail(struct wire_reader *reader, const char *problem);

uint64_t wire_read_unsigned_slow(struct wire_reader *reader, uint64_t max);

/* Where a number of 16 bits lies next (its first byte says so), it; else UINT32_MAX. */
static inline uint32_t wire_peek_16(const struct wire_reader *reader)
{
	if (reader->end - reader->next < 3 || reader->next[0] != 0xcd)
		return UINT32_MAX;
	return (uint32_t)reader->next[1] << 8 | reader->next[2];
}

/* A number from 0 to max; 0 after a problem. */
static inline uint64_t wire_read_unsigned(struct wire_reader *reader, uint64_t max)
{
	uint32_t number;

	if (reader->next < reader->end && *reader->next < 0x80 && *reader->next <= max)
		return *reader->next++;
	number = wire_peek_16(reader); /* most times, in quanta */
	if (number <= max && number != UINT32_MAX) {
		reader->next += 3;
		return number;
	}
	return wire_read_unsigned_slow(reader, max);
}

int64_t wire_read_signed_slow(struct wire_reader *reader, int64_t min, int64_t max);

/* A number from min to max; min <= 0 <= max; 0 after a problem. */
static inline int64_t wire_read_signed(struct wire_reader *reader, int64_t min, int64_t max)
{
	int64_t number;

	if (reader->next < reader->end && *reader->next < 0x80 && *reader->next <= max)
		return *reader->next++;
	number = wire_peek_16(reader);
	if (number <= max && number != UINT32_MAX) {
		reader->next += 3;
		return number;
	}
	return wire_read_signed_slow(reader, min, max);
}

/* An array's header: its count, at most max; 0 after a problem. The items follow. */
size_t wire_read_array(struct wire_reader *reader, size_t max);

/*
 * The header of an array that stands for a struct: at least known fields. Returns how many
 * fields follow the known ones; skip them with wire_skip() after reading the known ones.
 */
size_t wire_read_record(struct wire_reader *reader, size_t known);

/* A string of valid text into out, with a NUL; at most capacity - 1 bytes. "" after a problem. */
void wire_read_string(struct wire_reader *reader, char *out, size_t capacity);

/* Skips count items of any kind. */
void wire_skip(struct wire_reader *reader, size_t count);

#endif
