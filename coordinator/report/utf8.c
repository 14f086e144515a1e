/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/utf8.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* Length and value bits of a lead byte; 0 for a byte that cannot lead. */
static size_t lead_length(uint8_t byte, uint32_t *bits)
{
	if (byte < 0x80) {
		*bits = byte;
		return 1;
	}
	if (byte >= 0xC2 && byte <= 0xDF) {
		*bits = byte & 0x1Fu;
		return 2;
	}
	if (byte >= 0xE0 && byte <= 0xEF) {
		*bits = byte & 0x0Fu;
		return 3;
	}
	if (byte >= 0xF0 && byte <= 0xF4) {
		*bits = byte & 0x07u;
		return 4;
	}
	return 0;
}

uint32_t utf8_next(const char **text)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000}; /* RFC 3629, section 3 */
	const uint8_t *bytes = (const uint8_t *)*text;
	uint32_t point = 0;
	size_t length = lead_length(bytes[0], &point);

	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xC0) != 0x80) { /* the NUL ends here too */
			length = 0;
			break;
		}
		point = point << 6 | (bytes[i] & 0x3Fu);
	}
	if (length == 0 || point < smallest[length] || (point >= 0xD800 && point <= 0xDFFF) ||
		point > 0x10FFFF) {
		*text += 1;
		return UTF8_REPLACEMENT;
	}
	*text += length;
	return point;
}

static bool is_printable(uint32_t point)
{
	/* C0, DEL, C1; and the marks that reorder what a reader sees. */
	return point >= 0x20 && !(point >= 0x7F && point < 0xA0) && point != UTF8_REPLACEMENT &&
	       !(point >= 0x202A && point <= 0x202E) && !(point >= 0x2066 && point <= 0x2069);
}

void utf8_copy_printable(char *out, size_t capacity, const char *text)
{
	size_t used = 0;

	assert(capacity > 0);
	while (*text) {
		const char *start = text;
		bool fits = is_printable(utf8_next(&text));
		size_t length = fits ? (size_t)(text - start) : 1;

		if (used + length >= capacity)
			break;
		memcpy(out + used, fits ? start : "?", length);
		used += length;
	}
	out[used] = '\0';
}
