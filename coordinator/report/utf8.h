/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes text from outside (host names, task names, details) apart into code points, so that
 * writers can replace what is broken or would drive a terminal. Pure; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_UTF8_H
#define SLOWRANK_COORDINATOR_REPORT_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { UTF8_REPLACEMENT = 0xFFFD };

/*
 * Reads the code point at *text (not at the NUL) and moves *text behind it. An invalid byte, an
 * overlong form, a surrogate or a number above 0x10FFFF gives UTF8_REPLACEMENT and moves by one
 * byte. Never reads past the NUL.
 */
uint32_t utf8_next(const char **text);

/* Copies text with control characters and broken bytes as '?'; always ends with NUL. capacity > 0. */
void utf8_copy_printable(char *out, size_t capacity, const char *text);

#endif
