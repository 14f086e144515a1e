/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON to a stream as it goes: commas, quotes, escapes. Always valid UTF-8 and valid
 * JSON (RFC 8259), the same bytes for the same values in every locale. One thread per writer;
 * it does not own the stream. Write errors stay in the stream: look at ferror() at the end.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_JSON_WRITER_H
#define SLOWRANK_COORDINATOR_REPORT_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_DEPTH_MAX = 16 };

struct json_writer {
	FILE *out;
	unsigned broken_depth; /* containers above this depth have one line per member */
	unsigned depth;
	bool has_member[JSON_DEPTH_MAX];
};

/* broken_depth 0: everything on one line. */
void json_writer_init(struct json_writer *writer, FILE *out, unsigned broken_depth);

/* In an object every value has a key; in an array, and at the top, key is NULL. Nested deeper
 * than JSON_DEPTH_MAX is a programmer's error. */
void json_object_begin(struct json_writer *writer, const char *key);
void json_object_end(struct json_writer *writer);
void json_array_begin(struct json_writer *writer, const char *key);
void json_array_end(struct json_writer *writer);

/* Broken UTF-8 becomes U+FFFD; NULL is written as "". */
void json_string(struct json_writer *writer, const char *key, const char *text);
void json_boolean(struct json_writer *writer, const char *key, bool value);
void json_signed(struct json_writer *writer, const char *key, int64_t value);
void json_unsigned(struct json_writer *writer, const char *key, uint64_t value);
/* A thousandth of it, exactly: ns as us. */
void json_thousandth(struct json_writer *writer, const char *key, int64_t value);
/* Rounded to that many decimals (at most 6), zeros at the end left out but for one; JSON has no
 * NaN or infinity: those are null. */
void json_decimal(struct json_writer *writer, const char *key, double value, unsigned decimals);

#endif
