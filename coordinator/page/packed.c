/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/packed.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

enum { LEVEL = 6 };

static void encode(const unsigned char *bytes, size_t length, char *text)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < length; i += 3) {
		unsigned group = (unsigned)bytes[i] << 16 |
				 (i + 1 < length ? (unsigned)bytes[i + 1] << 8 : 0) |
				 (i + 2 < length ? (unsigned)bytes[i + 2] : 0);

		*text++ = digits[group >> 18];
		*text++ = digits[group >> 12 & 63];
		*text++ = i + 1 < length ? digits[group >> 6 & 63] : '=';
		*text++ = i + 2 < length ? digits[group & 63] : '=';
	}
	*text = '\0';
}

int packed_make(const void *bytes, size_t length, unsigned char **packed, size_t *packed_length)
{
	uLongf room = compressBound(length);
	unsigned char *made = malloc(room);

	if (!made || compress2(made, &room, bytes, length, LEVEL) != Z_OK) {
		free(made);
		return -ENOMEM;
	}
	*packed = made;
	*packed_length = room;
	return 0;
}

int packed_json(
	struct json_writer *writer, const char *key, const unsigned char *packed, size_t length)
{
	char *text = malloc((length + 2) / 3 * 4 + 1);

	if (!text)
		return -ENOMEM;
	encode(packed, length, text);
	json_string(writer, key, text);
	free(text);
	return 0;
}
