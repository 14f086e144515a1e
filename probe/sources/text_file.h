/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the small text files of /proc, /sys and cgroups, and finds numbers in them. No state;
 * any thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_TEXT_FILE_H
#define SLOWRANK_PROBE_SOURCES_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads at most capacity - 1 bytes from the start and adds a NUL; what does not fit is left
 * out. Returns 0 or a negative errno (-ENOENT, -EACCES, ...); buffer is untouched then.
 */
int text_file_read(const char *path, char *buffer, size_t capacity)
	__attribute__((warn_unused_result));
/* The same for an open file; may be called again and again. */
int text_file_read_fd(int fd, char *buffer, size_t capacity) __attribute__((warn_unused_result));
/* The same, with the path made from a format: at most 511 bytes, otherwise -ENAMETOOLONG. */
int text_file_read_at(char *buffer, size_t capacity, const char *format, ...)
	__attribute__((warn_unused_result, format(printf, 3, 4)));

/* Finds "key VALUE" or "key=VALUE" at the start of a line; VALUE is an integer from 0 to INT64_MAX. */
bool text_find_number(const char *text, const char *key, int64_t *value);

/* Reads an integer at the start of text, after blanks. */
bool text_parse_number(const char *text, int64_t *value);

#endif
