/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <string.h>

#include "probe/wire/format.h"
#include "probe/wire/reader.h"
#include "probe/wire/text.h"

/* First bytes of items; https://github.com/msgpack/msgpack/blob/master/spec.md */
enum {
	FIX_MAP = 0x80,
	FIX_ARRAY = 0x90,
	FIX_STRING = 0xa0,
	NIL = 0xc0,
	NEVER_USED = 0xc1,
	FALSE = 0xc2,
	TRUE = 0xc3,
	BINARY_8 = 0xc4,
	EXTENSION_8 = 0xc7,
	FLOAT_32 = 0xca,
	FLOAT_64 = 0xcb,
	UNSIGNED_8 = 0xcc,
	UNSIGNED_64 = 0xcf,
	SIGNED_8 = 0xd0,
	SIGNED_64 = 0xd3,
	FIX_EXTENSION_1 = 0xd4,
	FIX_EXTENSION_16 = 0xd8,
	STRING_8 = 0xd9,
	STRING_32 = 0xdb,
	ARRAY_16 = 0xdc,
	ARRAY_32 = 0xdd,
	MAP_16 = 0xde,
	MAP_32 = 0xdf,
	NEGATIVE = 0xe0,
};

void wire_reader_init(struct wire_reader *reader, const void *bytes, size_t length)
{
	*reader = (struct wire_reader){.next = bytes};
	reader->end = reader->next + length;
}

void wire_reader_fail(struct wire_reader *reader, const char *problem)
{
	if (reader->problem)
		return;
	reader->problem = problem;
	reader->problem_at = reader->next;
	reader->end = reader->next; /* nothing more to read */
}

static size_t left(const struct wire_reader *reader)
{
	return (size_t)(reader->end - reader->next);
}

static uint64_t read_big_endian(struct wire_reader *reader, size_t length)
{
	uint64_t value = 0;

	if (left(reader) < length) {
		wire_reader_fail(reader, "it ends too early");
		return 0;
	}
	if (length == 4) {
		uint32_t word;

		memcpy(&word, reader->next, sizeof(word));
		reader->next += sizeof(word);
		return be32toh(word);
	}
	if (length == 8) {
		memcpy(&value, reader->next, sizeof(value));
		reader->next += sizeof(value);
		return be64toh(value);
	}
	for (size_t i = 0; i < length; i++)
		value = value << 8 | *reader->next++;
	return value;
}

static uint8_t read_first_byte(struct wire_reader *reader)
{
	return (uint8_t)read_big_endian(reader, 1);
}

/* A number of any width and sign. negative: magnitude counts down from 0. */
static bool read_number(struct wire_reader *reader, uint64_t *value, bool *negative)
{
	uint8_t first = read_first_byte(reader);

	*negative = false;
	if (first < FIX_MAP) {
		*value = first;
	} else if (first >= NEGATIVE) {
		*value = (uint64_t)(int64_t)(int8_t)first;
		*negative = true;
	} else if (first >= UNSIGNED_8 && first <= UNSIGNED_64) {
		*value = read_big_endian(reader, (size_t)1 << (first - UNSIGNED_8));
	} else if (first >= SIGNED_8 && first <= SIGNED_64) {
		size_t length = (size_t)1 << (first - SIGNED_8);
		unsigned int shift = 64 - 8 * (unsigned int)length;

		*value = read_big_endian(reader, length);
		*value = (uint64_t)((int64_t)(*value << shift) >> shift); /* extend the sign */
		*negative = (int64_t)*value < 0;
	} else {
		reader->next--;
		wire_reader_fail(reader, "a number was expected");
	}
	return !reader->problem;
}

uint64_t wire_read_unsigned_slow(struct wire_reader *reader, uint64_t max)
{
	const uint8_t *start = reader->next;
	uint64_t value;
	bool negative;

	if (!read_number(reader, &value, &negative))
		return 0;
	if (negative || value > max) {
		reader->next = start;
		wire_reader_fail(reader, "a number is out of range");
		return 0;
	}
	return value;
}

int64_t wire_read_signed_slow(struct wire_reader *reader, int64_t min, int64_t max)
{
	const uint8_t *start = reader->next;
	uint64_t value;
	bool negative;

	if (!read_number(reader, &value, &negative))
		return 0;
	if (negative ? (int64_t)value < min : value > (uint64_t)max) {
		reader->next = start;
		wire_reader_fail(reader, "a number is out of range");
		return 0;
	}
	return (int64_t)value;
}

