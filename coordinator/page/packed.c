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

int packed_json(struct json_writer *writer, const char *key, const void *bytes, size_t length)
{
	uLongf packed_length = compressBound(length);
	unsigned char *packed = malloc(packed_length);
	char *text = malloc((packed_length + 2) / 3 * 4 + 1);
	int error = 0;

	if (!packed || !text || compress2(packed, &packed_length, bytes, length, LEVEL) != Z_OK) {
		error = -ENOMEM;
	} else {
		encode(packed, packed_length, text);
		json_string(writer, key, text);
	}
	free(packed);
	free(text);
	return error;
}
