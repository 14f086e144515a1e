/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "probe/wire/message.h"
#include "probe/wire/text.h"

/* Bytes of the valid character at text, or 0. Shortest forms only, no surrogates (RFC 3629). */
static size_t character_length(const char *text, size_t length)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	uint8_t first = (uint8_t)text[0];
	uint32_t code;
	size_t count;

	if (first < 0x80)
		return first >= 0x20 && first != 0x7f ? 1 : 0;
	if (first >= 0xc2 && first < 0xe0)
		count = 2;
	else if (first >= 0xe0 && first < 0xf0)
		count = 3;
	else if (first >= 0xf0 && first < 0xf5)
		count = 4;
	else
		return 0;
	if (count > length)
		return 0;
	code = first & (0x7fU >> count);
	for (size_t i = 1; i < count; i++) {
		uint8_t byte = (uint8_t)text[i];

		if ((byte & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (byte & 0x3f);
	}
	if (code < smallest[count] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return code >= 0x80 && code < 0xa0 ? 0 : count; /* C1 controls move terminals, too */
}

bool wire_text_valid(const char *text, size_t length)
{
	for (size_t i = 0, count; i < length; i += count) {
		count = character_length(text + i, length - i);
		if (!count)
			return false;
	}
	return true;
}

static void clean(char *text, size_t length, char instead)
{
	for (size_t i = 0, count; i < length; i += count) {
		count = character_length(text + i, length - i);
		if (!count) {
			text[i] = instead;
			count = 1;
		}
	}
}

void wire_text_clean(char *text, size_t length)
{
	clean(text, length, '?');
}

void message_job_id(char out[STEP_NAME_LENGTH_MAX + 1], const char *name)
{
	size_t length = strnlen(name, STEP_NAME_LENGTH_MAX);

	memmove(out, name, length);
	out[length] = '\0';
	for (size_t i = 0; i < length; i++) {
		if (out[i] == '/' || out[i] == ' ')
			out[i] = '-';
	}
	clean(out, length, '-');
}