size_t wire_read_array_slow(struct wire_reader *reader, size_t max)
{
	const uint8_t *start = reader->next;
	uint8_t first = read_first_byte(reader);
	uint64_t count = 0;

	if (first >= FIX_ARRAY && first < FIX_STRING)
		count = first & 0x0f;
	else if (first == ARRAY_16)
		count = read_big_endian(reader, 2);
	else if (first == ARRAY_32)
		count = read_big_endian(reader, 4);
	else if (!reader->problem) {
		reader->next = start;
		wire_reader_fail(reader, "an array was expected");
	}
	if (reader->problem)
		return 0;
	if (count > max || count > left(reader)) { /* each item takes a byte at least */
		reader->next = start;
		wire_reader_fail(
			reader, count > max ? "an array has too many items"
					    : "an array claims more items than there are bytes");
		return 0;
	}
	return (size_t)count;
}

size_t wire_read_record(struct wire_reader *reader, size_t known)
{
	size_t count = wire_read_array(reader, WIRE_MESSAGE_LENGTH_MAX);

	if (count >= known)
		return count - known;
	wire_reader_fail(reader, "an array has too few items");
	return 0;
}

void wire_read_string(struct wire_reader *reader, char *out, size_t capacity)
{
	uint8_t first = read_first_byte(reader);
	uint64_t length = 0;

	out[0] = '\0';
	if (first >= FIX_STRING && first < NIL)
		length = first & 0x1f;
	else if (first >= STRING_8 && first <= STRING_32)
		length = read_big_endian(reader, (size_t)1 << (first - STRING_8));
	else
		wire_reader_fail(reader, "a string was expected");
	if (reader->problem)
		return;
	if (length > left(reader))
		wire_reader_fail(reader, "a string claims more than there are bytes");
	else if (length >= capacity)
		wire_reader_fail(reader, "a string is too long");
	else if (!wire_text_valid((const char *)reader->next, (size_t)length))
		wire_reader_fail(reader, "a string is not plain UTF-8 text");
	if (reader->problem)
		return;
	memcpy(out, reader->next, (size_t)length);
	out[length] = '\0';
	reader->next += length;
}

/* Reads an item's head. Returns the bytes to skip behind it; *item_count: items inside it. */
static uint64_t read_head(struct wire_reader *reader, uint64_t *item_count)
{
	uint8_t first = read_first_byte(reader);

	*item_count = 0;
	if (first < FIX_MAP || first >= NEGATIVE)
		return 0;
	if (first < FIX_ARRAY) {
		*item_count = 2 * (uint64_t)(first & 0x0f);
		return 0;
	}
	if (first < FIX_STRING) {
		*item_count = first & 0x0f;
		return 0;
	}
	if (first < NIL)
		return first & 0x1f;
	if (first >= BINARY_8 && first < EXTENSION_8)
		return read_big_endian(reader, (size_t)1 << (first - BINARY_8));
	if (first >= EXTENSION_8 && first < FLOAT_32)
		return read_big_endian(reader, (size_t)1 << (first - EXTENSION_8)) + 1;
	if (first == FLOAT_32 || first == FLOAT_64)
		return first == FLOAT_32 ? 4 : 8;
	if (first >= UNSIGNED_8 && first <= UNSIGNED_64)
		return UINT64_C(1) << (first - UNSIGNED_8);
	if (first >= SIGNED_8 && first <= SIGNED_64)
		return UINT64_C(1) << (first - SIGNED_8);
	if (first >= FIX_EXTENSION_1 && first <= FIX_EXTENSION_16)
		return (UINT64_C(1) << (first - FIX_EXTENSION_1)) + 1;
	if (first >= STRING_8 && first <= STRING_32)
		return read_big_endian(reader, (size_t)1 << (first - STRING_8));
	if (first >= ARRAY_16 && first <= MAP_32) {
		*item_count = read_big_endian(reader, (first & 1) ? 4 : 2);
		if (first >= MAP_16)
			*item_count *= 2;
		return 0;
	}
	if (first == NEVER_USED)
		wire_reader_fail(reader, "a byte that msgpack never uses");
	return 0; /* nil, false, true */
}

void wire_skip(struct wire_reader *reader, size_t count)
{
	uint64_t waiting[WIRE_DEPTH_MAX + 1]; /* items still to skip, by depth */
	const uint8_t *from = reader->next;
	size_t depth = 0;

	waiting[0] = count;
	while (!reader->problem) {
		uint64_t item_count, byte_count;

		while (depth > 0 && waiting[depth] == 0)
			depth--;
		if (waiting[depth] == 0)
			break;
		waiting[depth]--;
		byte_count = read_head(reader, &item_count);
		if (byte_count > left(reader) || item_count > left(reader)) {
			wire_reader_fail(reader, "an item claims more than there are bytes");
			return;
		}
		reader->next += byte_count;
		if (!item_count)
			continue;
		if (depth == WIRE_DEPTH_MAX) {
			wire_reader_fail(reader, "arrays are nested too deeply");
			return;
		}
		waiting[++depth] = item_count;
	}
	reader->skipped_bytes += (size_t)(reader->next - from);
	if (reader->skipped_bytes > WIRE_SKIPPED_BYTES_MAX)
		wire_reader_fail(
			reader, "there are more than 64 KiB that this version does not know");
}
