/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/python_lines.h"

#include <stdbool.h>

enum { UNIT_BYTES = 2, NO_LINE_DELTA = -128 };

/* Lines are added up of what is foreign: what no source file has ends it. */
static bool is_line(int64_t line)
{
	return line > 0 && line <= INT32_MAX;
}

/* Objects/lnotab_notes.txt of 3.9: pairs of an unsigned count of bytes and a signed one of lines. */
static int32_t by_lnotab(
	const uint8_t *table, size_t length, int64_t first_line, int64_t instruction)
{
	int64_t address = 0, line = first_line;

	for (size_t i = 0; i + 1 < length; i += 2) {
		address += table[i];
		if (address > instruction)
			break;
		line += (int8_t)table[i + 1];
	}
	return is_line(line) ? (int32_t)line : 0;
}

/* Objects/lnotab_notes.txt of 3.10: the same, but each pair is a range and its line. */
static int32_t by_linetable(
	const uint8_t *table, size_t length, int64_t first_line, int64_t instruction)
{
	int64_t end = 0, line = first_line;

	for (size_t i = 0; i + 1 < length; i += 2) {
		int delta = (int8_t)table[i + 1];

		end += table[i];
		if (delta != NO_LINE_DELTA)
			line += delta;
		if (end > instruction)
			return delta != NO_LINE_DELTA && is_line(line) ? (int32_t)line : 0;
	}
	return 0;
}

/* Six bits a byte, the lowest first; the bit above them says that another follows. */
static bool read_varint(const uint8_t *table, size_t length, size_t *at, uint32_t *value)
{
	unsigned shift = 0;

	*value = 0;
	while (*at < length && shift < 30) {
		uint8_t byte = table[(*at)++];

		*value |= (uint32_t)(byte & 0x3f) << shift;
		if (!(byte & 0x40))
			return true;
		shift += 6;
	}
	return false;
}

/* Objects/locations.md of 3.11: an entry begins with a byte that has its high bit set. */
enum location_code {
	LOCATION_ONE_LINE = 10, /* to 12: that many lines more, less 10 */
	LOCATION_NO_COLUMNS = 13,
	LOCATION_LONG = 14,
	LOCATION_NONE = 15,
};

static int32_t by_locations(
	const uint8_t *table, size_t length, int64_t first_line, int64_t instruction)
{
	int64_t end = 0, line = first_line;

	for (size_t at = 0; at < length;) {
		unsigned code = table[at] >> 3 & 15;
		uint32_t value;

		if (!(table[at] & 0x80))
			return 0;
		end += (int64_t)((table[at] & 7) + 1) * UNIT_BYTES;
		at++;
		if (code == LOCATION_NO_COLUMNS || code == LOCATION_LONG) {
			if (!read_varint(table, length, &at, &value))
				return 0;
			line += value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
		} else if (code >= LOCATION_ONE_LINE && code < LOCATION_NO_COLUMNS) {
			line += code - LOCATION_ONE_LINE;
		}
		if (end > instruction)
			return code != LOCATION_NONE && is_line(line) ? (int32_t)line : 0;
		while (at < length && !(table[at] & 0x80))
			at++; /* columns */
	}
	return 0;
}

int32_t python_line(enum python_lines_format format, const uint8_t *table, size_t length,
	int32_t first_line, int64_t instruction)
{
	if (instruction < 0)
		return first_line > 0 ? first_line : 0;
	switch (format) {
	case PYTHON_LINES_LNOTAB:
		return by_lnotab(table, length, first_line, instruction);
	case PYTHON_LINES_LINETABLE:
		return by_linetable(table, length, first_line, instruction);
	case PYTHON_LINES_LOCATIONS:
		return by_locations(table, length, first_line, instruction);
	case PYTHON_LINES_NONE:
		break;
	}
	return 0;
}
