/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine whose files are the input's: open(), fopen(), readlink(), access() and what else the readers of /proc,
 * /sys and cgroups call are answered from there, by the linker's --wrap; so the readers are what runs, unchanged.
 * The input is a list of files, 0xff between them; each begins with a line that the path ends in. One thread.
 */
#ifndef SLOWRANK_TESTS_FUZZ_FOREIGN_H
#define SLOWRANK_TESTS_FUZZ_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOREIGN_PID = 4194305 }; /* no process has it: the kernel's numbers end before */

/* From here on files are those of the input, until foreign_end(). */
void foreign_begin(const uint8_t *bytes, size_t length);
void foreign_end(void);

/* The words that a file holds, each with its NUL. Returns how many; NULL follows the last. */
enum { FOREIGN_WORDS_MAX = 64 };
size_t foreign_words(const char *file, char *words[FOREIGN_WORDS_MAX + 1], char **text);

#endif
